/* A CUDA kernel made for tests: one entry, whatever source, whatever prediction. */
#ifndef TESTS_CUDA_FIXTURE_H
#define TESTS_CUDA_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>

#include "attune/kernel.h"
#include "base/cm.h"
#include "core/config.h"
#include "core/device.h"
#include "cuda/build.h"
#include "cuda/cache.h"
#include "cuda/cuda.h"
#include "cuda/nvrtc.h"
#include "cuda/provide.h"

/* What the fixture's descriptor says; tests change it. */
typedef struct fixture_says {
    int32_t threads, smem_bytes, dynamic_bytes;
    int32_t cluster, programmatic, fill;
    const char *entry;
    int64_t workspace;
    void (*adjust)(attune_steps *steps); /* has the last word on the steps; may be NULL */
} fixture_says;

static fixture_says fixture = {.threads = 128, .cluster = 1, .entry = "entry"};

static bool fixture_valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                          attune_reason *reason)
{
    (void)problem, (void)target, (void)config, (void)reason;
    return true;
}

static void fixture_resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                              attune_resources *needs)
{
    (void)problem, (void)target, (void)config;
    *needs = (attune_resources){.threads = fixture.threads,
                                .smem_bytes = fixture.smem_bytes,
                                .workspace = attune_term_const(fixture.fill ? 1024 : fixture.workspace)};
}

static bool fixture_heuristic(const attune_problem *problem, const attune_target *target, int32_t index,
                              attune_config *config)
{
    (void)problem, (void)target;
    *config = (attune_config){{7}};
    return index == 0;
}

static void fixture_steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                          attune_steps *steps)
{
    (void)problem, (void)target, (void)config;
    attune_step kernel = {.kind = ATTUNE_STEP_KERNEL,
                          .as.kernel = {.entry = fixture.entry,
                                        .grid = {attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_Q),
                                                                 attune_term_size(ATTUNE_SIZE_BATCH)),
                                                 attune_term_const(1), attune_term_const(1)},
                                        .block = {fixture.threads, 1, 1},
                                        .cluster = {fixture.cluster, 1, 1},
                                        .smem = attune_term_const(fixture.dynamic_bytes),
                                        .programmatic = fixture.programmatic}};
    attune_step fill = {
        .kind = ATTUNE_STEP_FILL,
        .as.fill = {.offset_bytes = attune_term_const(256), .bytes = attune_term_const(512), .pattern = 0xa5a5a5a5U}};
    *steps = (attune_steps){.count = 0};
    if (fixture.fill) {
        steps->step[steps->count++] = fill;
    }
    steps->step[steps->count++] = kernel;
    if (fixture.adjust != NULL) {
        fixture.adjust(steps);
    }
}

static const int32_t fixture_value[] = {7};
static const attune_param fixture_param[] = {{"TEST_PARAM", fixture_value, 1, 0}};
static const attune_capability fixture_can[] = {ATTUNE_CAN_FORWARD(
    80, ATTUNE_BIT(ATTUNE_STEP_KERNEL) | ATTUNE_BIT(ATTUNE_STEP_FILL) | ATTUNE_BIT(ATTUNE_STEP_GEMM))};
static const attune_kernel fixture_kernel = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "fixture",
    .summary = "for tests",
    .param_count = 1,
    .params = fixture_param,
    .can = fixture_can,
    .can_count = 1,
    .valid = fixture_valid,
    .resources = fixture_resources,
    .heuristic = fixture_heuristic,
    .steps = fixture_steps,
    .source = "fixture.cu",
};
static const attune_config fixture_config = {{7}};

static inline attune_problem fixture_problem(void)
{
    attune_problem problem;
    assert_ok(attune_problem_parse("b2,h4,s64,d64,fp16", &problem));
    return problem;
}

static inline attune_target fixture_target(int arch)
{
    attune_target target;
    assert_ok(at_cuda_typical(arch, &target));
    return target;
}

/* The list of files that a build of this source sees: the library's headers, and the source as fixture.cu. */
static inline const at_embedded *fixture_sources(const char *source)
{
    enum { FILES_MAX = 96 };
    static at_embedded files[FILES_MAX];
    int count = 0;
    for (const at_embedded *file = at_cuda_sources; file->name != NULL; ++file) {
        assert_true(count < FILES_MAX - 2); /* the source and the list's end come after the library's own */
        files[count++] = *file;
    }
    files[count++] = (at_embedded){"fixture.cu", (const unsigned char *)source, strlen(source)};
    files[count] = (at_embedded){NULL, NULL, 0};
    return files;
}

/* The fixture by its descriptor, of that source. */
static inline void fixture_recipe(const attune_problem *problem, const attune_target *target, const char *source,
                                  at_recipe *recipe)
{
    at_recipe_ask(&fixture_kernel, problem, target, &fixture_config, recipe);
    recipe->sources = fixture_sources(source);
}

/* Makes the fixture of that source ready on a device. */
static inline attune_status fixture_load(at_device *device, const attune_problem *problem, const char *source,
                                         at_loaded **loaded)
{
    at_recipe recipe;
    fixture_recipe(problem, &device->target, source, &recipe);
    return device->ops->load(device, &recipe, loaded);
}

/* The compiler, or NULL where this machine has none: then what needs it is left out, and says so. A machine that must
 * have one (ATTUNE_NVRTC is set) fails instead. */
static inline at_nvrtc *fixture_compiler(void)
{
    at_nvrtc *nvrtc = NULL;
    if (at_nvrtc_open(&nvrtc) != ATTUNE_OK) {
        print_message("no run-time compiler: %s\n", attune_last_detail());
        assert_null(getenv("ATTUNE_NVRTC"));
    }
    return nvrtc;
}

/* The compiler, or none, and a cache in the folder `place` (NULL: where the library has its own). */
static inline void fixture_provider_open(at_provider *provider, const char *place)
{
    *provider = (at_provider){.nvrtc = fixture_compiler(), .cache = at_cache_place(place)};
}

static inline void fixture_provider_close(at_provider *provider)
{
    at_nvrtc_close(provider->nvrtc);
    free(provider->cache);
}

/* Compiles each row that a kernel ships for every architecture, as predicted and without spills, stack or warnings;
 * with a cache in the folder `place`. For kernels that are in no catalogue; false where there is no compiler. */
static inline bool fixture_ships(const attune_kernel *kernel, const char *place)
{
    static const int archs[] = {80, 86, 89, 90, 100, 120};
    at_provider provider;
    fixture_provider_open(&provider, place);
    for (const attune_shipped *shipped = kernel->shipped; provider.nvrtc != NULL && shipped->problem != NULL;
         ++shipped) {
        for (size_t i = 0; i < sizeof archs / sizeof archs[0]; ++i) {
            attune_target target = fixture_target(archs[i]);
            attune_problem problem;
            attune_config config;
            at_artifact artifact;
            at_recipe recipe;
            at_cubin cubin;
            assert_ok(attune_problem_parse(shipped->problem, &problem));
            assert_true(kernel->heuristic(&problem, &target, 0, &config));
            if (shipped->config[0] != '\0') {
                assert_ok(at_config_parse(kernel, shipped->config, &config));
            }
            at_recipe_ask(kernel, &problem, &target, &config, &recipe);
            assert_ok(at_provide(&provider, &recipe, &target, &artifact, &cubin));
            assert_int_equal(cubin.entry[0].spill_bytes, 0);
            assert_int_equal(cubin.entry[0].local_bytes, 0);
            assert_int_equal(cubin.warnings, 0);
            at_artifact_free(&artifact);
        }
    }
    bool compiled = provider.nvrtc != NULL;
    fixture_provider_close(&provider);
    return compiled;
}

#define FIXTURE_ENTRY(body)                                                                                            \
    "#include \"attune/args.h\"\n"                                                                                     \
    "extern \"C\" __global__ void __launch_bounds__(128) entry(const __grid_constant__ attune_args args)\n{\n" body    \
    "\n}\n"

#endif
