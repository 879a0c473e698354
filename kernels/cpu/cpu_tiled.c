/* cpu_tiled: the CPU's general kernel. Query rows in blocks, keys in tiles, an online softmax between two register-
 * blocked products; one work item is one block of rows of one head. docs/cpu.md explains it. */
#include "attune/kernel.h"

enum { BLOCK_M, BLOCK_N, PARAMS };

static const int32_t block_m[] = {8, 16, 32, 64, 128};
static const int32_t block_n[] = {16, 24, 32, 48, 64, 96, 128};
static const attune_param params[PARAMS] = {
    [BLOCK_M] = {.name = "BLOCK_M", .values = block_m, .count = sizeof block_m / sizeof *block_m},
    [BLOCK_N] = {.name = "BLOCK_N", .values = block_n, .count = sizeof block_n / sizeof *block_n},
};

enum { CONFIGS = sizeof block_m / sizeof *block_m * (sizeof block_n / sizeof *block_n) };

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)target;
    if (problem->op != ATTUNE_FORWARD) {
        return attune_refuse(reason, "op %d: only forward (%d) is there", (int)problem->op, (int)ATTUNE_FORWARD);
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
    return true; /* what a config may not exceed is scratch, which resources() counts */
}

/* Bytes of the arrays that the source's place() lays out. */
static int64_t scratch_bytes(const attune_problem *problem, int64_t m, int64_t n)
{
    int64_t qk = problem->head_dim_qk;
    int64_t v = problem->head_dim_v;
    int64_t lanes = m < 16 ? 16 : m;
    int64_t pitch = ((qk > v ? qk : v) + 15) / 16 * 16;
    int64_t rows = 3; /* maximum, sum and decay */
    return (int64_t)sizeof(float) * (lanes * (qk + v + rows + n) + n * pitch);
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *needed)
{
    (void)target;
    needed->scratch_bytes = scratch_bytes(problem, config->value[BLOCK_M], config->value[BLOCK_N]);
    needed->workspace = attune_term_const(0);
}

/* Rows that `rows` of a block occupy: whole panels of one or two vectors. */
static double padded(int64_t rows, int64_t block, int64_t lanes)
{
    int64_t panel = rows <= lanes || block <= lanes ? lanes : 2 * lanes;
    return (double)((rows + panel - 1) / panel * panel);
}

/* Threads worth having: waking one takes as long as some 200,000 multiply-adds. */
static double useful_threads(const attune_problem *problem, const attune_target *target)
{
    double rows = (double)problem->batch * (double)problem->heads_q * (double)problem->seqlen_q;
    double work = rows * (double)problem->seqlen_kv * (problem->head_dim_qk + problem->head_dim_v);
    double most = 1 + work / 200000;
    return target->threads < most ? (target->threads > 0 ? target->threads : 1) : (double)(int64_t)most;
}

/* What a config costs, in arbitrary units: work for padded rows, keys and values read again for every block, results
 * updated once a tile, and threads that wait for the last item. The weights are fitted to measurements (docs/cpu.md).
 */
static double cost(const attune_problem *problem, const attune_target *target, int64_t m, int64_t n)
{
    int64_t lanes = target->isa >= ATTUNE_ISA_AVX512 ? 16 : 4 * ((int64_t)1 << (int)target->isa);
    int64_t whole = problem->seqlen_q / m;
    int64_t rest = problem->seqlen_q % m;
    double blocks = (double)(whole + (rest > 0));
    double rows = (double)whole * padded(m, m, lanes) + (rest > 0 ? padded(rest, m, lanes) : 0);
    double items = (double)problem->batch * (double)problem->heads_q * blocks;
    double rounds = items / useful_threads(problem, target);
    double waits = rounds > 0 && rounds < 16 ? (double)(int64_t)(rounds + 0.999) / rounds : 1;
    double reading = problem->dtype == ATTUNE_FP32 ? 2.5 : 4;
    double masked = problem->causal ? 0.5 * (double)(m + n) / (double)(problem->seqlen_kv + 1) : 0;
    return (rows * (1 + 3 / (double)n + masked) + blocks * reading) * waits;
}

/* Configs in ascending cost, those with the larger BLOCK_N first among equals. */
static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    double costs[CONFIGS];
    int32_t m[CONFIGS], n[CONFIGS];
    int32_t count = 0;
    for (int32_t i = CONFIGS - 1; i >= 0; --i) {
        int32_t rows = block_m[i % (int32_t)params[BLOCK_M].count];
        int32_t keys = block_n[i / (int32_t)params[BLOCK_M].count];
        if (scratch_bytes(problem, rows, keys) > ATTUNE_SCRATCH_MAX) {
            continue;
        }
        double own = cost(problem, target, rows, keys);
        int32_t at = count++;
        for (; at > 0 && costs[at - 1] > own; --at) {
            costs[at] = costs[at - 1];
            m[at] = m[at - 1];
            n[at] = n[at - 1];
        }
        costs[at] = own;
        m[at] = rows;
        n[at] = keys;
    }
    if (index < 0 || index >= count) {
        return false;
    }
    *config = (attune_config){.value = {[BLOCK_M] = m[index], [BLOCK_N] = n[index]}};
    return true;
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem;
    (void)target;
    attune_term block = attune_term_const(config->value[BLOCK_M]);
    *list = (attune_steps){.count = 1};
    list->step[0].kind = ATTUNE_STEP_KERNEL;
    list->step[0].as.kernel = (attune_step_kernel){
        .entry = "attune_cpu_tiled",
        .grid = {attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), block),
                 attune_term_size(ATTUNE_SIZE_HEADS_Q), attune_term_size(ATTUNE_SIZE_BATCH)},
        .block = {1, 1, 1},
        .cluster = {1, 1, 1},
        .smem = attune_term_const(0),
    };
}

void attune_cpu_tiled_baseline(const attune_args *args, int64_t item, void *scratch);
#if defined(__x86_64__)
void attune_cpu_tiled_avx2(const attune_args *args, int64_t item, void *scratch);
void attune_cpu_tiled_avx512(const attune_args *args, int64_t item, void *scratch);
#endif

extern const attune_kernel at_kernel_cpu_tiled;

const attune_kernel at_kernel_cpu_tiled = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CPU,
    .name = "cpu_tiled",
    .summary = "the whole of attention, in tiles with an online softmax; register-blocked, for every tier",
    .traits = ATTUNE_TRAIT_GENERAL,
    .param_count = PARAMS,
    .params = params,
    .supports = supports,
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
    .attend =
        {
            [ATTUNE_ISA_BASELINE] = attune_cpu_tiled_baseline,
#if defined(__x86_64__)
            [ATTUNE_ISA_AVX2] = attune_cpu_tiled_avx2,
            [ATTUNE_ISA_AVX512] = attune_cpu_tiled_avx512,
#endif
        },
};
