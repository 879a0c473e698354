/* What descriptors of kernels share whose blocks compute so many `rows` queries of a head of a sequence each: what they
 * take, which configs come first, and the launch, which static_work of device/schedule.cuh reads. */
#ifndef KERNELS_CUDA_LAUNCH_H
#define KERNELS_CUDA_LAUNCH_H

#include "attune/kernel.h"

#define AT_COUNT(array) (sizeof(array) / sizeof(array)[0])

/* The forward pass by one launch of kernels on sm_80 or later, head dims in steps up to `dim_most`, 16-byte copies. */
#define AT_TILES(dtypes_, features_, biases_, dim_step, dim_most)                                                      \
    .ops = ATTUNE_BIT(ATTUNE_FORWARD), .dtypes = (dtypes_), .features = (features_),                                   \
    .offsets = ATTUNE_OFFSETS_FORWARD, .biases = (biases_), .layouts = ATTUNE_LAYOUTS_FORWARD,                         \
    .head_dim_qk = {(dim_step), (dim_most), (dim_step)}, .head_dim_v = {(dim_step), (dim_most), (dim_step)},           \
    .align = 16, .arch_least = 80, .arch_most = ATTUNE_ANY, .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)
#define AT_CAN_TILES(dtypes_, features_, biases_, dim_step, dim_most)                                                  \
    {                                                                                                                  \
        AT_TILES(dtypes_, features_, biases_, dim_step, dim_most)                                                      \
    }

/* Whether a block of so much shared memory, the least that the kernel can do with, runs on the target. */
static inline bool at_has_shared_memory(const attune_target *target, int32_t smem_bytes, attune_reason *reason)
{
    return smem_bytes <= target->smem_optin_bytes ||
           attune_refuse(reason, "shared memory %d B a block: the device gives %d", smem_bytes,
                         target->smem_optin_bytes);
}

/* What a kernel without a workspace takes. */
static inline attune_resources at_block_resources(int32_t threads, int32_t smem_bytes)
{
    return (attune_resources){.threads = threads, .smem_bytes = smem_bytes, .workspace = attune_term_const(0)};
}

/* Whether a config is valid for a problem, and the target has what it takes. */
typedef bool at_fits(const attune_problem *problem, const attune_target *target, const attune_config *config);

/* The index-th config of the list that fits; false where there are no more. */
static inline bool at_fitting(const attune_config *list, size_t count, at_fits *fits, const attune_problem *problem,
                              const attune_target *target, int32_t index, attune_config *config)
{
    for (size_t i = 0; i < count; ++i) {
        if (fits(problem, target, &list[i]) && index-- == 0) {
            *config = list[i];
            return true;
        }
    }
    return false;
}

/* Whether there are two tiles of 64 queries for each multiprocessor. */
static inline bool at_is_large(const attune_problem *problem, const attune_target *target)
{
    int64_t tiles = (problem->seqlen_q + 63) / 64 * problem->batch * problem->heads_q;
    return tiles >= 2 * (int64_t)target->sm_count;
}

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
