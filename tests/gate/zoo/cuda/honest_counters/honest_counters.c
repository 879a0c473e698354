/* honest_counters: the block that comes last, by a counter that a step clears, combines what the others found. */
#define NAME honest_counters
#define SUMMARY "split keys, combined by the last block"
#define PARTIALS per_row(4 * 4 * (problem->head_dim_v + 2))
#define COUNTERS per_row(4) /* more than one for each tile */
#define WORKSPACE per_row(4 * 4 * (problem->head_dim_v + 2) + 4)
#define SMEM(p) (32 * (p->head_dim_qk + p->head_dim_v) * 4 + 16)
#define STEPS(p, list)                                                                                                 \
    list->step[0] = fill_step(PARTIALS, COUNTERS, 0);                                                                  \
    list->step[1] = kernel_step("attend", attune_term_mul(row_tiles(), attune_term_const(4)), THREADS, SMEM(p) - 16);  \
    list->count = 2;
#include "../descriptor.h"
