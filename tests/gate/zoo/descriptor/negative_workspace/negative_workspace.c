/* negative_workspace: its workspace is smaller than nothing. */
#define OWN_RESOURCES
#include "attune/kernel.h"

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *needs)
{
    (void)problem, (void)target, (void)config;
    *needs = (attune_resources){.workspace = attune_term_const(-4096)};
}

#include "../plain.h"
