/* tiled: descriptor. The source says how it works. */
#include "tiled.h"
#include "launch.h"

enum { BLOCK_M, BLOCK_N, ROWS, MIN_BLOCKS };

static const int32_t block_m_values[] = {16, 32, 64};
static const int32_t block_n_values[] = {16, 32, 64};
static const int32_t rows_values[] = {1, 2, 4};
static const int32_t min_blocks_values[] = {1, 2, 3};

const attune_param at_tiled_params[AT_TILED_PARAMS] = {
    [BLOCK_M] = {"BLOCK_M", block_m_values, 3, 0},
    [BLOCK_N] = {"BLOCK_N", block_n_values, 3, 0},
    [ROWS] = {"ROWS", rows_values, 3, 0},
    [MIN_BLOCKS] = {"MIN_BLOCKS", min_blocks_values, 3, 0},
};

enum { LANES = 16, THREADS_MIN = 64, THREADS_MAX = 512, REGISTERS_SM = 65536 };

static int32_t threads_of(const attune_config *config)
{
    return config->value[BLOCK_M] / config->value[ROWS] * LANES;
}

/* sizeof(Shared) of the source. */
static int32_t smem_of(const attune_problem *problem, const attune_config *config)
{
    int32_t block_m = config->value[BLOCK_M];
    int32_t block_n = config->value[BLOCK_N];
    int32_t dim_v = problem->head_dim_v;
    int32_t width = dim_v <= 16 ? 1 : dim_v <= 32 ? 2 : 4;
    int32_t group = LANES * width;
    int32_t pitch_qk = (problem->head_dim_qk + 3) / 4 * 4 + 4;
    int32_t pitch_v = (dim_v + group - 1) / group * group;
    int32_t floats = (block_m + block_n) * pitch_qk + block_n * pitch_v + block_m * (block_n + 4);
    return floats * (int32_t)sizeof(float);
}

bool at_tiled_valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                    attune_reason *reason)
{
    (void)target;
    int32_t threads = threads_of(config);
    int32_t columns = (problem->head_dim_v + LANES - 1) / LANES;
    if (threads < THREADS_MIN || threads > THREADS_MAX) {
        return attune_refuse(reason, "BLOCK_M / ROWS * 16 = %d threads: %d to %d are allowed", threads, THREADS_MIN,
                             THREADS_MAX);
    }
    /* Registers a thread holds at least: its parts of O and S, one step's operands, and the rest, which is more where
     * logits are more than dot products. */
    bool adorned = problem->softcap > 0.0F || problem->bias != ATTUNE_BIAS_NONE || problem->mask || problem->alibi ||
                   problem->page_size > 0 || problem->draft_mask;
    bool masked = attune_is_causal(problem) || attune_is_windowed(problem) || problem->sink || problem->seqused_kv ||
                  problem->varlen;
    int32_t held = config->value[ROWS] * (columns + config->value[BLOCK_N] / LANES) + 8 * config->value[ROWS] +
                   (adorned  ? 80
                    : masked ? 72
                             : 56);
    int32_t given = REGISTERS_SM / (threads * config->value[MIN_BLOCKS]);
    if (config->value[MIN_BLOCKS] > 1 && held > given) {
        return attune_refuse(reason, "MIN_BLOCKS %d leaves %d registers a thread: about %d are needed",
                             config->value[MIN_BLOCKS], given, held);
    }
    return true;
}

void at_tiled_resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                        attune_resources *out)
{
    (void)target;
    *out = at_block_resources(threads_of(config), smem_of(problem, config));
}

/* Likeliest first among those that fit: tiles as large as still give every multiprocessor a block, then smaller. */
static const attune_config candidates[] = {
    {{64, 32, 4, 2}}, {{64, 64, 4, 1}}, {{64, 32, 4, 1}}, {{32, 64, 2, 1}}, {{32, 64, 4, 1}},
    {{32, 32, 2, 1}}, {{16, 64, 2, 1}}, {{16, 32, 1, 1}}, {{32, 16, 2, 1}}, {{16, 16, 1, 1}},
};
enum { CANDIDATES = sizeof candidates / sizeof candidates[0] };

/* Smallest blocks first, of those with equally many rows the ones with most keys: few rows wait for each tile of keys.
 */
static const int8_t long_first[CANDIDATES] = {6, 7, 9, 3, 4, 5, 8, 1, 0, 2};

static bool usable(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    return smem_of(problem, config) <= target->smem_optin_bytes && at_tiled_valid(problem, target, config, NULL);
}

/* Whether query heads that share keys and values share blocks, as in the source. */
static bool packs(const attune_problem *problem)
{
    return problem->page_size > 0;
}

/* Whether blocks of this many query rows leave hardly any multiprocessor idle, nor most of themselves where queries are
 * few. */
static bool fills(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    int32_t block_m = config->value[BLOCK_M];
    int64_t heads = packs(problem) ? problem->heads_kv : problem->heads_q;
    int64_t rows = problem->seqlen_q * problem->heads_q / heads;
    int64_t tiles = (rows + block_m - 1) / block_m;
    bool tall = block_m > block_m_values[0] && block_m >= 2 * rows;
    return !tall && tiles * problem->batch * heads >= target->sm_count - target->sm_count / 8;
}

bool at_tiled_heuristic(const attune_problem *problem, const attune_target *target, int32_t index,
                        attune_config *config)
{
    /* Two passes: configs that fill the device, then the others, smallest blocks first. */
    for (int i = 0; i < CANDIDATES; ++i) {
        if (usable(problem, target, &candidates[i]) && fills(problem, target, &candidates[i]) && index-- == 0) {
            *config = candidates[i];
            return true;
        }
    }
    for (int i = CANDIDATES - 1; i >= 0; --i) {
        const attune_config *one = &candidates[packs(problem) ? long_first[CANDIDATES - 1 - i] : i];
        if (usable(problem, target, one) && !fills(problem, target, one) && index-- == 0) {
            *config = *one;
            return true;
        }
    }
    return false;
}

/* A block for every so many rows of all heads of a group. */
static attune_term packed_blocks(int32_t block_m)
{
    attune_term group =
        attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_HEADS_Q), attune_term_size(ATTUNE_SIZE_HEADS_KV));
    attune_term tiles = attune_term_ceil_div(attune_term_mul(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), group),
                                             attune_term_const(block_m));
    return attune_term_mul(
        tiles, attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_KV), attune_term_size(ATTUNE_SIZE_BATCH)));
}

attune_step at_tiled_step(const attune_problem *problem, const attune_config *config, const char *entry)
{
    attune_step step = {.kind = ATTUNE_STEP_KERNEL,
                        .as = {.kernel = at_launch_by_rows(entry, config->value[BLOCK_M], threads_of(config),
                                                           smem_of(problem, config))}};
    if (packs(problem)) {
        step.as.kernel.grid[0] = packed_blocks(config->value[BLOCK_M]);
    }
    return step;
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    (void)target;
    *out = (attune_steps){.count = 1, .step = {at_tiled_step(problem, config, "fwd_tiled")}};
}

static const attune_shipped shipped[] = {
    {"b1,h8,s512,d64,fp16", ""},
    {"b8,h16,s2048,d128,fp16", ""},
    {"b1,h4,s256,d256,fp32,causal", ""},
    {"b2,h8,hkv2,s300,d80,dv48,bf16,causal,window=64:0,softcap=30,bias=bxh,mask,alibi,sink,seqused", ""},
    {"b3,h4,s100,d5,fp16,causal,varlen=1,sink", ""},
    {"b8,h32,hkv8,sq1,skv4096,d128,bf16,seqused,page=16", ""},
    {"b4,h8,hkv2,sq8,skv300,d64,fp16,seqused,varlen=1,page=24,vtable,draft", ""},
    {"b1,h8,sq300,skv300,d128,fp32,k=bf16,v=bf16,causal,window=64:0,page=1", ""},
    {NULL, NULL},
};

/* Caches in a row of their own: code for problems without them has no room for their roles. */
static const attune_capability can[] = {
    ATTUNE_CAN_FORWARD(80, ATTUNE_BIT(ATTUNE_STEP_KERNEL)),
    {.ops = ATTUNE_BIT(ATTUNE_FORWARD),
     .dtypes = ATTUNE_DTYPES_FORWARD,
     .dtypes_k = ATTUNE_DTYPES_FORWARD,
     .dtypes_v = ATTUNE_DTYPES_FORWARD,
     .dtypes_o = ATTUNE_DTYPES_FORWARD,
     .dtypes_bias = ATTUNE_DTYPES_FORWARD,
     .features = ATTUNE_FEATURES_FORWARD | ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_PAGED_V | ATTUNE_FEATURE_DRAFT,
     .offsets = ATTUNE_OFFSETS_FORWARD,
     .biases = ATTUNE_BIASES_FORWARD,
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {1, 256, 1},
     .head_dim_v = {1, 256, 1},
     .align = 1,
     .arch_least = 80,
     .arch_most = ATTUNE_ANY,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)},
};

extern const attune_kernel at_kernel_tiled;
const attune_kernel at_kernel_tiled = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "tiled",
    .summary = "general: shared-memory tiles, online softmax, scalar fp32 arithmetic; every problem",
    .traits = ATTUNE_TRAIT_GENERAL,
    .param_count = AT_TILED_PARAMS,
    .params = at_tiled_params,
    .shipped = shipped,
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .valid = at_tiled_valid,
    .resources = at_tiled_resources,
    .heuristic = at_tiled_heuristic,
    .steps = steps,
    .source = "tiled.cu",
};
