#include "evolve/recall.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* A hash table with chains of positions in the log, counted from 1; 0 ends a chain. */
struct at_recall {
    const at_ledger_log *log;
    size_t *first; /* [mask + 1] */
    size_t *next;  /* [log->count] */
    size_t mask;
    int64_t compared;
};

/* ---- What an event is of ----------------------------------------------------------------------------------------- */

typedef struct identity {
    const char *text[2];
    int32_t number[2];
} identity;

/* Whether the event can be the same as another, and then what makes it so. */
static bool identify(const at_event *event, identity *of)
{
    switch (event->kind) {
    case AT_EVENT_CANDIDATE:
        *of = (identity){{event->as.candidate.config, ""}, {0, 0}};
        return true;
    case AT_EVENT_REFUSAL:
        *of = (identity){{event->as.refusal.config, ""}, {0, 0}};
        return true;
    case AT_EVENT_BUILD:
        *of = (identity){{event->as.build.config, ""}, {0, 0}};
        return true;
    case AT_EVENT_MEASUREMENT:
        *of = (identity){{event->as.measurement.config, event->as.measurement.champion},
                         {event->as.measurement.round, 0}};
        return true;
    case AT_EVENT_DECISION:
        *of = (identity){{event->as.decision.config, event->as.decision.against},
                         {(int32_t)event->as.decision.decision, 0}};
        return true;
    case AT_EVENT_CHECK:
        *of = (identity){{event->as.check.why, ""}, {(int32_t)event->as.check.check, event->as.check.holds}};
        return true;
    default:
        return false;
    }
}

static bool says_same(const at_event *a, const at_event *b)
{
    identity one, other;
    return a->kind == b->kind && identify(a, &one) && identify(b, &other) && strcmp(one.text[0], other.text[0]) == 0 &&
           strcmp(one.text[1], other.text[1]) == 0 && one.number[0] == other.number[0] &&
           one.number[1] == other.number[1];
}

static size_t *chain_of(const at_recall *on, const at_event *event)
{
    identity of;
    if (!identify(event, &of)) {
        return NULL;
    }
    uint64_t hash = at_hash64(of.text[0], strlen(of.text[0]), (uint64_t)event->kind);
    hash = at_hash64(of.text[1], strlen(of.text[1]), hash);
    hash = at_hash64(of.number, sizeof of.number, hash);
    return &on->first[hash & on->mask];
}

/* ---- The index --------------------------------------------------------------------------------------------------- */

/* From the last to the first, so that the first comes first in its chain. */
static void fill(at_recall *on)
{
    for (size_t i = on->log->count; i > 0; --i) {
        size_t *chain = chain_of(on, &on->log->event[i - 1]);
        if (chain != NULL) {
            on->next[i - 1] = *chain;
            *chain = i;
        }
    }
}

attune_status at_recall_open(const at_ledger_log *log, at_recall **recall)
{
    size_t count = log == NULL ? 0 : log->count, room = 1;
    *recall = NULL;
    while (room < 2 * count) {
        room *= 2;
    }
    at_recall *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to look into a ledger");
    *made = (at_recall){.log = log,
                        .first = calloc(room, sizeof *made->first),
                        .next = calloc(count + 1, sizeof *made->next),
                        .mask = room - 1};
    if (made->first == NULL || made->next == NULL) {
        at_recall_close(made);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "no memory to look into a ledger of %zu events", count);
    }
    if (log != NULL) {
        fill(made);
    }
    *recall = made;
    return ATTUNE_OK;
}

void at_recall_close(at_recall *recall)
{
    if (recall != NULL) {
        free(recall->first);
        free(recall->next);
        free(recall);
    }
}

const at_event *at_recall_find(at_recall *recall, const at_event *event)
{
    const size_t *chain = chain_of(recall, event);
    for (size_t at = chain == NULL ? 0 : *chain; at > 0; at = recall->next[at - 1]) {
        ++recall->compared;
        if (says_same(&recall->log->event[at - 1], event)) {
            return &recall->log->event[at - 1];
        }
    }
    return NULL;
}

int64_t at_recall_compared(const at_recall *recall)
{
    return recall->compared;
}
