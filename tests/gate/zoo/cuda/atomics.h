/* The steps of atomics.cuh. */
#define WORKSPACE per_row(4 * (problem->head_dim_v + 2))
#define STEPS(p, list)                                                                                                 \
    list->step[0] = fill_step(attune_term_const(0), per_row(4 * (int64_t)p->head_dim_v), 0);                           \
    list->step[1] = kernel_step("find_scale", row_tiles(), THREADS, SMEM(p));                                          \
    list->step[2] = kernel_step("add_share", attune_term_mul(row_tiles(), attune_term_const(16)), THREADS, SMEM(p));   \
    list->step[3] = kernel_step("divide", row_tiles(), THREADS, 0);                                                    \
    list->count = 4;
#include "descriptor.h"
