/* Which entries of cluster.cu are run: the device tests run these, and what needs no device compiles them
 * (tests/cuda/test_units.c). */
#ifndef TESTS_GPU_CLUSTER_H
#define TESTS_GPU_CLUSTER_H

#include "base/cm.h"
#include "core/recipe.h"

extern const at_embedded at_gpu_units[];

enum { BLOCKS = 4, CLUSTER_THREADS = 128 };

enum { EXCHANGE, CLUSTER_CASES };
typedef struct cluster_case {
    const char *entry;
    int32_t smem;
} cluster_case;
static const cluster_case cluster_cases[CLUSTER_CASES] = {
    [EXCHANGE] = {"cluster_exchange", BLOCKS *CLUSTER_THREADS * 16 + 8},
};

/* One cluster. */
static inline void cluster_recipe(const cluster_case *of, at_recipe *recipe)
{
    static const attune_kernel kernel = {.size = sizeof kernel,
                                         .abi = ATTUNE_ABI,
                                         .target = ATTUNE_TARGET_CUDA,
                                         .name = "cluster",
                                         .source = "cluster.cu"};
    *recipe = (at_recipe){.kernel = &kernel,
                          .resources = {.threads = CLUSTER_THREADS, .smem_bytes = of->smem},
                          .steps.count = 1,
                          .sources = at_gpu_units};
    recipe->resources.workspace = attune_term_const(0);
    recipe->steps.step[0].as.kernel =
        (attune_step_kernel){.entry = of->entry,
                             .grid = {attune_term_const(BLOCKS), attune_term_const(1), attune_term_const(1)},
                             .block = {CLUSTER_THREADS, 1, 1},
                             .cluster = {BLOCKS, 1, 1},
                             .smem = attune_term_const(0)};
    assert_ok(attune_problem_parse("b1,h1,s32,d64,fp16", &recipe->problem));
}

#endif
