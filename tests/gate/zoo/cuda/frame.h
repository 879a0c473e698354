/* What the descriptors of both zoos have in common: names as texts, functions of kernels without parameters, and the
 * kernel itself, around the `supports`, `resources` and `steps` of whoever includes this. It is here because this
 * folder is carried to devices by itself. */
#ifndef ZOO_FRAME_H
#define ZOO_FRAME_H

#include "attune/kernel.h"

#define TEXT(x) TEXT_OF(x)
#define TEXT_OF(x) #x
#define JOIN(a, b) JOIN_OF(a, b)
#define JOIN_OF(a, b) a##b

#ifndef TRAITS
#define TRAITS 0
#endif
#ifndef WORKSPACE
#define WORKSPACE attune_term_const(0)
#endif

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    (void)problem, (void)target, (void)config, (void)reason;
    return true;
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    (void)problem, (void)target, (void)config;
    return index == 0;
}

/* The kernel NAME for such a target; `file` is its source, NULL on a CPU. */
#define ZOO_KERNEL(where, file)                                                                                        \
    extern const attune_kernel JOIN(at_kernel_, NAME);                                                                 \
    const attune_kernel JOIN(at_kernel_, NAME) = {                                                                     \
        .size = sizeof(attune_kernel),                                                                                 \
        .abi = ATTUNE_ABI,                                                                                             \
        .target = where,                                                                                               \
        .name = TEXT(NAME),                                                                                            \
        .summary = SUMMARY,                                                                                            \
        .traits = TRAITS,                                                                                              \
        .can = can,                                                                                                    \
        .can_count = sizeof can / sizeof can[0],                                                                       \
        .supports = supports,                                                                                          \
        .valid = valid,                                                                                                \
        .resources = resources,                                                                                        \
        .heuristic = heuristic,                                                                                        \
        .steps = steps,                                                                                                \
        .source = file,                                                                                                \
    }

#endif
