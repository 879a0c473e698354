/* wmma_ws: descriptor. The source says how it works. */
#include "launch.h"

enum { CONSUMERS, SPLITS, PRODUCERS, STRIPS, BLOCK_N, Q_REGISTERS, MIN_BLOCKS, PARAMS };

static const int32_t consumers_values[] = {1, 2, 3, 4, 7, 8};
static const int32_t splits_values[] = {1, 2, 4};
static const int32_t producers_values[] = {1, 2, 4, 8};
static const int32_t strips_values[] = {1, 2};
static const int32_t block_n_values[] = {32, 64, 128};
static const int32_t q_registers_values[] = {0, 1};
static const int32_t min_blocks_values[] = {1, 2, 3};

static const attune_param params[PARAMS] = {
    [CONSUMERS] = {"CONSUMERS", consumers_values, 6, 0},    [SPLITS] = {"SPLITS", splits_values, 3, 0},
    [PRODUCERS] = {"PRODUCERS", producers_values, 4, 0},    [STRIPS] = {"STRIPS", strips_values, 2, 0},
    [BLOCK_N] = {"BLOCK_N", block_n_values, 3, 0},          [Q_REGISTERS] = {"Q_REGISTERS", q_registers_values, 2, 0},
    [MIN_BLOCKS] = {"MIN_BLOCKS", min_blocks_values, 3, 0},
};

enum { STRIP_ROWS = 16, WARPS_MAX = 16, DIM_STEP = 16, DIM_MAX = 128, REGISTERS_MAX = 255 };

static int32_t warps_of(const attune_config *config)
{
    return config->value[CONSUMERS] * config->value[SPLITS] + config->value[PRODUCERS];
}

static int32_t threads_of(const attune_config *config)
{
    return warps_of(config) * 32;
}

static int32_t block_m(const attune_config *config)
{
    return config->value[CONSUMERS] * config->value[STRIPS] * STRIP_ROWS;
}

static int32_t pitch_of(int32_t dim)
{
    return (dim + 63) / 64 * 64;
}

static int32_t stages_of(const attune_config *config)
{
    return 2 * config->value[SPLITS];
}

/* sizeof(Shared) of the source: Q, the ring, the barriers. */
static int32_t smem_of(const attune_problem *problem, const attune_config *config)
{
    int32_t pitch_qk = pitch_of(problem->head_dim_qk);
    int32_t pitch_v = pitch_of(problem->head_dim_v);
    int32_t stages = stages_of(config);
    int32_t elements = block_m(config) * (pitch_qk > pitch_v ? pitch_qk : pitch_v) +
                       stages * config->value[BLOCK_N] * (pitch_qk + pitch_v);
    return 2 * elements + (1 + 4 * stages + 15) / 16 * 128;
}

static const attune_config smallest = {{2, 1, 1, 1, 32, 0, 1}};

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    return at_has_shared_memory(target, smem_of(problem, &smallest), reason);
}

/* Registers a thread is about to hold: O, logits, queries, and what the mask and the rest take. */
static int32_t registers_held(const attune_problem *problem, const attune_config *config)
{
    bool elementwise = problem->softcap != 0 || problem->bias != ATTUNE_BIAS_NONE || problem->mask || problem->alibi;
    int32_t queries = config->value[Q_REGISTERS] ? problem->head_dim_qk / 4 : 4;
    int32_t strip = problem->head_dim_v / 2 + config->value[BLOCK_N] / 2 + queries;
    return config->value[STRIPS] * strip + (elementwise ? 132 : 72);
}

/* Registers a thread may have: each of a multiprocessor's four parts holds 512 for each lane of a warp. */
static int32_t registers_given(const attune_config *config)
{
    int32_t warps = warps_of(config) * config->value[MIN_BLOCKS];
    int32_t given = 512 / ((warps + 3) / 4) / 8 * 8;
    return given < REGISTERS_MAX ? given : REGISTERS_MAX;
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)target;
    if (warps_of(config) > WARPS_MAX) {
        return attune_refuse(reason, "CONSUMERS * SPLITS + PRODUCERS = %d warps: at most %d", warps_of(config),
                             WARPS_MAX);
    }
    int32_t handed = (config->value[SPLITS] - 1) * config->value[CONSUMERS] * 128 * config->value[STRIPS] *
                     (problem->head_dim_v / 2 + 4);
    int32_t ring = 2 * stages_of(config) * config->value[BLOCK_N] *
                   (pitch_of(problem->head_dim_qk) + pitch_of(problem->head_dim_v));
    if (handed > ring) {
        return attune_refuse(reason, "SPLITS %d hand over %d B at the end: the ring has %d", config->value[SPLITS],
                             handed, ring);
    }
    if (registers_held(problem, config) > registers_given(config)) {
        return attune_refuse(reason, "CONSUMERS %d, MIN_BLOCKS %d leave %d registers a thread: about %d are needed",
                             config->value[CONSUMERS], config->value[MIN_BLOCKS], registers_given(config),
                             registers_held(problem, config));
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
    {{7, 1, 1, 2, 32, 0, 1}}, {{3, 1, 1, 2, 32, 0, 1}}, {{3, 1, 1, 2, 64, 1, 2}}, {{7, 1, 1, 1, 64, 1, 1}},
    {{3, 1, 1, 1, 64, 1, 2}}, {{4, 1, 1, 1, 32, 0, 2}}, {{4, 1, 1, 1, 64, 1, 1}}, {{2, 1, 1, 1, 32, 0, 1}},
};
static const attune_config small_first[] = {
    {{2, 2, 4, 1, 128, 1, 1}}, {{2, 2, 4, 1, 64, 1, 1}}, {{2, 2, 4, 1, 32, 1, 1}}, {{2, 1, 1, 1, 128, 1, 1}},
    {{2, 1, 1, 1, 64, 1, 1}},  {{3, 1, 1, 1, 64, 1, 2}}, {{2, 1, 1, 1, 32, 1, 1}}, {{2, 1, 1, 1, 32, 0, 1}},
};

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
    *out = at_follow_by_rows("fwd_wmma_ws", block_m(config), threads_of(config), smem_of(problem, config));
}

static const attune_shipped shipped[] = {
    {"b1,h8,s512,d64,fp16", ""},
    {"b8,h16,s2048,d128,fp16", ""},
    {"b8,h16,s2048,d128,fp16", "CONSUMERS=7,SPLITS=1,PRODUCERS=1,STRIPS=1,BLOCK_N=64,Q_REGISTERS=1,MIN_BLOCKS=1"},
    {"b8,h16,s2048,d128,bf16,causal", ""},
    {"b2,h8,hkv2,s300,d80,dv48,bf16,causal,window=64:0,softcap=30,bias=bxh,mask,alibi,sink,seqused", ""},
    {NULL, NULL},
};

static const attune_capability can[] = {
    AT_CAN_TILES(ATTUNE_DTYPES_HALF, ATTUNE_FEATURES_FORWARD & ~(uint32_t)ATTUNE_FEATURE_STRICT, ATTUNE_BIASES_FORWARD,
                 DIM_STEP, DIM_MAX),
};

extern const attune_kernel at_kernel_wmma_ws;
const attune_kernel at_kernel_wmma_ws = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "wmma_ws",
    .summary = "wmma in registers, warp-specialised: producers, a swizzled ring, consumers",
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
    .source = "wmma_ws.cu",
};
