/* no_config: its heuristic has nothing to offer. */
#define OWN_HEURISTIC
#include "attune/kernel.h"

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    (void)problem, (void)target, (void)index, (void)config;
    return false;
}

#include "../plain.h"
