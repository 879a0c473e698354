/* Descriptors of CPU kernels without parameters: one config, one step, no workspace. */
#ifndef KERNELS_CPU_SINGLE_H
#define KERNELS_CPU_SINGLE_H

#include "attune/kernel.h"

static inline bool single_valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                                attune_reason *reason)
{
    (void)problem;
    (void)target;
    (void)config;
    (void)reason;
    return true;
}

static inline void single_resources(const attune_problem *problem, const attune_target *target,
                                    const attune_config *config, attune_resources *needed)
{
    (void)problem;
    (void)target;
    (void)config;
    needed->workspace = attune_term_const(0);
}

static inline bool single_heuristic(const attune_problem *problem, const attune_target *target, int32_t index,
                                    attune_config *config)
{
    (void)problem;
    (void)target;
    *config = (attune_config){{0}};
    return index == 0;
}

static inline void single_step(const char *entry, attune_term items, attune_steps *list)
{
    *list = (attune_steps){.count = 1,
                           .step = {{.kind = ATTUNE_STEP_KERNEL,
                                     .as.kernel = {.entry = entry,
                                                   .grid = {items, attune_term_const(1), attune_term_const(1)},
                                                   .block = {1, 1, 1},
                                                   .cluster = {1, 1, 1},
                                                   .smem = attune_term_const(0)}}}};
}

#endif
