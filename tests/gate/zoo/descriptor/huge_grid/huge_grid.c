/* huge_grid: its grid has more items than there are numbers. */
#define OWN_STEPS
#include "attune/kernel.h"

static attune_step plain_step(attune_term grid);

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem, (void)target, (void)config;
    *list = (attune_steps){.count = 1};
    list->step[0] = plain_step(attune_term_const(INT64_C(1) << 62));
    list->step[0].as.kernel.grid[1] = attune_term_const(INT64_C(1) << 62);
}

#include "../plain.h"
