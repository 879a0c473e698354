/* minimal: one warp a query row, no tiles. The first right kernel on the GPU; the base of the ladder's figures. */
#include "launch.h"

extern const attune_kernel at_kernel_minimal;

enum { WARP = 32, ROWS = 0 };

static const int32_t rows_values[] = {1, 2, 4, 8};
static const attune_param params[] = {[ROWS] = {"ROWS", rows_values, 4, 0}};

static const attune_shipped shipped[] = {
    {"b1,h8,s512,d64,fp16", ""},
    {"b1,h8,s512,d64,fp32,causal", ""},
    {"b8,h16,s2048,d128,bf16,window=128:0", ""},
    {"b2,h8,hkv2,s100,d256,dv40,fp16,causal,offset=tl", ""},
    {NULL, NULL},
};

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)target;
    /* One block a row at worst, in a grid of one dimension. */
    if (problem->batch > INT32_MAX / problem->heads_q ||
        problem->seqlen_q > INT32_MAX / (problem->batch * problem->heads_q)) {
        return attune_refuse(reason, "batch x heads_q x seqlen_q: %lld x %lld x %lld rows, at most 2147483647",
                             (long long)problem->batch, (long long)problem->heads_q, (long long)problem->seqlen_q);
    }
    return true;
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)problem;
    (void)target;
    (void)config;
    (void)reason;
    return true;
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *needs)
{
    (void)problem;
    (void)target;
    *needs = (attune_resources){.threads = WARP * config->value[ROWS], .workspace = attune_term_const(0)};
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    static const int32_t order[] = {4, 8, 2, 1};
    (void)problem;
    (void)target;
    if (index < 0 || index >= 4) {
        return false;
    }
    *config = (attune_config){{[ROWS] = order[index]}};
    return true;
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem;
    (void)target;
    *list = (attune_steps){.count = 1};
    list->step[0] = (attune_step){
        .kind = ATTUNE_STEP_KERNEL,
        .as.kernel = at_launch_by_rows("fwd_minimal", config->value[ROWS], WARP * config->value[ROWS], 0)};
}

static const attune_capability can[] = {
    {.ops = ATTUNE_BIT(ATTUNE_FORWARD),
     .dtypes = ATTUNE_DTYPES_FORWARD,
     .features = ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_STRICT,
     .offsets = ATTUNE_OFFSETS_FORWARD,
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {1, 256, 1},
     .head_dim_v = {1, 256, 1},
     .align = 1,
     .arch_least = 80,
     .arch_most = ATTUNE_ANY,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)},
};

const attune_kernel at_kernel_minimal = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "minimal",
    .summary = "one warp a query row, no tiles: the base of the ladder",
    .traits = ATTUNE_TRAIT_NAMED_ONLY, /* tiled does all that it does, and faster */
    .param_count = 1,
    .params = params,
    .shipped = shipped,
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .supports = supports,
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
    .source = "minimal.cu",
};
