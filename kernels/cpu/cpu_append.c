/* cpu_append: new keys and values into a cache, row by row. docs/cpu.md explains it. */
#include "single.h"
#include "tiers.h"

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem;
    (void)target;
    (void)config;
    single_step("attune_cpu_append", attune_term_size(ATTUNE_SIZE_TOTAL_Q), list); /* the new rows */
}

DECLARE_EVERY_TIER(attune_cpu_append);

extern const attune_kernel at_kernel_cpu_append;

static const attune_capability can[] = {
    {.ops = ATTUNE_BIT(ATTUNE_APPEND),
     .dtypes = ATTUNE_DTYPES_FORWARD,
     .dtypes_k = ATTUNE_DTYPES_FORWARD,
     .dtypes_v = ATTUNE_DTYPES_FORWARD,
     .features = ATTUNE_FEATURE_SEQUSED | ATTUNE_FEATURE_VARLEN | ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_PAGED_V |
                 ATTUNE_FEATURE_SLOTS,
     .offsets = ATTUNE_OFFSETS_FORWARD,
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {1, 256, 1},
     .head_dim_v = {1, 256, 1},
     .align = 1,
     .arch_least = ATTUNE_ISA_BASELINE,
     .arch_most = ATTUNE_ANY,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)},
};

const attune_kernel at_kernel_cpu_append = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CPU,
    .name = "cpu_append",
    .summary = "new keys and values into a cache, in one piece or in pages",
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .valid = single_valid,
    .resources = single_resources,
    .heuristic = single_heuristic,
    .steps = steps,
    .attend = EVERY_TIER(attune_cpu_append),
};
