/* cpu_merge: partial results into one, by their LSE. docs/cpu.md explains it. */
#include "single.h"
#include "tiers.h"

enum { ROWS = 8 }; /* of an item, as in the source */

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem;
    (void)target;
    (void)config;
    attune_term blocks = attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), attune_term_const(ROWS));
    attune_term heads = attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_Q), attune_term_size(ATTUNE_SIZE_BATCH));
    single_step("attune_cpu_merge", attune_term_mul(blocks, heads), list);
}

DECLARE_EVERY_TIER(attune_cpu_merge);

extern const attune_kernel at_kernel_cpu_merge;

static const attune_capability can[] = {
    {.ops = ATTUNE_BIT(ATTUNE_MERGE),
     .dtypes = ATTUNE_DTYPES_FORWARD,
     .dtypes_o = ATTUNE_DTYPES_FORWARD,
     .features = ATTUNE_FEATURE_SINK,
     .offsets = ATTUNE_OFFSETS_FORWARD,
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {1, 256, 1},
     .head_dim_v = {1, 256, 1},
     .align = 1,
     .arch_least = ATTUNE_ISA_BASELINE,
     .arch_most = ATTUNE_ANY,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)},
};

const attune_kernel at_kernel_cpu_merge = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CPU,
    .name = "cpu_merge",
    .summary = "partial results over different keys into one, by their LSE",
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .valid = single_valid,
    .resources = single_resources,
    .heuristic = single_heuristic,
    .steps = steps,
    .attend = EVERY_TIER(attune_cpu_merge),
};
