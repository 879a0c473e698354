/* What the zoo of descriptors shares: a plain descriptor for a CPU. Each function is there unless the macro of its name
 * says that the kernel brings its own; so are the fields. */
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
#define FIRST(a, b) a
#define SECOND(a, b) b
#define FIRST_OF(pair) FIRST pair
#define SECOND_OF(pair) SECOND pair

#ifndef OWN_SUPPORTS
static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)problem, (void)target, (void)reason;
    return true;
}
#endif

#ifndef OWN_RESOURCES
static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *needs)
{
    (void)problem, (void)target, (void)config;
    *needs = (attune_resources){.scratch_bytes = 1024, .workspace = attune_term_const(0)};
}
#endif

#ifndef OWN_HEURISTIC
static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    (void)problem, (void)target, (void)config;
    return index == 0;
}
#endif

static inline attune_step plain_step(attune_term grid)
{
    return (attune_step){.kind = ATTUNE_STEP_KERNEL,
                         .as.kernel = {.entry = "attend_zoo",
                                       .grid = {grid, attune_term_const(1), attune_term_const(1)},
                                       .block = {1, 1, 1},
                                       .cluster = {1, 1, 1},
                                       .smem = attune_term_const(0)}};
}

#ifndef OWN_STEPS
static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem, (void)target, (void)config;
    *list = (attune_steps){.count = 1};
    list->step[0] = plain_step(attune_term_const(1));
}
#endif

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)problem, (void)target, (void)config, (void)reason;
    return true;
}

#ifndef OWN_CAN
static const attune_capability can[] = {ATTUNE_CAN_FORWARD(
    0, ATTUNE_BIT(ATTUNE_STEP_KERNEL) | ATTUNE_BIT(ATTUNE_STEP_FILL) | ATTUNE_BIT(ATTUNE_STEP_GEMM))};
#endif

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
