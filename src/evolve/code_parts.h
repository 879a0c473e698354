/* What the files of a search for code share. */
#ifndef EVOLVE_CODE_PARTS_H
#define EVOLVE_CODE_PARTS_H

#include "evolve/code.h"

/* One arm, with what it has had so far. */
typedef struct at_code_turn {
    at_random random;
    double took_s;                           /* of proposer and machine together */
    double spent_s, spent_usd, spent_tokens; /* the proposer's own */
    int measured;                            /* configs */
    int nothings;                            /* in a row, that the proposer had */
} at_code_turn;

typedef struct at_code {
    const at_code_options *options;
    at_code_result *result;
    at_lineage lineage;
    at_code_turn turn[AT_ARM_COUNT];
    at_ledger *ledger;
    at_ledger_log *before; /* what was recorded; NULL: nothing */
    size_t next;           /* of it, that was not come by yet */
    double at_s;           /* of the last event */
    double before_s;       /* that a run which is gone on with took until then */
    double longest_s;      /* that a proposal took from question to verdict */
} at_code;

/* How long the run has taken by now. */
double at_code_now(const at_code *on);
/* Opens what is recorded, and the ledger that is written. */
attune_status at_code_log_open(at_code *on);
void at_code_log_close(at_code *on);
/* Whether the next thing that happens is in the record; the event is then filled in. Its kind and id must be those that
 * are asked for. ATTUNE_NOT_FOUND where a record that is gone through again ends there. */
attune_status at_code_recall(at_code *on, at_event *event, int id, bool *recalled);
/* Whether that is what is recorded next. */
bool at_code_comes(const at_code *on, at_event_kind kind, int id);
/* Writes an event that happened, and tells who watches; one that was recalled is in the ledger already, unless it is
 * gone through again. */
attune_status at_code_write(at_code *on, at_event *event, bool recalled);
/* The same for a decision, which follows from what was recalled: it must be what was decided then. */
attune_status at_code_decide(at_code *on, at_event *event);

/* One proposal, from the choice of its parent to its verdict. *none: the proposer has nothing more to say. */
attune_status at_code_propose(at_code *on, at_code_arm arm, bool *none);
/* Makes and tunes a source that has been added, and races it where it is not the first. */
attune_status at_code_assay(at_code *on, int id);
at_code_side at_code_side_of(const at_code *on, int id);
/* Searches parameters; the program's config and time. */
attune_status at_code_tune(at_code *on, int id, int runs);
attune_status at_code_judge(at_code *on, int id, at_code_verdict verdict, const at_event_judged *found,
                            const char *format, ...) __attribute__((format(printf, 5, 6)));
/* The final among the arms' champions, and the gate. */
attune_status at_code_final(at_code *on);

#endif
