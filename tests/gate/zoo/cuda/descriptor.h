/* The descriptor that the CUDA zoo shares: what attend.cuh computes. A kernel's descriptor defines NAME and SUMMARY,
 * and perhaps some of the other macros, and includes this. */
#ifndef ZOO_CUDA_DESCRIPTOR_H
#define ZOO_CUDA_DESCRIPTOR_H

#include "frame.h"

#ifndef THREADS
#define THREADS 128
#endif
#ifndef BLOCK /* threads that the step launches */
#define BLOCK THREADS
#endif
#ifndef SMEM /* bytes; `p` is the problem */
#define SMEM(p) (32 * (p->head_dim_qk + p->head_dim_v) * 4)
#endif
#ifndef ENTRY
#define ENTRY "attend"
#endif
#ifndef GRID
#define GRID row_tiles()
#endif
#ifndef REFUSES /* what else it does not support: a text, or NULL */
#define REFUSES(p, t) NULL
#endif

/* 32 query rows of one head a block. */
static inline attune_term row_tiles(void)
{
    attune_term tiles = attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), attune_term_const(32));
    return attune_term_mul(tiles,
                           attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_Q), attune_term_size(ATTUNE_SIZE_BATCH)));
}

/* Query rows of all heads, and what `bytes` for each of them comes to. */
static inline attune_term per_row(int64_t bytes)
{
    attune_term rows =
        attune_term_mul(attune_term_size(ATTUNE_SIZE_SEQLEN_Q),
                        attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_Q), attune_term_size(ATTUNE_SIZE_BATCH)));
    return attune_term_mul(rows, attune_term_const(bytes));
}

static inline attune_step kernel_step(const char *entry, attune_term grid, int32_t threads, int32_t smem)
{
    return (attune_step){.kind = ATTUNE_STEP_KERNEL,
                         .as.kernel = {.entry = entry,
                                       .grid = {grid, attune_term_const(1), attune_term_const(1)},
                                       .block = {threads, 1, 1},
                                       .cluster = {1, 1, 1},
                                       .smem = attune_term_const(smem)}};
}

static inline attune_step fill_step(attune_term offset, attune_term bytes, uint32_t pattern)
{
    return (attune_step){.kind = ATTUNE_STEP_FILL,
                         .as.fill = {.offset_bytes = offset, .bytes = bytes, .pattern = pattern}};
}

#ifndef STEPS
#define STEPS(p, list)                                                                                                 \
    list->step[0] = kernel_step(ENTRY, GRID, BLOCK, SMEM(p));                                                          \
    list->count = 1;
#endif

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    const char *refused = REFUSES(problem, target);
    (void)target;
    if (problem->seqlen_q / 32 * problem->heads_q * problem->batch > (1 << 30)) {
        return attune_refuse(reason, "seqlen_q %lld: too many blocks", (long long)problem->seqlen_q);
    }
    return refused == NULL || attune_refuse(reason, "%s", refused);
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *needs)
{
    (void)target, (void)config;
    *needs = (attune_resources){.threads = THREADS, .smem_bytes = SMEM(problem), .workspace = WORKSPACE};
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *list)
{
    (void)problem, (void)target, (void)config;
    *list = (attune_steps){.count = 0};
    STEPS(problem, list)
}

static const attune_capability can[] = {{.ops = ATTUNE_BIT(ATTUNE_FORWARD),
                                         .dtypes = ATTUNE_DTYPES_FORWARD,
                                         .features = ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW |
                                                     (TRAITS & ATTUNE_TRAIT_TAINTS ? 0 : ATTUNE_FEATURE_STRICT),
                                         .offsets = ATTUNE_OFFSETS_FORWARD,
                                         .layouts = ATTUNE_LAYOUTS_FORWARD,
                                         .head_dim_qk = {1, 256, 1},
                                         .head_dim_v = {1, 256, 1},
                                         .align = 1,
                                         .arch_least = 80,
                                         .arch_most = ATTUNE_ANY,
                                         .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL) | ATTUNE_BIT(ATTUNE_STEP_FILL)}};

ZOO_KERNEL(ATTUNE_TARGET_CUDA, TEXT(NAME) ".cu");

#endif
