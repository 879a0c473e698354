/* weak_cpu_tiled: descriptor. The parameters are cpu_tiled's that the weakened source still has, with its values. */
#include "attune/kernel.h"

enum { BLOCK_M, BLOCK_N, PREFETCH, ORDER, PARAMS };

static const int32_t block_m[] = {8, 16, 32, 48, 64, 96, 128};
static const int32_t block_n[] = {16, 32, 48, 64, 96, 128};
static const int32_t prefetch[] = {0, 1}; /* tiles that K and V are fetched ahead */
static const int32_t order[] = {0, 1};    /* head by head; block by block of all heads */
static const attune_param params[PARAMS] = {
    [BLOCK_M] = {.name = "BLOCK_M", .values = block_m, .count = sizeof block_m / sizeof *block_m},
    [BLOCK_N] = {.name = "BLOCK_N", .values = block_n, .count = sizeof block_n / sizeof *block_n},
    [PREFETCH] = {.name = "PREFETCH", .values = prefetch, .count = sizeof prefetch / sizeof *prefetch},
    [ORDER] = {.name = "ORDER", .values = order, .count = sizeof order / sizeof *order},
};
enum { ROWS = sizeof block_m / sizeof *block_m, KEYS = sizeof block_n / sizeof *block_n, SHAPES = ROWS * KEYS };

static const attune_capability can[] = {
    {.ops = ATTUNE_BIT(ATTUNE_FORWARD),
     .dtypes = ATTUNE_DTYPES_FORWARD,
     .features = ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_STRICT,
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .offsets = ATTUNE_OFFSETS_FORWARD,
     .head_dim_qk = {1, 256, 1},
     .head_dim_v = {1, 256, 1},
     .align = 4,
     .arch_least = ATTUNE_ISA_BASELINE,
     .arch_most = ATTUNE_ANY,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)}};

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)problem, (void)target, (void)config, (void)reason;
    return true;
}

/* The arrays that the source's place() lays out; blocks of rows are whole vectors, of at most 16 lanes. */
static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *needs)
{
    const int64_t rows = (config->value[BLOCK_M] + 15) / 16 * 16, state = 3;
    (void)target;
    *needs = (attune_resources){
        .scratch_bytes = 4 * rows * (problem->head_dim_qk + problem->head_dim_v + config->value[BLOCK_N] + state),
        .workspace = attune_term_const(0)};
}

/* Shapes from a middle one on, then the same with the other parameters changed. */
static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    enum { FIRST = 4 * KEYS + 3, OTHERS = 4 };
    (void)problem, (void)target;
    if (index < 0 || index >= SHAPES * OTHERS) {
        return false;
    }
    const int32_t shape = (index % SHAPES + FIRST) % SHAPES, other = index / SHAPES;
    config->value[BLOCK_M] = block_m[shape / KEYS];
    config->value[BLOCK_N] = block_n[shape % KEYS];
    config->value[PREFETCH] = prefetch[other % 2];
    config->value[ORDER] = order[other / 2];
    return true;
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    const attune_term rows = attune_term_const(config->value[BLOCK_M]);
    (void)problem, (void)target;
    *list = (attune_steps){.count = 1};
    list->step[0] = (attune_step){
        .kind = ATTUNE_STEP_KERNEL,
        .as.kernel = {.entry = "attend_weak_cpu_tiled",
                      .grid = {attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), rows),
                               attune_term_size(ATTUNE_SIZE_HEADS_Q), attune_term_size(ATTUNE_SIZE_BATCH)}}};
}

extern const attune_kernel at_kernel_weak_cpu_tiled;
const attune_kernel at_kernel_weak_cpu_tiled = {.size = sizeof(attune_kernel),
                                                .abi = ATTUNE_ABI,
                                                .target = ATTUNE_TARGET_CPU,
                                                .name = "weak_cpu_tiled",
                                                .summary = "cpu_tiled, weakened: where searches of code begin",
                                                .param_count = PARAMS,
                                                .params = params,
                                                .can = can,
                                                .can_count = 1,
                                                .valid = valid,
                                                .resources = resources,
                                                .heuristic = heuristic,
                                                .steps = steps};
