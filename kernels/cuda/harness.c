/* harness: descriptor of what is around timed graphs. It computes no attention and is in no catalogue: the gate's
 * executor loads it by itself, once for each STAGE. */
#include "attune/kernel.h"

enum { STAGE, PARAMS };
enum {
    STAGES = 8,
    WAIT = 4,
    POISON_SMEM = 5,
    POISON_LOCAL = 6, /* 1 KiB of a thread's stack, */
    POISON_DEEP = 7,  /* and 16 */
    THREADS = 256,
    BLOCKS_MOST = 1056,
    ROWS_LEAST = 64 /* of a block */
};

/* refill, poison, touch, compare, wait, poison_smem, poison_local, poison_deep */
static const int32_t stage_values[STAGES] = {0, 1, 2, 3, 4, 5, 6, 7};

static const attune_param params[PARAMS] = {[STAGE] = {"STAGE", stage_values, STAGES, 0}};

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)problem, (void)target, (void)config, (void)reason;
    return true;
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    (void)problem;
    *out = (attune_resources){.threads = THREADS,
                              .smem_bytes = config->value[STAGE] == POISON_SMEM ? target->smem_optin_bytes : 0,
                              .workspace = attune_term_const(0)};
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    (void)problem, (void)target;
    *config = (attune_config){{index}};
    return index < STAGES;
}

/* Enough to fill a device with one large set, and no more than small ones have work for. */
static attune_term blocks(void)
{
    attune_term queries =
        attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_Q), attune_term_size(ATTUNE_SIZE_SEQLEN_Q));
    attune_term keys = attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_KV), attune_term_size(ATTUNE_SIZE_TOTAL_KV));
    attune_term rows =
        attune_term_join(attune_term_mul(queries, attune_term_size(ATTUNE_SIZE_BATCH)), ATTUNE_TERM_ADD, keys);
    attune_term wanted = attune_term_ceil_div(rows, attune_term_const(ROWS_LEAST));
    return attune_term_min(wanted, attune_term_const(BLOCKS_MOST));
}

/* So many for each, all of its shared memory or of its threads taken by half of them: who comes late finds another that
 * is done. */
static attune_term every_multiprocessor(int32_t stage)
{
    const int64_t each = stage == POISON_SMEM ? 2 : 16;
    return attune_term_mul(attune_term_size(ATTUNE_SIZE_SM_COUNT), attune_term_const(each));
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    int32_t stage = config->value[STAGE];
    bool waits = stage == WAIT;
    bool of_inputs = stage == 0 || stage == 2;
    bool in_smem = stage == POISON_SMEM;
    bool fills = in_smem || stage == POISON_LOCAL || stage == POISON_DEEP;
    attune_step_kernel kernel = {.entry = "harness",
                                 .grid = {fills   ? every_multiprocessor(stage)
                                          : waits ? attune_term_const(1)
                                                  : blocks(),
                                          waits || fills ? attune_term_const(1) : attune_term_size(ATTUNE_SIZE_TOTAL_Q),
                                          attune_term_const(of_inputs ? 3 : 1)},
                                 .block = {waits ? 32 : THREADS, 1, 1},
                                 .cluster = {1, 1, 1},
                                 .smem = attune_term_const(in_smem ? target->smem_optin_bytes : 0)};
    (void)problem;
    *out = (attune_steps){.count = 1, .step = {{.kind = ATTUNE_STEP_KERNEL, .as = {.kernel = kernel}}}};
}

static const attune_shipped shipped[] = {
    {"b1,h1,s32,d64,fp16", "STAGE=0"}, {"b1,h1,s32,d64,fp32", "STAGE=0"},
    {"b1,h1,s32,d64,fp16", "STAGE=1"}, {"b1,h1,s32,d64,fp16", "STAGE=2"},
    {"b1,h1,s32,d64,fp16", "STAGE=3"}, {"b1,h1,s32,d64,bf16", "STAGE=3"},
    {"b1,h1,s32,d64,fp32", "STAGE=3"}, {"b1,h1,s32,d64,fp16", "STAGE=4"},
    {"b1,h1,s32,d64,fp16", "STAGE=5"}, {NULL, NULL},
};

static const attune_capability can[] = {ATTUNE_CAN_FORWARD(80, ATTUNE_BIT(ATTUNE_STEP_KERNEL))};

extern const attune_kernel at_kernel_harness;
const attune_kernel at_kernel_harness = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "harness",
    .summary = "inputs anew, poison, and a look at every output, around what is timed",
    .traits = ATTUNE_TRAIT_NAMED_ONLY | ATTUNE_TRAIT_CLOCKS, /* WAIT looks at the time */
    .param_count = PARAMS,
    .params = params,
    .shipped = shipped,
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
    .source = "harness.cu",
};
