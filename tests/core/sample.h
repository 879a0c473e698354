/* A small descriptor that keeps the contract, for tests to use and to break one place at a time. */
#ifndef TESTS_CORE_SAMPLE_H
#define TESTS_CORE_SAMPLE_H

#include <string.h>

#include "attune/kernel.h"

static const int32_t sample_block_m[] = {16, 32, 64};
static const int32_t sample_stages[] = {-1, 2};
static const attune_param sample_params[] = {{"BLOCK_M", sample_block_m, 3, 0}, {"STAGES", sample_stages, 2, 0}};

/* The dimensions that it cannot are its table's, what else it cannot its function's. */
static const attune_capability sample_can[] = {{.ops = ATTUNE_BIT(ATTUNE_FORWARD),
                                                .dtypes = ATTUNE_DTYPES_FORWARD,
                                                .features = ATTUNE_FEATURES_FORWARD,
                                                .offsets = ATTUNE_OFFSETS_FORWARD,
                                                .biases = ATTUNE_BIASES_FORWARD,
                                                .layouts = ATTUNE_LAYOUTS_FORWARD,
                                                .head_dim_qk = {8, 256, 8},
                                                .head_dim_v = {1, 256, 1},
                                                .align = 1,
                                                .arch_most = ATTUNE_ANY,
                                                .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)}};

static inline bool sample_valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                                attune_reason *reason)
{
    (void)problem;
    (void)target;
    if (config->value[0] == 16 && config->value[1] == -1) {
        return attune_refuse(reason, "STAGES -1: BLOCK_M of 32 or more is needed");
    }
    return true;
}

static inline void sample_resources(const attune_problem *problem, const attune_target *target,
                                    const attune_config *config, attune_resources *resources)
{
    (void)problem;
    (void)target;
    resources->threads = 128;
    resources->smem_bytes = 1000 * config->value[0];
    resources->scratch_bytes = 512 * config->value[0];
    resources->workspace = attune_term_mul(attune_term_size(ATTUNE_SIZE_TOTAL_Q), attune_term_const(4));
}

static inline bool sample_heuristic(const attune_problem *problem, const attune_target *target, int32_t index,
                                    attune_config *config)
{
    (void)problem;
    (void)target;
    if (index > 1) {
        return false;
    }
    *config = (attune_config){{index == 0 ? 64 : 32, 2}};
    return true;
}

static inline void sample_steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                                attune_steps *steps)
{
    (void)problem;
    (void)target;
    attune_step_kernel *kernel = &steps->step[0].as.kernel;
    steps->count = 1;
    steps->step[0].kind = ATTUNE_STEP_KERNEL;
    kernel->entry = "sample";
    kernel->grid[0] = attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), attune_term_const(config->value[0]));
    kernel->grid[1] = attune_term_size(ATTUNE_SIZE_HEADS_Q);
    kernel->grid[2] = attune_term_size(ATTUNE_SIZE_BATCH);
    kernel->smem = attune_term_const(0);
    for (int i = 0; i < 3; ++i) {
        kernel->block[i] = 1;
        kernel->cluster[i] = 1;
    }
}

static inline void sample_attend(const attune_args *args, int64_t item, void *scratch)
{
    (void)args;
    (void)item;
    (void)scratch;
}

static inline attune_kernel sample_kernel(attune_target_kind target)
{
    attune_kernel kernel = {
        .size = sizeof kernel,
        .abi = ATTUNE_ABI,
        .target = target,
        .name = "sample",
        .summary = "does nothing, correctly declared",
        .param_count = 2,
        .params = sample_params,
        .can = sample_can,
        .can_count = 1,
        .valid = sample_valid,
        .resources = sample_resources,
        .heuristic = sample_heuristic,
        .steps = sample_steps,
    };
    if (target == ATTUNE_TARGET_CPU) {
        kernel.attend[ATTUNE_ISA_BASELINE] = sample_attend;
    } else {
        kernel.source = "sample.cu";
    }
    return kernel;
}

#endif
