#include "evolve/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "core/descriptor.h"
#include "core/problem.h"
#include "evidence/evidence.h"
#include "evolve/engine_parts.h"
#include "judge/executor.h"
#include "library/catalogue.h"
#include "library/context.h"

/* ---- Where ------------------------------------------------------------------------------------------------------- */

static attune_status find_kernel(at_engine *on)
{
    const at_evolve_options *options = on->options;
    AT_FORWARD(at_kernel_find(options->kernel, NULL, &on->found));
    on->kernel = on->found.kernel;
    AT_FAIL_IF(on->found.stranger != NULL && options->one != NULL, ATTUNE_INVALID_ARGUMENT,
               "--one %s: a folder's config is judged by attune gate %s", options->one, options->one);
    size_t length = strlen(options->kernel) - strlen(on->found.params);
    (void)snprintf(on->text, sizeof on->text, "%.*s", (int)(length - (on->found.params[0] != '\0')), options->kernel);
    AT_FORWARD(at_config_settle(on->kernel, on->found.params, on->fixed));
    return options->one == NULL ? ATTUNE_OK : at_catalogue_check(options->one, NULL);
}

/* A worker says what the target is; this process opens none. */
static attune_status find_target(at_engine *on)
{
    const at_evolve_options *options = on->options;
    const char *kind = on->kernel->target == ATTUNE_TARGET_CPU ? "cpu" : "cuda";
    at_device *device;
    on->worker = (at_remote_options){.command = options->gate.worker,
                                     .target = options->gate.target != NULL ? options->gate.target : kind,
                                     .isa = options->gate.isa,
                                     .threads = options->gate.threads,
                                     .confined = on->found.stranger != NULL && on->kernel->target == ATTUNE_TARGET_CPU};
    AT_FORWARD(at_remote_open(&on->worker, &device));
    on->target = device->target;
    device->ops->close(device);
    AT_FAIL_IF(on->target.kind != on->kernel->target, ATTUNE_INVALID_ARGUMENT, "kernel %s is for %s, the target is %s",
               on->kernel->name, kind, on->worker.target);
    at_target_print(&on->target, on->target_text);
    if (options->watch.gate.machine != NULL) {
        options->watch.gate.machine(options->watch.gate.self, "device", on->target_text);
    }
    return ATTUNE_OK;
}

static attune_status open_planner(at_engine *on)
{
    attune_options options;
    attune_options_init(&options);
    if (on->options->wisdom != NULL && access(on->options->wisdom, F_OK) == 0) {
        options.wisdom = on->options->wisdom;
    }
    return at_context_elsewhere(&options, &on->target, &on->planner);
}

static attune_status open_compilers(at_engine *on)
{
    const at_compilers_options wanted = {.worker = on->options->gate.worker, .target = on->target};
    bool ahead = on->target.kind == ATTUNE_TARGET_CUDA && on->found.stranger == NULL; /* which have it by name */
    return ahead ? at_compilers_open(&wanted, &on->compilers) : ATTUNE_OK;
}

/* ---- Cells ------------------------------------------------------------------------------------------------------- */

static void close_cell(at_cell *cell)
{
    at_ledger_close(cell->ledger);
    at_ledger_free(cell->before);
    at_space_close(cell->space);
}

/* Whether the gate would be left too little of the limit if one more were searched. */
static bool is_enough(const at_engine *on, int searched)
{
    static const double share = 0.25;
    double limit = on->options->gate.limit_s;
    return searched >= AT_CELLS_SOME && limit > 0 && at_engine_seconds(on) > share * limit;
}

/* *count: at most so many; those that were run. */
static attune_status run_cells(at_engine *on, at_cell *cells, int first, int *count)
{
    int searched = 0;
    while (searched < *count && !is_enough(on, searched)) {
        at_cell *cell = &cells[searched];
        cell->test = &on->options->problem[first + searched++];
        AT_FORWARD(at_engine_search(on, cell));
    }
    *count = searched;
    return at_engine_prove(on, cells, searched);
}

/* Whether cells that take as long as the longest so far would end within the limit. */
static bool has_time(const at_engine *on, int next, double longest_s)
{
    double limit = on->options->gate.limit_s;
    return limit <= 0 || next == 0 || at_engine_seconds(on) + 1.1 * longest_s <= limit;
}

/* Where many problems are to be refreshed, the likeliest of all of them are compiled from the first second on. */
static attune_status compile_likely(const at_engine *on)
{
    enum { LIKELY = 3 };
    const at_evolve_options *options = on->options;
    for (int i = 1; on->compilers != NULL && options->refresh && i < options->problem_count; ++i) {
        const attune_problem *problem = &options->problem[i].problem;
        for (int32_t index = 0; index < LIKELY && at_kernel_supports(on->kernel, problem, &on->target, NULL); ++index) {
            attune_config config = {{0}};
            char text[AT_KERNEL_TEXT_MAX];
            int job;
            if (at_kernel_heuristic(on->kernel, problem, &on->target, index, &config) &&
                at_kernel_fits(on->kernel, problem, &on->target, &config, NULL)) {
                at_config_print(on->kernel, &config, text);
                AT_FORWARD(at_compilers_add(on->compilers, text, problem, true, &job));
            }
        }
    }
    return ATTUNE_OK;
}

static attune_status run_all(at_engine *on)
{
    const at_evolve_options *options = on->options;
    const int most = options->refresh ? AT_CELLS_MAX : AT_CELLS_SOME;
    double longest_s = 0;
    int next = 0;
    AT_FORWARD(compile_likely(on));
    at_cell *cells = calloc((size_t)most, sizeof *cells);
    AT_FAIL_IF(cells == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d searches", most);
    attune_status status = ATTUNE_OK;
    while (status == ATTUNE_OK && next < options->problem_count && on->result->left == 0 &&
           has_time(on, next, longest_s)) {
        int left = options->problem_count - next;
        int count = left < most ? left : most;
        double began_s = at_engine_seconds(on);
        memset(cells, 0, (size_t)most * sizeof *cells);
        status = run_cells(on, cells, next, &count);
        for (int i = 0; i < most; ++i) {
            close_cell(&cells[i]);
        }
        double took_s = at_engine_seconds(on) - began_s;
        longest_s = took_s > longest_s ? took_s : longest_s;
        next += count;
    }
    free(cells);
    on->result->left += options->problem_count - next;
    return status;
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

/* Each has a ledger, verdicts and a row of wisdom: two of one name would be one. */
static attune_status check_problem(const at_evolve_options *options, int number)
{
    char text[ATTUNE_PROBLEM_TEXT_MAX];
    AT_FORWARD(attune_problem_check(&options->problem[number].problem));
    AT_FORWARD(at_test_problem_print(&options->problem[number], text, sizeof text));
    for (int i = 0; i < number; ++i) {
        AT_FAIL_IF(at_test_problem_equal(&options->problem[i], &options->problem[number]), ATTUNE_INVALID_ARGUMENT,
                   "problem %s is named twice, as number %d and %d", text, i + 1, number + 1);
    }
    return ATTUNE_OK;
}

static attune_status check_options(const at_evolve_options *options)
{
    AT_FAIL_IF(options->problem_count < 1, ATTUNE_INVALID_ARGUMENT, "no problem is given");
    AT_FAIL_IF(options->resume && options->ledger == NULL, ATTUNE_INVALID_ARGUMENT,
               "--resume goes on with a ledger: --ledger names it");
    for (int i = 0; i < options->problem_count; ++i) {
        AT_FORWARD(check_problem(options, i));
    }
    AT_FORWARD(at_gate_check_peers(options->gate.peer, options->gate.peer_count, options->gate.own_arms));
    return options->strategy == NULL || at_strategy_find(options->strategy) != NULL ? ATTUNE_OK : ATTUNE_NOT_FOUND;
}

/* That what is found can be kept is seen before hours go into it. */
static attune_status check_places(const at_engine *on)
{
    const at_evolve_options *options = on->options;
    AT_FORWARD(options->wisdom == NULL ? ATTUNE_OK : at_wisdom_file_check(options->wisdom));
    AT_FORWARD(at_engine_check_micro(on));
    for (int i = 0; options->ledger != NULL && i < options->problem_count; ++i) {
        AT_FORWARD(at_engine_check_ledger(on, &options->problem[i]));
    }
    return options->gate.evidence == NULL
               ? ATTUNE_OK
               : at_evidence_check(options->gate.evidence, on->target.model, on->kernel->name);
}

static attune_status open_all(at_engine *on)
{
    const at_evolve_options *options = on->options;
    AT_FORWARD(check_options(options));
    AT_FORWARD(find_kernel(on));
    AT_FORWARD(check_places(on));
    AT_FORWARD(find_target(on));
    AT_FORWARD(check_places(on)); /* again: now it is known for which device's verdicts, and whose ledgers */
    AT_FORWARD(at_pool_create(options->gate.threads > 0 ? options->gate.threads : at_cpu_count(), 0, &on->pool));
    AT_FORWARD(open_planner(on));
    return open_compilers(on);
}

/* Slower is said last: whoever takes it for an answer must still hear that something is left. */
int at_evolve_exit_code(const at_evolve_result *result)
{
    enum { FINE = 0, WRONG = 1, COULD_NOT = 3, UNFINISHED = 4 };
    int done = result->gains + result->no_gains + result->voids + result->known;
    return result->wrong > 0                                               ? WRONG
           : done == 0 && result->refused > 0                              ? COULD_NOT
           : result->voids > 0 || result->unproven > 0 || result->left > 0 ? UNFINISHED
           : result->slower > 0                                            ? WRONG
                                                                           : FINE;
}

attune_status at_evolve_run(const at_evolve_options *options, at_evolve_result *result)
{
    at_engine on = {.options = options, .result = result, .began_s = at_timed_seconds()};
    *result = (at_evolve_result){0};
    attune_status status = open_all(&on);
    result->begun = status == ATTUNE_OK;
    if (status == ATTUNE_OK) {
        status = run_all(&on);
    }
    at_compilers_close(on.compilers);
    attune_context_destroy(on.planner);
    at_found_kernel_close(&on.found);
    at_pool_destroy(on.pool);
    result->exit_code = at_evolve_exit_code(result);
    return status;
}
