/* overtakes: its second step may begin while the first still runs, and does not wait for it. */
#define NAME overtakes
#define SUMMARY "its second step may begin while the first still runs, and does not wait for it"
#define WORKSPACE per_row(4 * 4 * (problem->head_dim_v + 2))
#define REFUSES(p, t) (t->arch < 90 ? "a device that launches early" : NULL)
#define STEPS(p, list)                                                                                                 \
    list->step[0] = kernel_step("share", attune_term_mul(row_tiles(), attune_term_const(4)), THREADS, SMEM(p));        \
    list->step[1] = kernel_step("combine", row_tiles(), THREADS, 0);                                                   \
    list->step[1].as.kernel.programmatic = 1;                                                                          \
    list->count = 2;
#include "../descriptor.h"
