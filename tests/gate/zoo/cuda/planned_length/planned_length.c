/* planned_length: takes the length of the plan for the length of the call. */
#define NAME planned_length
#define SUMMARY "takes the length of the plan for the length of the call"
#define WORKSPACE attune_term_const(256)
#define STEPS(p, list)                                                                                                 \
    list->step[0] = fill_step(attune_term_const(0), attune_term_const(4), (uint32_t)p->seqlen_kv);                     \
    list->step[1] = kernel_step(ENTRY, GRID, BLOCK, SMEM(p));                                                          \
    list->count = 2;
#include "../descriptor.h"
