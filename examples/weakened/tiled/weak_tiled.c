/* weak_tiled: descriptor; parameters, limits and guesses are tiled's. */
#include "attune/kernel.h"

enum { BLOCK_M, BLOCK_N, ROWS, MIN_BLOCKS, PARAMS };

static const int32_t block_m_values[] = {16, 32, 64};
static const int32_t block_n_values[] = {16, 32, 64};
static const int32_t rows_values[] = {1, 2, 4};
static const int32_t min_blocks_values[] = {1, 2, 3};

static const attune_param params[PARAMS] = {
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
    int32_t floats = (block_m + block_n) * pitch_qk + block_n * pitch_v + block_m * (block_n + 4 + LANES);
    return floats * (int32_t)sizeof(float);
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
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
    bool adorned = problem->softcap > 0.0F || problem->bias != ATTUNE_BIAS_NONE || problem->mask || problem->alibi;
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

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    (void)target;
    *out = (attune_resources){
        .threads = threads_of(config), .smem_bytes = smem_of(problem, config), .workspace = attune_term_const(0)};
}

/* Likeliest first among those that fit: tiles as large as still give every multiprocessor a block, then smaller. */
static const attune_config candidates[] = {
    {{64, 32, 4, 2}}, {{64, 64, 4, 1}}, {{64, 32, 4, 1}}, {{32, 64, 2, 1}}, {{32, 64, 4, 1}},
    {{32, 32, 2, 1}}, {{16, 64, 2, 1}}, {{16, 32, 1, 1}}, {{32, 16, 2, 1}}, {{16, 16, 1, 1}},
};
enum { CANDIDATES = sizeof candidates / sizeof candidates[0] };

static bool usable(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    return smem_of(problem, config) <= target->smem_optin_bytes && valid(problem, target, config, NULL);
}

/* Whether blocks of this many query rows leave hardly any multiprocessor idle. */
static bool fills(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    int64_t tiles = (problem->seqlen_q + config->value[BLOCK_M] - 1) / config->value[BLOCK_M];
    return tiles * problem->batch * problem->heads_q >= target->sm_count - target->sm_count / 8;
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    /* Two passes: configs that fill the device, then the others, smallest blocks first. */
    for (int i = 0; i < CANDIDATES; ++i) {
        if (usable(problem, target, &candidates[i]) && fills(problem, target, &candidates[i]) && index-- == 0) {
            *config = candidates[i];
            return true;
        }
    }
    for (int i = CANDIDATES - 1; i >= 0; --i) {
        if (usable(problem, target, &candidates[i]) && !fills(problem, target, &candidates[i]) && index-- == 0) {
            *config = candidates[i];
            return true;
        }
    }
    return false;
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    (void)target;
    const attune_term heads =
        attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_Q), attune_term_size(ATTUNE_SIZE_BATCH));
    const attune_term tiles =
        attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), attune_term_const(config->value[BLOCK_M]));
    *out = (attune_steps){.count = 1};
    out->step[0] =
        (attune_step){.kind = ATTUNE_STEP_KERNEL,
                      .as.kernel = {.entry = "fwd_weak_tiled",
                                    .grid = {attune_term_mul(tiles, heads), attune_term_const(1), attune_term_const(1)},
                                    .block = {threads_of(config), 1, 1},
                                    .cluster = {1, 1, 1},
                                    .smem = attune_term_const(smem_of(problem, config))}};
}

static const attune_capability can[] = {ATTUNE_CAN_FORWARD(80, ATTUNE_BIT(ATTUNE_STEP_KERNEL))};

extern const attune_kernel at_kernel_weak_tiled;
const attune_kernel at_kernel_weak_tiled = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "weak_tiled",
    .summary = "tiled, weakened: where searches of code begin",
    .param_count = PARAMS,
    .params = params,
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
    .source = "weak_tiled.cu",
};
