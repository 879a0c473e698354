/* What a search finds in the ledger of the process before it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "evolve/search_parts.h"

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
    entrant->result = AT_RACE_SLOW;
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
        at_race_ratio(policy, (const double(*)[2])entrant->us, (const double(*)[2])champion_us, entrant->blocks,
                      &entrant->ratio) != ATTUNE_OK) {
        return false;
    }
    entrant->result = at_race_result_of(policy, &entrant->ratio, entrant->blocks);
    return true;
}

bool at_search_recall(const at_search *on, int candidate, int champion, int round, at_entrant *entrant,
                      double champion_us[AT_HEAT_BLOCKS_MAX][2])
{
    at_event wanted = {.kind = AT_EVENT_MEASUREMENT, .as.measurement = {.round = round}};
    at_search_text(on, candidate, wanted.as.measurement.config);
    at_search_text(on, champion, wanted.as.measurement.champion);
    const at_event *found = at_recall_find(on->recall, &wanted);
    *entrant = (at_entrant){.candidate = candidate};
    return found != NULL && read_measurement(on, &found->as.measurement, entrant, champion_us);
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
    at_event wanted = {.kind = AT_EVENT_REFUSAL};
    at_search_text(on, candidate, wanted.as.refusal.config);
    const at_event *found = at_recall_find(on->recall, &wanted);
    if (found == NULL) {
        return false;
    }
    *entrant = (at_entrant){.candidate = candidate, .result = AT_RACE_REFUSED};
    entrant->first.refused = found->as.refusal.refused;
    (void)snprintf(entrant->first.why, sizeof entrant->first.why, "%.300s", found->as.refusal.why);
    return true;
}
