/* cpu_tiled: the CPU's general kernel. Query rows in blocks, keys in tiles, an online softmax between two register-
 * blocked products; one work item is one block of rows of one head. docs/cpu.md explains it. */
#include "split.h"
#include "tiers.h"

enum { BLOCK_M, BLOCK_N, PANEL, EXP, PREFETCH, PACK, ORDER, SPLIT, PARAMS };

static const int32_t block_m[] = {8, 16, 32, 48, 64, 96, 128};
static const int32_t block_n[] = {16, 32, 48, 64, 96, 128};
static const int32_t panel[] = {1, 2, 3, 4};         /* vectors of rows that a product keeps in registers */
static const int32_t degree[] = {4, 5, 6};           /* of exp's polynomial */
static const int32_t prefetch[] = {0, 1};            /* tiles that K and V are fetched ahead */
static const int32_t pack[] = {0, 1};                /* 1: a tile of K or V is copied; 0: read where it is */
static const int32_t order[] = {0, 1};               /* head by head; block by block of all heads */
static const int32_t split[] = {0, 256, 1024, 4096}; /* keys of a part; 0: all */
static const attune_param params[PARAMS] = {
    [BLOCK_M] = {.name = "BLOCK_M", .values = block_m, .count = sizeof block_m / sizeof *block_m},
    [BLOCK_N] = {.name = "BLOCK_N", .values = block_n, .count = sizeof block_n / sizeof *block_n},
    [PANEL] = {.name = "PANEL", .values = panel, .count = sizeof panel / sizeof *panel},
    [EXP] = {.name = "EXP", .values = degree, .count = sizeof degree / sizeof *degree},
    [PREFETCH] = {.name = "PREFETCH", .values = prefetch, .count = sizeof prefetch / sizeof *prefetch},
    [PACK] = {.name = "PACK", .values = pack, .count = sizeof pack / sizeof *pack},
    [ORDER] = {.name = "ORDER", .values = order, .count = sizeof order / sizeof *order},
    [SPLIT] = {.name = "SPLIT", .values = split, .count = sizeof split / sizeof *split},
};

enum {
    ROWS = sizeof block_m / sizeof *block_m,
    KEYS = sizeof block_n / sizeof *block_n,
    PANELS = sizeof panel / sizeof *panel,
    SPLITS = sizeof split / sizeof *split,
    SHAPES = ROWS * KEYS * PANELS
};

/* Query rows in a vector. */
static int64_t lanes_of(const attune_target *target)
{
    return target->isa >= ATTUNE_ISA_AVX512 ? 16 : target->isa == ATTUNE_ISA_AVX2 ? 8 : 4;
}

static int64_t threads_of(const attune_target *target)
{
    return target->threads > 0 ? target->threads : 1;
}

/* Blocks of query rows, of all heads. */
static int64_t count_blocks(const attune_problem *problem, int64_t m)
{
    return problem->batch * problem->heads_q * ((problem->seqlen_q + m - 1) / m);
}

static bool valid_split(const attune_problem *problem, const attune_target *target, const attune_config *config,
                        attune_reason *reason)
{
    const int64_t few = 8 * threads_of(target);
    int64_t keys = config->value[SPLIT];
    int64_t blocks = count_blocks(problem, config->value[BLOCK_M]);
    if (keys == 0) {
        return true;
    }
    if (keys >= problem->seqlen_kv) {
        return attune_refuse(reason, "SPLIT %lld: the %lld keys are one part, as with 0", (long long)keys,
                             (long long)problem->seqlen_kv);
    }
    if (blocks >= few) {
        return attune_refuse(reason, "SPLIT %lld: %lld blocks of rows keep the threads busy; fewer than %lld may split",
                             (long long)keys, (long long)blocks, (long long)few);
    }
    return true;
}

/* Whether K and V can be read where they are: as fp32, whose rows are a step apart. */
static bool is_readable(const attune_problem *problem)
{
    return attune_dtype_of(problem, ATTUNE_K) == ATTUNE_FP32 && attune_dtype_of(problem, ATTUNE_V) == ATTUNE_FP32 &&
           problem->page_size == 0;
}

/* Refuses what another config says as well, and what its storage type does not go with. */
static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    const int32_t *value = config->value;
    int64_t lanes = lanes_of(target);
    int64_t vectors = (value[BLOCK_M] + lanes - 1) / lanes;
    if (vectors % value[PANEL] != 0) {
        return attune_refuse(reason, "PANEL %d: BLOCK_M %d has %lld vectors of %lld rows, no whole panels",
                             (int)value[PANEL], (int)value[BLOCK_M], (long long)vectors, (long long)lanes);
    }
    if (problem->dtype == ATTUNE_FP32 && value[EXP] < 5) {
        return attune_refuse(reason, "EXP %d: fp32 needs at least degree 5", (int)value[EXP]);
    }
    if (value[PACK] == 0 && !is_readable(problem)) {
        return attune_refuse(reason, "PACK 0: numbers of 16 bits, or in pages, cannot be read where they are");
    }
    return valid_split(problem, target, config, reason);
}

static int64_t rounded_up(int64_t count, int64_t unit)
{
    return (count + unit - 1) / unit * unit;
}

/* Bytes of the arrays that the source's place() lays out. */
static int64_t scratch_bytes(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    const int64_t group = 12, packed_columns = 48; /* of the source */
    int64_t qk = problem->head_dim_qk, v = problem->head_dim_v;
    int64_t m = rounded_up(config->value[BLOCK_M], lanes_of(target)), n = config->value[BLOCK_N];
    int64_t keys = group * rounded_up(qk, 16);
    int64_t values = n * (v < packed_columns ? rounded_up(v, 16) : packed_columns);
    int64_t packed = config->value[PACK] == 0 ? 0 : keys > values ? keys : values;
    int64_t rows = 3; /* maximum, sum and decay */
    return (int64_t)sizeof(float) * (m * (qk + v + rows + n) + packed);
}

/* Whether a config is valid and its scratch fits. */
static bool fits(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    return valid(problem, target, config, NULL) && scratch_bytes(problem, target, config) <= ATTUNE_SCRATCH_MAX;
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *needed)
{
    needed->scratch_bytes = scratch_bytes(problem, target, config);
    needed->workspace = split_workspace(problem, config->value[SPLIT]);
}

/* Rows that `rows` of a block occupy: whole panels. */
static double padded(int64_t rows, int64_t vectors, int64_t lanes)
{
    int64_t all = (rows + lanes - 1) / lanes;
    int64_t width = all < vectors ? all : vectors;
    return (double)((all + width - 1) / width * width * lanes);
}

/* Threads worth having: waking one takes as long as some 200,000 multiply-adds. */
static double useful_threads(const attune_problem *problem, const attune_target *target)
{
    double rows = (double)problem->batch * (double)problem->heads_q * (double)problem->seqlen_q;
    double work = rows * (double)problem->seqlen_kv * (problem->head_dim_qk + problem->head_dim_v);
    double most = 1 + work / 200000;
    double threads = (double)threads_of(target);
    return threads < most ? threads : (double)(int64_t)most;
}

/* What panels of 1 to 4 vectors cost beside the best, as a share: numbers loaded for each multiply-add, and, where
 * there are 16 registers, sums that do not fit. */
static double panel_cost(const attune_target *target, int32_t vectors)
{
    static const double of_32_registers[] = {0.25, 0.04, 0.01, 0};
    static const double of_16_registers[] = {0.2, 0, 0, 0.3};
    return (target->isa >= ATTUNE_ISA_AVX512 ? of_32_registers : of_16_registers)[vectors - 1];
}

/* What a shape costs, in arbitrary units: work for padded rows, keys and values read again for every block, results
 * updated once a tile, tiles that crowd the cache, and threads that wait for the last item. The weights are fitted to
 * measurements (docs/cpu.md). */
static double cost(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    int64_t lanes = lanes_of(target);
    int64_t m = config->value[BLOCK_M], n = config->value[BLOCK_N];
    int64_t whole = problem->seqlen_q / m;
    int64_t rest = problem->seqlen_q % m;
    double blocks = (double)(whole + (rest > 0));
    double rows = (double)whole * padded(m, config->value[PANEL], lanes) +
                  (rest > 0 ? padded(rest, config->value[PANEL], lanes) : 0);
    int64_t keys = config->value[SPLIT];
    double parts = keys > 0 ? (double)((problem->seqlen_kv + keys - 1) / keys) : 1;
    double items = (double)problem->batch * (double)problem->heads_q * blocks * parts;
    double rounds = items / useful_threads(problem, target);
    double waits = rounds > 0 && rounds < 16 ? (double)(int64_t)(rounds + 0.999) / rounds : 1 + 0.5 / (rounds + 1);
    double reading = config->value[PACK] == 0 ? 1 : 3.4;
    double tiles = 2 / (double)n + (double)n / 6000 + (double)m / 16000;
    double masked = attune_is_causal(problem) ? 0.5 * (double)(m + n) / (double)(problem->seqlen_kv + 1) : 0;
    return (rows * (1 + panel_cost(target, config->value[PANEL]) + tiles + masked) + blocks * reading) * waits;
}

/* The longest part that gives every thread four items, where there are too few blocks; else 0. */
static int32_t best_split(const attune_problem *problem, const attune_target *target, int64_t m)
{
    int64_t blocks = count_blocks(problem, m);
    int64_t wanted = 4 * threads_of(target);
    if (threads_of(target) == 1 || blocks >= wanted || problem->seqlen_kv <= split[1]) {
        return 0;
    }
    int32_t at = SPLITS - 1;
    while (at > 1 && blocks * ((problem->seqlen_kv + split[at] - 1) / split[at]) < wanted) {
        --at;
    }
    return split[at];
}

/* Whether keys and values come from beyond the threads' own caches, so that it pays to ask for them early. */
static bool far_away(const attune_problem *problem, const attune_target *target)
{
    int64_t keys = problem->batch * problem->heads_kv * problem->seqlen_kv;
    int64_t near_by = threads_of(target) * (target->l2_bytes > 0 ? target->l2_bytes : 262144);
    return is_readable(problem) && keys * (problem->head_dim_qk + problem->head_dim_v) * 4 > near_by;
}

/* Whether rows of K and V had better be copied. NOTE: rows a multiple of 4096 bytes apart share one set of the L1
 * cache, whose few ways a tile's rows overflow; up to 1 KB apart they do not. */
static bool better_packed(const attune_problem *problem)
{
    int64_t widest = problem->head_dim_qk > problem->head_dim_v ? problem->head_dim_qk : problem->head_dim_v;
    int64_t apart = widest * (problem->layout == ATTUNE_BSHD ? problem->heads_kv : 1);
    return !is_readable(problem) || apart * (int64_t)sizeof(float) > 1024;
}

/* A shape with what goes best with it otherwise. */
static attune_config config_of(const attune_problem *problem, const attune_target *target, int32_t shape)
{
    attune_config config = {{0}};
    config.value[BLOCK_M] = block_m[shape / PANELS % ROWS];
    config.value[BLOCK_N] = block_n[shape / PANELS / ROWS];
    config.value[PANEL] = panel[shape % PANELS];
    config.value[EXP] = problem->dtype == ATTUNE_FP32 ? 5 : 4;
    config.value[PREFETCH] = far_away(problem, target);
    config.value[PACK] = better_packed(problem);
    config.value[SPLIT] = best_split(problem, target, config.value[BLOCK_M]);
    return config;
}

/* All shapes that fit, in ascending cost, those with the larger BLOCK_N first among equals; returns their number. */
static int32_t rank_shapes(const attune_problem *problem, const attune_target *target, attune_config ranked[SHAPES])
{
    double costs[SHAPES];
    int32_t count = 0;
    for (int32_t shape = SHAPES - 1; shape >= 0; --shape) {
        attune_config config = config_of(problem, target, shape);
        if (!fits(problem, target, &config)) {
            continue;
        }
        double own = cost(problem, target, &config);
        int32_t at = count++;
        for (; at > 0 && costs[at - 1] > own; --at) {
            costs[at] = costs[at - 1];
            ranked[at] = ranked[at - 1];
        }
        costs[at] = own;
        ranked[at] = config;
    }
    return count;
}

/* The index-th config that differs from *config in one parameter beside its shape; false when there are no more. */
static bool vary(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    for (int32_t which = EXP; which < PARAMS; ++which) {
        for (int32_t i = 0; i < params[which].count; ++i) {
            attune_config other = *config;
            other.value[which] = params[which].values[i];
            if (other.value[which] != config->value[which] && fits(problem, target, &other) && index-- == 0) {
                *config = other;
                return true;
            }
        }
    }
    return false;
}

/* A few shapes in ascending cost, what the first of them is with one other parameter changed, then the other shapes. */
static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    const int32_t few = 4;
    attune_config ranked[SHAPES];
    int32_t count = rank_shapes(problem, target, ranked);
    int32_t first = count < few ? count : few;
    int32_t changes = 0;
    for (attune_config other = ranked[0]; vary(problem, target, changes, &other); other = ranked[0]) {
        ++changes;
    }
    if (index < 0 || index >= count + changes) {
        return false;
    }
    if (index >= first && index < first + changes) {
        *config = ranked[0];
        return vary(problem, target, index - first, config);
    }
    *config = ranked[index < first ? index : index - changes];
    return true;
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem;
    (void)target;
    attune_term rows = attune_term_const(config->value[BLOCK_M]);
    attune_term blocks = attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), rows);
    const int64_t merged_rows = 8; /* of an item, as in the source */
    attune_term merges = attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), attune_term_const(merged_rows));
    split_steps("attune_cpu_tiled", blocks, merges, ATTUNE_SIZE_HEADS_Q, config->value[SPLIT], list);
}

DECLARE_EVERY_TIER(attune_cpu_tiled);

extern const attune_kernel at_kernel_cpu_tiled;

static const attune_capability can[] = {
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
     .arch_least = ATTUNE_ISA_BASELINE,
     .arch_most = ATTUNE_ANY,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL) | ATTUNE_BIT(ATTUNE_STEP_FILL)},
};

const attune_kernel at_kernel_cpu_tiled = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CPU,
    .name = "cpu_tiled",
    .summary = "the whole of attention, in tiles with an online softmax; register-blocked, for every tier",
    .traits = ATTUNE_TRAIT_GENERAL,
    .param_count = PARAMS,
    .params = params,
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
    .attend = EVERY_TIER(attune_cpu_tiled),
};
