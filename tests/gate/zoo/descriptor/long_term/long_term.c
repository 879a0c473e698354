/* long_term: its grid is a term that became too long. */
#define OWN_STEPS
#include "attune/kernel.h"

static attune_step plain_step(attune_term grid);

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem, (void)target, (void)config;
    *list = (attune_steps){.count = 1};
    attune_term grid = attune_term_const(1);
    for (int i = 0; i < 20; ++i) {
        grid = attune_term_mul(grid, attune_term_const(1));
    }
    list->step[0] = plain_step(grid);
}

#include "../plain.h"
