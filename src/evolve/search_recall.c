/* What a search finds in the ledger of the process before it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "evolve/search_parts.h"

static bool same_text(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* Whether two events say the same of the same: enough to know that one was written. */
static bool says_same(const at_event *a, const at_event *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    switch (a->kind) {
    case AT_EVENT_CANDIDATE:
        return same_text(a->as.candidate.config, b->as.candidate.config);
    case AT_EVENT_REFUSAL:
        return same_text(a->as.refusal.config, b->as.refusal.config);
    case AT_EVENT_BUILD:
        return same_text(a->as.build.config, b->as.build.config);
    case AT_EVENT_MEASUREMENT:
        return same_text(a->as.measurement.config, b->as.measurement.config) &&
               same_text(a->as.measurement.champion, b->as.measurement.champion) &&
               a->as.measurement.round == b->as.measurement.round;
    case AT_EVENT_DECISION:
        return a->as.decision.decision == b->as.decision.decision &&
               same_text(a->as.decision.config, b->as.decision.config) &&
               same_text(a->as.decision.against, b->as.decision.against);
    case AT_EVENT_CHECK:
        return a->as.check.check == b->as.check.check && a->as.check.holds == b->as.check.holds &&
               same_text(a->as.check.why, b->as.check.why);
    default:
        return false;
    }
}

bool at_search_is_written(const at_search *on, const at_event *event)
{
    for (size_t i = 0; on->before != NULL && i < on->before->count; ++i) {
        if (says_same(&on->before->event[i], event)) {
            return true;
        }
    }
    return false;
}

static void read_times(const at_event_measurement *from, at_entrant *entrant, double champion_us[AT_HEAT_BLOCKS_MAX][2])
{
    entrant->blocks = from->pairs / 2;
    for (int i = 0; i < entrant->blocks && i < AT_HEAT_BLOCKS_MAX; ++i) {
        for (int k = 0; k < 2; ++k) {
            entrant->us[i][k] = from->us[2 * i + k];
            champion_us[i][k] = from->champion_us[2 * i + k];
        }
    }
}

/* A first launch that was slow enough is a pair by itself. */
static void read_first(const at_event_measurement *from, at_entrant *entrant)
{
    double ratio = log(from->us[0] / from->champion_us[0]);
    entrant->fate = AT_FATE_SLOW;
    entrant->first.us = from->us[0];
    entrant->ratio = (at_interval){ratio, ratio, ratio};
}

static bool read_measurement(const at_search *on, const at_event_measurement *from, at_entrant *entrant,
                             double champion_us[AT_HEAT_BLOCKS_MAX][2])
{
    const at_race_policy *policy = &on->options->policy;
    if (from->pairs == 1) {
        read_first(from, entrant);
        return true;
    }
    read_times(from, entrant, champion_us);
    if (entrant->blocks < 1 || entrant->blocks > AT_HEAT_BLOCKS_MAX ||
        at_race_ratio((const double(*)[2])entrant->us, (const double(*)[2])champion_us, entrant->blocks,
                      policy->confidence, &entrant->ratio) != ATTUNE_OK) {
        return false;
    }
    entrant->fate = at_race_fate(policy, &entrant->ratio, entrant->blocks);
    return true;
}

bool at_search_recall(const at_search *on, int candidate, int champion, int round, at_entrant *entrant,
                      double champion_us[AT_HEAT_BLOCKS_MAX][2])
{
    char name[AT_KERNEL_TEXT_MAX], beside[AT_KERNEL_TEXT_MAX];
    if (on->before == NULL) {
        return false;
    }
    at_search_text(on, candidate, name);
    at_search_text(on, champion, beside);
    *entrant = (at_entrant){.candidate = candidate};
    for (size_t i = 0; i < on->before->count; ++i) {
        const at_event *event = &on->before->event[i];
        const at_event_measurement *measured = &event->as.measurement;
        if (event->kind == AT_EVENT_MEASUREMENT && measured->round == round && same_text(measured->config, name) &&
            same_text(measured->champion, beside)) {
            return read_measurement(on, measured, entrant, champion_us);
        }
    }
    return false;
}

bool at_search_recall_no_champion(const at_search *on, int challenger, int champion)
{
    at_event decided = {.kind = AT_EVENT_DECISION, .as.decision = {.decision = AT_DECIDED_NOT_CONFIRMED}};
    at_search_text(on, challenger, decided.as.decision.config);
    at_search_text(on, champion, decided.as.decision.against);
    return at_search_is_written(on, &decided);
}

bool at_search_recall_refusal(const at_search *on, int candidate, at_entrant *entrant)
{
    char name[AT_KERNEL_TEXT_MAX];
    at_search_text(on, candidate, name);
    for (size_t i = 0; on->before != NULL && i < on->before->count; ++i) {
        const at_event *event = &on->before->event[i];
        if (event->kind == AT_EVENT_REFUSAL && same_text(event->as.refusal.config, name)) {
            *entrant = (at_entrant){.candidate = candidate, .fate = AT_FATE_REFUSED};
            entrant->first.refused = event->as.refusal.refused;
            (void)snprintf(entrant->first.why, sizeof entrant->first.why, "%.300s", event->as.refusal.why);
            return true;
        }
    }
    return false;
}
