/* What wgmma's descriptor and the heuristic of its configs share. */
#ifndef KERNELS_CUDA_WGMMA_H
#define KERNELS_CUDA_WGMMA_H

#include "attune/kernel.h"

/* Parameters, in the order of a config's values. */
enum { GROUPS, BLOCK_N, Q_STAGES, PINGPONG, SCHEDULER, RESCALE, AHEAD, PARAMS };

/* Of RESCALE: weights by a static maximum; by one that goes far where it is raised. */
enum { STATIC_MAX = 15, FAR_MAX };

/* Of SCHEDULER: blocks that take jobs in turns; blocks that take the next job from a counter; the same, and few heads
 * at a time. */
enum { TURNS = 1, COUNTER, NEAR };

static inline bool is_by_counter(const attune_config *config)
{
    return config->value[SCHEDULER] >= COUNTER;
}

enum { GROUP_ROWS = 64 };

/* Rows of a tile of queries. */
static inline int32_t block_m(const attune_config *config)
{
    return config->value[GROUPS] * GROUP_ROWS;
}

/* Whether anything belongs to pairs of a query and a key. */
static inline bool has_pairs(const attune_problem *problem)
{
    return problem->bias != ATTUNE_BIAS_NONE || problem->mask;
}

/* Whether a producer needs more registers than the least. */
static inline bool is_elaborate(const attune_problem *problem)
{
    return problem->varlen || problem->seqused_kv || attune_is_windowed(problem) || has_pairs(problem);
}

/* Whether rows see different keys of a tile, and what is not finite is kept from those that do not see it. */
static inline bool contains(const attune_problem *problem)
{
    return has_pairs(problem) || (problem->strict && (attune_is_causal(problem) || attune_is_windowed(problem)));
}

/* Whether references may be raised far: what has the range for that, no more features than a causal mask, and tiles
 * that leave registers for it; of 176 keys at head dim 64 normal inputs take 3 % longer, of 96 at 256 it spills. */
static inline bool may_be_far(const attune_problem *problem, int32_t block_n)
{
    const bool adds = problem->softcap != 0 || problem->alibi || problem->sink;
    const bool is_plain = !is_elaborate(problem) && !adds && !problem->strict;
    return problem->dtype == ATTUNE_BF16 && is_plain && block_n <= (problem->head_dim_v > 128 ? 80 : 128);
}

/* Whether the kernel admits a config and the device has the shared memory for it. */
bool at_wgmma_fits(const attune_problem *problem, const attune_target *target, const attune_config *config);

/* The index-th of the configs that are likely to be fastest, from the best on; false where there are no more. The rules
 * are fitted to measurements on an H200: docs/hopper.md, "Which config". */
bool at_wgmma_heuristic(const attune_problem *problem, const attune_target *target, int32_t index,
                        attune_config *config);

#endif
