/* From a batch of candidates to what became of them: made, distinguished, raced, reported. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "evolve/search_parts.h"

enum { HEAT = 0, DUEL = 1 }; /* rounds, as measurements have them */

/* ---- Telling ----------------------------------------------------------------------------------------------------- */

static attune_status tell_strategy(at_search *on, int candidate)
{
    const at_known_candidate *one = &on->known[candidate];
    const at_tried tried = {.candidate = candidate,
                            .refused = one->refused,
                            .log_us = one->refused == AT_RAN ? one->log_us : 0,
                            .half = one->half,
                            .censored = one->censored,
                            .figures = one->figures};
    return on->strategy == NULL ? ATTUNE_OK : at_strategy_tell(on->strategy, &tried);
}

/* Its duplicates, which were not raced, have the same result. */
static attune_status tell(at_search *on, int candidate)
{
    on->known[candidate].has_outcome = true;
    AT_FORWARD(tell_strategy(on, candidate));
    for (int i = 0; i < on->space->count; ++i) {
        at_known_candidate *duplicate = &on->known[i];
        if (duplicate->same_as == candidate && !duplicate->has_outcome) {
            const at_known_candidate *one = &on->known[candidate];
            duplicate->has_outcome = true;
            duplicate->refused = one->refused;
            duplicate->log_us = one->log_us;
            duplicate->half = one->half;
            duplicate->censored = one->censored;
            AT_FORWARD(tell_strategy(on, i));
        }
    }
    return ATTUNE_OK;
}

attune_status at_search_refuse(at_search *on, int candidate, at_refused refused, const char *why)
{
    at_event event = {.kind = AT_EVENT_REFUSAL, .as.refusal = {.refused = refused}};
    at_entrant entrant = {.candidate = candidate, .result = AT_RACE_REFUSED, .first = {.refused = refused}};
    at_search_text(on, candidate, event.as.refusal.config);
    (void)snprintf(event.as.refusal.why, sizeof event.as.refusal.why, "%s", why);
    (void)snprintf(entrant.first.why, sizeof entrant.first.why, "%.300s", why);
    AT_FORWARD(at_search_write(on, &event));
    on->known[candidate].refused = refused;
    ++on->result->refused;
    if (on->options->watch.tried != NULL) {
        on->options->watch.tried(on->options->watch.self, event.as.refusal.config, &entrant);
    }
    return tell(on, candidate);
}

/* ---- Making ------------------------------------------------------------------------------------------------------ */

static int find_duplicate(const at_search *on, int candidate)
{
    for (int i = 0; i < on->space->count; ++i) {
        if (i != candidate && on->known[i].built && on->known[i].same_as < 0 &&
            strcmp(on->known[i].code, on->known[candidate].code) == 0) {
            return i;
        }
    }
    return -1;
}

static attune_status write_build(const at_search *on, int candidate, const at_variant *variant)
{
    const at_known_candidate *one = &on->known[candidate];
    at_event event = {
        .kind = AT_EVENT_BUILD,
        .as.build = {.smem_bytes = variant->build.smem_bytes, .figures = one->figures, .seconds = variant->seconds}};
    at_event_build *build = &event.as.build;
    at_search_text(on, candidate, build->config);
    memcpy(build->source, one->source, sizeof build->source);
    memcpy(build->code, one->code, sizeof build->code);
    (void)snprintf(build->entry, sizeof build->entry, "%s", variant->entry);
    if (one->same_as >= 0) {
        at_search_text(on, one->same_as, build->same_as);
    }
    return at_search_write(on, &event);
}

/* One that has the code of another is no candidate of its own: reported when that one is, or now. */
static attune_status take_duplicate(at_search *on, int candidate, bool *is_duplicate)
{
    at_known_candidate *one = &on->known[candidate];
    one->same_as = find_duplicate(on, candidate);
    *is_duplicate = one->same_as >= 0;
    if (!*is_duplicate) {
        return ATTUNE_OK;
    }
    ++on->result->duplicates;
    if (on->known[one->same_as].has_outcome) {
        return tell(on, one->same_as);
    }
    return ATTUNE_OK;
}

static attune_status build_one(at_search *on, int candidate, const char *from, bool *races)
{
    at_event event = {.kind = AT_EVENT_CANDIDATE};
    at_known_candidate *one = &on->known[candidate];
    at_variant variant;
    bool is_duplicate = false;
    *races = false;
    one->seen = true;
    at_search_text(on, candidate, event.as.candidate.config);
    (void)snprintf(event.as.candidate.from, sizeof event.as.candidate.from, "%s", from);
    AT_FORWARD(at_search_write(on, &event));
    if (on->strategy != NULL) {
        at_strategy_offer(on->strategy, candidate);
    }
    AT_FORWARD(on->machine->build(on->machine->self, candidate, &variant));
    if (variant.refused != AT_RAN) {
        return at_search_refuse(on, candidate, variant.refused, variant.why);
    }
    memcpy(one->source, variant.source, sizeof one->source);
    memcpy(one->code, variant.code, sizeof one->code);
    one->figures.registers = variant.build.registers;
    one->figures.spill_bytes = variant.build.spill_bytes > 0 ? variant.build.spill_bytes : 0;
    AT_FORWARD(one->built ? ATTUNE_OK : take_duplicate(on, candidate, &is_duplicate));
    AT_FORWARD(write_build(on, candidate, &variant));
    one->built = true;
    *races = !is_duplicate;
    return ATTUNE_OK;
}

attune_status at_search_build(at_search *on, const int *batch, int count, const char *const *from, int *ready,
                              int *ready_count)
{
    *ready_count = 0;
    for (int i = 0; i < count; ++i) {
        bool races;
        AT_FORWARD(build_one(on, batch[i], from[i], &races));
        if (races) {
            ready[(*ready_count)++] = batch[i];
        }
    }
    return ATTUNE_OK;
}

/* ---- A heat ------------------------------------------------------------------------------------------------------ */

/* A batch while it races: entrants from the ledger, and from the machine. */
typedef struct batch {
    at_heat fresh;                  /* those that the ledger does not have; */
    at_entrant beside[AT_HEAT_MAX]; /* the champion as it was timed beside each of them */
    at_heat all;
    double champion_us[AT_HEAT_MAX][AT_HEAT_BLOCKS_MAX][2]; /* beside each of `all` */
} batch;

static void recall_all(at_search *on, const int *ready, int count, batch *of)
{
    of->fresh.champion.candidate = on->champion;
    for (int i = 0; i < count; ++i) {
        at_entrant *one = &of->all.entrant[of->all.count];
        if (at_search_recall_refusal(on, ready[i], one) ||
            at_search_recall(on, ready[i], on->champion, HEAT, one, of->champion_us[of->all.count])) {
            ++of->all.count;
            ++on->result->reused;
        } else {
            of->fresh.entrant[of->fresh.count++].candidate = ready[i];
        }
    }
}

/* A device that failed while they were at work: each by itself, to see who it was. */
static attune_status run_alone(at_search *on, const at_race_policy *policy, batch *of)
{
    at_heat *heat = &of->fresh;
    heat->fair = true;
    at_search_note(on, "the worker was lost: each of %d candidates by itself", heat->count);
    for (int i = 0; i < heat->count; ++i) {
        at_heat alone = {.champion = {.candidate = on->champion}, .count = 1};
        alone.entrant[0].candidate = heat->entrant[i].candidate;
        AT_FORWARD(on->machine->racer.renew(on->machine->racer.self));
        attune_status status = at_heat_run(policy, &on->machine->racer, &alone);
        AT_FAIL_IF(status != ATTUNE_OK && status != ATTUNE_DEVICE_ERROR, status, "%s", attune_last_detail());
        if (status == ATTUNE_OK && !alone.fair) {
            heat->fair = false;
            heat->placebo = alone.placebo;
        }
        if (status == ATTUNE_DEVICE_ERROR) {
            at_entrant *one = &alone.entrant[0];
            *one = (at_entrant){.candidate = one->candidate, .first = {.refused = AT_REFUSED_LAUNCH}};
            (void)snprintf(one->first.why, sizeof one->first.why, "%.300s", attune_last_detail());
            AT_FORWARD(on->machine->racer.renew(on->machine->racer.self));
        }
        heat->entrant[i] = alone.entrant[0];
        of->beside[i] = alone.champion;
    }
    return ATTUNE_OK;
}

static attune_status run_heat(at_search *on, batch *of)
{
    at_heat *heat = &of->fresh;
    at_race_policy policy = on->options->policy;
    policy.seed += 7907U * (uint64_t)(on->result->measured + on->result->refused);
    policy.whole = on->options->exhaustive;
    attune_status status = at_heat_run(&policy, &on->machine->racer, heat);
    if (status == ATTUNE_DEVICE_ERROR) {
        return run_alone(on, &policy, of);
    }
    for (int i = 0; i < heat->count; ++i) {
        of->beside[i] = heat->champion;
    }
    return status;
}

/* A heat whose placebo did not tie says nothing; neither does a search with two of them in a row. */
static attune_status run_fair_heat(at_search *on, batch *of)
{
    enum { TRIES = 2 };
    const at_heat *heat = &of->fresh;
    for (int tries = 0; tries < TRIES; ++tries) {
        AT_FORWARD(run_heat(on, of));
        if (heat->fair) {
            return ATTUNE_OK;
        }
        at_search_note(on, "the placebo, a copy of the champion, took %.3f of its time: the heat is run again",
                       exp(heat->placebo.ratio.middle));
        AT_FORWARD(on->machine->racer.renew(on->machine->racer.self));
    }
    return at_search_checked(on, AT_CHECK_PLACEBO, false, true,
                             "a copy of the champion took %.3f of its time (%.3f to %.3f), twice in a row",
                             exp(heat->placebo.ratio.middle), exp(heat->placebo.ratio.low),
                             exp(heat->placebo.ratio.high));
}

static attune_status write_measurement(const at_search *on, const at_entrant *one,
                                       const double champion_us[AT_HEAT_BLOCKS_MAX][2], double champion_first_us,
                                       int round)
{
    at_event event = {.kind = AT_EVENT_MEASUREMENT,
                      .as.measurement = {.round = round,
                                         .censored = one->result == AT_RACE_SLOW || one->blocks < 3,
                                         .pairs = one->result == AT_RACE_SLOW ? 1 : 2 * one->blocks}};
    at_event_measurement *to = &event.as.measurement;
    at_search_text(on, one->candidate, to->config);
    at_search_text(on, on->champion, to->champion);
    memcpy(to->code, on->known[one->candidate].code, sizeof to->code);
    for (int i = 0; i < to->pairs && i < AT_EVENT_PAIRS_MAX; ++i) {
        to->us[i] = one->result == AT_RACE_SLOW ? one->first.us : one->us[i / 2][i % 2];
        to->champion_us[i] = one->result == AT_RACE_SLOW ? champion_first_us : champion_us[i / 2][i % 2];
    }
    return at_search_write(on, &event);
}

/* Adds what was just raced to the batch. */
static attune_status take_fresh(const at_search *on, batch *of)
{
    for (int i = 0; i < of->fresh.count; ++i) {
        const at_entrant *one = &of->fresh.entrant[i];
        const at_entrant *beside = &of->beside[i];
        memcpy(of->champion_us[of->all.count], beside->us, sizeof beside->us);
        of->all.entrant[of->all.count++] = *one;
        if (one->result != AT_RACE_REFUSED) {
            AT_FORWARD(write_measurement(on, one, beside->us, beside->first.us, HEAT));
        }
    }
    return ATTUNE_OK;
}

/* The first champion's own time: the base of all that is reported. */
static void find_base(at_search *on, const batch *of)
{
    double sum = 0;
    int most = 0, best = -1;
    for (int i = 0; i < of->all.count; ++i) {
        best = of->all.entrant[i].blocks > most ? i : best;
        most = of->all.entrant[i].blocks > most ? of->all.entrant[i].blocks : most;
    }
    for (int b = 0; b < most; ++b) {
        sum += log((of->champion_us[best][b][0] + of->champion_us[best][b][1]) / 2);
    }
    if (best >= 0 && isnan(on->champion_log_us)) {
        on->champion_log_us = on->first_log_us = sum / most;
    }
}

static double half_of(const at_entrant *one, const double champion_us[AT_HEAT_BLOCKS_MAX][2])
{
    at_race_policy policy;
    at_interval ratio;
    at_race_policy_init(&policy, 0);
    policy.confidence = 0.95;
    return one->blocks >= 3 &&
                   at_race_ratio(&policy, (const double(*)[2])one->us, champion_us, one->blocks, &ratio) == ATTUNE_OK
               ? (ratio.high - ratio.low) / 2
               : 0;
}

static attune_status take_entrant(at_search *on, const at_entrant *one, const double champion_us[AT_HEAT_BLOCKS_MAX][2])
{
    char name[AT_KERNEL_TEXT_MAX];
    at_known_candidate *known = &on->known[one->candidate];
    if (one->result == AT_RACE_REFUSED) {
        return at_search_refuse(on, one->candidate, one->first.refused, one->first.why);
    }
    known->log_us = (isnan(on->champion_log_us) ? log(one->first.us) : on->champion_log_us) + one->ratio.middle;
    known->half = half_of(one, champion_us);
    known->ratio_half = one->blocks >= 3 ? (one->ratio.high - one->ratio.low) / 2 : 0;
    known->censored = one->result == AT_RACE_SLOW || one->blocks < 3;
    ++on->result->measured;
    at_search_text(on, one->candidate, name);
    if (on->options->watch.tried != NULL) {
        on->options->watch.tried(on->options->watch.self, name, one);
    }
    return tell(on, one->candidate);
}

static attune_status decide_entrant(const at_search *on, const at_entrant *one)
{
    if (one->result == AT_RACE_REFUSED || one->result == AT_RACE_WON || one->candidate == on->champion) {
        return ATTUNE_OK;
    }
    bool ties = one->result == AT_RACE_TIED;
    return at_search_decide(on, ties ? AT_DECIDED_TIE : AT_DECIDED_ELIMINATED, ties ? on->champion : one->candidate,
                            ties ? one->candidate : on->champion,
                            ties ? &(at_interval){-one->ratio.middle, -one->ratio.high, -one->ratio.low} : &one->ratio,
                            at_race_result_name(one->result));
}

/* ---- Who wins twice ---------------------------------------------------------------------------------------------- */

static attune_status duel(at_search *on, int challenger, at_entrant *outcome)
{
    double champion_us[AT_HEAT_BLOCKS_MAX][2];
    at_race_policy policy = on->options->policy;
    at_heat heat = {.champion = {.candidate = on->champion}, .count = 1};
    if (at_search_recall_no_champion(on, challenger, on->champion)) {
        *outcome = (at_entrant){.candidate = challenger, .result = AT_RACE_TIED};
        return ATTUNE_OK;
    }
    if (at_search_recall(on, challenger, on->champion, DUEL, outcome, champion_us)) {
        return ATTUNE_OK;
    }
    policy.seed += 104723U * (uint64_t)(on->result->measured + 1);
    heat.entrant[0].candidate = challenger;
    AT_FORWARD(at_heat_duel(&policy, &on->machine->racer, &heat));
    *outcome = heat.entrant[0];
    outcome->result = heat.fair || outcome->result == AT_RACE_REFUSED ? outcome->result : AT_RACE_TIED;
    return outcome->result == AT_RACE_REFUSED || !heat.fair
               ? ATTUNE_OK
               : write_measurement(on, outcome, (const double(*)[2])heat.champion.us, heat.champion.first.us, DUEL);
}

static attune_status promote(at_search *on, int challenger)
{
    at_entrant outcome;
    char name[AT_KERNEL_TEXT_MAX];
    AT_FORWARD(duel(on, challenger, &outcome));
    if (outcome.result != AT_RACE_WON) {
        at_search_text(on, challenger, name);
        at_search_note(on, "%s won a heat and not the duel: no champion", name);
        return at_search_decide(on, AT_DECIDED_NOT_CONFIRMED, challenger, on->champion, &outcome.ratio,
                                "lost the duel");
    }
    AT_FORWARD(at_search_decide(on, AT_DECIDED_CHAMPION, challenger, on->champion, &outcome.ratio, "won twice"));
    on->champion = challenger;
    on->champion_log_us += outcome.ratio.middle;
    on->known[challenger].log_us = on->champion_log_us;
    ++on->result->champions;
    if (on->options->watch.champion != NULL) {
        at_search_text(on, challenger, name);
        on->options->watch.champion(on->options->watch.self, name, exp(on->first_log_us - on->champion_log_us));
    }
    return tell_strategy(on, challenger);
}

/* The first champion is a candidate like others: its time is what the first heat saw beside the others. */
static attune_status tell_champion(at_search *on)
{
    at_known_candidate *one = &on->known[on->champion];
    if (one->has_outcome || on->options->exhaustive || isnan(on->champion_log_us)) {
        return ATTUNE_OK;
    }
    one->log_us = on->champion_log_us;
    ++on->result->measured;
    return tell(on, on->champion);
}

static attune_status conclude(at_search *on, batch *of)
{
    find_base(on, of);
    AT_FORWARD(tell_champion(on));
    for (int i = 0; i < of->all.count; ++i) {
        AT_FORWARD(take_entrant(on, &of->all.entrant[i], (const double(*)[2])of->champion_us[i]));
        AT_FORWARD(decide_entrant(on, &of->all.entrant[i]));
    }
    int winner = on->options->exhaustive ? -1 : at_heat_winner(&on->options->policy, &of->all, at_search_key, on);
    return winner < 0 ? ATTUNE_OK : promote(on, of->all.entrant[winner].candidate);
}

static attune_status race(at_search *on, const int *ready, int count, batch *of)
{
    int raced[AT_HEAT_MAX + 1] = {on->champion};
    int raced_count = 1;
    recall_all(on, ready, count, of);
    if (of->fresh.count > 0) {
        AT_FORWARD(run_fair_heat(on, of));
        for (int i = 0; i < of->fresh.count; ++i) {
            if (of->fresh.entrant[i].result != AT_RACE_REFUSED) {
                raced[raced_count++] = of->fresh.entrant[i].candidate;
            }
        }
        AT_FORWARD(on->is_void ? ATTUNE_OK : at_search_check_execution(on, raced, raced_count));
        AT_FORWARD(on->is_void ? ATTUNE_OK : take_fresh(on, of));
    }
    return on->is_void ? ATTUNE_OK : conclude(on, of);
}

attune_status at_search_race(at_search *on, const int *ready, int count)
{
    batch *of = calloc(1, sizeof *of);
    AT_FAIL_IF(of == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a heat");
    attune_status status = race(on, ready, count, of);
    free(of);
    return status;
}
