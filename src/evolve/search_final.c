/* The end of a search: the best of it once more, in fresh processes, beside what would run without it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "evolve/search_parts.h"

enum { FINAL = 2, BASE = 0 }; /* the round, as measurements have it; the place of who the others are held against */

/* ---- Who takes part ---------------------------------------------------------------------------------------------- */

static bool is_in(const at_final *last, int candidate)
{
    for (int i = 0; i < last->count; ++i) {
        if (last->candidate[i] == candidate) {
            return true;
        }
    }
    return false;
}

/* Timed, and not shown slower than the champion by more than the band and what its interval leaves open. */
static bool is_near(const at_search *on, int candidate)
{
    const at_known_candidate *one = &on->known[candidate];
    return one->has_outcome && one->refused == AT_RAN && !one->censored && one->same_as < 0 &&
           one->log_us - on->champion_log_us < log1p(on->options->policy.band) + one->half;
}

/* The fastest that is not in yet; -1 where there is none. With `any`, of all that were timed. */
static int next_best(const at_search *on, const at_final *last, bool any)
{
    int best = -1;
    for (int i = 0; i < on->space->count; ++i) {
        const at_known_candidate *one = &on->known[i];
        bool may = is_near(on, i) || (any && one->has_outcome && one->refused == AT_RAN && one->same_as < 0);
        if (may && !is_in(last, i) && (best < 0 || one->log_us < on->known[best].log_us)) {
            best = i;
        }
    }
    return best;
}

/* The kernel's first config by its own order: what there was before anyone tuned it. -1 where it does not run. One of
 * the same code as another is that other. */
static int author_of(const at_search *on)
{
    int first = on->space->order_count > 0 ? on->space->order[0] : -1;
    if (first < 0 || !on->known[first].has_outcome) {
        return -1;
    }
    int same = on->known[first].same_as;
    first = same >= 0 ? same : first;
    return on->known[first].has_outcome && on->known[first].refused == AT_RAN ? first : -1;
}

static void choose_finalists(const at_search *on, at_final *last)
{
    const int author = on->options->brief ? -1 : author_of(on);
    last->candidate[last->count++] = on->options->baseline >= 0 ? on->options->baseline : on->first_champion;
    if (!is_in(last, on->champion)) {
        last->candidate[last->count++] = on->champion;
    }
    if (author >= 0 && !is_in(last, author)) {
        last->candidate[last->count++] = author;
    }
    for (int next = next_best(on, last, false); next >= 0 && last->count < AT_FINALISTS_MAX;
         next = next_best(on, last, false)) {
        last->candidate[last->count++] = next;
    }
    int second = last->count == 1 && !on->options->brief ? next_best(on, last, true) : -1;
    if (second >= 0) {
        last->candidate[last->count++] = second;
    }
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static bool may_go_on(void *self)
{
    const at_search *on = self;
    return on->options->final_s <= 0 || at_search_seconds(on) - on->final_began_s < on->options->final_s;
}

static attune_status run_fair(at_search *on, at_final *last)
{
    enum { TRIES = 2 };
    at_race_policy policy = on->options->policy;
    for (int tries = 0; tries < TRIES; ++tries) {
        policy.seed += 15487469U;
        AT_FORWARD(at_final_run(&policy, &on->machine->racer, at_search_key, on, last));
        if (last->fair) {
            return ATTUNE_OK;
        }
        at_search_note(on, "in the final a copy took %.3f of its original's time: it is run again",
                       exp(last->placebo.middle));
    }
    return at_search_checked(on, AT_CHECK_PLACEBO, false, true, "in the final a copy took %.3f of its original's time",
                             exp(last->placebo.middle));
}

static attune_status write_times(const at_search *on, const at_final *last, int place)
{
    at_event event = {.kind = AT_EVENT_MEASUREMENT, .as.measurement = {.round = FINAL, .pairs = last->processes}};
    at_event_measurement *to = &event.as.measurement;
    at_search_text(on, last->candidate[place], to->config);
    at_search_text(on, last->candidate[BASE], to->champion);
    if (last->candidate[place] < on->space->count) {
        memcpy(to->code, on->known[last->candidate[place]].code, sizeof to->code);
    }
    for (int i = 0; i < last->processes; ++i) {
        to->us[i] = last->process_us[place][i];
        to->champion_us[i] = last->process_us[BASE][i];
    }
    return at_search_write(on, &event);
}

/* ---- What follows ------------------------------------------------------------------------------------------------ */

static at_interval as_gain(const at_interval *ratio)
{
    return (at_interval){exp(-ratio->middle), exp(-ratio->high), exp(-ratio->low)};
}

static void say_gain(at_search *on, const at_final *last, int winner)
{
    char base[AT_KERNEL_TEXT_MAX], winner_time[AT_TIME_TEXT], base_time[AT_TIME_TEXT];
    at_search_result *result = on->result;
    static const at_interval same = {0, 0, 0};
    const at_interval *ratio = &last->ratio[winner];
    bool ties = at_race_ties(&on->options->policy, ratio, &same);
    at_search_text(on, last->candidate[BASE], base);
    at_time_print(last->us[winner], winner_time);
    at_time_print(last->us[BASE], base_time);
    result->gain = as_gain(ratio);
    result->end = !ties && ratio->middle < 0 ? AT_SEARCH_GAIN : AT_SEARCH_NO_GAIN;
    (void)snprintf(result->why, sizeof result->why, "%s against %s of %.300s: %.3f times as fast (%.3f to %.3f)%s",
                   winner_time, base_time, base, result->gain.middle, result->gain.low, result->gain.high,
                   ties ? ", a tie" : "");
}

/* What tuning gained over what the kernel's author would have run, process by process. */
static attune_status say_tuned(at_search *on, const at_final *last)
{
    double difference[AT_FINAL_PROCESSES_MAX];
    at_interval ratio;
    at_search_result *result = on->result;
    const int author = author_of(on);
    int place = 0;
    while (place < last->count && last->candidate[place] != author) {
        ++place;
    }
    if (author < 0 || place == last->count) {
        return ATTUNE_OK;
    }
    for (int i = 0; i < last->processes; ++i) {
        difference[i] = log(last->process_us[last->winner][i] / last->process_us[place][i]);
    }
    AT_FORWARD(at_trimmed_mean(difference, last->processes, on->options->policy.confidence, &ratio));
    result->author = author;
    result->tuned = place == last->winner ? result->tuned : as_gain(&ratio);
    return ATTUNE_OK;
}

/* The winner among the kernel's own; against the base, or where that is itself, against who came second. */
static void conclude(at_search *on, const at_final *last)
{
    at_search_result *result = on->result;
    const int winner = last->winner;
    int second = -1;
    for (int i = last->from; i < last->count; ++i) {
        bool faster = second < 0 || last->ratio[i].middle < last->ratio[second].middle;
        second = i != winner && faster ? i : second;
    }
    result->winner = last->candidate[winner];
    result->us = last->us[winner];
    if (winner != BASE) {
        result->opponent = last->candidate[BASE];
        say_gain(on, last, winner);
        return;
    }
    result->end = AT_SEARCH_NO_GAIN;
    result->opponent = second >= 0 ? last->candidate[second] : -1;
    char time[AT_TIME_TEXT];
    at_time_print(result->us, time);
    (void)snprintf(result->why, sizeof result->why, "%s, and nothing is faster than what would run without a search",
                   time);
}

static attune_status write_end(const at_search *on, const at_final *last)
{
    at_interval ratio = {0, 0, 0};
    for (int i = 0; i < last->count; ++i) {
        AT_FORWARD(write_times(on, last, i));
        ratio = last->candidate[i] == on->result->winner ? last->ratio[i] : ratio;
    }
    return at_search_decide(on, AT_DECIDED_CONFIRMED, on->result->winner, last->candidate[BASE], &ratio,
                            on->result->why);
}

/* The champion as it is: what would run without the search, where nobody beat it twice and a final could only say so
 * again; or whoever beat it, where no final is wanted. */
static attune_status keep_champion(at_search *on)
{
    at_search_result *result = on->result;
    const bool same = on->champion == on->first_champion;
    result->end = same ? AT_SEARCH_NO_GAIN : AT_SEARCH_GAIN;
    result->winner = on->champion;
    result->opponent = same ? -1 : on->first_champion;
    result->us = exp(on->champion_log_us);
    (void)snprintf(result->why, sizeof result->why, "%s",
                   same ? "nothing beat what would run without a search" : "it won twice; there was no final");
    return at_search_checked(on, AT_CHECK_PLACEBO, true, true, "a copy of the champion tied in every heat");
}

attune_status at_search_final(at_search *on)
{
    const at_search_options *options = on->options;
    at_final last = {.from = options->baseline >= 0 ? 1 : 0,
                     .processes_min = options->final_processes,
                     .processes_max = options->final_processes_max,
                     .blocks = options->final_blocks,
                     .may_go_on = may_go_on};
    const bool timed = !isnan(on->champion_log_us); /* an only config has raced nobody */
    const bool settled = on->champion == on->first_champion || options->final_processes == 0;
    if (options->brief && options->baseline < 0 && settled && timed) {
        return keep_champion(on);
    }
    choose_finalists(on, &last);
    on->final_began_s = at_search_seconds(on);
    if (options->watch.progress != NULL) {
        options->watch.progress(options->watch.self, "final", 0);
    }
    AT_FORWARD(run_fair(on, &last));
    if (on->is_void) {
        return ATTUNE_OK;
    }
    conclude(on, &last);
    AT_FORWARD(say_tuned(on, &last));
    AT_FORWARD(at_search_checked(on, AT_CHECK_PLACEBO, true, true,
                                 "a copy of the champion tied in every heat, and in the final: %.3f (%.3f to %.3f)",
                                 exp(last.placebo.middle), exp(last.placebo.low), exp(last.placebo.high)));
    return write_end(on, &last);
}
