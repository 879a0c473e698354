/* wgmma_small: descriptor. The source says how it works. */
#include "launch.h"

enum {
    ROWS,
    SPLITS,
    CLUSTER,
    BLOCK_N,
    STAGES,
    LOOPED,
    STEPS_PV,
    MIN_BLOCKS,
    PROGRAMMATIC,
    OVERLAP,
    LAZY,
    Q_REGISTERS,
    PARAMS
};

static const int32_t one_to_four[] = {1, 2, 3, 4};
static const int32_t powers_of_two[] = {1, 2, 4, 8};
static const int32_t stages_values[] = {1, 2, 3, 4, 8};
static const int32_t lazy_values[] = {0, 8};
static const int32_t block_n_values[] = {64, 128};
static const int32_t switch_values[] = {0, 1};

static const attune_param params[PARAMS] = {
    [ROWS] = {"ROWS", one_to_four, 4, 0},
    [SPLITS] = {"SPLITS", powers_of_two, 3, 0},
    [CLUSTER] = {"CLUSTER", powers_of_two, 3, 0},
    [BLOCK_N] = {"BLOCK_N", block_n_values, 2, 0},
    [STAGES] = {"STAGES", stages_values, 5, 0},
    [LOOPED] = {"LOOPED", switch_values, 2, 0},
    [STEPS_PV] = {"STEPS_PV", powers_of_two, 4, 0},
    [MIN_BLOCKS] = {"MIN_BLOCKS", one_to_four, 4, 0},
    [PROGRAMMATIC] = {"PROGRAMMATIC", switch_values, 2, 0},
    [OVERLAP] = {"OVERLAP", switch_values, 2, 0},
    [LAZY] = {"LAZY", lazy_values, 2, 0},
    [Q_REGISTERS] = {"Q_REGISTERS", switch_values, 2, 0},
};

enum { CHUNK = 64, GROUP = 128, DIM_STEP = 8, DIM_MAX = 128, WARP_GROUPS_MAX = 4, REGISTERS_MAX = 255 };

static int32_t padded(int32_t dim)
{
    return (dim + CHUNK - 1) / CHUNK * CHUNK;
}

static int32_t block_m(const attune_config *config)
{
    return config->value[ROWS] * 64;
}

static int32_t threads_of(const attune_config *config)
{
    return config->value[ROWS] * config->value[SPLITS] * GROUP;
}

static int32_t parts_of(const attune_config *config)
{
    return config->value[CLUSTER] * config->value[SPLITS];
}

static int32_t slots_of(const attune_config *config)
{
    return config->value[STAGES] * config->value[SPLITS];
}

/* What parts hand to one another; something where nobody does. */
static int32_t parcels_of(int32_t octets, const attune_config *config)
{
    int32_t splits = config->value[SPLITS];
    int32_t blocks = config->value[CLUSTER];
    int32_t warps = threads_of(config) / 32;
    int32_t from_splits = (octets / splits * 512 + 128) * (splits - 1) * warps;
    int32_t from_blocks = (octets / parts_of(config) * 512 + 128) * (blocks - 1) * warps;
    return parts_of(config) == 1 ? 128 : from_splits + from_blocks;
}

/* sizeof(Shared) of the source: Q, the ring, parcels, barriers. */
static int32_t smem_of(const attune_problem *problem, const attune_config *config)
{
    int32_t qk = padded(problem->head_dim_qk);
    int32_t v = padded(problem->head_dim_v);
    int32_t tiles = 2 * (block_m(config) * qk + slots_of(config) * config->value[BLOCK_N] * (qk + v));
    int32_t barriers = config->value[ROWS] + slots_of(config) * 4 + threads_of(config) / 32;
    return tiles + parcels_of(v / 8, config) + (barriers + 15) / 16 * 128;
}

static int64_t tiles_of(const attune_problem *problem, int32_t rows)
{
    return (problem->seqlen_q + rows - 1) / rows * problem->batch * problem->heads_q;
}

/* What it is for: at most two tiles of 128 queries a multiprocessor, one where heads are wide; and the more tiles, the
 * fewer keys. Beyond them wgmma is faster (docs/hopper_small.md). */
enum { TILE = 128 };

static int32_t keys_most(const attune_problem *problem, int64_t tiles, int64_t sm_count, bool wide)
{
    if (2 * tiles <= sm_count) {
        return 2048;
    }
    if (wide) {
        return attune_is_causal(problem) ? 576 : 384;
    }
    return tiles <= sm_count ? 1024 : 512;
}

static bool has_pairs(const attune_problem *problem)
{
    return problem->bias != ATTUNE_BIAS_NONE || problem->mask;
}

/* With a bias or a mask: not few queries, as wgmma (wgmma.c), nor scales whose inverse is of no use; and of more tiles
 * wgmma, which has warps to bring them, is faster (bench/results/small_pairs.tsv). */
enum { QUERIES_FEW = 16 };

static bool takes_pairs(const attune_problem *problem, attune_reason *reason)
{
    const double size = problem->scale < 0 ? -problem->scale : problem->scale;
    if (has_pairs(problem) && problem->seqlen_q <= QUERIES_FEW) {
        return attune_refuse(reason, "seqlen_q %lld: more than %d with a bias or a mask", (long long)problem->seqlen_q,
                             QUERIES_FEW);
    }
    return problem->bias == ATTUNE_BIAS_NONE || size == 0 || (size >= 1e-6 && size <= 1e6) ||
           attune_refuse(reason, "scale %g with a bias: 1e-6 to 1e6, or below 0", (double)problem->scale);
}

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    const bool wide = padded(problem->head_dim_qk) > CHUNK || padded(problem->head_dim_v) > CHUNK;
    const int64_t tiles = tiles_of(problem, TILE), of_sm = (int64_t)target->sm_count * (wide ? 1 : 2);
    const int64_t most = has_pairs(problem) ? target->sm_count / 2 : of_sm;
    const int32_t keys = keys_most(problem, tiles, target->sm_count, wide);
    if (tiles > most) {
        return attune_refuse(reason, "seqlen_q, heads_q, batch: %lld tiles of %d queries, at most %lld for %d SMs",
                             (long long)tiles, TILE, (long long)most, target->sm_count);
    }
    if (problem->seqlen_kv > keys) {
        return attune_refuse(reason, "seqlen_kv %lld: at most %d with %lld tiles of queries%s",
                             (long long)problem->seqlen_kv, keys, (long long)tiles, wide ? " and wide heads" : "");
    }
    return takes_pairs(problem, reason);
}

/* Registers a thread is about to hold: O, logits, weights, and the rest, which is more where bias and mask are read. */
static int32_t registers_held(const attune_problem *problem, const attune_config *config)
{
    const bool has_both = problem->bias != ATTUNE_BIAS_NONE && problem->mask;
    return padded(problem->head_dim_v) / 2 + config->value[BLOCK_N] * 3 / 4 + (has_both ? 56 : 40);
}

/* Registers a thread may have: each of a multiprocessor's four parts holds 512 for each lane of a warp. */
static int32_t registers_given(const attune_config *config)
{
    int32_t warps = config->value[MIN_BLOCKS] * threads_of(config) / 32;
    int32_t given = 512 / ((warps + 3) / 4) / 8 * 8;
    return given < REGISTERS_MAX ? given : REGISTERS_MAX;
}

/* Keys that are in flight at once. */
static int64_t ring_of(const attune_config *config)
{
    return (int64_t)slots_of(config) * config->value[CLUSTER] * config->value[BLOCK_N];
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)target;
    if (config->value[ROWS] * config->value[SPLITS] > WARP_GROUPS_MAX) {
        return attune_refuse(reason, "ROWS * SPLITS = %d warp groups: at most %d",
                             config->value[ROWS] * config->value[SPLITS], WARP_GROUPS_MAX);
    }
    if (padded(problem->head_dim_v) / 16 % parts_of(config) != 0) {
        return attune_refuse(reason, "CLUSTER * SPLITS = %d parts: head_dim_v %d has %d stripes of 16",
                             parts_of(config), problem->head_dim_v, padded(problem->head_dim_v) / 16);
    }
    if (config->value[BLOCK_N] / 16 % config->value[STEPS_PV] != 0) {
        return attune_refuse(reason, "STEPS_PV %d: BLOCK_N %d has %d steps of 16 keys", config->value[STEPS_PV],
                             config->value[BLOCK_N], config->value[BLOCK_N] / 16);
    }
    if (registers_held(problem, config) > registers_given(config)) {
        return attune_refuse(reason, "ROWS, SPLITS, MIN_BLOCKS leave %d registers a thread: about %d are needed",
                             registers_given(config), registers_held(problem, config));
    }
    if (config->value[LOOPED] && config->value[STAGES] == 1) {
        return attune_refuse(reason, "STAGES 1: LOOPED 1 needs 2, values being copied a tile after their keys");
    }
    if (config->value[OVERLAP] &&
        (config->value[LOOPED] || config->value[STAGES] == 1 || config->value[STEPS_PV] > 1)) {
        return attune_refuse(reason, "OVERLAP 1: with LOOPED 0, STAGES above 1 and STEPS_PV 1 only");
    }
    if (!config->value[OVERLAP] && (config->value[LAZY] > 0 || config->value[Q_REGISTERS])) {
        return attune_refuse(reason, "OVERLAP 0: with LAZY 0 and Q_REGISTERS 0 only");
    }
    if (!config->value[LOOPED] && ring_of(config) < problem->seqlen_kv) {
        return attune_refuse(reason, "LOOPED 0: the ring has %lld keys, all %lld are needed",
                             (long long)ring_of(config), (long long)problem->seqlen_kv);
    }
    return true;
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    (void)target;
    *out = at_block_resources(threads_of(config), smem_of(problem, config));
}

static bool is_short_unmasked(const attune_problem *problem)
{
    return !attune_is_causal(problem) && problem->seqlen_kv <= 256;
}

/* By what has won on an H200 (132 multiprocessors), likeliest first: tiles of 64 queries with two multiprocessors each,
 * with one each; tiles of 128 likewise, then of 256; where keys are too many to be copied at once, rings. `waves` is
 * the most blocks there may be for each multiprocessor. */
static const struct {
    attune_config config;
    int32_t waves;
    bool (*suits)(const attune_problem *problem); /* NULL: any */
} candidates[] = {
    {{{1, 2, 2, 128, 1, 0, 2, 1, 1, 0, 0, 0}}, 1, NULL},
    {{{1, 2, 2, 128, 2, 1, 2, 1, 1, 0, 0, 0}}, 1, NULL},
    {{{1, 2, 1, 128, 2, 0, 2, 1, 1, 0, 0, 0}}, 1, NULL},
    {{{2, 2, 2, 64, 4, 0, 1, 1, 1, 1, 8, 1}}, 1, NULL},
    {{{2, 1, 2, 128, 2, 1, 2, 1, 1, 0, 0, 0}}, 1, NULL},
    {{{2, 1, 1, 128, 2, 1, 2, 1, 1, 0, 0, 0}}, 1, is_short_unmasked},
    {{{2, 2, 1, 64, 4, 0, 1, 1, 1, 1, 8, 1}}, 1, NULL},
    {{{4, 1, 2, 64, 8, 0, 1, 1, 1, 1, 8, 1}}, 1, NULL},
    {{{2, 1, 1, 128, 2, 1, 2, 1, 1, 0, 0, 0}}, 1, NULL},
    {{{4, 1, 1, 64, 8, 0, 1, 1, 1, 1, 8, 1}}, 1, NULL},
    {{{2, 1, 1, 64, 2, 1, 4, 2, 1, 0, 0, 0}}, 2, NULL},
    {{{2, 1, 1, 64, 2, 1, 4, 1, 1, 0, 0, 0}}, INT32_MAX, NULL},
};

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; ++i) {
        const attune_config *at = &candidates[i].config;
        int64_t blocks = tiles_of(problem, block_m(at)) * at->value[CLUSTER];
        bool suits = candidates[i].suits == NULL || candidates[i].suits(problem);
        if (suits && blocks <= (int64_t)candidates[i].waves * target->sm_count && valid(problem, target, at, NULL) &&
            smem_of(problem, at) <= target->smem_optin_bytes && index-- == 0) {
            *config = *at;
            return true;
        }
    }
    return false;
}

/* Whether O leaves through the copy engine, as the source decides it. */
static bool boxed(const attune_problem *problem, const attune_config *config)
{
    return !has_pairs(problem) && config->value[OVERLAP] && config->value[Q_REGISTERS] && parts_of(config) == 1 &&
           problem->head_dim_v % 16 == 0 && padded(problem->head_dim_v) <= padded(problem->head_dim_qk);
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    (void)target;
    const int32_t *value = config->value;
    attune_term tiles =
        attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), attune_term_const(block_m(config)));
    attune_step_kernel kernel = {
        .entry = "sm90_fwd_wgmma_small",
        .grid = {attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_Q), attune_term_const(value[CLUSTER])),
                 attune_term_size(ATTUNE_SIZE_BATCH), tiles},
        .block = {threads_of(config), 1, 1},
        .cluster = {value[CLUSTER], 1, 1},
        .smem = attune_term_const(smem_of(problem, config)),
        .programmatic = value[PROGRAMMATIC],
        .map_count = boxed(problem, config) ? 4 : 3,
        .map = {{ATTUNE_Q, ATTUNE_SWIZZLE_128B, {CHUNK, 64, 1, 1}, 256, ""},
                {ATTUNE_K, ATTUNE_SWIZZLE_128B, {CHUNK, value[BLOCK_N], 1, 1}, 256, ""},
                {ATTUNE_V, ATTUNE_SWIZZLE_128B, {CHUNK, value[BLOCK_N], 1, 1}, 256, ""},
                {ATTUNE_O, ATTUNE_SWIZZLE_128B, {CHUNK, 16, 1, 1}, 0, ""}}};
    *out = (attune_steps){.count = 1, .step = {{.kind = ATTUNE_STEP_KERNEL, .as = {.kernel = kernel}}}};
}

static const attune_shipped shipped[] = {
    {"b1,h8,s512,d64,fp16", ""},
    {"b1,h8,s512,d64,bf16,causal", ""},
    {"b1,h8,s512,d128,fp16", ""},
    {"b2,h8,s512,d64,fp16,causal", ""},
    {"b1,h8,s1024,d64,fp16", ""},
    {"b1,h8,s1024,d64,bf16,causal", ""},
    {"b2,h8,s1024,d64,fp16", ""},
    {"b2,h8,s1024,d64,fp16,causal", ""},
    {"b2,h16,s512,d64,fp16", ""},
    {"b2,h16,s512,d64,fp16,causal", ""},
    {"b4,h16,s256,d64,fp16", ""},
    {"b4,h16,s512,d64,fp16", ""},
    {"b4,h16,s512,d64,fp16,causal", ""},
    {"b2,h8,s512,d128,fp16", ""},
    {"b2,h16,hkv4,s500,d128,bf16,causal", ""},
    {"b2,h4,hkv2,s300,d80,dv48,bf16,causal", ""},
    {"b1,h8,s512,d64,bf16,bias=1xh", ""},
    {"b1,h8,s1024,d64,fp16,mask", ""},
    {"b2,h4,s1024,d64,fp16,bias=bxh:fp32,mask", ""},
    {"b1,h8,s512,d128,bf16,causal,mask", ""},
    {"b2,h4,hkv2,s300,d80,dv48,bf16,causal,bias=1xh,mask", ""},
    {NULL, NULL},
};

static const attune_capability can[] = {
    {.ops = ATTUNE_BIT(ATTUNE_FORWARD),
     .dtypes = ATTUNE_DTYPES_HALF,
     .dtypes_bias = ATTUNE_DTYPES_FORWARD,
     .features = ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_MASK,
     .biases = ATTUNE_BIASES_FORWARD,
     /* Keys that no row sees may hold anything, and the tile that they share with others takes them in. */
     .offsets = ATTUNE_BIT(ATTUNE_OFFSET_BOTTOM_RIGHT),
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {DIM_STEP, DIM_MAX, DIM_STEP},
     .head_dim_v = {DIM_STEP, DIM_MAX, DIM_STEP},
     .align = 16,
     .arch_least = 90,
     .arch_most = 90,
     .arch_features = 1,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)},
};

extern const attune_kernel at_kernel_wgmma_small;
const attune_kernel at_kernel_wgmma_small = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "wgmma_small",
    .summary = "Hopper's wgmma for few tiles: keys divided among a cluster, merged through its shared memory",
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
    .source = "wgmma_small.cu",
};
