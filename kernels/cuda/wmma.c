/* wmma: descriptor. The source says how it works. */
#include "wmma.h"
#include "launch.h"

enum { WARPS, BLOCK_N, FRAGMENT_M, TENSOR_CORES, SPLITS, STAGES, LAZY };

static const int32_t warps_values[] = {1, 2, 4, 8};
static const int32_t block_n_values[] = {32, 64, 128};
static const int32_t fragment_m_values[] = {8, 16, 32};
static const int32_t tensor_cores_values[] = {0, 1};
static const int32_t splits_values[] = {1, 2, 4, 8};
static const int32_t stages_values[] = {1, 2, 3};
static const int32_t lazy_values[] = {0, 8};

const attune_param at_wmma_params[AT_WMMA_PARAMS] = {
    [WARPS] = {"WARPS", warps_values, 4, 0},
    [BLOCK_N] = {"BLOCK_N", block_n_values, 3, 0},
    [FRAGMENT_M] = {"FRAGMENT_M", fragment_m_values, 3, 0},
    [TENSOR_CORES] = {"TENSOR_CORES", tensor_cores_values, 2, 0},
    [SPLITS] = {"SPLITS", splits_values, 4, 0},
    [STAGES] = {"STAGES", stages_values, 3, 0},
    [LAZY] = {"LAZY", lazy_values, 2, 0},
};

enum { DIM_STEP = 16, DIM_MAX = 256, REGISTERS_MAX = 255, WARPS_MAX = 16 };

static int32_t warp_rows(const attune_config *config)
{
    return config->value[FRAGMENT_M] == 32 ? 32 : 16;
}

static int32_t fragment_n(const attune_config *config)
{
    return 256 / config->value[FRAGMENT_M];
}

static int32_t block_m(const attune_config *config)
{
    return config->value[WARPS] * warp_rows(config);
}

static int32_t warps_of(const attune_config *config)
{
    return config->value[WARPS] * config->value[SPLITS];
}

/* sizeof(Shared) of the source: Q; for each split K, V, the strips of its warps, maxima and sums. */
static int32_t smem_of(const at_wmma_kind *kind, const attune_problem *problem, const attune_config *config)
{
    int32_t block_n = config->value[BLOCK_N];
    int32_t rows = block_m(config);
    int32_t pitch_qk = problem->head_dim_qk + 8;
    int32_t keys = config->value[STAGES] * block_n * (pitch_qk + problem->head_dim_v + 8);
    int32_t sums = rows * (block_n + (kind->acc16 ? 8 : 4)) + rows;
    int32_t shares = rows * (int32_t)(2 * sizeof(float));
    return 2 * rows * pitch_qk + config->value[SPLITS] * (2 * keys + (kind->acc16 ? 2 : 4) * sums + shares);
}

static const attune_config smallest = {{2, 32, 16, 1, 1, 1}};

bool at_wmma_supports(const at_wmma_kind *kind, const attune_problem *problem, const attune_target *target,
                      attune_reason *reason)
{
    if (smem_of(kind, problem, &smallest) > target->smem_optin_bytes) {
        return attune_refuse(reason, "shared memory %d B a block: the device gives %d",
                             smem_of(kind, problem, &smallest), target->smem_optin_bytes);
    }
    return true;
}

bool at_wmma_valid(const at_wmma_kind *kind, const attune_problem *problem, const attune_config *config,
                   attune_reason *reason)
{
    int32_t columns = fragment_n(config);
    if (problem->head_dim_v % columns != 0) {
        return attune_refuse(reason, "FRAGMENT_M %d has %d columns: head_dim_v %d is no multiple",
                             config->value[FRAGMENT_M], columns, problem->head_dim_v);
    }
    if (!config->value[TENSOR_CORES] &&
        (config->value[SPLITS] > 1 || config->value[STAGES] > 1 || config->value[LAZY] > 0)) {
        return attune_refuse(reason, "TENSOR_CORES 0 is for comparing: SPLITS 1, STAGES 1 and LAZY 0");
    }
    if (kind->acc16 && config->value[LAZY] > 0) {
        return attune_refuse(reason, "LAZY %d: weights up to 2^%d are too large for fp16 sums", config->value[LAZY],
                             config->value[LAZY]);
    }
    if (kind->acc16 && (!config->value[TENSOR_CORES] || config->value[FRAGMENT_M] == 8)) {
        return attune_refuse(reason, "fp16 sums need TENSOR_CORES 1 and FRAGMENT_M 16 or 32");
    }
    if (warps_of(config) > WARPS_MAX) {
        return attune_refuse(reason, "WARPS * SPLITS = %d warps: at most %d", warps_of(config), WARPS_MAX);
    }
    /* Registers a thread holds at least: O, the logits (as fragments, then as numbers), and about seventy besides. */
    int32_t rows = warp_rows(config);
    int32_t held = rows * problem->head_dim_v / (kind->acc16 ? 64 : 32) + rows * config->value[BLOCK_N] / 32 + 72;
    int32_t given = 65536 / (warps_of(config) * 32);
    if (held > (given < REGISTERS_MAX ? given : REGISTERS_MAX)) {
        return attune_refuse(
            reason, "WARPS * SPLITS %d and BLOCK_N %d leave %d registers a thread: about %d are needed",
            warps_of(config), config->value[BLOCK_N], given < REGISTERS_MAX ? given : REGISTERS_MAX, held);
    }
    return true;
}

void at_wmma_resources(const at_wmma_kind *kind, const attune_problem *problem, const attune_config *config,
                       attune_resources *out)
{
    *out = (attune_resources){.threads = warps_of(config) * 32,
                              .smem_bytes = smem_of(kind, problem, config),
                              .scratch_bytes = 0,
                              .workspace = attune_term_const(0)};
}

static const attune_config large_first[] = {
    {{4, 32, 32, 1, 1, 1}}, {{4, 64, 16, 1, 1, 1}}, {{8, 64, 16, 1, 1, 1}}, {{4, 32, 16, 1, 1, 1}},
    {{2, 64, 16, 1, 1, 1}}, {{2, 32, 16, 1, 1, 1}}, {{2, 64, 32, 1, 1, 1}},
};
static const attune_config small_first[] = {
    {{2, 64, 16, 1, 4, 2}}, {{2, 64, 16, 1, 4, 1}}, {{2, 64, 16, 1, 2, 2}},
    {{2, 64, 16, 1, 2, 1}}, {{2, 32, 16, 1, 2, 1}}, {{2, 64, 16, 1, 1, 1}},
    {{4, 64, 16, 1, 1, 1}}, {{2, 32, 16, 1, 1, 1}}, {{4, 32, 16, 1, 1, 1}},
};

bool at_wmma_heuristic(const at_wmma_kind *kind, const attune_problem *problem, const attune_target *target,
                       int32_t index, attune_config *config)
{
    int64_t tiles = (problem->seqlen_q + 63) / 64 * problem->batch * problem->heads_q;
    bool large = tiles >= 2 * (int64_t)target->sm_count;
    const attune_config *candidates = large ? large_first : small_first;
    int count =
        large ? (int)(sizeof large_first / sizeof *large_first) : (int)(sizeof small_first / sizeof *small_first);
    for (int i = 0; i < count; ++i) {
        if (at_wmma_valid(kind, problem, &candidates[i], NULL) &&
            smem_of(kind, problem, &candidates[i]) <= target->smem_optin_bytes && index-- == 0) {
            *config = candidates[i];
            return true;
        }
    }
    return false;
}

void at_wmma_steps(const at_wmma_kind *kind, const attune_problem *problem, const attune_config *config,
                   attune_steps *out)
{
    *out = at_follow_by_rows(kind->entry, block_m(config), warps_of(config) * 32, smem_of(kind, problem, config));
}

static const at_wmma_kind kind32 = {"fwd_wmma", false};

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    return at_wmma_supports(&kind32, problem, target, reason);
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)target;
    return at_wmma_valid(&kind32, problem, config, reason);
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    (void)target;
    at_wmma_resources(&kind32, problem, config, out);
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    return at_wmma_heuristic(&kind32, problem, target, index, config);
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    (void)target;
    at_wmma_steps(&kind32, problem, config, out);
}

static const attune_shipped shipped[] = {
    {"b1,h8,s512,d64,fp16", ""},
    {"b1,h8,s512,d64,fp16", "WARPS=4,BLOCK_N=64,FRAGMENT_M=8,TENSOR_CORES=1,SPLITS=1,STAGES=1"},
    {"b1,h8,s512,d64,fp16", "WARPS=2,BLOCK_N=32,FRAGMENT_M=32,TENSOR_CORES=1,SPLITS=2,STAGES=2"},
    {"b1,h8,s512,d64,fp16", "WARPS=4,BLOCK_N=64,FRAGMENT_M=16,TENSOR_CORES=0,SPLITS=1,STAGES=1"},
    {"b1,h8,s512,d64,fp16", "WARPS=1,BLOCK_N=32,FRAGMENT_M=16,TENSOR_CORES=1,SPLITS=2,STAGES=3,LAZY=8"},
    {"b8,h16,s2048,d128,fp16", ""},
    {"b8,h16,s2048,d128,bf16,causal", ""},
    {"b2,h8,hkv2,s300,d80,dv48,bf16,causal,window=64:0,softcap=30,bias=bxh,mask,alibi,sink,seqused", ""},
    {"b2,h8,hkv2,s300,d80,dv48,bf16,causal,window=64:0,softcap=30,bias=bxh,mask,alibi,sink,seqused", "LAZY=8"},
    {NULL, NULL},
};

static const attune_capability can[] = {
    {.ops = ATTUNE_BIT(ATTUNE_FORWARD),
     .dtypes = ATTUNE_DTYPES_HALF,
     .features = ATTUNE_FEATURES_FORWARD & ~(uint32_t)ATTUNE_FEATURE_STRICT,
     .offsets = ATTUNE_OFFSETS_FORWARD,
     .biases = ATTUNE_BIASES_FORWARD,
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {DIM_STEP, DIM_MAX, DIM_STEP},
     .head_dim_v = {DIM_STEP, DIM_MAX, DIM_STEP},
     .align = 16,
     .arch_least = 80,
     .arch_most = ATTUNE_ANY,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)},
};

extern const attune_kernel at_kernel_wmma;
const attune_kernel at_kernel_wmma = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "wmma",
    .summary = "both products on tensor cores through wmma fragments of three shapes, sums in fp32",
    .traits = ATTUNE_TRAIT_TAINTS,
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
    .source = "wmma.cu",
};
