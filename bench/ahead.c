/* Code made ahead: a CUDA kernel's configs on some problems, compiled into the cache, so that a search or a gate on a
 * borrowed device compiles nothing there.
 *
 *     ATTUNE_CACHE=cache build/bench/ahead [--first N] [--cases N] ARCH KERNEL[:PARAM=VALUE,...] PROBLEM...
 *
 * Every config of the kernel, or those with PARAM=VALUE; with --first the first N of its own order, which with
 * PARAM=VALUE are those that the planner would take by that name. Of a stranger, whose folder is in the kernel's
 * place, the one config that the gate would judge. With --cases not for the problem alone, but for the first N cases of
 * the gate's suite on it (100, where the gate is not asked for others), of which case 0 is the problem itself. The
 * kernel `harness` is what the gate itself runs on a device, between and beside those that it judges: fp16 is what it
 * needs in any case, and the problem's dtype where it times.
 *
 * It needs a compiler and no device. What a problem's code depends on is the kernel's business: problems that differ in
 * sizes alone share theirs, and cost nothing the second time. A line for each problem on standard output.
 *
 * Exit codes: 0 all is compiled; 1 something is not, or no config of the kernel's is for a problem; 2 the command line.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/threads.h"
#include "cli/cli.h"
#include "core/problem.h"
#include "cuda/cuda.h"
#include "evolve/space.h"
#include "judge/cases.h"
#include "library/catalogue.h"
#include "measure/clock.h"
#include "stranger/stranger.h"

enum { SEED = 1 }; /* the gate's, unless it is given another */

extern const attune_kernel at_kernel_harness;

typedef struct job {
    const attune_kernel *kernel;
    at_stranger *stranger; /* whose kernel it is; NULL: the library's */
    const char *params;    /* "": none are named */
    attune_target target;
    int first, cases; /* 0: not asked for */
    at_recipe *recipe;
    int count, room;
    atomic_int refused;
    int without; /* problems with nothing to compile, or something that does not */
} job;

/* ---- What is to be compiled -------------------------------------------------------------------------------------- */

static attune_status add_recipe(job *on, const at_recipe *recipe)
{
    if (on->count == on->room) {
        int room = on->room > 0 ? 2 * on->room : 256;
        at_recipe *more = realloc(on->recipe, (size_t)room * sizeof *more);
        AT_FAIL_IF(more == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d configs", room);
        on->recipe = more;
        on->room = room;
    }
    on->recipe[on->count++] = *recipe;
    return ATTUNE_OK;
}

static attune_status add(job *on, const attune_problem *problem, const attune_config *config)
{
    at_recipe recipe;
    at_recipe_ask(on->kernel, problem, &on->target, config, &recipe);
    return add_recipe(on, &recipe);
}

static attune_status add_all(job *on, const attune_problem *problem)
{
    at_space *space;
    attune_status status = at_space_open(on->kernel, problem, &on->target, on->params, &space);
    if (status != ATTUNE_OK) {
        return status == ATTUNE_UNSUPPORTED ? ATTUNE_OK : status;
    }
    for (int i = 0; i < space->count && status == ATTUNE_OK; ++i) {
        attune_config config;
        at_space_config(space, i, &config);
        status = add(on, problem, &config);
    }
    at_space_close(space);
    return status;
}

/* The first of the kernel's order that fit; with parameters named, the likeliest that has them. */
static attune_status add_first(job *on, const attune_problem *problem)
{
    attune_config config;
    int most = on->first;
    for (int32_t i = 0; most > 0 && on->kernel->heuristic(problem, &on->target, i, &config); ++i) {
        AT_FORWARD(at_config_parse(on->kernel, on->params, &config));
        if (at_kernel_fits(on->kernel, problem, &on->target, &config, NULL)) {
            AT_FORWARD(add(on, problem, &config));
            --most;
        }
    }
    return ATTUNE_OK;
}

/* A case that the stranger does not support is none of the suite's. */
static attune_status add_of_stranger(job *on, const attune_problem *problem)
{
    at_recipe recipe;
    attune_status status = at_stranger_recipe(on->stranger, problem, &on->target, on->params, &recipe);
    if (status == ATTUNE_UNSUPPORTED) {
        return ATTUNE_OK;
    }
    return status == ATTUNE_OK ? add_recipe(on, &recipe) : status;
}

static attune_status add_problem(job *on, const attune_problem *problem)
{
    if (on->stranger != NULL) {
        return add_of_stranger(on, problem);
    }
    if (!at_kernel_supports(on->kernel, problem, &on->target, NULL)) {
        return ATTUNE_OK;
    }
    return on->first > 0 ? add_first(on, problem) : add_all(on, problem);
}

static attune_status add_cases(job *on, const at_test_problem *test)
{
    for (int64_t i = 0; i < (on->cases > 0 ? on->cases : 1); ++i) {
        at_gate_case one = {.problem = test->problem};
        if (on->cases > 0) {
            at_case_make(test, SEED, i, &one);
        }
        AT_FORWARD(add_problem(on, &one.problem));
    }
    return ATTUNE_OK;
}

/* ---- Compiling --------------------------------------------------------------------------------------------------- */

static void compile(void *context, int64_t index, void *scratch)
{
    job *on = context;
    const at_recipe *one = &on->recipe[index];
    at_cuda_usage usage;
    (void)scratch;
    if (at_cuda_inspect_recipe(one, &on->target, getenv("ATTUNE_CACHE"), &usage) != ATTUNE_OK) {
        char text[AT_KERNEL_TEXT_MAX];
        at_config_print(on->kernel, &one->config, text);
        (void)fprintf(stderr, "ahead: %s: %s\n", text, attune_last_detail());
        (void)atomic_fetch_add(&on->refused, 1);
    }
}

static attune_status compile_problem(at_pool *pool, job *on, const at_test_problem *problem, const char *text)
{
    at_clock clock = at_clock_monotonic();
    int64_t began_ns = clock.now_ns(clock.self);
    on->count = 0;
    AT_FORWARD(add_cases(on, problem));
    atomic_store(&on->refused, 0);
    at_pool_run(pool, on->count, compile, on);
    (void)printf("%s: %d configs of %s, %d refused, %.1f s\n", text, on->count, on->kernel->name,
                 atomic_load(&on->refused), 1e-9 * (double)(clock.now_ns(clock.self) - began_ns));
    (void)fflush(stdout);
    on->without += on->count == 0 || atomic_load(&on->refused) > 0;
    return ATTUNE_OK;
}

/* ---- The command line -------------------------------------------------------------------------------------------- */

/* Options come in pairs, each at most once; *at is then the first word that is none. */
static attune_status read_options(job *on, int argc, char **argv, int *at)
{
    for (*at = 1; *at + 1 < argc && argv[*at][0] == '-'; *at += 2) {
        const char *name = argv[*at];
        bool first = strcmp(name, "--first") == 0;
        int *value = first ? &on->first : &on->cases;
        int64_t number;
        AT_FAIL_IF(!first && strcmp(name, "--cases") != 0, ATTUNE_INVALID_ARGUMENT, "there is no option %s", name);
        AT_FAIL_IF(*value != 0, ATTUNE_INVALID_ARGUMENT, "%s is given twice", name);
        AT_FORWARD(at_parse_int64(name, argv[*at + 1], 1, 1000000, &number));
        *value = (int)number;
    }
    return ATTUNE_OK;
}

static attune_status read_problems(char **word, int count, at_test_problem *problem)
{
    for (int i = 0; i < count; ++i) {
        AT_FORWARD(at_test_problem_parse(word[i], &problem[i]));
        for (int k = 0; k < i; ++k) {
            AT_FAIL_IF(at_test_problem_equal(&problem[k], &problem[i]), ATTUNE_INVALID_ARGUMENT, "%s is given twice",
                       word[i]);
        }
    }
    return ATTUNE_OK;
}

static attune_status find_kernel(job *on, const char *text)
{
    char name[AT_KERNEL_TEXT_MAX];
    if (at_stranger_is_meant(text)) {
        AT_FORWARD(at_stranger_find(text, NULL, &on->stranger, &on->params));
        on->kernel = at_stranger_kernel(on->stranger);
        return ATTUNE_OK;
    }
    AT_FORWARD(at_kernel_text_split(text, name, sizeof name, &on->params));
    on->kernel = strcmp(name, at_kernel_harness.name) == 0 ? &at_kernel_harness : at_catalogue_find(name);
    AT_FAIL_IF(on->kernel == NULL || on->kernel->target != ATTUNE_TARGET_CUDA, ATTUNE_NOT_FOUND,
               "there is no CUDA kernel \"%s\"", name);
    return ATTUNE_OK;
}

static attune_status read_words(job *on, char **word, int count, at_test_problem *problem)
{
    int64_t arch;
    AT_FORWARD(find_kernel(on, word[1]));
    AT_FORWARD(at_parse_int64("ARCH", word[0], 1, 1000, &arch));
    AT_FORWARD(at_cuda_typical((int)arch, &on->target));
    return read_problems(word + 2, count - 2, problem);
}

static attune_status run(job *on, char **text, int count, const at_test_problem *problem)
{
    at_pool *pool;
    AT_FORWARD(at_pool_create(at_cpu_count(), 0, &pool));
    attune_status status = ATTUNE_OK;
    for (int i = 0; i < count && status == ATTUNE_OK; ++i) {
        status = compile_problem(pool, on, &problem[i], text[i]);
    }
    at_pool_destroy(pool);
    return status;
}

int main(int argc, char **argv)
{
    job on = {0};
    int at;
    if (argc > 1 && strcmp(argv[1], "sandbox") == 0) { /* a stranger's questions are answered by this program itself */
        return at_cli_main(argc, (const char *const *)argv, stdout, stderr);
    }
    attune_status status = read_options(&on, argc, argv, &at);
    if (status == ATTUNE_OK && argc - at < 3) {
        (void)fprintf(stderr, "usage: ahead [--first N] [--cases N] ARCH KERNEL[:PARAM=VALUE,...] PROBLEM...\n");
        return 2;
    }
    at_test_problem *problem = calloc((size_t)argc, sizeof *problem);
    if (problem == NULL) {
        status = at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for %d problems", argc);
    }
    status = status == ATTUNE_OK ? read_words(&on, argv + at, argc - at, problem) : status;
    bool begun = status == ATTUNE_OK;
    status = begun ? run(&on, argv + at + 2, argc - at - 2, problem) : status;
    free(problem);
    free(on.recipe);
    if (status != ATTUNE_OK) {
        (void)fprintf(stderr, "ahead: %s\n", attune_last_detail());
    }
    at_stranger_close(on.stranger);
    return status == ATTUNE_OK ? on.without > 0 : begun ? 1 : 2;
}
