/* How kernels of one dimension are launched: a block for each `rows` queries of each head of each sequence, which is
 * what static_work of device/schedule.cuh reads. */
#ifndef KERNELS_CUDA_LAUNCH_H
#define KERNELS_CUDA_LAUNCH_H

#include "attune/kernel.h"

static inline attune_step_kernel at_launch_by_rows(const char *entry, int32_t rows, int32_t threads, int32_t smem_bytes)
{
    attune_term heads = attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_Q), attune_term_size(ATTUNE_SIZE_BATCH));
    attune_term tiles = attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), attune_term_const(rows));
    return (attune_step_kernel){.entry = entry,
                                .grid = {attune_term_mul(tiles, heads), attune_term_const(1), attune_term_const(1)},
                                .block = {threads, 1, 1},
                                .cluster = {1, 1, 1},
                                .smem = attune_term_const(smem_bytes)};
}

/* The only step of a kernel that may start while the launch before it drains (follow_launch of device/schedule.cuh). */
static inline attune_steps at_follow_by_rows(const char *entry, int32_t rows, int32_t threads, int32_t smem_bytes)
{
    attune_step_kernel kernel = at_launch_by_rows(entry, rows, threads, smem_bytes);
    kernel.programmatic = 1;
    return (attune_steps){.count = 1, .step = {{.kind = ATTUNE_STEP_KERNEL, .as = {.kernel = kernel}}}};
}

#endif
