/* pipelined: descriptor. The source says how it works. */
#include "launch.h"

enum { BLOCK_M, ROWS, MIN_BLOCKS, SPLITS, PARAMS };

static const int32_t block_m_values[] = {32, 64};
static const int32_t rows_values[] = {2, 4, 8};
static const int32_t min_blocks_values[] = {1, 2};
static const int32_t splits_values[] = {1, 2, 4, 8};

static const attune_param params[PARAMS] = {
    [BLOCK_M] = {"BLOCK_M", block_m_values, 2, 0},
    [ROWS] = {"ROWS", rows_values, 3, 0},
    [MIN_BLOCKS] = {"MIN_BLOCKS", min_blocks_values, 2, 0},
    [SPLITS] = {"SPLITS", splits_values, 4, 0},
};

enum { BLOCK_N = 64, LANES = 16, PITCH_P = BLOCK_N + 4, DIM_MAX = 128, THREADS_MAX = 512 };

static int32_t bytes_of(const attune_problem *problem)
{
    return problem->dtype == ATTUNE_FP32 ? 4 : 2;
}

static int32_t threads_of(const attune_config *config)
{
    return config->value[BLOCK_M] / config->value[ROWS] * LANES * config->value[SPLITS];
}

/* sizeof(Shared) of the source: Q in fp32; for each split K and V twice, P in fp32. */
static int32_t smem_of(const attune_problem *problem, const attune_config *config)
{
    int32_t block_m = config->value[BLOCK_M];
    int32_t part = 16 / bytes_of(problem);
    int32_t pitch_qk = problem->head_dim_qk + part;
    int32_t pitch_v = problem->head_dim_v + part;
    int32_t queries = block_m * (problem->head_dim_qk + 4) * (int32_t)sizeof(float);
    int32_t split = 2 * BLOCK_N * (pitch_qk + pitch_v) * bytes_of(problem) + block_m * PITCH_P * (int32_t)sizeof(float);
    return queries + config->value[SPLITS] * split;
}

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    const attune_config smallest = {{32, 4, 1, 1}};
    return at_has_shared_memory(target, smem_of(problem, &smallest), reason);
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)target;
    int32_t dim = problem->head_dim_qk > problem->head_dim_v ? problem->head_dim_qk : problem->head_dim_v;
    bool wide = config->value[ROWS] == 8;
    if (threads_of(config) > THREADS_MAX) {
        return attune_refuse(reason, "BLOCK_M / ROWS * 16 * SPLITS = %d threads: at most %d", threads_of(config),
                             THREADS_MAX);
    }
    if (threads_of(config) < 64) {
        return attune_refuse(reason, "BLOCK_M / ROWS * 16 * SPLITS = %d threads: at least 64 are needed",
                             threads_of(config));
    }
    if (config->value[MIN_BLOCKS] == 2 &&
        (threads_of(config) > 256 || (threads_of(config) > 128 && (dim > 64 || wide)))) {
        return attune_refuse(reason, "MIN_BLOCKS 2 with %d threads: its registers would spill", threads_of(config));
    }
    return true;
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    (void)target;
    *out = at_block_resources(threads_of(config), smem_of(problem, config));
}

static const attune_config large_first[] = {
    {{64, 8, 1, 2}}, {{64, 8, 1, 1}}, {{64, 4, 1, 1}}, {{32, 4, 1, 1}}, {{32, 8, 1, 1}}};
static const attune_config small_first[] = {{{32, 8, 1, 4}}, {{32, 8, 1, 2}}, {{32, 4, 1, 1}},
                                            {{64, 4, 1, 1}}, {{64, 8, 1, 1}}, {{32, 8, 1, 1}}};

static bool fits(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    return valid(problem, target, config, NULL) && smem_of(problem, config) <= target->smem_optin_bytes;
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    return at_is_large(problem, target)
               ? at_fitting(large_first, AT_COUNT(large_first), fits, problem, target, index, config)
               : at_fitting(small_first, AT_COUNT(small_first), fits, problem, target, index, config);
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    (void)target;
    *out = at_follow_by_rows("fwd_pipelined", config->value[BLOCK_M], threads_of(config), smem_of(problem, config));
}

static const attune_shipped shipped[] = {
    {"b1,h8,s512,d64,fp16", ""},
    {"b8,h16,s2048,d128,fp16", ""},
    {"b2,h8,hkv2,s1000,d96,dv64,bf16,causal,window=128:0,sink,seqused", ""},
    {"b3,h4,s100,d64,fp32,causal,varlen=1", ""},
    {NULL, NULL},
};

enum {
    FEATURES = ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_SINK | ATTUNE_FEATURE_SEQUSED |
               ATTUNE_FEATURE_VARLEN
};

static const attune_capability can[] = {
    AT_CAN_TILES(ATTUNE_BIT(ATTUNE_FP32), FEATURES, 0, 4, DIM_MAX),
    AT_CAN_TILES(ATTUNE_DTYPES_HALF, FEATURES, 0, 8, DIM_MAX),
};

extern const attune_kernel at_kernel_pipelined;
const attune_kernel at_kernel_pipelined = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "pipelined",
    .summary = "64-key tiles, 16-byte asynchronous copies into two buffers, scalar fp32 arithmetic",
    .traits = ATTUNE_TRAIT_TAINTS,
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
    .source = "pipelined.cu",
};
