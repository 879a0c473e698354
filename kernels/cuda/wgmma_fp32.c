/* wgmma_fp32: descriptor. The source says how it works. */
#include "launch.h"

enum { GROUPS, BLOCK_N, AHEAD, PARAMS };

static const int32_t groups_values[] = {1, 2};
static const int32_t block_n_values[] = {32, 64, 128};
static const int32_t switch_values[] = {0, 1};

static const attune_param params[PARAMS] = {
    [GROUPS] = {"GROUPS", groups_values, 2, 0},
    [BLOCK_N] = {"BLOCK_N", block_n_values, 3, 0},
    [AHEAD] = {"AHEAD", switch_values, 2, 0},
};

enum {
    GROUP_ROWS = 64,
    COLUMNS = 64,
    LINE_BYTES = 128,
    CONTROL_BYTES = 1024,
    STAGES_MIN = 2,
    STAGES_MAX = 8,
    DIM_MAX = 128,
    WORDS_BYTES = 8,
    EDGES_BYTES = 16,
    SPLIT_THREADS = 128,
    ROWS_LEAST = 16
};

/* Of bf16, for a number. */
static int32_t parts_of(const attune_problem *problem)
{
    return problem->tf32 ? 2 : 3;
}

static int32_t chunks_of(int32_t dim)
{
    return (dim + COLUMNS - 1) / COLUMNS;
}

static int32_t threads_of(const attune_config *config)
{
    return (config->value[GROUPS] + 1) * 128;
}

static int32_t block_m(const attune_config *config)
{
    return config->value[GROUPS] * GROUP_ROWS;
}

/* Of the queries, in parts. */
static int32_t queries_bytes(const attune_problem *problem, const attune_config *config)
{
    return block_m(config) * chunks_of(problem->head_dim_qk) * LINE_BYTES * parts_of(problem);
}

/* Of 64 columns of a tile of keys or values, in parts. */
static int32_t unit_bytes(const attune_problem *problem, const attune_config *config)
{
    return config->value[BLOCK_N] * LINE_BYTES * parts_of(problem);
}

/* As many as there is room for, and of use. */
static int32_t smem_of(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    const int32_t fixed = queries_bytes(problem, config) + CONTROL_BYTES + config->value[GROUPS] * 128 * EDGES_BYTES;
    const int32_t room = (target->smem_optin_bytes - fixed) / unit_bytes(problem, config);
    const int32_t stages = room < STAGES_MIN ? STAGES_MIN : room < STAGES_MAX ? room : STAGES_MAX;
    return fixed + stages * unit_bytes(problem, config);
}

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    const double scale = problem->scale, least = 1e-6, most = 1e6;
    (void)target;
    if (scale < 0 || (scale > 0 && (scale < least || scale > most))) {
        return attune_refuse(reason, "scale %g: 1e-6 to 1e6", scale);
    }
    if (problem->seqlen_q < ROWS_LEAST) {
        return attune_refuse(reason, "seqlen_q %lld: at least %d, of tiles of %d rows", (long long)problem->seqlen_q,
                             ROWS_LEAST, GROUP_ROWS);
    }
    return true;
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)target;
    if (config->value[BLOCK_N] > 64 && !(problem->tf32 && config->value[AHEAD])) {
        return attune_refuse(reason, "BLOCK_N %d: at most 64 without tf32 and AHEAD", config->value[BLOCK_N]);
    }
    /* O, a tile's weights, and the sums of a unit's values, large ones and, of three parts, small ones. */
    const int32_t sums = problem->tf32 ? COLUMNS / 2 : COLUMNS;
    const int32_t held =
        chunks_of(problem->head_dim_v) * COLUMNS / 2 + sums + config->value[BLOCK_N] / 4 * parts_of(problem);
    const int32_t given = config->value[GROUPS] == 1 ? 255 : 200, besides = 24;
    return held + besides <= given ||
           attune_refuse(reason, "GROUPS %d, BLOCK_N %d: %d registers for fragments and %d besides, of %d",
                         config->value[GROUPS], config->value[BLOCK_N], held, besides, given);
}

/* Of all keys and values. */
static attune_term units(const attune_problem *problem, const attune_config *config)
{
    attune_term heads = attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_KV), attune_term_size(ATTUNE_SIZE_BATCH));
    attune_term tiles =
        attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_KV), attune_term_const(config->value[BLOCK_N]));
    return attune_term_mul(attune_term_mul(heads, tiles),
                           attune_term_const(chunks_of(problem->head_dim_qk) + chunks_of(problem->head_dim_v)));
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    *out = at_block_resources(threads_of(config), smem_of(problem, target, config));
    if (config->value[AHEAD]) {
        out->workspace =
            attune_term_mul(units(problem, config), attune_term_const(unit_bytes(problem, config) + WORDS_BYTES));
    }
}

static bool fits(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    return valid(problem, target, config, NULL) && smem_of(problem, target, config) <= target->smem_optin_bytes;
}

/* Whether keys and values are to be split ahead: where many tiles of 128 queries read them, by the bytes of a key, or
 * where blocks are few and keys many. In two parts splitting costs as much and products half, so that a few readers are
 * enough. */
static bool splits_ahead(const attune_problem *problem, int64_t tiles, int64_t sm_count)
{
    enum { WORTH = 1500, READERS_TF32 = 4, FEW_KEYS = 2048 };
    const int64_t readers = tiles / ((int64_t)problem->batch * problem->heads_kv);
    const bool many =
        problem->tf32 ? readers >= READERS_TF32 : readers * (problem->head_dim_qk + problem->head_dim_v) >= WORTH;
    return many || (tiles * 4 <= sm_count && problem->seqlen_kv >= FEW_KEYS);
}

/* What takes registers that two groups of wide values, and, of two parts, of 128 keys, have not. */
static bool is_elaborate(const attune_problem *problem)
{
    const bool by_pairs = problem->bias != ATTUNE_BIAS_NONE || problem->mask || problem->alibi;
    return problem->head_dim_v > COLUMNS &&
           (problem->softcap != 0 || attune_is_windowed(problem) || problem->varlen || (problem->tf32 && by_pairs));
}

/* Two groups where tiles of 128 queries are enough: for more than half of all multiprocessors, where they take equally
 * long, else for all. */
static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    const int64_t tiles = (problem->seqlen_q + 127) / 128 * problem->batch * problem->heads_q;
    const int32_t ahead = tiles > 0 && splits_ahead(problem, tiles, target->sm_count);
    const bool enough = tiles * (attune_is_causal(problem) ? 1 : 2) >= target->sm_count;
    const int32_t groups = enough && (problem->tf32 || !is_elaborate(problem)) ? 2 : 1;
    const int32_t keys_ahead = problem->tf32 && !is_elaborate(problem) ? 128 : 64, ahead_keys = ahead ? keys_ahead : 64,
                  other_keys = ahead ? 64 : keys_ahead;
    const attune_config order[] = {{{groups, ahead_keys, ahead}},
                                   {{groups, other_keys, !ahead}},
                                   {{3 - groups, ahead_keys, ahead}},
                                   {{3 - groups, other_keys, !ahead}}};
    return at_fitting(order, AT_COUNT(order), fits, problem, target, index, config);
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    attune_step_kernel attend =
        at_launch_by_rows("sm90_fwd_wgmma_fp32", block_m(config), threads_of(config), smem_of(problem, target, config));
    attend.programmatic = config->value[AHEAD];
    const attune_step_kernel split = {.entry = "sm90_split_wgmma_fp32",
                                      .grid = {units(problem, config), attune_term_const(1), attune_term_const(1)},
                                      .block = {SPLIT_THREADS, 1, 1},
                                      .cluster = {1, 1, 1},
                                      .smem = attune_term_const(0)};
    *out = (attune_steps){0};
    if (config->value[AHEAD]) {
        out->step[out->count++] = (attune_step){.kind = ATTUNE_STEP_KERNEL, .as = {.kernel = split}};
    }
    out->step[out->count++] = (attune_step){.kind = ATTUNE_STEP_KERNEL, .as = {.kernel = attend}};
}

static const attune_shipped shipped[] = {
    {"b4,h16,s4096,d128,fp32", ""},
    {"b4,h16,s4096,d128,fp32,causal", ""},
    {"b4,h16,s4096,d64,fp32,causal", ""},
    {"b1,h8,s512,d64,fp32", ""},
    {"b8,h16,s1024,d64,fp32,causal", ""},
    {"b2,h8,s1024,d128,fp32,causal", ""},
    {"b4,h16,s4096,d128,fp32", "GROUPS=2,BLOCK_N=64,AHEAD=0"},
    {"b4,h16,s4096,d128,fp32,causal", "GROUPS=2,BLOCK_N=64,AHEAD=0"},
    {"b2,h8,hkv2,s300,d72,dv40,fp32,causal,window=64:0,softcap=30,bias=bxh,mask,alibi,sink,seqused,strict", ""},
    {"b2,h8,s1000,d96,dv128,fp32,window=64:32,softcap=30", ""},
    {"b3,h4,s100,d5,fp32,causal,varlen=1,sink,align=4", ""},
    {"b4,h16,s4096,d128,fp32,tf32", ""},
    {"b4,h16,s4096,d64,fp32,causal,tf32", ""},
    {"b1,h8,s512,d64,fp32,tf32", ""},
    {"b8,h16,s256,d128,fp32,causal,tf32", ""},
    {"b2,h8,hkv2,s300,d72,dv40,fp32,causal,window=64:0,softcap=30,bias=bxh,mask,alibi,sink,seqused,strict,tf32", ""},
    {"b2,h16,s1000,d96,dv128,fp32,window=64:32,softcap=30,varlen=1,tf32", ""},
    {NULL, NULL},
};

static const attune_capability can[] = {
    {.ops = ATTUNE_BIT(ATTUNE_FORWARD),
     .dtypes = ATTUNE_BIT(ATTUNE_FP32),
     .dtypes_bias = ATTUNE_DTYPES_FORWARD,
     .features = ATTUNE_FEATURES_FORWARD,
     .offsets = ATTUNE_OFFSETS_FORWARD,
     .biases = ATTUNE_BIASES_FORWARD,
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {1, DIM_MAX, 1},
     .head_dim_v = {1, DIM_MAX, 1},
     .align = 4,
     .arch_least = 90,
     .arch_most = 90,
     .arch_features = 1,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)},
};

extern const attune_kernel at_kernel_wgmma_fp32;
const attune_kernel at_kernel_wgmma_fp32 = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "wgmma_fp32",
    .summary = "Hopper: fp32 by six products of bf16, tf32 by three; warp group products, split ahead or on the way",
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
    .source = "wgmma_fp32.cu",
};
