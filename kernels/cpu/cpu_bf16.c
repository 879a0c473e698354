/* cpu_bf16: bf16 by the CPU's own dot products, in vectors (AVX-512 BF16) or tiles (AMX). A work item is a block of
 * query rows, of one head or of several that share a KV head; K and V are packed by a step before, or by the item
 * itself. docs/cpu.md explains it. */
#include "split.h"

enum { BLOCK_M, BLOCK_N, HEADS, PACK, PARAMS };

enum { LANES = 16, TILE_BYTES = 64, SCORES = 2 }; /* as in the source */

static const int32_t block_m[] = {16, 32, 64, 96, 128}; /* rows of an item, of all its heads */
static const int32_t block_n[] = {32, 64, 128, 256};
static const int32_t heads[] = {1, 2, 4, 8, 16}; /* query heads of one KV head in an item */
static const int32_t pack[] = {0, 1};            /* each item its own tiles; once, by a step before */
static const attune_param params[PARAMS] = {
    [BLOCK_M] = {.name = "BLOCK_M", .values = block_m, .count = sizeof block_m / sizeof *block_m},
    [BLOCK_N] = {.name = "BLOCK_N", .values = block_n, .count = sizeof block_n / sizeof *block_n},
    [PACK] = {.name = "PACK", .values = pack, .count = sizeof pack / sizeof *pack},
    [HEADS] = {.name = "HEADS", .values = heads, .count = sizeof heads / sizeof *heads},
};

enum {
    ROWS = sizeof block_m / sizeof *block_m,
    KEYS = sizeof block_n / sizeof *block_n,
    BUNDLES = sizeof heads / sizeof *heads,
    PACKS = sizeof pack / sizeof *pack,
    CONFIGS = ROWS * KEYS * BUNDLES * PACKS
};

static int64_t group_of(const attune_problem *problem)
{
    return problem->heads_kv > 0 ? problem->heads_q / problem->heads_kv : 1;
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)target;
    if (config->value[HEADS] > 1 && config->value[HEADS] > group_of(problem)) {
        return attune_refuse(reason, "HEADS %d: a KV head has %lld query heads", (int)config->value[HEADS],
                             (long long)group_of(problem));
    }
    return true;
}

static int64_t whole(int64_t count, int64_t unit)
{
    return (count + unit - 1) / unit * unit;
}

/* Bytes of BLOCK_N packed keys and values. */
static int64_t tile_bytes(const attune_problem *problem, const attune_config *config)
{
    int64_t columns = whole(problem->head_dim_qk, 32) + whole(problem->head_dim_v, 16);
    return (int64_t)sizeof(uint16_t) * config->value[BLOCK_N] * columns;
}

/* Bytes of the arrays that the source's place() lays out. */
static int64_t scratch_bytes(const attune_problem *problem, const attune_config *config)
{
    int64_t rows = 4; /* top, sum, ahead and slope */
    int64_t lane = whole(problem->head_dim_qk, 32) / 2 + whole(problem->head_dim_v, 16) + rows;
    int64_t scores = SCORES * 2 * LANES * (int64_t)config->value[BLOCK_N];
    int64_t own = config->value[PACK] == 0 ? tile_bytes(problem, config) : 0;
    return (int64_t)sizeof(float) * (config->value[BLOCK_M] * lane + scores) + own;
}

/* Tiles of keys, of all KV heads. */
static attune_term key_tiles(const attune_config *config)
{
    return attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_KV), attune_term_const(config->value[BLOCK_N]));
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *needed)
{
    (void)target;
    attune_term owners = attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_KV), attune_term_size(ATTUNE_SIZE_BATCH));
    attune_term bytes = attune_term_const(TILE_BYTES + tile_bytes(problem, config));
    needed->scratch_bytes = scratch_bytes(problem, config);
    if (config->value[PACK] == 0) {
        needed->workspace = attune_term_const(0);
        return;
    }
    needed->workspace = attune_term_join(attune_term_mul(attune_term_mul(key_tiles(config), owners), bytes),
                                         ATTUNE_TERM_ADD, attune_term_const(TILE_BYTES));
}

/* What a config costs, in arbitrary units: work for the padded rows of an item, O touched again for each tile of keys,
 * keys read again for each item, masked halves of tiles, and threads that wait for the last item. The weights are
 * fitted to measurements on 2 and on 16 threads. */
static double cost(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    const int32_t *value = config->value;
    int64_t each = value[BLOCK_M] / value[HEADS];
    int64_t group = group_of(problem);
    int64_t queries = problem->seqlen_q < each ? problem->seqlen_q : each;
    int64_t lanes = whole(value[HEADS] == 1 ? queries : value[BLOCK_M], LANES);
    double panels = lanes == LANES ? 1.3 : (double)whole(lanes, 2 * LANES) / LANES;
    double items = (double)(problem->batch * problem->heads_kv * ((group + value[HEADS] - 1) / value[HEADS])) *
                   (double)((problem->seqlen_q + each - 1) / each);
    double threads = target->threads > 0 ? target->threads : 1;
    double rounds = items / threads;
    double waits = rounds > 0 && rounds < 16 ? (double)(int64_t)(rounds + 0.999) / rounds : 1;
    double keys = (double)problem->seqlen_kv + 1;
    double short_tile = value[BLOCK_N] > problem->seqlen_kv ? 0.1 * value[BLOCK_N] / keys : 0;
    /* What a step packed ahead lies in other threads' caches, from where many threads with few rows each fetch it. */
    double rows = (double)(problem->batch * problem->heads_q) * (double)problem->seqlen_q;
    double far = value[PACK] == 1 && threads >= 8 && rows <= 1024 * threads ? 1.3 : 1;
    double packing = value[PACK] == 0 ? 0.6 * items : 1.6 * (double)(problem->batch * problem->heads_kv);
    double masked = attune_is_causal(problem) ? 0.5 * (double)queries / keys : 0;
    return far * items * waits * (panels * (1 + 16.0 / value[BLOCK_N] + masked + short_tile) + 0.1) + packing * waits;
}

static bool is_candidate(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    return scratch_bytes(problem, config) <= ATTUNE_SCRATCH_MAX && valid(problem, target, config, NULL);
}

/* Configs in ascending cost; among equals those with fewer HEADS, and then the larger BLOCK_N, first. */
static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    double costs[CONFIGS];
    attune_config found[CONFIGS];
    int32_t count = 0;
    for (int32_t i = CONFIGS - 1; i >= 0; --i) {
        attune_config one = {.value = {[BLOCK_M] = block_m[i % ROWS],
                                       [BLOCK_N] = block_n[i / ROWS % KEYS],
                                       [HEADS] = heads[BUNDLES - 1 - i / (ROWS * KEYS) % BUNDLES],
                                       [PACK] = pack[i / (ROWS * KEYS * BUNDLES)]}};
        if (!is_candidate(problem, target, &one)) {
            continue;
        }
        double own = cost(problem, target, &one);
        int32_t at = count++;
        for (; at > 0 && costs[at - 1] > own; --at) {
            costs[at] = costs[at - 1];
            found[at] = found[at - 1];
        }
        costs[at] = own;
        found[at] = one;
    }
    if (index < 0 || index >= count) {
        return false;
    }
    *config = found[index];
    return true;
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    static const char entry[] = "attune_cpu_bf16";
    (void)problem;
    (void)target;
    attune_term group =
        attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_HEADS_Q), attune_term_size(ATTUNE_SIZE_HEADS_KV));
    attune_term bundles = attune_term_ceil_div(group, attune_term_const(config->value[HEADS]));
    attune_term each = attune_term_const(config->value[BLOCK_M] / config->value[HEADS]);
    attune_term blocks = attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), each);
    attune_step attend = split_attend(entry, bundles, blocks, ATTUNE_SIZE_HEADS_KV);
    if (config->value[PACK] == 0) {
        *list = (attune_steps){.count = 1, .step = {attend}};
        return;
    }
    attune_step pack_all = split_attend(entry, attune_term_const(1), key_tiles(config), ATTUNE_SIZE_HEADS_KV);
    *list = (attune_steps){.count = 4, .step = {split_mark(0), pack_all, split_mark(1), attend}};
}

#if defined(__x86_64__)
void attune_cpu_bf16_avx512_bf16(const attune_args *args, int64_t item, void *scratch);
void attune_cpu_bf16_amx(const attune_args *args, int64_t item, void *scratch);
#endif

extern const attune_kernel at_kernel_cpu_bf16;

static const attune_capability can[] = {
    {.ops = ATTUNE_BIT(ATTUNE_FORWARD),
     .dtypes = ATTUNE_BIT(ATTUNE_BF16),
     .dtypes_o = ATTUNE_DTYPES_FORWARD,
     .features = (ATTUNE_FEATURES_FORWARD & ~(uint32_t)(ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_MASK)) |
                 ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_PAGED_V,
     .offsets = ATTUNE_OFFSETS_FORWARD,
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {1, 256, 1},
     .head_dim_v = {1, 256, 1},
     .align = 1,
     .arch_least = ATTUNE_ISA_AVX512_BF16,
     .arch_most = ATTUNE_ANY,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL) | ATTUNE_BIT(ATTUNE_STEP_FILL)},
};

const attune_kernel at_kernel_cpu_bf16 = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CPU,
    .name = "cpu_bf16",
    .summary = "bf16 by the CPU's dot products of pairs, in vectors or AMX tiles; K and V packed once",
    .param_count = PARAMS,
    .params = params,
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
    .attend =
        {
#if defined(__x86_64__)
            [ATTUNE_ISA_AVX512_BF16] = attune_cpu_bf16_avx512_bf16,
            [ATTUNE_ISA_AMX] = attune_cpu_bf16_amx,
#endif
        },
};
