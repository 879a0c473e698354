/* shrinking_workspace: its workspace shrinks when the problem grows. */
#define OWN_RESOURCES
#include "attune/kernel.h"

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *needs)
{
    (void)problem, (void)target, (void)config;
    *needs = (attune_resources){.workspace = attune_term_join(attune_term_const(4096), ATTUNE_TERM_SUB,
                                                              attune_term_size(ATTUNE_SIZE_SEQLEN_Q))};
}

#include "../plain.h"
