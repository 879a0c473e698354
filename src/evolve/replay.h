/* Strategies run offline on what a ledger recorded: the same candidates, the same times, no device.
 *
 * A measurement is a look at one candidate: `look` of its recorded pairs, drawn by chance, as a short race would have
 * seen it. Who leads is looked at again, at the budget's cost, until it has been looked at three times or leads no
 * more: else the luckiest of many would lead. A candidate that was refused costs as much as one that ran. What is
 * reached is judged by all recorded pairs. */
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
    int ran;               /* candidates that were measured, and not refused */
    int missing;           /* candidates that were neither */
    int best;              /* the one of least middle; -1: none ran */
} at_recorded;

/* A champion's level is the logarithm of the median of its times beside all candidates. ATTUNE_UNSUPPORTED where the
 * ledger has no space. The log must outlive it. */
attune_status at_recorded_open(const at_ledger_log *log, at_recorded **recorded);
void at_recorded_close(at_recorded *recorded);

enum { AT_REPLAY_BATCH_MAX = 64 };

typedef struct at_replay_options {
    const char *strategy; /* NULL: the default */
    uint64_t seed;
    at_fitness fitness;
    int budget; /* measurements; 0: as many as there are candidates */
    int look;   /* pairs of a measurement; 0: all */
    int batch;  /* candidates that are asked for before the first result, as when they are raced together; 0: one */
    bool blind; /* without the heuristic order: what the search itself is worth */
} at_replay_options;

/* The budget in effect. */
int at_replay_budget(const at_recorded *recorded, const at_replay_options *options);
/* ATTUNE_UNSUPPORTED, with how many are missing, where some candidate was neither measured nor refused: only a full
 * ledger (attune evolve --exhaustive) can be replayed; or where all were refused.
 * reached[i]: after i + 1 measurements, the optimum's time / the time of the one that would be chosen then (0 as long
 * as none ran); 1 is the optimum. `reached` has room for the budget and is filled to its end: where a strategy ends by
 * itself, its last word counts. */
attune_status at_replay_run(const at_recorded *recorded, const at_replay_options *options, double *reached);

#endif
