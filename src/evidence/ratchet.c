#include "evidence/ratchet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static bool counts(const at_record *record)
{
    return record->state != AT_BROKEN && at_verdict_is_earnest(record->entry->verdict);
}

static attune_status add(at_slip **list, size_t *count, const at_slip *slip)
{
    at_slip *grown = realloc(*list, (*count + 1) * sizeof *grown);
    AT_FAIL_IF(grown == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu comparisons", *count + 1);
    *list = grown;
    grown[(*count)++] = *slip;
    return ATTUNE_OK;
}

/* The verdicts of one kernel on one problem, from old to new. */
typedef struct series {
    const at_record *record;
    size_t count;
} series;

/* The arm of a verdict that is another verdict's in every word; 0, the candidate, where there is none. */
static int same_arm(const at_verdict *verdict, const at_verdict *other, int number)
{
    const at_arm_facts *wanted = &other->arm[number];
    at_arm_part part = other->session.arm[number].part;
    for (int arm = 1; arm < verdict->session.arm_count; ++arm) {
        if (verdict->session.arm[arm].part == part && strcmp(verdict->arm[arm].name, wanted->name) == 0 &&
            strcmp(verdict->arm[arm].account, wanted->account) == 0) {
            return arm;
        }
    }
    return 0;
}

/* ---- Between sessions -------------------------------------------------------------------------------------------- */

/* log r of a peer or a twin; false where the mode was not timed. */
static bool log_of(const at_verdict *verdict, int arm, at_mode mode, double *value)
{
    at_ratio ratio;
    if (at_verdict_is_peer(verdict, arm)) {
        *value = log(verdict->speed[arm].ratio[mode].r.middle);
        return verdict->speed[arm].known[mode];
    }
    bool known = at_ratio_of(&verdict->session, mode, 0, arm, &ratio) == ATTUNE_OK;
    *value = known ? log(ratio.r.middle) : 0;
    return known;
}

static void find_reach(at_slip *slip)
{
    const at_verdict *now = slip->newest->entry->verdict, *then = slip->best->entry->verdict;
    double moved[AT_SESSION_ARMS_MAX];
    size_t count = 0;
    for (int arm = 1; arm < now->session.arm_count; ++arm) {
        int before = same_arm(then, now, arm);
        double here, there;
        if (before > 0 && log_of(now, arm, slip->mode, &here) && log_of(then, before, slip->mode, &there)) {
            moved[count++] = here - there;
        }
    }
    slip->unchanged = (int)count;
    slip->reach =
        count < 2 ? 1 : exp(at_student_quantile(0.975, (double)count - 1) * sqrt(2) * at_deviation(moved, count));
    slip->reach = fmin(slip->reach, AT_RATCHET_REACH_MOST);
}

/* ---- Series ------------------------------------------------------------------------------------------------------ */

/* Of verdicts before the newest, the best right one against a peer in a mode. */
static const at_record *best_of(const series *of, const at_record *newest, int peer, at_mode mode, at_interval *r)
{
    const at_record *best = NULL;
    for (const at_record *record = of->record; record < newest; ++record) {
        const at_verdict *verdict = counts(record) ? record->entry->verdict : NULL;
        int arm = verdict != NULL && verdict->right == AT_PASS ? same_arm(verdict, newest->entry->verdict, peer) : 0;
        if (arm > 0 && verdict->speed[arm].known[mode] &&
            (best == NULL || verdict->speed[arm].ratio[mode].r.middle > r->middle)) {
            best = record;
            *r = verdict->speed[arm].ratio[mode].r;
        }
    }
    return best;
}

static attune_status compare_speed(const series *of, const at_record *newest, at_ratchet *ratchet)
{
    const at_verdict *verdict = newest->entry->verdict;
    for (int i = 0; i < verdict->session.arm_count * AT_MODE_COUNT; ++i) {
        int arm = i / AT_MODE_COUNT;
        at_slip slip = {.newest = newest, .mode = (at_mode)(i % AT_MODE_COUNT)};
        if (!at_verdict_is_peer(verdict, arm) || !verdict->speed[arm].known[slip.mode]) {
            continue;
        }
        slip.now = verdict->speed[arm].ratio[slip.mode].r;
        slip.best = best_of(of, newest, arm, slip.mode, &slip.then);
        if (slip.best == NULL || slip.now.high >= slip.then.low) {
            continue;
        }
        find_reach(&slip);
        (void)snprintf(slip.peer, sizeof slip.peer, "%s", verdict->arm[arm].name);
        if (slip.now.high * slip.reach >= slip.then.low) {
            AT_FORWARD(add(&ratchet->excuse, &ratchet->excused, &slip));
        } else {
            AT_FORWARD(add(&ratchet->slip, &ratchet->count, &slip));
        }
    }
    return ATTUNE_OK;
}

/* The newest right one before a record; NULL if there is none. */
static const at_record *right_before(const series *of, const at_record *newest)
{
    for (const at_record *record = newest; record-- > of->record;) {
        if (counts(record) && record->entry->verdict->right == AT_PASS) {
            return record;
        }
    }
    return NULL;
}

/* The newest that counts; NULL if there is none. */
static const at_record *newest_of(const series *of)
{
    const at_record *newest = of->record + of->count;
    while (newest > of->record && !counts(newest - 1)) {
        --newest;
    }
    return newest == of->record ? NULL : newest - 1;
}

void at_ratchet_mark(const at_record *record, size_t count, bool *marks)
{
    const series of = {record, count};
    const at_record *newest = newest_of(&of);
    if (newest == NULL) {
        return;
    }
    const at_verdict *verdict = newest->entry->verdict;
    const at_record *before = verdict->right == AT_PASS ? NULL : right_before(&of, newest);
    marks[newest - record] = true;
    if (before != NULL) {
        marks[before - record] = true;
    }
    for (int i = 0; i < verdict->session.arm_count * AT_MODE_COUNT; ++i) {
        at_interval r;
        bool peer = at_verdict_is_peer(verdict, i / AT_MODE_COUNT);
        const at_record *best = peer ? best_of(&of, newest, i / AT_MODE_COUNT, (at_mode)(i % AT_MODE_COUNT), &r) : NULL;
        if (best != NULL) {
            marks[best - record] = true;
        }
    }
}

static attune_status compare(const series *of, at_ratchet *ratchet)
{
    const at_record *newest = newest_of(of);
    if (newest == NULL) {
        return ATTUNE_OK;
    }
    const at_record *before = right_before(of, newest);
    ratchet->compared += before != NULL;
    if (before != NULL && newest->entry->verdict->right != AT_PASS) {
        const at_slip slip = {.newest = newest, .best = before};
        return add(&ratchet->slip, &ratchet->count, &slip);
    }
    return before != NULL ? compare_speed(of, newest, ratchet) : ATTUNE_OK;
}

attune_status at_ratchet_run(const at_archive *archive, at_ratchet *ratchet)
{
    *ratchet = (at_ratchet){0};
    for (size_t i = 0; i < archive->count;) {
        series of = {&archive->record[i], 1};
        while (i + of.count < archive->count && at_record_same_series(of.record, of.record + of.count)) {
            ++of.count;
        }
        i += of.count;
        attune_status status = at_record_same_series(of.record, of.record) ? compare(&of, ratchet) : ATTUNE_OK;
        if (status != ATTUNE_OK) {
            at_ratchet_free(ratchet);
            return status;
        }
    }
    return ATTUNE_OK;
}

void at_ratchet_free(at_ratchet *ratchet)
{
    free(ratchet->slip);
    free(ratchet->excuse);
    *ratchet = (at_ratchet){0};
}
