/* honest_steps: several steps: blocks attend to a share of the keys each, then others combine what they found. */
#define NAME honest_steps
#define SUMMARY "split keys in two steps"
#define WORKSPACE per_row(4 * 4 * (problem->head_dim_v + 2))
#define STEPS(p, list)                                                                                                 \
    list->step[0] = kernel_step("share", attune_term_mul(row_tiles(), attune_term_const(4)), THREADS, SMEM(p));        \
    list->step[1] = kernel_step("combine", row_tiles(), THREADS, 0);                                                   \
    list->count = 2;
#include "../descriptor.h"
