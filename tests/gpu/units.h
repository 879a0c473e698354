/* Which entries of units.cu are run, and as what they are compiled: the device tests run these, and what needs no
 * device compiles them (tests/cuda/test_units.c). */
#ifndef TESTS_GPU_UNITS_H
#define TESTS_GPU_UNITS_H

#include <stdio.h>

#include "base/cm.h"
#include "core/recipe.h"

extern const at_embedded at_gpu_units[];

enum { UNIT_THREADS = 64, DIM = 64 };

typedef struct unit_case {
    const char *entry, *dtype;
    int fragment_m, tensor_cores;
    int32_t smem; /* what the entry's arrays take, as the compiler lays them out */
} unit_case;

#define FRAGMENT(dtype, m, tensor_cores)                                                                               \
    {                                                                                                                  \
        "unit_fragment", dtype, m, tensor_cores, 4 * 1024 + (m)*4                                                      \
    }
static const unit_case unit_cases[] = {
    {"unit_reduction", "fp16", 16, 1, 0},
    {"unit_tile", "fp16", 16, 1, 16 * (DIM + 8) * 6 + 16 * DIM * 2},
    {"unit_tile", "bf16", 16, 1, 16 * (DIM + 8) * 6 + 16 * DIM * 2},
    {"unit_fragment16", "fp16", 16, 1, 3 * 16 * DIM * 2},
    {"unit_fragment16", "bf16", 16, 1, 3 * 16 * DIM * 2},
    FRAGMENT("fp16", 8, 0),
    FRAGMENT("bf16", 8, 0),
    FRAGMENT("fp16", 8, 1),
    FRAGMENT("bf16", 8, 1),
    FRAGMENT("fp16", 16, 0),
    FRAGMENT("bf16", 16, 0),
    FRAGMENT("fp16", 16, 1),
    FRAGMENT("bf16", 16, 1),
    FRAGMENT("fp16", 32, 0),
    FRAGMENT("bf16", 32, 0),
    FRAGMENT("fp16", 32, 1),
    FRAGMENT("bf16", 32, 1),
    {"unit_barrier", "fp16", 16, 1, 2 * 512 + 32},
    {"unit_softmax", "fp16", 16, 1, 0},
};
#undef FRAGMENT
enum { UNIT_CASES = sizeof unit_cases / sizeof *unit_cases };

/* One block. */
static inline void unit_recipe(const unit_case *of, at_recipe *recipe)
{
    static const attune_param params[] = {{.name = "FRAGMENT_M"}, {.name = "TENSOR_CORES"}};
    static const attune_kernel kernel = {.size = sizeof kernel,
                                         .abi = ATTUNE_ABI,
                                         .target = ATTUNE_TARGET_CUDA,
                                         .name = "units",
                                         .param_count = 2,
                                         .params = params,
                                         .source = "units.cu"};
    char text[64];
    *recipe = (at_recipe){.kernel = &kernel,
                          .config = {{of->fragment_m, of->tensor_cores}},
                          .resources = {.threads = UNIT_THREADS, .smem_bytes = of->smem},
                          .steps.count = 1,
                          .sources = at_gpu_units};
    recipe->resources.workspace = attune_term_const(0);
    recipe->steps.step[0].as.kernel =
        (attune_step_kernel){.entry = of->entry,
                             .grid = {attune_term_const(1), attune_term_const(1), attune_term_const(1)},
                             .block = {UNIT_THREADS, 1, 1},
                             .cluster = {1, 1, 1},
                             .smem = attune_term_const(0)};
    (void)snprintf(text, sizeof text, "b1,h1,s16,d%d,%s", DIM, of->dtype);
    assert_ok(attune_problem_parse(text, &recipe->problem));
}

#endif
