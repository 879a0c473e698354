/* merge: descriptor. The source says how it works. */
#include "attune/kernel.h"
#include "launch.h"

enum { ROWS, PARAMS };

static const int32_t rows_values[] = {2, 4, 8, 16, 32};

static const attune_param params[PARAMS] = {[ROWS] = {"ROWS", rows_values, 5, 0}};

enum { THREADS_USUAL = 128, THREADS_MAX = 512 };

/* Threads that share a row, as in the source. */
static int32_t lanes_of(const attune_problem *problem)
{
    return problem->head_dim_v > 64 ? 32 : problem->head_dim_v > 32 ? 16 : 8;
}

static int32_t threads_of(const attune_problem *problem, const attune_config *config)
{
    return config->value[ROWS] * lanes_of(problem);
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)target;
    int32_t threads = threads_of(problem, config);
    return (threads % 32 == 0 && threads <= THREADS_MAX) ||
           attune_refuse(reason, "ROWS %d x %d lanes: whole warps are needed, of at most %d threads",
                         config->value[ROWS], lanes_of(problem), THREADS_MAX);
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    (void)target;
    *out = at_block_resources(threads_of(problem, config), 0);
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    (void)target;
    *config = (attune_config){{THREADS_USUAL / lanes_of(problem)}};
    return index == 0;
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    (void)target;
    const attune_term heads =
        attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_Q), attune_term_size(ATTUNE_SIZE_BATCH));
    const attune_term rows = attune_term_mul(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), heads);
    *out = (attune_steps){
        .count = 1,
        .step = {{.kind = ATTUNE_STEP_KERNEL,
                  .as.kernel = {.entry = "merge",
                                .grid = {attune_term_ceil_div(rows, attune_term_const(config->value[ROWS])),
                                         attune_term_const(1), attune_term_const(1)},
                                .block = {threads_of(problem, config), 1, 1},
                                .cluster = {1, 1, 1},
                                .smem = attune_term_const(0),
                                .programmatic = 1}}}};
}

static const attune_shipped shipped[] = {
    {"merge:b64,h32,sq1,d128,fp32,o=bf16,states=2", ""},
    {"merge:b1,h8,sq512,d64,bf16,states=16,sink", ""},
    {"merge:b2,h4,sq13,d33,fp16,states=3", ""},
    {NULL, NULL},
};

static const attune_capability can[] = {
    {.ops = ATTUNE_BIT(ATTUNE_MERGE),
     .dtypes = ATTUNE_DTYPES_FORWARD,
     .dtypes_o = ATTUNE_DTYPES_FORWARD,
     .features = ATTUNE_FEATURE_SINK,
     .offsets = ATTUNE_OFFSETS_FORWARD,
     .layouts = ATTUNE_LAYOUTS_FORWARD,
     .head_dim_qk = {1, 256, 1},
     .head_dim_v = {1, 256, 1},
     .align = 1,
     .arch_least = 80,
     .arch_most = ATTUNE_ANY,
     .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)},
};

extern const attune_kernel at_kernel_merge;
const attune_kernel at_kernel_merge = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "merge",
    .summary = "partial results over different keys into one, by their LSE",
    .param_count = PARAMS,
    .params = params,
    .shipped = shipped,
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
    .source = "merge.cu",
};
