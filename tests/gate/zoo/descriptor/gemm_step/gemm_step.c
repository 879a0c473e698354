/* gemm_step: it asks for a GEMM, which no CPU has. */
#define OWN_STEPS
#include "attune/kernel.h"

static attune_step plain_step(attune_term grid);

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem, (void)target, (void)config;
    *list = (attune_steps){.count = 1};
    list->step[0].kind = ATTUNE_STEP_GEMM;
    list->step[0].as.gemm = (attune_step_gemm){
        .a = {.role = ATTUNE_Q}, .b = {.role = ATTUNE_K}, .c = {.role = ATTUNE_O}, .m = attune_term_const(1)};
    list->step[0].as.gemm.n = list->step[0].as.gemm.k = list->step[0].as.gemm.m;
}

#include "../plain.h"
