/* wild_term: its grid is a term of an operation that nobody knows. */
#define OWN_STEPS
#include "attune/kernel.h"

static attune_step plain_step(attune_term grid);

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem, (void)target, (void)config;
    *list = (attune_steps){.count = 1};
    attune_term wild = {{ATTUNE_TERM_CONST, 77}, {1, 1}};
    list->step[0] = plain_step(wild);
}

#include "../plain.h"
