/* What a ledger says already: an index of its events by what they are of, so that a search that goes on asks in the
 * same time however long the ledger is. */
#ifndef EVOLVE_RECALL_H
#define EVOLVE_RECALL_H

#include "evolve/ledger.h"

typedef struct at_recall at_recall;

/* The log outlives the index; NULL is one without events. */
attune_status at_recall_open(const at_ledger_log *log, at_recall **recall);
void at_recall_close(at_recall *recall);

/* The first event that says the same of the same, NULL where none does: a candidate, a refusal or a build of a config,
 * a measurement of a config beside a champion in a round, a decision about two configs, a check with its words. Events
 * of other kinds are never the same. */
const at_event *at_recall_find(at_recall *recall, const at_event *event);
/* Events that finding compared so far. */
int64_t at_recall_compared(const at_recall *recall);

#endif
