/* fills_beyond: it fills more of the workspace than it has. */
#define OWN_STEPS
#include "attune/kernel.h"

static attune_step plain_step(attune_term grid);

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem, (void)target, (void)config;
    *list = (attune_steps){.count = 1};
    list->step[0] = (attune_step){.kind = ATTUNE_STEP_FILL,
                                  .as.fill = {attune_term_const(0), attune_term_const(INT64_C(1) << 40), 7}};
}

#include "../plain.h"
