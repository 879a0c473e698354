/* What a search begins with: what is known already, best first. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "evolve/engine_parts.h"
#include "evolve/micro.h"
#include "library/context.h"

enum { OF_ORDER = 8 };

static void add(const at_space *space, const char *config, const char *from, at_seed *seed, int *count)
{
    int candidate = at_space_find_text(space, config);
    for (int i = 0; i < *count; ++i) {
        if (seed[i].candidate == candidate) {
            return;
        }
    }
    if (candidate >= 0 && *count < AT_SEARCH_FIRST_MAX) {
        seed[(*count)++] = (at_seed){candidate, from};
    }
}

/* What would run if nothing were searched for; "" where nothing would. */
static const char *ask_planner(const at_engine *on, const at_cell *cell, char chosen[AT_KERNEL_TEXT_MAX])
{
    attune_plan *plan;
    chosen[0] = '\0';
    if (attune_plan_create(on->planner, &cell->test->problem, NULL, &plan) != ATTUNE_OK) {
        return "";
    }
    memcpy(chosen, plan->kernel_text, AT_KERNEL_TEXT_MAX);
    const char *from = plan->origin == AT_ORIGIN_HEURISTIC ? "heuristic" : "wisdom";
    attune_plan_destroy(plan);
    return from;
}

/* ---- The micro-benchmark ----------------------------------------------------------------------------------------- */

static attune_status benchmark(at_engine *on, const at_cell *cell, at_micro_best *best)
{
    enum { COMPILED = 48, ALL = 4096 };
    at_measurer *measurer;
    const at_measurer_options options = {
        .space = cell->space,
        .kernel = on->kernel,
        .test = {at_micro_slice(&cell->test->problem, on->target.kind), cell->test->length_seed},
        .target = on->target,
        .worker = &on->worker,
        .compilers = on->compilers,
        .source = on->found.stranger != NULL ? at_stranger_digest(on->found.stranger) : NULL,
        .pool = on->pool,
        .seed = on->options->gate.seed};
    AT_FORWARD(at_measurer_open(&options, &measurer));
    const at_machine machine = at_measurer_machine(measurer);
    attune_status status = at_micro_run(cell->space, &machine, on->compilers != NULL ? COMPILED : ALL, best);
    at_measurer_close(measurer);
    return status;
}

/* From the file, else benchmarked, and then kept there. What is known already, and no search, is no place for it. */
static attune_status find_micro(at_engine *on, const at_cell *cell, at_micro_best *best)
{
    at_micro_key key;
    char *path = NULL;
    const at_evolve_options *options = on->options;
    *best = (at_micro_best){0};
    if (options->exhaustive || (options->seeds != NULL && strcmp(options->seeds, "none") == 0) ||
        (options->seeds == NULL && at_path_user(AT_PLACE_CACHE, "micro.txt", &path) != ATTUNE_OK)) {
        return ATTUNE_OK;
    }
    const char *file = path != NULL ? path : options->seeds;
    at_engine_micro_key(on, cell, &key);
    attune_status status = at_micro_read(file, &key, best);
    if (status == ATTUNE_OK && best->count == 0 && !options->refresh) {
        at_engine_note(on, "micro-benchmark of tiles, for %s", file);
        status = benchmark(on, cell, best);
        status = status == ATTUNE_OK && best->count > 0 ? at_micro_write(file, &key, best) : status;
    }
    free(path);
    return status;
}

attune_status at_engine_check_micro(const at_engine *on)
{
    const char *path = on->options->seeds;
    return path == NULL || strcmp(path, "none") == 0 || on->options->one != NULL ? ATTUNE_OK : at_micro_check(path);
}

/* ---- All together ------------------------------------------------------------------------------------------------ */

/* The one config that is asked about, behind what it is held against: the likeliest that has the named parameters. */
static attune_status add_one(const at_engine *on, const at_cell *cell, at_seed *seed, int *count)
{
    attune_plan *plan;
    const attune_plan_options named = {.size = sizeof named, .kernel = on->options->one};
    attune_status status = attune_plan_create(on->planner, &cell->test->problem, &named, &plan);
    if (status != ATTUNE_OK) {
        return at_fail_in(status, "%s", cell->text);
    }
    add(cell->space, plan->kernel_text, "one", seed, count);
    attune_plan_destroy(plan);
    return ATTUNE_OK;
}

attune_status at_engine_seeds(at_engine *on, const at_cell *cell, at_seed *seed, int *count,
                              char chosen[AT_KERNEL_TEXT_MAX])
{
    at_micro_best best;
    const at_space *space = cell->space;
    const at_evolve_options *options = on->options;
    const char *from = ask_planner(on, cell, chosen);
    bool more = options->refresh && options->budget_runs > OF_ORDER;
    int of_order = options->one != NULL ? 1 : more ? options->budget_runs : OF_ORDER;
    *count = 0;
    add(space, chosen, from, seed, count);
    for (int i = 0; i < space->order_count && i < of_order; ++i) {
        char config[AT_KERNEL_TEXT_MAX];
        at_space_print(space, space->order[i], config);
        add(space, config, "heuristic", seed, count);
    }
    if (options->one != NULL) {
        *count = *count > 1 ? 1 : *count;
        return add_one(on, cell, seed, count);
    }
    for (int i = 0; i < on->learned_count && i < AT_CELLS_SOME; ++i) {
        add(space, on->learned[i], "earlier", seed, count);
    }
    AT_FORWARD(find_micro(on, cell, &best));
    for (int i = 0; i < best.count; ++i) {
        add(space, best.config[i], "micro", seed, count);
    }
    if (*count == 0 && space->count > 0) { /* a kernel whose own order fits nowhere */
        seed[(*count)++] = (at_seed){0, "first"};
    }
    return ATTUNE_OK;
}
