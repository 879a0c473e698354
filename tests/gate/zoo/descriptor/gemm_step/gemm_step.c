/* gemm_step: it asks for a GEMM, which no CPU has. */
#define STEPS                                                                                                          \
    list->step[0].kind = ATTUNE_STEP_GEMM;                                                                             \
    list->step[0].as.gemm = (attune_step_gemm){                                                                        \
        .a = {.role = ATTUNE_Q}, .b = {.role = ATTUNE_K}, .c = {.role = ATTUNE_O}, .m = attune_term_const(1)};         \
    list->step[0].as.gemm.n = list->step[0].as.gemm.k = list->step[0].as.gemm.m;
#include "../plain.h"
