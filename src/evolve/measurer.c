#include "evolve/measurer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "core/problem.h"
#include "cpu/source.h"
#include "evolve/patience.h"
#include "judge/executor.h"
#include "judge/timed_case.h"
#include "measure/blocks.h"
#include "stranger/wire_kernel.h"

enum { EXTRAS_MAX = AT_RACE_ARMS_MAX };

/* A worker is warm when it has worked for so long. */
static const double warm_s = 0.4;

struct at_measurer {
    at_measurer_options options;
    int extras; /* that are not of the space */
    char extra[EXTRAS_MAX][AT_KERNEL_TEXT_MAX];
    at_stranger *folder[EXTRAS_MAX]; /* of those that are folders', whose text is their parameters'; else NULL */
    int *job;                        /* [space->count], of the compilers; -1: not queued */
    at_timed_case ground;
    at_device *worker; /* NULL: the next question starts one */
    at_placement place;
    bool placed;
    double worked_s; /* of this worker */
    /* The stage. */
    at_timed timed;
    at_executor executor;
    char name[AT_RACE_ARMS_MAX][AT_KERNEL_TEXT_MAX];
    const char *arm[AT_RACE_ARMS_MAX];
    int candidate[AT_RACE_ARMS_MAX];
    int stages;
    at_random sets;
};

static void name_of(void *self, int candidate, char text[AT_KERNEL_TEXT_MAX])
{
    const at_measurer *on = self;
    if (candidate < on->options.space->count) {
        at_space_print(on->options.space, candidate, text);
    } else {
        const int extra = candidate - on->options.space->count;
        const bool folder = on->folder[extra] != NULL;
        at_text words;
        at_text_init_fixed(&words, text, AT_KERNEL_TEXT_MAX);
        if (folder) {
            at_text_add(&words, "folder %d:", extra);
        }
        at_text_add(&words, "%.480s", on->extra[extra]);
    }
}

/* ---- The worker -------------------------------------------------------------------------------------------------- */

static void close_worker(at_measurer *on)
{
    at_timed_close(&on->timed);
    if (on->placed) {
        at_placement_free(&on->place);
        on->placed = false;
    }
    if (on->worker != NULL) {
        on->worker->ops->close(on->worker);
        on->worker = NULL;
    }
    on->worked_s = 0;
}

static attune_status get_worker(at_measurer *on)
{
    if (on->worker != NULL && at_remote_is_broken(on->worker)) {
        close_worker(on);
    }
    AT_FORWARD(on->worker != NULL ? ATTUNE_OK : at_remote_open(on->options.worker, &on->worker));
    if (!on->placed) {
        AT_FORWARD(at_placement_create(on->worker, &on->ground.inputs, &on->place));
        on->placed = true;
    }
    return ATTUNE_OK;
}

/* ---- First launches ---------------------------------------------------------------------------------------------- */

/* What ends a search rather than a candidate. */
static bool ends_search(attune_status status)
{
    return status == ATTUNE_INTERRUPTED || status == ATTUNE_NO_DEVICE || status == ATTUNE_IO_ERROR ||
           at_file_interrupted();
}

static at_refused refusal_of(attune_status status)
{
    return status == ATTUNE_UNSUPPORTED     ? AT_REFUSED_RESOURCES
           : status == ATTUNE_COMPILE_ERROR ? AT_REFUSED_COMPILE
           : status == ATTUNE_WRONG_RESULT  ? AT_REFUSED_WRONG
                                            : AT_REFUSED_LAUNCH;
}

/* A folder's config is sent as a recipe, which its descriptor gave here; all else is opened by its name. */
static attune_status plan_candidate(const at_measurer *on, const attune_problem *problem, int candidate,
                                    attune_plan **plan)
{
    const at_measurer_options *options = &on->options;
    char name[AT_KERNEL_TEXT_MAX];
    attune_config config;
    at_recipe recipe;
    at_loaded *loaded;
    name_of((void *)(uintptr_t)on, candidate, name);
    *plan = NULL;
    const int extra = candidate - options->space->count;
    if (extra >= 0 && on->folder[extra] != NULL) {
        return at_stranger_plan(on->folder[extra], on->worker, problem, on->extra[extra], plan);
    }
    if (options->source == NULL || candidate >= options->space->count) {
        return at_remote_plan(on->worker, problem, name, plan);
    }
    at_space_config(options->space, candidate, &config);
    AT_FORWARD(at_recipe_ask(options->kernel, problem, &options->target, &config, &recipe));
    AT_FORWARD(on->worker->ops->load(on->worker, &recipe, &loaded));
    return at_plan_bind(problem, loaded, AT_ORIGIN_NAMED, plan);
}

static attune_status load_and_launch(at_measurer *on, double query_scale, int candidate, double *us)
{
    attune_plan *plan;
    AT_FORWARD(plan_candidate(on, &on->options.test.problem, candidate, &plan));
    attune_status status = query_scale == 1 ? at_timed_case_run(&on->ground, &on->place, plan, us)
                                            : at_timed_case_run_off(&on->ground, &on->place, plan, query_scale, us);
    attune_plan_destroy(plan);
    return status;
}

static attune_status try_queries(at_measurer *on, double query_scale, int candidate, at_first_run *seen)
{
    *seen = (at_first_run){.refused = AT_RAN};
    AT_FORWARD(get_worker(on));
    attune_status status = load_and_launch(on, query_scale, candidate, &seen->us);
    if (status != ATTUNE_OK) {
        AT_FAIL_IF(ends_search(status), status, "%s", attune_last_detail());
        seen->refused = refusal_of(status);
        (void)snprintf(seen->why, sizeof seen->why, "%.300s", attune_last_detail());
    }
    return ATTUNE_OK;
}

static attune_status try_candidate(void *self, int candidate, at_first_run *seen)
{
    return try_queries(self, 1, candidate, seen);
}

static attune_status try_mutant(void *self, int candidate, at_first_run *seen)
{
    return try_queries(self, 1.02, candidate, seen);
}

/* ---- The stage --------------------------------------------------------------------------------------------------- */

static attune_status stage_worker(void *self, int process, at_device **device)
{
    (void)process;
    *device = ((at_measurer *)self)->worker;
    return ATTUNE_OK;
}

static attune_status plan_stage(void *self, int arm, at_device *device, attune_plan **plan)
{
    const at_measurer *on = self;
    (void)device; /* the only one */
    return plan_candidate(on, &on->options.test.problem, on->candidate[arm], plan);
}

static attune_status judge_stage(void *self, at_inputs *inputs)
{
    (void)inputs; /* they are the ground's own */
    return at_timed_case_judge(&((at_measurer *)self)->ground);
}

static double seconds(void *self)
{
    (void)self;
    return at_timed_seconds();
}

typedef struct timed_block {
    at_measurer *on;
    const int *order;
    int count;
} timed_block;

static attune_status time_block(void *self, at_block *block)
{
    const timed_block *wanted = self;
    at_measurer *on = wanted->on;
    const at_block_order order = {wanted->order, wanted->count, at_random_next(&on->sets), 0};
    const double began = at_timed_seconds();
    AT_FORWARD(on->executor.block(on->executor.self, &order, block));
    on->worked_s += at_timed_seconds() - began;
    return ATTUNE_OK;
}

static void pause_for(void *self, double seconds)
{
    (void)self;
    (void)usleep((useconds_t)(1e6 * seconds));
}

static attune_status run_block(at_measurer *on, const int *order, int count, at_block *block)
{
    timed_block wanted = {on, order, count};
    const at_patience patience = {&wanted, time_block, pause_for};
    return at_patience_block(&patience, block);
}

static attune_status take_block(void *self, const int *order, int count, double (*us)[2])
{
    at_block block;
    AT_FORWARD(run_block(self, order, count, &block));
    memcpy(us, block.us, sizeof block.us);
    return ATTUNE_OK;
}

static bool is_warm(void *self, int blocks, double spent_s)
{
    const at_measurer *on = self;
    (void)blocks, (void)spent_s;
    return on->worked_s >= warm_s;
}

static attune_status warm_up(at_measurer *on)
{
    at_blocks blocks = {.self = on,
                        .clock = on->executor.clock,
                        .order = at_order_seed(at_random_next(&on->sets), on->timed.arm_count),
                        .take = take_block,
                        .warm = is_warm};
    return at_blocks_warm_up(&blocks, NULL);
}

/* Failures of one arm begin with its name; the copy of the first has the first one's. */
static int blamed(const at_measurer *on, const char *detail)
{
    for (int i = 0; i < on->timed.arm_count; ++i) {
        size_t length = strlen(on->name[i]);
        if (strncmp(detail, on->name[i], length) == 0 && detail[length] == ':') {
            return i;
        }
    }
    return -1;
}

static attune_status stage_arms(at_measurer *on)
{
    at_staged staged = {.calls = {0}};
    AT_FORWARD(on->executor.start(on->executor.self, on->stages));
    AT_FORWARD(on->executor.stage(on->executor.self, AT_MODE_WARM, &staged));
    attune_status status = warm_up(on);
    if (status != ATTUNE_OK) {
        char why[AT_SENTENCE_MAX];
        (void)snprintf(why, sizeof why, "%s", attune_last_detail());
        (void)on->executor.unstage(on->executor.self);
        return at_fail(status, "%s", why);
    }
    return ATTUNE_OK;
}

static attune_status stage(void *self, const int *candidate, int count, int *culprit, at_first_run *seen)
{
    at_measurer *on = self;
    AT_FORWARD(get_worker(on));
    for (int i = 0; i < count; ++i) {
        name_of(on, candidate[i], on->name[i]);
        on->candidate[i] = candidate[i];
        on->arm[i] = on->name[i];
    }
    on->timed = (at_timed){.problem = on->options.test.problem,
                           .inputs = &on->ground.inputs,
                           .arm = on->arm,
                           .arm_count = count,
                           .worker = stage_worker,
                           .plan = plan_stage,
                           .judge = judge_stage,
                           .confined = on->options.worker->confined,
                           .self = on};
    on->executor = at_timed_executor(&on->timed);
    ++on->stages;
    attune_status status = stage_arms(on);
    if (status == ATTUNE_OK) {
        return ATTUNE_OK;
    }
    *seen = (at_first_run){.refused = refusal_of(status)};
    (void)snprintf(seen->why, sizeof seen->why, "%.300s", attune_last_detail());
    *culprit = blamed(on, seen->why);
    at_timed_close(&on->timed);
    return *culprit >= 0 && !ends_search(status) ? ATTUNE_OK : at_fail(status, "%s", seen->why);
}

static attune_status block(void *self, const int *order, int count, double (*us)[2], int *culprit, at_first_run *seen)
{
    at_measurer *on = self;
    at_block block;
    AT_FORWARD(run_block(on, order, count, &block));
    for (int i = 0; i < on->timed.arm_count; ++i) {
        memcpy(us[i], block.us[i], sizeof block.us[i]);
        if (block.wrong[i] > 0 && *culprit < 0) {
            *culprit = i;
            *seen = (at_first_run){.refused = AT_REFUSED_WRONG};
            (void)snprintf(seen->why, sizeof seen->why,
                           "%.200s: %d timed calls gave another result than before they were timed", on->name[i],
                           block.wrong[i]);
        }
    }
    return ATTUNE_OK;
}

static attune_status unstage(void *self)
{
    at_measurer *on = self;
    attune_status status = on->executor.unstage(on->executor.self);
    at_timed_close(&on->timed);
    return status;
}

static attune_status renew(void *self)
{
    close_worker(self);
    return ATTUNE_OK;
}

/* ---- How candidates are made ------------------------------------------------------------------------------------- */

static attune_status ahead(void *self, int candidate)
{
    at_measurer *on = self;
    char name[AT_KERNEL_TEXT_MAX];
    if (on->options.compilers == NULL || candidate >= on->options.space->count || on->job[candidate] >= 0) {
        return ATTUNE_OK;
    }
    name_of(on, candidate, name);
    return at_compilers_add(on->options.compilers, name, &on->options.test.problem, false, &on->job[candidate]);
}

static attune_status compile(at_measurer *on, int candidate, at_variant *variant)
{
    at_compiled compiled;
    AT_FORWARD(ahead(on, candidate));
    AT_FORWARD(at_compilers_wait(on->options.compilers, on->job[candidate], &compiled));
    variant->build = compiled.build;
    variant->seconds = compiled.seconds;
    if (compiled.status == ATTUNE_OK && compiled.build.blocks_sm == 0) {
        variant->refused = AT_REFUSED_RESOURCES;
        (void)snprintf(variant->why, sizeof variant->why,
                       "%d registers a thread, %d threads and %d B of shared memory: no block of it fits",
                       compiled.build.registers, compiled.build.threads, compiled.build.smem_bytes);
    } else if (compiled.status != ATTUNE_OK) {
        variant->refused = compiled.status == ATTUNE_UNSUPPORTED ? AT_REFUSED_RESOURCES : AT_REFUSED_COMPILE;
        (void)snprintf(variant->why, sizeof variant->why, "%.300s", compiled.why);
    }
    return ATTUNE_OK;
}

/* What is launched is more than code: how many blocks of how many threads, with how much shared memory. */
static attune_status digest_code(const at_recipe *recipe, const char *name, at_variant *variant)
{
    at_text text;
    json_t *plan = at_wire_from_plan(&recipe->resources, &recipe->steps);
    AT_FAIL_IF(plan == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a digest");
    bool known = variant->build.cubin[0] != '\0'; /* else a config is taken to have code of its own */
    at_text_init(&text);
    at_text_add(&text, "%s\n%s\n", known ? variant->build.cubin : variant->build.source, known ? "" : name);
    at_json_print(plan, &text);
    json_decref(plan);
    attune_status status = at_text_status(&text, "what is launched");
    at_digest_of(text.data, text.length, variant->code);
    at_text_free(&text);
    return status;
}

static attune_status describe(at_measurer *on, int candidate, at_variant *variant)
{
    char name[AT_KERNEL_TEXT_MAX];
    at_recipe recipe;
    attune_config config;
    name_of(on, candidate, name);
    at_space_config(on->options.space, candidate, &config);
    AT_FORWARD(at_recipe_ask(on->options.kernel, &on->options.test.problem, &on->options.target, &config, &recipe));
    for (int i = recipe.steps.count - 1; i >= 0; --i) {
        if (recipe.steps.step[i].kind == ATTUNE_STEP_KERNEL) {
            (void)snprintf(variant->entry, sizeof variant->entry, "%s", recipe.steps.step[i].as.kernel.entry);
        }
    }
    memcpy(variant->source, variant->build.source, sizeof variant->source);
    return digest_code(&recipe, name, variant);
}

/* Without compilers there is no code to look at before it is loaded. */
static attune_status build(void *self, int candidate, at_variant *variant)
{
    at_measurer *on = self;
    *variant = (at_variant){.refused = AT_RAN};
    if (on->options.compilers != NULL) {
        AT_FORWARD(compile(on, candidate, variant));
    } else if (on->options.source != NULL) {
        memcpy(variant->build.source, on->options.source, sizeof variant->build.source);
    } else if (at_cpu_source_digest(on->options.kernel->name, variant->build.source) != ATTUNE_OK) {
        variant->build.source[0] = '\0';
    }
    return variant->refused != AT_RAN ? ATTUNE_OK : describe(on, candidate, variant);
}

static attune_status ask_built(at_measurer *on, int candidate, at_build_facts *built,
                               char function[AT_FUNCTION_TEXT_MAX])
{
    attune_plan *plan;
    AT_FORWARD(get_worker(on));
    AT_FORWARD(plan_candidate(on, &on->options.test.problem, candidate, &plan));
    attune_status status = at_built_ask(on->worker, plan, built, function);
    attune_plan_destroy(plan);
    return status;
}

static attune_status proof(void *self, int candidate, char function[AT_FUNCTION_TEXT_MAX])
{
    at_build_facts facts;
    return ask_built(self, candidate, &facts, function);
}

attune_status at_measurer_built(at_measurer *on, int candidate, at_build_facts *built)
{
    return ask_built(on, candidate, built, NULL);
}

attune_status at_measurer_found(const at_measurer *on, at_finding *found)
{
    return at_judge_case(&on->ground.truth.one, found, NULL);
}

attune_status at_measurer_spread(const at_measurer *on, double quantile[2])
{
    const at_case *one = &on->ground.truth.one;
    const size_t count = (size_t)one->rows->count;
    double *error = calloc(count + 1, sizeof *error);
    AT_FAIL_IF(error == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for the errors of rows");
    at_judge_rows(one, error);
    at_sort(error, count);
    quantile[0] = count > 0 ? at_quantile(error, count, 0.5) : 0;
    quantile[1] = count > 0 ? at_quantile(error, count, 0.99) : 0;
    free(error);
    return ATTUNE_OK;
}

/* ---- Opening and closing ----------------------------------------------------------------------------------------- */

attune_status at_measurer_add(at_measurer *on, const char *kernel_text, int *number)
{
    AT_FAIL_IF(on->extras == EXTRAS_MAX, ATTUNE_INVALID_ARGUMENT, "more than %d besides the candidates", EXTRAS_MAX);
    (void)snprintf(on->extra[on->extras], sizeof on->extra[0], "%s", kernel_text);
    *number = on->options.space->count + on->extras++;
    return ATTUNE_OK;
}

attune_status at_measurer_add_folder(at_measurer *on, at_stranger *stranger, const char *params, int *number)
{
    AT_FORWARD(at_measurer_add(on, params, number));
    on->folder[on->extras - 1] = stranger;
    return ATTUNE_OK;
}

void at_measurer_forget(at_measurer *on)
{
    on->extras = 0;
    memset(on->folder, 0, sizeof on->folder);
}

attune_status at_measurer_open(const at_measurer_options *options, at_measurer **measurer)
{
    *measurer = NULL;
    at_measurer *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to race");
    made->options = *options;
    made->sets = at_random_seed(options->seed, 0x6c697665);
    made->job = malloc(((size_t)options->space->count + 1) * sizeof *made->job);
    attune_status status = made->job == NULL ? at_fail(ATTUNE_OUT_OF_MEMORY, "no memory to race") : ATTUNE_OK;
    for (int i = 0; status == ATTUNE_OK && i < options->space->count; ++i) {
        made->job[i] = -1;
    }
    bool acc16 = (options->kernel->traits & ATTUNE_TRAIT_ACC16) != 0;
    status = status == ATTUNE_OK
                 ? at_timed_case_draw(&options->test, options->seed, acc16, options->pool, NULL, &made->ground)
                 : status;
    if (status != ATTUNE_OK) {
        at_measurer_close(made);
        return status;
    }
    *measurer = made;
    return ATTUNE_OK;
}

void at_measurer_close(at_measurer *on)
{
    if (on == NULL) {
        return;
    }
    close_worker(on);
    at_timed_case_free(&on->ground);
    free(on->job);
    free(on);
}

at_machine at_measurer_machine(at_measurer *on)
{
    return (at_machine){.racer = {on, try_candidate, stage, block, unstage, renew},
                        .self = on,
                        .prefetch = on->options.compilers != NULL ? ahead : NULL,
                        .build = build,
                        .function = proof,
                        .mutant = try_mutant,
                        .seconds = seconds,
                        .name = name_of};
}
