/* guarded: descriptor. Its workspace holds the counts of device/guard.cuh, zeroed by its first step. */
#include "tiled.h"

enum { DIAGNOSTIC_BYTES = 16 };

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    at_tiled_resources(problem, target, config, out);
    out->workspace = attune_term_const(DIAGNOSTIC_BYTES);
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    (void)target;
    attune_step clear = {.kind = ATTUNE_STEP_FILL,
                         .as = {.fill = {.offset_bytes = attune_term_const(0),
                                         .bytes = attune_term_const(DIAGNOSTIC_BYTES),
                                         .pattern = 0}}};
    *out = (attune_steps){.count = 2, .step = {clear, at_tiled_step(problem, config, "fwd_guarded")}};
}

static const attune_shipped shipped[] = {
    {"b1,h8,s512,d64,fp16", ""},
    {"b8,h16,s2048,d128,fp16", ""},
    {NULL, NULL},
};

static const attune_capability can[] = {
    ATTUNE_CAN_FORWARD(80, ATTUNE_BIT(ATTUNE_STEP_KERNEL) | ATTUNE_BIT(ATTUNE_STEP_FILL))};

extern const attune_kernel at_kernel_guarded;
const attune_kernel at_kernel_guarded = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "guarded",
    .summary = "tiled with numerical guards that count what they catch in the workspace's first three words",
    .traits = ATTUNE_TRAIT_NAMED_ONLY,
    .param_count = AT_TILED_PARAMS,
    .params = at_tiled_params,
    .shipped = shipped,
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .valid = at_tiled_valid,
    .resources = resources,
    .heuristic = at_tiled_heuristic,
    .steps = steps,
    .source = "guarded.cu",
};
