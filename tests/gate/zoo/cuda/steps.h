/* The descriptor of those that attend in two steps (steps.cuh). Where EARLY is 1, the second may begin before the first
 * ends. */
#ifndef EARLY
#define EARLY 0
#endif
#define WORKSPACE per_row(4 * 4 * (problem->head_dim_v + 2))
#define REFUSES(p, t) (EARLY && t->arch < 90 ? "a device that launches early" : NULL)
#define STEPS(p, list)                                                                                                 \
    list->step[0] = kernel_step("share", attune_term_mul(row_tiles(), attune_term_const(4)), THREADS, SMEM(p));        \
    list->step[1] = kernel_step("combine", row_tiles(), THREADS, 0);                                                   \
    list->step[1].as.kernel.programmatic = EARLY;                                                                      \
    list->count = 2;
