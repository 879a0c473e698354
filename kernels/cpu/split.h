/* What descriptors of CPU kernels say about keys that are split into parts (device/parts.h is the sources' side): parts
 * of `split` keys are work items, which leave their rows in the workspace, and items of a second step merge them. */
#ifndef KERNELS_CPU_SPLIT_H
#define KERNELS_CPU_SPLIT_H

#include "attune/kernel.h"

/* The parts; at least one, so that outputs are written where there are no keys. */
static inline attune_term split_parts(int32_t split)
{
    attune_term keys = attune_term_size(ATTUNE_SIZE_SEQLEN_KV);
    attune_term parts = attune_term_ceil_div(keys, attune_term_const(split));
    return attune_term_join(parts, ATTUNE_TERM_MAX, attune_term_const(1));
}

/* Bytes: a head, and for each part and row of Q its output in whole vectors, its maximum and its sum. */
static inline attune_term split_workspace(const attune_problem *problem, int32_t split)
{
    const int64_t head = 64;
    if (split == 0) {
        return attune_term_const(0);
    }
    int64_t pitch = (problem->head_dim_v + 15) / 16 * 16;
    attune_term rows =
        attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_Q),
                        attune_term_mul(attune_term_size(ATTUNE_SIZE_BATCH), attune_term_size(ATTUNE_SIZE_SEQLEN_Q)));
    attune_term row_bytes = attune_term_const((pitch + 16) * (int64_t)sizeof(float));
    attune_term parts = attune_term_mul(attune_term_mul(split_parts(split), rows), row_bytes);
    return attune_term_join(parts, ATTUNE_TERM_ADD, attune_term_const(head));
}

static inline attune_step split_attend(const char *entry, attune_term items, attune_term blocks, attune_size heads)
{
    return (attune_step){
        .kind = ATTUNE_STEP_KERNEL,
        .as.kernel = {
            .entry = entry,
            .grid = {attune_term_mul(items, blocks), attune_term_size(heads), attune_term_size(ATTUNE_SIZE_BATCH)},
            .block = {1, 1, 1},
            .cluster = {1, 1, 1},
            .smem = attune_term_const(0),
        }};
}

/* Says in the workspace's first word which step is next: a CPU kernel has one entry for all. */
static inline attune_step split_mark(uint32_t number)
{
    return (attune_step){
        .kind = ATTUNE_STEP_FILL,
        .as.fill = {.offset_bytes = attune_term_const(0), .bytes = attune_term_const(4), .pattern = number}};
}

/* The steps of a kernel whose items are `blocks` for each of `heads` and each part; those that merge, `merges`. */
static inline void split_steps(const char *entry, attune_term blocks, attune_term merges, attune_size heads,
                               int32_t split, attune_steps *list)
{
    if (split == 0) {
        *list = (attune_steps){.count = 1, .step = {split_attend(entry, attune_term_const(1), blocks, heads)}};
        return;
    }
    /* One part is whole and needs no merging. */
    attune_term others = attune_term_join(split_parts(split), ATTUNE_TERM_SUB, attune_term_const(1));
    attune_term several = attune_term_min(others, attune_term_const(1));
    *list = (attune_steps){.count = 4,
                           .step = {split_mark(0), split_attend(entry, split_parts(split), blocks, heads),
                                    split_mark(1), split_attend(entry, several, merges, heads)}};
}

#endif
