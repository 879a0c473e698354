/* What the zoo of descriptors shares: a plain descriptor for a CPU. A descriptor defines some of these macros, fields
 * and statements of functions, and includes this. */
#ifndef ZOO_DESCRIPTOR_PLAIN_H
#define ZOO_DESCRIPTOR_PLAIN_H

#include <string.h>

#include "attune/kernel.h"

#ifndef NAME
#define NAME "zoo"
#endif
#ifndef SUMMARY
#define SUMMARY "a descriptor"
#endif
#ifndef ABI
#define ABI ATTUNE_ABI
#endif
#ifndef TRAITS
#define TRAITS 0
#endif
#ifndef PARAMS
#define PARAMS NULL, 0
#endif
#ifndef CONFIGS /* that the heuristic offers */
#define CONFIGS 1
#endif
#ifndef RESOURCES
#define RESOURCES .scratch_bytes = 1024, .workspace = attune_term_const(0)
#endif
#ifndef SUPPORTS /* statements, with `problem`, `target`, `reason` */
#define SUPPORTS return true;
#endif
#ifndef STEPS /* statements that change `list`, of one empty step */
#define STEPS list->step[0] = plain_step(attune_term_const(1));
#endif
#define FIRST(a, b) a
#define SECOND(a, b) b
#define FIRST_OF(pair) FIRST pair
#define SECOND_OF(pair) SECOND pair

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)problem, (void)target, (void)reason;
    SUPPORTS
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *needs)
{
    (void)problem, (void)target, (void)config;
    *needs = (attune_resources){RESOURCES};
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    (void)problem, (void)target, (void)config;
    return index < CONFIGS;
}

static inline attune_step plain_step(attune_term grid)
{
    return (attune_step){.kind = ATTUNE_STEP_KERNEL,
                         .as.kernel = {.entry = "attend_zoo",
                                       .grid = {grid, attune_term_const(1), attune_term_const(1)},
                                       .block = {1, 1, 1},
                                       .cluster = {1, 1, 1},
                                       .smem = attune_term_const(0)}};
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem, (void)target, (void)config;
    *list = (attune_steps){.count = 1};
    STEPS
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)problem, (void)target, (void)config, (void)reason;
    return true;
}

static const attune_capability can[] = {ATTUNE_CAN_FORWARD(
    0, ATTUNE_BIT(ATTUNE_STEP_KERNEL) | ATTUNE_BIT(ATTUNE_STEP_FILL) | ATTUNE_BIT(ATTUNE_STEP_GEMM))};

extern const attune_kernel at_kernel_zoo;
const attune_kernel at_kernel_zoo = {
    .size = sizeof(attune_kernel),
    .abi = ABI,
    .target = ATTUNE_TARGET_CPU,
    .name = NAME,
    .summary = SUMMARY,
    .traits = TRAITS,
    .params = FIRST_OF((PARAMS)),
    .param_count = SECOND_OF((PARAMS)),
    .can = can,
    .can_count = sizeof can / sizeof can[0],
    .supports = supports,
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
};

#endif
