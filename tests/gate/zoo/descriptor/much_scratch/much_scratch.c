/* much_scratch: it wants a gigabyte of scratch for a thread. */
#define OWN_RESOURCES
#include "attune/kernel.h"

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *needs)
{
    (void)problem, (void)target, (void)config;
    *needs = (attune_resources){.scratch_bytes = 1 << 30, .workspace = attune_term_const(0)};
}

#include "../plain.h"
