/* my_kernel, the descriptor: what the kernel computes, what it needs, and what to launch, as data and pure functions of
 * (problem, target, config). It does nothing: attune asks it in a process that has no files, no clock and no GPU. */
#include "attune/kernel.h"

enum { BLOCK_N, PARAMS }; /* where a parameter is in a config */

/* What a search may choose among. A config changes the speed, never the result beyond rounding. */
static const int32_t block_n[] = {16, 32, 64, 128};
static const attune_param params[PARAMS] = {{.name = "BLOCK_N", .values = block_n, .count = 4}};

/* What it computes. Whatever is not said here (windows, biases, varlen, ...) is refused by attune, in words. */
static const attune_capability can[] = {{.ops = ATTUNE_BIT(ATTUNE_FORWARD),
                                         .dtypes = ATTUNE_DTYPES_FORWARD, /* fp32, fp16, bf16 */
                                         .features = ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_STRICT,
                                         .layouts = ATTUNE_LAYOUTS_FORWARD,
                                         .offsets = ATTUNE_OFFSETS_FORWARD, /* where query rows are among the keys */
                                         .head_dim_qk = {1, 256, 1},        /* least, most, step */
                                         .head_dim_v = {1, 256, 1},
                                         .align = 1,
                                         .arch_least = ATTUNE_ISA_BASELINE,
                                         .arch_most = ATTUNE_ANY,
                                         .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)}};

/* Whether the parameters' values go together: with one parameter, always. */
static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)problem, (void)target, (void)config, (void)reason;
    return true;
}

/* Scratch of a thread: scores of a tile of keys, and a row of O. Nothing may grow with the length of the sequence. */
static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *needs)
{
    (void)target;
    *needs = (attune_resources){.scratch_bytes = (config->value[BLOCK_N] + problem->head_dim_v) * 4,
                                .workspace = attune_term_const(0)};
}

/* The most promising configs, best first. Index 0 always exists. */
static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    static const int32_t order[] = {64, 128, 32, 16};
    (void)problem, (void)target;
    if (index >= 4) {
        return false;
    }
    config->value[BLOCK_N] = order[index];
    return true;
}

/* One work item a query row of a head. The sizes of the grid are terms: they are those of the call, known only then. */
static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem, (void)target, (void)config;
    *list = (attune_steps){.count = 1};
    list->step[0] = (attune_step){
        .kind = ATTUNE_STEP_KERNEL,
        .as.kernel = {.entry = "attend_my_kernel",
                      .grid = {attune_term_size(ATTUNE_SIZE_SEQLEN_Q), attune_term_size(ATTUNE_SIZE_HEADS_Q),
                               attune_term_size(ATTUNE_SIZE_BATCH)}}};
}

extern const attune_kernel at_kernel_my_kernel;
const attune_kernel at_kernel_my_kernel = {.size = sizeof(attune_kernel),
                                           .abi = ATTUNE_ABI,
                                           .target = ATTUNE_TARGET_CPU,
                                           .name = "my_kernel",
                                           .summary = "a row at a time, keys in tiles with an online softmax",
                                           .param_count = PARAMS,
                                           .params = params,
                                           .can = can,
                                           .can_count = 1,
                                           .valid = valid,
                                           .resources = resources,
                                           .heuristic = heuristic,
                                           .steps = steps};
