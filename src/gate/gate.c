#include "gate/gate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/problem.h"
#include "gate/batch.h"
#include "gate/gate_parts.h"
#include "library/wisdom.h"

/* ---- What is asked ---------------------------------------------------------------------------------------------- */

static attune_status check_options(const at_gate_options *options)
{
    for (int i = 0; i < options->problem_count; ++i) {
        const attune_problem *problem = &options->problem[i].problem;
        AT_FAIL_IF(problem->op != ATTUNE_FORWARD, ATTUNE_UNSUPPORTED,
                   "%s: the gate judges attention alone so far; `attune check` runs this operation's suite",
                   at_op_name(problem->op));
    }
    AT_FAIL_IF(options->candidate_count < 1, ATTUNE_INVALID_ARGUMENT, "no candidate is given");
    AT_FAIL_IF(options->problem_count < 1, ATTUNE_INVALID_ARGUMENT, "no problem is given");
    AT_FAIL_IF(!(options->must > 0 && options->must <= 100), ATTUNE_INVALID_ARGUMENT,
               "must is %g: more than 0 and at most 100 is needed", options->must);
    AT_FAIL_IF(options->cases < 1, ATTUNE_INVALID_ARGUMENT, "cases is %lld: at least 1 is needed",
               (long long)options->cases);
    AT_FAIL_IF(options->paired && options->candidate_count != options->problem_count, ATTUNE_INVALID_ARGUMENT,
               "%d candidates for %d problems: pairs are wanted", options->candidate_count, options->problem_count);
    for (int i = 0; i < options->problem_count; ++i) {
        AT_FORWARD(attune_problem_check(&options->problem[i].problem));
    }
    return at_gate_check_peers(options->peer, options->peer_count, options->own_arms);
}

/* ---- Batches ---------------------------------------------------------------------------------------------------- */

static void free_table(at_gate_table *table)
{
    for (int i = 0; table->entry != NULL && i < table->count; ++i) {
        at_verdict_destroy(table->entry[i].verdict);
    }
    free(table->entry);
    *table = (at_gate_table){0};
}

static void count_verdict(const at_verdict *verdict, at_gate_result *result)
{
    int *counts[] = {&result->passed, &result->failed, &result->inconclusive, &result->not_run};
    ++*counts[at_verdict_exit(verdict)];
}

static attune_status report_verdict(at_gate *gate, const at_gate_entry *entry, at_gate_result *result)
{
    const at_gate_watch *watch = &gate->options->watch;
    AT_FORWARD(at_gate_question(gate, entry->known != NULL ? entry->known : entry->verdict));
    if (watch->keep != NULL) {
        watch->keep(watch->keeper, entry->known != NULL ? entry->known : entry->verdict);
    }
    if (entry->known != NULL) {
        ++result->known;
        count_verdict(entry->known, result);
        return ATTUNE_OK;
    }
    count_verdict(entry->verdict, result);
    if (watch->verdict != NULL) {
        watch->verdict(watch->self, entry->verdict);
    }
    return at_gate_keep(gate, entry->verdict);
}

static attune_status report_verdicts(at_gate *gate, const at_gate_table *table, at_gate_result *result)
{
    for (int i = 0; i < table->count; ++i) {
        AT_FORWARD(report_verdict(gate, &table->entry[i], result));
    }
    return at_gate_learn(gate, table);
}

/* Inputs and references serve all that are judged on a problem, and then go. */
static attune_status judge_with_cache(at_gate *gate, int index, at_gate_table *table)
{
    enum { AHEAD = 2 };
    AT_FORWARD(at_gate_prefetch(gate, index + AHEAD));
    at_case_cache_enter(gate->cache, at_gate_cache_scope(index, false));
    attune_status status = at_gate_judge_problem(gate, &gate->options->problem[index], table);
    at_case_cache_drop(gate->cache, at_gate_cache_scope(index, false));
    return status;
}

/* All at once; what they made stays until the last of them is done. */
static attune_status judge_together(at_gate *gate, at_gate_table *tables, int count)
{
    int first = gate->next_problem;
    AT_FORWARD(at_gate_prefetch(gate, first + count));
    at_case_cache_enter(gate->cache, at_gate_cache_scope(first, false));
    attune_status status = at_gate_judge_side_by_side(gate, tables, count);
    for (int i = 0; i < count; ++i) {
        at_case_cache_drop(gate->cache, at_gate_cache_scope(first + i, false));
    }
    return status;
}

static double seconds_left(const at_gate *gate)
{
    return gate->options->limit_s > 0 ? gate->options->limit_s - at_gate_seconds(gate) : INFINITY;
}

static int candidates_each(const at_gate *gate)
{
    return gate->options->paired ? 1 : gate->options->candidate_count;
}

/* What is known, and what is not right, is not timed. */
static bool is_to_be_timed(const at_gate_table *table)
{
    bool any = false;
    for (int i = 0; i < table->count; ++i) {
        const at_gate_entry *entry = &table->entry[i];
        any |= entry->known == NULL && entry->verdict != NULL && entry->verdict->right == AT_PASS;
    }
    return any;
}

static bool was_timed(const at_gate_table *table)
{
    bool any = false;
    for (int i = 0; i < table->count; ++i) {
        const at_gate_entry *entry = &table->entry[i];
        any |= entry->known == NULL && entry->verdict != NULL && entry->verdict->session.block_count > 0;
    }
    return any;
}

/* The first problems, of which so many are to be timed; the others cost nothing. */
static int first_with(const at_gate_table *tables, int count, int timed)
{
    int first = 0;
    for (; first < count && (timed > 0 || !is_to_be_timed(&tables[first])); ++first) {
        timed -= is_to_be_timed(&tables[first]);
    }
    return first;
}

/* `count` becomes smaller where the rest could not be timed before the limit. */
static attune_status judge_tables(at_gate *gate, at_gate_table *tables, int *count, const at_batch_pace *timing)
{
    if (at_gate_lanes(gate, *count) > 1) {
        return judge_together(gate, tables, *count);
    }
    AT_FORWARD(at_gate_start_ahead(gate, AT_WORKER_PEERS));
    double began = at_gate_seconds(gate);
    bool goes_on = true;
    for (int i = 0; i < *count && goes_on; ++i) {
        AT_FORWARD(judge_with_cache(gate, gate->next_problem + i, &tables[i]));
        double judging_s = at_gate_seconds(gate) - began;
        goes_on = at_batch_goes_on(timing, i + 1, candidates_each(gate), judging_s, seconds_left(gate));
        *count = goes_on ? *count : i + 1;
    }
    return ATTUNE_OK;
}

static attune_status time_tables(at_gate *gate, at_gate_table *tables, int count)
{
    int first = gate->next_problem;
    AT_FORWARD(at_gate_prefetch(gate, first + 2 * count));
    at_case_cache_enter(gate->cache, at_gate_cache_scope(first, true));
    attune_status status = at_gate_speed(gate, tables, count);
    for (int i = 0; i < count; ++i) {
        at_case_cache_drop(gate->cache, at_gate_cache_scope(first + i, true));
    }
    return status;
}

static int count_timed(const at_gate_table *tables, int count)
{
    int timed = 0;
    for (int i = 0; i < count; ++i) {
        timed += was_timed(&tables[i]);
    }
    return timed;
}

/* Times what has been judged, as far as the limit allows, and reports it; `count` becomes how many these are. */
static attune_status time_and_report(at_gate *gate, at_gate_table *tables, int *count, at_batch_pace *timing,
                                     at_gate_result *result)
{
    const int judged = *count;
    *count = 0;
    while (*count < judged) {
        at_gate_table *next = tables + *count;
        int left = judged - *count;
        int timed = at_batch_timed(timing, left, candidates_each(gate), seconds_left(gate));
        int together = first_with(next, left, timed);
        if (together == 0) {
            break;
        }
        double began = at_gate_seconds(gate);
        AT_FORWARD(time_tables(gate, next, together));
        if (count_timed(next, together) > 0) {
            at_batch_note(timing, count_timed(next, together), at_gate_seconds(gate) - began);
        }
        for (int i = 0; i < together; ++i) {
            AT_FORWARD(report_verdicts(gate, &next[i], result));
        }
        gate->next_problem += together;
        *count += together;
    }
    return ATTUNE_OK;
}

static attune_status run_tables(at_gate *gate, at_gate_table *tables, int *begun, at_batch_pace *timing,
                                at_gate_result *result)
{
    if (gate->target.kind == ATTUNE_TARGET_CUDA) { /* on a CPU, who loads takes time from who is timed */
        AT_FORWARD(at_gate_start_ahead(gate, AT_WORKER_TIMER));
    }
    AT_FORWARD(judge_tables(gate, tables, begun, timing));
    at_gate_close_workers(gate); /* what is timed has the device for itself */
    return time_and_report(gate, tables, begun, timing, result);
}

/* `count`: problems; as many as have been judged and timed. */
static attune_status run_batch(at_gate *gate, int *count, at_batch_pace *timing, at_gate_result *result)
{
    at_gate_table table[AT_GATE_BATCH] = {{0}};
    attune_status status = run_tables(gate, table, count, timing, result);
    for (int i = 0; i < AT_GATE_BATCH; ++i) {
        free_table(&table[i]);
    }
    return status;
}

static attune_status run_batches(at_gate *gate, at_gate_result *result)
{
    const at_gate_options *options = gate->options;
    int each = candidates_each(gate);
    int most = AT_GATE_BATCH / each > 0 ? AT_GATE_BATCH / each : 1;
    at_batch_pace pace = {0}, timing = {0};
    while (gate->next_problem < options->problem_count) {
        int left = options->problem_count - gate->next_problem;
        double began = at_gate_seconds(gate);
        int count = at_batch_size(&pace, left < most ? left : most, seconds_left(gate));
        if (count == 0) {
            break;
        }
        AT_FORWARD(run_batch(gate, &count, &timing, result));
        if (count == 0) {
            break;
        }
        at_batch_note(&pace, count, at_gate_seconds(gate) - began);
    }
    result->left = (options->problem_count - gate->next_problem) * each;
    return ATTUNE_OK;
}

/* That what is found can be kept is seen before hours go into it. */
static attune_status check_places(const at_gate *gate)
{
    const at_gate_options *options = gate->options;
    for (int i = 0; options->evidence != NULL && i < options->candidate_count; ++i) {
        const attune_kernel *kernel = gate->candidate[i].kernel;
        AT_FORWARD(at_evidence_check(options->evidence, gate->target.model, kernel != NULL ? kernel->name : NULL));
    }
    return options->wisdom == NULL ? ATTUNE_OK : at_wisdom_file_check(options->wisdom);
}

/* ---- The whole -------------------------------------------------------------------------------------------------- */

static int exit_code(const at_gate_result *result)
{
    enum { PASS = 0, FAIL = 1, OPEN = 2, COULD_NOT = 3, UNFINISHED = 4 };
    return result->left > 0           ? UNFINISHED
           : result->failed > 0       ? FAIL
           : result->not_run > 0      ? COULD_NOT
           : result->inconclusive > 0 ? OPEN
                                      : PASS;
}

/* The python for sessions need not validate its back ends again: the peers' worker has. */
static void set_timer(at_gate *gate)
{
    const char *const *word = gate->options->python;
    int count = 0;
    for (; word != NULL && word[count] != NULL && count < AT_COMMAND_WORDS - 2; ++count) {
        gate->timer[count] = word[count];
    }
    gate->timer[count] = "--validated";
}

/* All that can be wrong with what is asked for. */
static attune_status begin(at_gate *gate)
{
    const at_gate_options *options = gate->options;
    AT_FORWARD(check_options(options));
    AT_FORWARD(at_pool_create(options->threads > 0 ? options->threads : at_cpu_count(), 0, &gate->pool));
    AT_FORWARD(at_gate_candidates_open(gate));
    AT_FORWARD(check_places(gate));
    AT_FORWARD(at_gate_preflight(gate));
    return check_places(gate); /* again: now it is known for which device's verdicts */
}

static attune_status go(at_gate *gate, at_gate_result *result)
{
    AT_FORWARD(at_gate_read_known(gate));
    AT_FORWARD(at_case_cache_create(0, &gate->cache));
    AT_FORWARD(run_batches(gate, result));
    return at_gate_weigh(gate, result);
}

attune_status at_gate_run(const at_gate_options *options, at_gate_result *result)
{
    at_gate gate = {.options = options, .clock = at_clock_monotonic()};
    set_timer(&gate);
    *result = (at_gate_result){0};
    gate.began_ns = gate.clock.now_ns(gate.clock.self);
    attune_status status = begin(&gate);
    result->begun = status == ATTUNE_OK;
    status = status == ATTUNE_OK ? go(&gate, result) : status;
    free(gate.chance);
    at_gate_close_workers(&gate);
    at_gate_close_ahead(&gate);
    at_case_cache_destroy(gate.cache);
    at_gate_forget_known(&gate);
    at_gate_candidates_close(&gate);
    at_pool_destroy(gate.pool);
    result->exit_code = exit_code(result);
    return status;
}
