#include "evolve/search.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "evolve/search_parts.h"

const char *at_search_end_name(at_search_end end)
{
    static const char *const name[] = {"gain", "no gain", "void"};
    return name[end];
}

/* ---- What next --------------------------------------------------------------------------------------------------- */

static int counted(const at_search *on)
{
    return on->result->measured + on->result->refused;
}

static bool has_time(const at_search *on)
{
    const at_search_options *options = on->options;
    return (options->budget_s <= 0 || at_search_seconds(on) < options->budget_s) &&
           (options->budget_runs <= 0 || counted(on) < options->budget_runs);
}

/* The next, seen before or not; -1 after the last. */
static int ask_any(at_search *on)
{
    const at_search_options *options = on->options;
    if (on->strategy != NULL) {
        return at_strategy_ask(on->strategy);
    }
    if (options->exhaustive) {
        return on->next < on->space->count ? on->next++ : -1;
    }
    return on->next < options->first_count ? options->first[on->next++].candidate : -1;
}

static int ask(at_search *on)
{
    int candidate = ask_any(on);
    while (candidate >= 0 && on->known[candidate].seen && !on->options->exhaustive) {
        candidate = ask_any(on);
    }
    return candidate;
}

/* Asks for the next batch; `waiting` are asked for and without outcome. Compiling them begins. */
static attune_status draw(at_search *on, int waiting, int *batch, int *count)
{
    const at_search_options *options = on->options;
    bool champion =
        !options->exhaustive && !on->known[on->champion].has_outcome; /* it counts when the first heat timed it */
    int left = options->budget_runs > 0 ? options->budget_runs - counted(on) - waiting - champion : options->batch;
    *count = 0;
    while (has_time(on) && *count < options->batch && *count < left) {
        int candidate = ask(on);
        if (candidate < 0) {
            break;
        }
        batch[(*count)++] = candidate;
        AT_FORWARD(on->machine->prefetch != NULL ? on->machine->prefetch(on->machine->self, candidate) : ATTUNE_OK);
    }
    return ATTUNE_OK;
}

static const char *origin_of(const at_search *on, int candidate)
{
    for (int i = 0; i < on->options->first_count; ++i) {
        if (on->options->first[i].candidate == candidate) {
            return on->options->first[i].from;
        }
    }
    return on->strategy != NULL ? on->strategy->kind->name : "exhaustive";
}

static void show_progress(const at_search *on)
{
    const at_search_options *options = on->options;
    double by_time = options->budget_s > 0 ? at_search_seconds(on) / options->budget_s : 0;
    double by_runs = options->budget_runs > 0 ? (double)counted(on) / options->budget_runs : 0;
    double by_space = (double)counted(on) / on->space->count;
    if (options->watch.progress != NULL) {
        options->watch.progress(options->watch.self, "searching", fmin(1, fmax(by_space, fmax(by_time, by_runs))));
    }
}

static attune_status process(at_search *on, const int *batch, int count)
{
    const char *from[AT_SEARCH_BATCH_MAX];
    int ready[AT_SEARCH_BATCH_MAX];
    int ready_count = 0;
    AT_FORWARD(at_search_stopped(on));
    for (int i = 0; i < count; ++i) {
        from[i] = origin_of(on, batch[i]);
    }
    AT_FORWARD(at_search_build(on, batch, count, from, ready, &ready_count));
    AT_FORWARD(ready_count > 0 ? at_search_race(on, ready, ready_count) : ATTUNE_OK);
    show_progress(on);
    return ATTUNE_OK;
}

/* Where candidates are made ahead, the next batch is asked for before this one is raced. */
static attune_status run_batches(at_search *on)
{
    int batch[2][AT_SEARCH_BATCH_MAX];
    int count[2] = {0, 0};
    bool ahead = on->machine->prefetch != NULL;
    AT_FORWARD(draw(on, 0, batch[0], &count[0]));
    for (int turn = 0; count[turn] > 0 && has_time(on) && !on->is_void; turn = 1 - turn) {
        AT_FORWARD(ahead ? draw(on, count[turn], batch[1 - turn], &count[1 - turn]) : ATTUNE_OK);
        AT_FORWARD(process(on, batch[turn], count[turn]));
        AT_FORWARD(ahead ? ATTUNE_OK : draw(on, 0, batch[1 - turn], &count[1 - turn]));
    }
    return ATTUNE_OK;
}

/* ---- The first champion ------------------------------------------------------------------------------------------ */

/* The first of those given that can be made and runs right. What does not is refused like anyone else. */
static attune_status find_champion(at_search *on)
{
    for (int i = 0; on->machine->prefetch != NULL && i < on->options->first_count; ++i) {
        AT_FORWARD(on->machine->prefetch(on->machine->self, on->options->first[i].candidate));
    }
    for (int i = 0; i < on->options->first_count && on->champion < 0; ++i) {
        const at_seed *seed = &on->options->first[i];
        int ready[1];
        int ready_count = 0;
        at_first_run seen;
        AT_FORWARD(at_search_stopped(on));
        AT_FORWARD(at_search_build(on, &seed->candidate, 1, &seed->from, ready, &ready_count));
        if (ready_count == 0) {
            continue;
        }
        AT_FORWARD(on->machine->racer.try(on->machine->racer.self, seed->candidate, &seen));
        if (seen.refused == AT_RAN) {
            on->champion = on->first_champion = seed->candidate;
        } else {
            AT_FORWARD(at_search_refuse(on, seed->candidate, seen.refused, seen.why));
        }
    }
    AT_FAIL_IF(on->champion < 0, ATTUNE_UNSUPPORTED, "none of the %d configs to begin with runs",
               on->options->first_count);
    if (on->options->exhaustive) {
        on->known[on->champion].seen = false; /* it is measured like all others */
    }
    return ATTUNE_OK;
}

/* ---- Beginning and end ------------------------------------------------------------------------------------------- */

static attune_status open_strategy(at_search *on)
{
    const at_search_options *options = on->options;
    int first[AT_SEARCH_FIRST_MAX];
    for (int i = 0; i < options->first_count; ++i) {
        first[i] = options->first[i].candidate;
    }
    const at_strategy_options wanted = {.seed = options->seed,
                                        .fitness = options->fitness,
                                        .budget = options->budget_runs,
                                        .first = first,
                                        .first_count = options->first_count};
    return options->exhaustive || options->listed
               ? ATTUNE_OK
               : at_strategy_create(options->strategy, on->space, &wanted, &on->strategy);
}

static attune_status write_beginning(at_search *on)
{
    at_event space = {.kind = AT_EVENT_SPACE, .as.space = (at_space *)(uintptr_t)on->space};
    at_event resume = {.kind = AT_EVENT_RESUME};
    if (on->ledger != NULL && on->before != NULL && on->before->count > 0) {
        resume.at_s = on->before_s;
        AT_FORWARD(at_ledger_append(on->ledger, &resume));
    }
    return on->before != NULL && on->before->space != NULL ? ATTUNE_OK : at_search_write(on, &space);
}

static void rank_top(at_search *on)
{
    enum { TOP = sizeof on->result->top / sizeof on->result->top[0] };
    at_search_result *result = on->result;
    for (int i = 0; i < on->space->count; ++i) {
        const at_known_candidate *one = &on->known[i];
        if (!one->has_outcome || one->refused != AT_RAN || one->censored || one->same_as >= 0) {
            continue;
        }
        double us = exp(one->log_us);
        int at = result->top_count < TOP ? result->top_count++ : TOP;
        for (; at > 0 && result->top_us[at - 1] > us; --at) {
            if (at < TOP) {
                result->top[at] = result->top[at - 1];
                result->top_us[at] = result->top_us[at - 1];
            }
        }
        if (at < TOP) {
            result->top[at] = i;
            result->top_us[at] = us;
        }
    }
}

static void score_top(at_search *on)
{
    at_search_result *result = on->result;
    double first_us = on->first_champion >= 0 ? exp(on->known[on->first_champion].log_us) : NAN;
    for (int i = 0; i < result->top_count; ++i) {
        result->top_score[i] = at_composite(first_us / result->top_us[i], &on->known[result->top[i]].figures);
    }
}

static attune_status search(at_search *on)
{
    AT_FORWARD(write_beginning(on));
    AT_FORWARD(open_strategy(on));
    AT_FORWARD(find_champion(on));
    AT_FORWARD(at_search_check_mutant(on));
    AT_FORWARD(on->is_void ? ATTUNE_OK : run_batches(on));
    AT_FORWARD(on->is_void ? ATTUNE_OK : at_search_record_execution(on));
    AT_FORWARD(on->is_void ? ATTUNE_OK : at_search_check_alarm(on));
    AT_FORWARD(on->is_void || on->options->brief ? ATTUNE_OK : at_search_check_dead(on));
    AT_FORWARD(on->is_void ? ATTUNE_OK : at_search_final(on));
    rank_top(on);
    score_top(on);
    on->result->end = on->is_void ? AT_SEARCH_VOID : on->result->end;
    on->result->seconds = at_search_seconds(on);
    return ATTUNE_OK;
}

static attune_status check_options(const at_search_options *options)
{
    AT_FAIL_IF(options->first_count < 1 || options->first_count > AT_SEARCH_FIRST_MAX, ATTUNE_INVALID_ARGUMENT,
               "%d candidates to begin with: 1 to %d are needed", options->first_count, AT_SEARCH_FIRST_MAX);
    AT_FAIL_IF(options->batch < 1 || options->batch > AT_SEARCH_BATCH_MAX, ATTUNE_INVALID_ARGUMENT,
               "batches of %d: 1 to %d are possible", options->batch, AT_SEARCH_BATCH_MAX);
    return ATTUNE_OK;
}

attune_status at_search_run(const at_search_options *options, const at_machine *machine, at_ledger *ledger,
                            const at_ledger_log *before, at_search_result *result)
{
    at_search on = {.options = options,
                    .space = options->space,
                    .machine = machine,
                    .ledger = ledger,
                    .before = before,
                    .result = result,
                    .champion = -1,
                    .first_champion = -1,
                    .champion_log_us = NAN};
    *result = (at_search_result){.winner = -1, .opponent = -1, .author = -1, .gain = {1, 1, 1}, .tuned = {1, 1, 1}};
    AT_FORWARD(check_options(options));
    on.began_s = machine->seconds(machine->self);
    on.before_s = before != NULL && before->count > 0 ? before->event[before->count - 1].at_s : 0;
    on.known = calloc((size_t)options->space->count, sizeof *on.known);
    AT_FAIL_IF(on.known == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d candidates", options->space->count);
    for (int i = 0; i < options->space->count; ++i) {
        on.known[i].same_as = -1;
    }
    attune_status status = at_recall_open(before, &on.recall);
    status = status == ATTUNE_OK ? search(&on) : status;
    at_strategy_destroy(on.strategy);
    at_recall_close(on.recall);
    free(on.known);
    return status;
}
