/* cpu_decode: few query rows a KV head. They are packed together, so that K and V are read once; the keys are split
 * over work items where there are too few heads, and a second step merges the parts. docs/cpu.md explains it. */
#include "split.h"
#include "tiers.h"

enum { SPLIT, BLOCK_N, AHEAD, ORDER, PARAMS };

enum { ROWS = 16 }; /* packed at once, as in the source */
enum { DOTS = 51328 /* bytes: what the source has for tiles */ };

static const int32_t split[] = {0, 256, 512, 1024, 2048, 4096, 8192, 16384}; /* keys of an item; 0: all */
static const int32_t block_n[] = {16, 32, 64, 128, 256};
static const int32_t ahead[] = {4, 8, 16, 32}; /* KB that K and V are fetched ahead */
static const int32_t order[] = {0, 1};         /* several keys side by side; one after the other */
static const attune_param params[PARAMS] = {
    [SPLIT] = {.name = "SPLIT", .values = split, .count = sizeof split / sizeof *split},
    [BLOCK_N] = {.name = "BLOCK_N", .values = block_n, .count = sizeof block_n / sizeof *block_n},
    [AHEAD] = {.name = "AHEAD", .values = ahead, .count = sizeof ahead / sizeof *ahead},
    [ORDER] = {.name = "ORDER", .values = order, .count = sizeof order / sizeof *order},
};

enum {
    SPLITS = sizeof split / sizeof *split,
    BLOCKS = sizeof block_n / sizeof *block_n,
    AHEADS = sizeof ahead / sizeof *ahead,
    ORDERS = sizeof order / sizeof *order
};

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)target;
    int64_t group = problem->heads_q / problem->heads_kv;
    if (problem->seqlen_q > ROWS || problem->seqlen_q * group > ROWS) {
        return attune_refuse(reason,
                             "seqlen_q %lld, with %lld query heads a KV head: at most %d query rows a KV head are "
                             "packed",
                             (long long)problem->seqlen_q, (long long)group, ROWS);
    }
    return true;
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)target;
    int64_t keys = config->value[SPLIT];
    if (keys > 0 && keys >= problem->seqlen_kv) {
        return attune_refuse(reason, "SPLIT %lld: the %lld keys are one part, as with 0", (long long)keys,
                             (long long)problem->seqlen_kv);
    }
    return true;
}

static int64_t padded(int64_t count)
{
    return (count + 15) / 16 * 16;
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *needed)
{
    const bool in_tiles = target->isa >= ATTUNE_ISA_AMX && attune_dtype_of(problem, ATTUNE_K) == ATTUNE_BF16;
    int64_t pitch_qk = padded(problem->head_dim_qk);
    int64_t pitch_v = padded(problem->head_dim_v);
    int64_t row = pitch_qk + pitch_v + config->value[BLOCK_N] + 16 + 16 + 1; /* the source's place() */
    needed->scratch_bytes = ROWS * row * (int64_t)sizeof(float) + (in_tiles ? DOTS : 0);
    needed->workspace = split_workspace(problem, config->value[SPLIT]);
}

/* The longest split of at most MOST keys that gives every thread four items, so that they finish together. NOTE: longer
 * ones took up to a tenth more time with one sequence on 16 CPUs. */
static int32_t best_split(const attune_problem *problem, const attune_target *target)
{
    enum { MOST = 4096 };
    int64_t heads = problem->batch * problem->heads_kv;
    int64_t wanted = 4 * (int64_t)(target->threads > 0 ? target->threads : 1);
    if (target->threads <= 1 || heads >= wanted || problem->seqlen_kv <= split[1]) {
        return 0;
    }
    int32_t at = SPLITS - 1;
    while (at > 1 && (split[at] > MOST || heads * ((problem->seqlen_kv + split[at] - 1) / split[at]) < wanted)) {
        --at;
    }
    return at;
}

static int64_t row_bytes(const attune_problem *problem, attune_role role, int64_t dims)
{
    return dims * (attune_dtype_of(problem, role) == ATTUNE_FP32 ? 4 : 2);
}

/* Whether the source asks for K and V in turns, a block ahead. */
static bool in_turns(const attune_problem *problem, const attune_target *target)
{
    return target->isa >= ATTUNE_ISA_AMX &&
           row_bytes(problem, ATTUNE_K, problem->head_dim_qk) == row_bytes(problem, ATTUNE_V, problem->head_dim_v);
}

/* Which way to go through K and V. One row after the other is what memory gives the fastest where rows are asked for a
 * few KB ahead; for 16-bit numbers that is worth less than the operands that are loaded again and the values that are
 * widened twice, and with vectors of AVX2 less than the products that then wait for each other. */
static bool best_order(const attune_problem *problem, const attune_target *target)
{
    return attune_dtype_of(problem, ATTUNE_K) == ATTUNE_FP32 && target->isa != ATTUNE_ISA_AVX2 &&
           !in_turns(problem, target);
}

/* Every config, the best first, then those that differ in BLOCK_N, in AHEAD, in ORDER and at last in SPLIT. */
static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    const int32_t likely_block = 3, likely_ahead = 1; /* 128 keys, 8 KB */
    int32_t likely_split = best_split(problem, target);
    for (int32_t i = 0; index >= 0 && i < BLOCKS * AHEADS * ORDERS * SPLITS; ++i) {
        int32_t n = (likely_block + i) % BLOCKS;
        int32_t a = (likely_ahead + i / BLOCKS) % AHEADS;
        int32_t o = (best_order(problem, target) + i / BLOCKS / AHEADS) % ORDERS;
        int32_t s = (likely_split + i / BLOCKS / AHEADS / ORDERS) % SPLITS;
        attune_config one = {
            .value = {[SPLIT] = split[s], [BLOCK_N] = block_n[n], [AHEAD] = ahead[a], [ORDER] = order[o]}};
        if (valid(problem, target, &one, NULL) && index-- == 0) {
            *config = one;
            return true;
        }
    }
    return false;
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem;
    (void)target;
    attune_term one = attune_term_const(1);
    split_steps("attune_cpu_decode", one, one, ATTUNE_SIZE_HEADS_KV, config->value[SPLIT], list);
}

DECLARE_EVERY_TIER_AND_AMX(attune_cpu_decode);

extern const attune_kernel at_kernel_cpu_decode;

static const attune_capability can[] = {
    {.ops = ATTUNE_BIT(ATTUNE_FORWARD),
     .dtypes = ATTUNE_DTYPES_FORWARD,
     .dtypes_k = ATTUNE_DTYPES_FORWARD,
     .dtypes_v = ATTUNE_DTYPES_FORWARD,
     .dtypes_o = ATTUNE_DTYPES_FORWARD,
     .features = (ATTUNE_FEATURES_FORWARD & ~(uint32_t)(ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_MASK)) |
                 ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_PAGED_V | ATTUNE_FEATURE_DRAFT,
     .offsets = ATTUNE_OFFSETS_FORWARD,
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {1, 256, 1},
     .head_dim_v = {1, 256, 1},
     .align = 1,
     .arch_least = ATTUNE_ISA_BASELINE,
     .arch_most = ATTUNE_ANY,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL) | ATTUNE_BIT(ATTUNE_STEP_FILL)},
};

const attune_kernel at_kernel_cpu_decode = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CPU,
    .name = "cpu_decode",
    .summary = "few query rows: packed by KV head, lanes along the head dims, keys split over threads",
    .param_count = PARAMS,
    .params = params,
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .supports = supports,
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
    .attend = EVERY_TIER_AND_AMX(attune_cpu_decode),
};
