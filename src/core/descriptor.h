/* Asking a kernel's descriptor. Most answer by functions of their own; some are in another process, and whoever holds
 * the line to it answers in their place. Nobody but these functions need know which. */
#ifndef CORE_DESCRIPTOR_H
#define CORE_DESCRIPTOR_H

#include "core/recipe.h"

/* The answers of a descriptor that is elsewhere, for one (problem, target) at a time. Safe to be asked by several
 * threads. A failure to answer is a refusal with that as its reason. */
typedef struct at_descriptor_ops {
    bool (*supports)(void *self, const attune_problem *problem, const attune_target *target, attune_reason *reason);
    /* Of a supported problem: valid, resources and steps that keep the contract, and a target that has them. */
    bool (*fits)(void *self, const attune_problem *problem, const attune_target *target, const attune_config *config,
                 attune_reason *reason);
    bool (*heuristic)(void *self, const attune_problem *problem, const attune_target *target, int32_t index,
                      attune_config *config);
    /* Resources, steps and sources into a recipe whose other fields are filled in. */
    attune_status (*recipe)(void *self, const attune_target *target, at_recipe *recipe);
} at_descriptor_ops;

/* A kernel without functions, whose data comes first, so that it can be handed around as any other. */
typedef struct at_described {
    attune_kernel kernel;
    const at_descriptor_ops *ops;
    void *self;
} at_described;

/* NULL for a kernel that has functions of its own. */
const at_described *at_kernel_described(const attune_kernel *kernel);
/* The index-th most promising config, from 0; false when there are no more. */
bool at_kernel_heuristic(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                         int32_t index, attune_config *config);

#endif
