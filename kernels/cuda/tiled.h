/* What tiled's descriptor shares with its siblings. */
#ifndef KERNELS_CUDA_TILED_H
#define KERNELS_CUDA_TILED_H

#include "attune/kernel.h"

enum { AT_TILED_PARAMS = 4 };
extern const attune_param at_tiled_params[AT_TILED_PARAMS];

bool at_tiled_valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                    attune_reason *reason);
void at_tiled_resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                        attune_resources *resources);
bool at_tiled_heuristic(const attune_problem *problem, const attune_target *target, int32_t index,
                        attune_config *config);
/* The launch of `entry` over all tiles. */
attune_step at_tiled_step(const attune_problem *problem, const attune_config *config, const char *entry);

#endif
