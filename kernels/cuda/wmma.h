/* What wmma's descriptor shares with its fp16-accumulating sibling. */
#ifndef KERNELS_CUDA_WMMA_H
#define KERNELS_CUDA_WMMA_H

#include "attune/kernel.h"

/* Everything that depends on how sums are carried. */
typedef struct at_wmma_kind {
    const char *entry;
    bool acc16;
} at_wmma_kind;

bool at_wmma_supports(const at_wmma_kind *kind, const attune_problem *problem, const attune_target *target,
                      attune_reason *reason);
bool at_wmma_valid(const at_wmma_kind *kind, const attune_problem *problem, const attune_config *config,
                   attune_reason *reason);
void at_wmma_resources(const at_wmma_kind *kind, const attune_problem *problem, const attune_config *config,
                       attune_resources *resources);
bool at_wmma_heuristic(const at_wmma_kind *kind, const attune_problem *problem, const attune_target *target,
                       int32_t index, attune_config *config);
void at_wmma_steps(const at_wmma_kind *kind, const attune_problem *problem, const attune_config *config,
                   attune_steps *steps);

enum { AT_WMMA_PARAMS = 7 };
extern const attune_param at_wmma_params[AT_WMMA_PARAMS];

#endif
