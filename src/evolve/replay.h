/* Strategies run offline on what a ledger recorded: the same candidates, the same times, no device.
 *
 * What a strategy is told is drawn from the recorded pairs as a short race would have given it (`look` of them, by
 * chance); what it is judged by is all pairs of the candidate it would choose. So luck with the minimum shows as what
 * it is. A candidate that was refused costs as much as one that ran. */
#ifndef EVOLVE_REPLAY_H
#define EVOLVE_REPLAY_H

#include "evolve/ledger.h"

/* What a ledger knows about one candidate. */
typedef struct at_record {
    at_refused refused;
    int pairs;
    double *log_us; /* [pairs]: logarithms of the candidate's time over the champion's in the pair, plus the level */
    double middle;  /* their median */
    at_figures figures;
} at_record;

typedef struct at_recorded {
    const at_space *space; /* the log's */
    at_record *record;     /* [space->count] */
    int ran;               /* candidates that were not refused */
    int best;              /* the one of least middle */
} at_recorded;

/* A champion's level is the logarithm of the median of its times beside all candidates. ATTUNE_UNSUPPORTED, with how
 * many are missing, where some candidate of the space was neither measured nor refused: only a full ledger (attune
 * evolve
 * --exhaustive) can be replayed. The log must outlive it. */
attune_status at_recorded_open(const at_ledger_log *log, at_recorded **recorded);
void at_recorded_close(at_recorded *recorded);

typedef struct at_replay_options {
    const char *strategy; /* NULL: the default */
    uint64_t seed;
    at_fitness fitness;
    int budget; /* candidates; 0: all */
    int look;   /* pairs that a strategy is shown of a candidate; 0: all */
} at_replay_options;

/* reached[i]: after i + 1 candidates, the optimum's time / the time of the one that would be chosen then (0 as long as
 * none ran); 1 is the optimum. `reached` has room for the budget (0: the space's count) and is filled to its end: where
 * a strategy ends by itself, its last word stands. */
attune_status at_replay_run(const at_recorded *recorded, const at_replay_options *options, double *reached);

#endif
