/* cpu_decode: few query rows a KV head. They are packed together, so that K and V are read once; the keys are split
 * over work items where there are too few heads, and a second step merges the parts. docs/cpu.md explains it. */
#include "split.h"

enum { SPLIT, BLOCK_N, PARAMS };

enum { ROWS = 16 }; /* packed at once, as in the source */

static const int32_t split[] = {0, 256, 512, 1024, 2048, 4096, 8192, 16384}; /* keys of an item; 0: all */
static const int32_t block_n[] = {16, 32, 64, 128, 256};
static const attune_param params[PARAMS] = {
    [SPLIT] = {.name = "SPLIT", .values = split, .count = sizeof split / sizeof *split},
    [BLOCK_N] = {.name = "BLOCK_N", .values = block_n, .count = sizeof block_n / sizeof *block_n},
};

enum { SPLITS = sizeof split / sizeof *split, BLOCKS = sizeof block_n / sizeof *block_n };

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)target;
    if (problem->op != ATTUNE_FORWARD) {
        return attune_refuse(reason, "op %d: only forward (%d) is there", (int)problem->op, (int)ATTUNE_FORWARD);
    }
    int64_t group = problem->heads_q / problem->heads_kv;
    if (problem->seqlen_q > ROWS || problem->seqlen_q * group > ROWS) {
        return attune_refuse(reason,
                             "seqlen_q %lld, with %lld query heads a KV head: at most %d query rows a KV head are "
                             "packed",
                             (long long)problem->seqlen_q, (long long)group, ROWS);
    }
    if (problem->bias != ATTUNE_BIAS_NONE) {
        return attune_refuse(reason, "bias %d: none (%d) is needed", (int)problem->bias, (int)ATTUNE_BIAS_NONE);
    }
    if (problem->mask) {
        return attune_refuse(reason, "mask 1: none is needed");
    }
    return true;
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)problem;
    (void)target;
    (void)config;
    (void)reason;
    return true; /* every pair goes together */
}

static int64_t padded(int64_t count)
{
    return (count + 15) / 16 * 16;
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *needed)
{
    (void)target;
    int64_t pitch_qk = padded(problem->head_dim_qk);
    int64_t pitch_v = padded(problem->head_dim_v);
    int64_t row = pitch_qk + pitch_v + config->value[BLOCK_N] + 16 + 16 + 1; /* the source's place() */
    needed->scratch_bytes = ROWS * row * (int64_t)sizeof(float);
    needed->workspace = split_workspace(problem, config->value[SPLIT]);
}

/* The longest split that gives every thread four items, so that they finish together. */
static int32_t best_split(const attune_problem *problem, const attune_target *target)
{
    int64_t heads = problem->batch * problem->heads_kv;
    int64_t wanted = 4 * (int64_t)(target->threads > 0 ? target->threads : 1);
    if (target->threads <= 1 || heads >= wanted || problem->seqlen_kv <= split[1]) {
        return 0;
    }
    int32_t at = SPLITS - 1;
    while (at > 1 && heads * ((problem->seqlen_kv + split[at] - 1) / split[at]) < wanted) {
        --at;
    }
    return at;
}

/* While a block is computed with, the next is fetched: keys and values of a block fill half of the L1 cache. */
static int32_t best_block(const attune_problem *problem, const attune_target *target)
{
    int64_t bytes = (problem->head_dim_qk + problem->head_dim_v) * (problem->dtype == ATTUNE_FP32 ? 4 : 2);
    int64_t room = (target->l1d_bytes > 0 ? target->l1d_bytes : 32768) / 2;
    int32_t at = BLOCKS - 2; /* longer ones only delay the first values */
    while (at > 0 && block_n[at] * bytes > room) {
        --at;
    }
    return at;
}

/* Every pair, the best split and block first, then those after them in turn. */
static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    if (index < 0 || index >= SPLITS * BLOCKS) {
        return false;
    }
    int32_t s = (best_split(problem, target) + index / BLOCKS) % SPLITS;
    int32_t b = (best_block(problem, target) + index % BLOCKS) % BLOCKS;
    *config = (attune_config){.value = {[SPLIT] = split[s], [BLOCK_N] = block_n[b]}};
    return true;
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem;
    (void)target;
    split_steps("attune_cpu_decode", attune_term_const(1), ATTUNE_SIZE_HEADS_KV, config->value[SPLIT], list);
}

void attune_cpu_decode_baseline(const attune_args *args, int64_t item, void *scratch);
#if defined(__x86_64__)
void attune_cpu_decode_avx2(const attune_args *args, int64_t item, void *scratch);
void attune_cpu_decode_avx512(const attune_args *args, int64_t item, void *scratch);
#endif

extern const attune_kernel at_kernel_cpu_decode;

const attune_kernel at_kernel_cpu_decode = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CPU,
    .name = "cpu_decode",
    .summary = "few query rows: packed by KV head, lanes along the head dims, keys split over threads",
    .param_count = PARAMS,
    .params = params,
    .supports = supports,
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
    .attend =
        {
            [ATTUNE_ISA_BASELINE] = attune_cpu_decode_baseline,
#if defined(__x86_64__)
            [ATTUNE_ISA_AVX2] = attune_cpu_decode_avx2,
            [ATTUNE_ISA_AVX512] = attune_cpu_decode_avx512,
#endif
        },
};
