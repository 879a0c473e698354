/* The kernel under test as a CPU kernel: its code behind a model of CUDA's words (cuda_modelled/), compiled anew for
 * each plan with the next config that fits. */
#ifndef TESTS_KERNELS_MODELLED_H
#define TESTS_KERNELS_MODELLED_H

#include "base/cm.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/text.h"
#include "core/config.h"
#include "core/term.h"
#include "cuda/build.h"
#include "cuda/cuda.h"
#include "kernels/cuda_modelled/run.h"
#include "library/catalogue.h"
#include "library/context.h"

enum { FAR = 1327 }; /* from a config to the next, a prime */

/* The kernel under test, and its code for the plan that was made last. */
static struct {
    const attune_kernel *kernel;
    const char *params;
    attune_target target;
    attune_steps fills, steps; /* what the CPU's device does before; kernels */
    attune_config config;
    model_step run[ATTUNE_STEPS_MAX];
    model_runner *runner; /* of model.cc */
    folder folder;
    attune_context *context;
    uint64_t turn; /* of configs */
} model;

static int model_open(void **state)
{
    attune_options options;
    (void)state;
    attune_options_init(&options);
    options.target = "cpu";
    options.threads = 1; /* blocks have one memory */
    assert_ok(at_cuda_typical(90, &model.target));
    assert_ok(attune_context_create(&options, &model.context));
    return folder_make(&model.folder);
}

static int model_close(void **state)
{
    (void)state;
    attune_context_destroy(model.context);
    folder_remove(&model.folder);
    return 0;
}

static void skip_without_compiler(void)
{
#ifdef ATTUNE_SANITIZED
    skip(); /* a sanitizer knows one stack a thread */
#endif
    if (system("c++ --version > /dev/null 2>&1") != 0) { /* NOLINT(cert-env33-c) */
        skip();
    }
}

/* ---- A CPU kernel whose work items are blocks -------------------------------------------------------------------- */

/* How many blocks a step has, across and in all. */
static void blocks_of(const attune_args *args, int step, int64_t *across, int64_t *all)
{
    at_sizes sizes;
    int64_t down = 0;
    at_sizes_fill(&sizes, args, &model.target);
    assert_ok(at_term_evaluate(&model.steps.step[step].as.kernel.grid[0], &sizes, across));
    assert_ok(at_term_evaluate(&model.steps.step[step].as.kernel.grid[1], &sizes, &down));
    *all = *across * down;
}

/* A block of the first step; after its last the other steps, block by block. */
static void attend(const attune_args *args, int64_t item, void *scratch)
{
    int64_t across = 0, all = 0;
    (void)scratch;
    blocks_of(args, 0, &across, &all);
    model.runner(&model.run[0], args, (unsigned)(item % across), (unsigned)(item / across), (unsigned)across,
                 (unsigned)(all / across));
    for (int step = 1; item == all - 1 && step < model.steps.count; ++step) {
        int64_t count = 0;
        blocks_of(args, step, &across, &count);
        for (int64_t i = 0; i < count; ++i) {
            model.runner(&model.run[step], args, (unsigned)(i % across), (unsigned)(i / across), (unsigned)across,
                         (unsigned)(count / across));
        }
    }
}

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)target;
    return model.kernel->supports == NULL || model.kernel->supports(problem, &model.target, reason);
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)problem, (void)target, (void)config, (void)reason;
    return true;
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    attune_resources own;
    (void)target, (void)config;
    model.kernel->resources(problem, &model.target, &model.config, &own);
    *out = (attune_resources){.workspace = own.workspace};
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    (void)problem, (void)target;
    *config = (attune_config){{0}};
    return index == 0;
}

/* A CPU has threads where the modelled GPU has multiprocessors. */
static attune_term of_modelled(attune_term term)
{
    for (int i = 0; i < attune_term_length(&term); ++i) {
        if (term.op[i] == ATTUNE_TERM_SIZE && term.value[i] == ATTUNE_SIZE_SM_COUNT) {
            term.op[i] = ATTUNE_TERM_CONST;
            term.value[i] = model.target.sm_count;
        }
    }
    return term;
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    (void)problem, (void)target, (void)config;
    const attune_step_kernel *first = &model.steps.step[0].as.kernel;
    const attune_term grid[2] = {of_modelled(first->grid[0]), of_modelled(first->grid[1])};
    *out = model.fills;
    out->step[out->count++] = (attune_step){.kind = ATTUNE_STEP_KERNEL,
                                            .as.kernel = {.entry = "model",
                                                          .grid = {grid[0], grid[1], attune_term_const(1)},
                                                          .block = {1, 1, 1},
                                                          .cluster = {1, 1, 1},
                                                          .smem = attune_term_const(0)}};
}

/* What the kernel under test computes, on a CPU of any tier. */
static const attune_kernel *model_kernel(void)
{
    static attune_kernel kernel;
    static attune_capability can[ATTUNE_CAN_MAX];
    kernel = (attune_kernel){.size = sizeof kernel,
                             .abi = ATTUNE_ABI,
                             .target = ATTUNE_TARGET_CPU,
                             .name = "model",
                             .summary = "a CUDA kernel on a CPU",
                             .traits = model.kernel->traits,
                             .can = can,
                             .can_count = model.kernel->can_count,
                             .supports = supports,
                             .valid = valid,
                             .resources = resources,
                             .heuristic = heuristic,
                             .steps = steps};
    for (int32_t i = 0; i < kernel.can_count; ++i) {
        can[i] = model.kernel->can[i];
        can[i].arch_least = ATTUNE_ISA_BASELINE;
    }
    for (int isa = 0; isa < ATTUNE_ISA_COUNT; ++isa) {
        kernel.attend[isa] = attend;
    }
    return &kernel;
}

/* ---- Its code ---------------------------------------------------------------------------------------------------- */

/* Whether the model runs all of a config's steps: fills, and kernels behind them. */
static bool has_known_steps(const attune_problem *problem, const attune_config *config)
{
    attune_steps asked;
    model.kernel->steps(problem, &model.target, config, &asked);
    for (int i = 0; i < asked.count; ++i) {
        const bool after = i > 0 && asked.step[i - 1].kind == ATTUNE_STEP_KERNEL;
        if (asked.step[i].kind != ATTUNE_STEP_KERNEL && (asked.step[i].kind != ATTUNE_STEP_FILL || after)) {
            return false;
        }
    }
    return true;
}

static void take_steps(const attune_steps *asked)
{
    model.steps = model.fills = (attune_steps){0};
    for (int i = 0; i < asked->count; ++i) {
        attune_steps *to = asked->step[i].kind == ATTUNE_STEP_FILL ? &model.fills : &model.steps;
        to->step[to->count++] = asked->step[i];
    }
}

/* Another of those that fit each time; with the parameters that are named, if any such does. */
static attune_config next_config(const attune_problem *problem)
{
    const uint64_t count = at_config_count(model.kernel);
    attune_config config;
    uint64_t tries = 0;
    do {
        at_config_at(model.kernel, model.turn++ * FAR % count, &config);
        assert_ok(at_config_parse(model.kernel, tries++ < count ? model.params : "", &config));
    } while (!at_kernel_fits(model.kernel, problem, &model.target, &config, NULL) ||
             !has_known_steps(problem, &config));
    return config;
}

#define MODELLED ATTUNE_SOURCE_DIR "/tests/kernels/cuda_modelled"

/* Compiles a file of the model to a library. */
static void compile(const char *options, const char *file, const char *path)
{
    char words[8192];
    at_text command;
    at_text_init_fixed(&command, words, sizeof words);
    at_text_add(&command, "c++ -w -Wno-psabi -std=gnu++17 -fPIC -shared -fno-strict-aliasing -ffp-contract=off "
                          "-fno-rtti -fno-exceptions -fno-gnu-unique");
    at_text_add(&command, " -I%s -I%s/kernels/cuda -I%s/include%s %s/%s -o %s", MODELLED, ATTUNE_SOURCE_DIR,
                ATTUNE_SOURCE_DIR, options, MODELLED, file, path);
    assert_ok(at_text_status(&command, "a command"));
    if (system(words) != 0) { /* NOLINT(cert-env33-c): a test's own words */
        fail_msg("does not compile: %s", words);
    }
}

/* The kernel behind the definitions that the device's compiler is given; for an architecture without its own words. It
 * runs a few times: compiling it takes as long, and better code would not be worth its making. */
static void compile_kernel(const at_build *build, const char *source, const attune_steps *steps, const char *path)
{
    char words[7168];
    at_text options;
    at_text_init_fixed(&options, words, sizeof words);
    at_text_add(&options, " -Og -march=native -DATTUNE_ARCH=80 -DATTUNE_ARCH_FEATURES=0 '-DMODEL_SOURCE=\"%s\"'",
                source);
    for (int i = 0; i < build->option_count; ++i) {
        if (strncmp(build->option[i], "-D", 2) == 0 && strncmp(build->option[i], "-DATTUNE_ARCH", 13) != 0) {
            at_text_add(&options, " %s", build->option[i]);
        }
    }
    for (int i = 0; i < steps->count; ++i) {
        at_text_add(&options, "%s%s", i == 0 ? " -DMODEL_ENTRIES=" : ",", steps->step[i].as.kernel.entry);
    }
    assert_ok(at_text_status(&options, "options"));
    compile(words, "kernel.cc", path);
}

/* What runs blocks, for all kernels: they find it by its names. */
static void load_runner(void)
{
    char path[PATH_MAX];
    folder_path(&model.folder, "model.so", path);
    compile(" -O2", "model.cc", path);
    void *code = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    assert_non_null(code);
    *(void **)&model.runner = dlsym(code, "model_run");
    assert_non_null(model.runner);
}

static void describe_step(void *code, int index, int smem_bytes)
{
    const attune_step_kernel *step = &model.steps.step[index].as.kernel;
    assert_true(step->map_count <= MODEL_MAPS_MOST);
    model.run[index] = (model_step){.index = index,
                                    .threads = step->block[0],
                                    .cluster = step->cluster[0],
                                    .smem_bytes = smem_bytes,
                                    .maps = step->map_count};
    *(void **)&model.run[index].enter = dlsym(code, "model_enter");
    assert_non_null(model.run[index].enter);
    for (int i = 0; i < step->map_count; ++i) {
        model.run[index].map[i].role = step->map[i].role;
        model.run[index].map[i].rows = step->map[i].box[1];
    }
}

/* The code of a recipe's definitions and that source, compiled once. */
static void *load_code(const at_recipe *recipe, const char *source, const attune_steps *steps)
{
    static at_build build;
    char name[AT_DIGEST_TEXT_MAX + 64], path[PATH_MAX];
    assert_ok(at_build_gather(recipe, &model.target, &build));
    (void)snprintf(name, sizeof name, "%s.%s.so", build.digest, source);
    folder_path(&model.folder, name, path);
    if (model.runner == NULL) {
        load_runner();
    }
    if (access(path, R_OK) != 0) {
        compile_kernel(&build, source, steps, path);
    }
    void *code = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(code);
    return code;
}

static inline attune_status plan_modelled(void *self, const attune_problem *problem, attune_plan **plan)
{
    at_recipe recipe;
    (void)self;
    if (!at_kernel_supports(model.kernel, problem, &model.target, NULL)) {
        return at_plan_kernel(model.context, problem, model_kernel(), "", plan);
    }
    model.config = next_config(problem);
    assert_ok(at_recipe_ask(model.kernel, problem, &model.target, &model.config, &recipe));
    take_steps(&recipe.steps);
    void *code = load_code(&recipe, model.kernel->source, &model.steps);
    for (int i = 0; i < model.steps.count; ++i) {
        describe_step(code, i, recipe.resources.smem_bytes);
    }
    return at_plan_kernel(model.context, problem, model_kernel(), "", plan);
}

/* A file of the model's own, of one entry, behind the definitions of model.kernel for the problem: a block of a warp.
 */
static inline void load_unit(const attune_problem *problem, const char *source, const char *entry)
{
    const attune_steps steps = {.count = 1,
                                .step = {{.as.kernel = {.entry = entry, .block = {32, 1, 1}, .cluster = {1, 1, 1}}}}};
    at_recipe recipe;
    model.config = next_config(problem);
    assert_ok(at_recipe_ask(model.kernel, problem, &model.target, &model.config, &recipe));
    model.steps = steps;
    describe_step(load_code(&recipe, source, &steps), 0, 0);
}

#endif
