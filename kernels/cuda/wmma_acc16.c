/* wmma_acc16: descriptor, wmma's but for how sums are carried. */
#include "wmma.h"

static const wmma_kind kind = {"fwd_wmma_acc16", true};

static const attune_shipped shipped[] = {
    {"b1,h8,s512,d64,fp16", ""},
    {"b8,h16,s2048,d128,fp16", ""},
    {NULL, NULL},
};

static const attune_capability can[] = {
    AT_CAN_TILES(ATTUNE_BIT(ATTUNE_FP16), ATTUNE_FEATURES_FORWARD & ~(uint32_t)ATTUNE_FEATURE_STRICT,
                 ATTUNE_BIASES_FORWARD, DIM_STEP, DIM_MAX),
};

extern const attune_kernel at_kernel_wmma_acc16;
const attune_kernel at_kernel_wmma_acc16 = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "wmma_acc16",
    .summary = "wmma with sums carried in fp16: declared, and never chosen unless named",
    .traits = ATTUNE_TRAIT_TAINTS | ATTUNE_TRAIT_ACC16 | ATTUNE_TRAIT_NAMED_ONLY,
    .param_count = PARAMS,
    .params = params,
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
