/* wmma_acc16: descriptor, wmma's but for how sums are carried. */
#include "wmma.h"

static const at_wmma_kind kind16 = {"fwd_wmma_acc16", true};

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    return at_wmma_supports(&kind16, problem, target, reason);
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)target;
    return at_wmma_valid(&kind16, problem, config, reason);
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    (void)target;
    at_wmma_resources(&kind16, problem, config, out);
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    return at_wmma_heuristic(&kind16, problem, target, index, config);
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    (void)target;
    at_wmma_steps(&kind16, problem, config, out);
}

static const attune_shipped shipped[] = {
    {"b1,h8,s512,d64,fp16", ""},
    {"b8,h16,s2048,d128,fp16", ""},
    {NULL, NULL},
};

static const attune_capability can[] = {
    {.ops = ATTUNE_BIT(ATTUNE_FORWARD),
     .dtypes = ATTUNE_BIT(ATTUNE_FP16),
     .features = ATTUNE_FEATURES_FORWARD & ~(uint32_t)ATTUNE_FEATURE_STRICT,
     .offsets = ATTUNE_OFFSETS_FORWARD,
     .biases = ATTUNE_BIASES_FORWARD,
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {16, 256, 16},
     .head_dim_v = {16, 256, 16},
     .align = 16,
     .arch_least = 80,
     .arch_most = ATTUNE_ANY,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)},
};

extern const attune_kernel at_kernel_wmma_acc16;
const attune_kernel at_kernel_wmma_acc16 = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "wmma_acc16",
    .summary = "wmma with sums carried in fp16: declared, and never chosen unless named",
    .traits = ATTUNE_TRAIT_TAINTS | ATTUNE_TRAIT_ACC16 | ATTUNE_TRAIT_NAMED_ONLY,
    .param_count = AT_WMMA_PARAMS,
    .params = at_wmma_params,
    .shipped = shipped,
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .supports = supports,
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
    .source = "wmma_acc16.cu",
};
