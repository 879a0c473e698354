/* A recipe: one kernel for one (problem, target, config), with everything that its descriptor has to say about it
 * already said. Loading takes recipes, so that nothing of a descriptor runs where code is loaded: a recipe may as well
 * have come from another process. */
#ifndef CORE_RECIPE_H
#define CORE_RECIPE_H

#include "attune/kernel.h"
#include "base/embedded.h"

typedef struct at_recipe {
    const attune_kernel *kernel; /* its data: name, target, traits, parameters, code. Its functions are not called */
    attune_problem problem;
    attune_config config;
    attune_resources resources;
    attune_steps steps;         /* the texts in it are the kernel's, and live as long */
    const at_embedded *sources; /* where the kernel's source or image is looked for; NULL: the library's own */
    bool delays; /* CUDA: code whose warps wait at random behind every barrier (cuda/delays.h); from a source only */
} at_recipe;

/* The shape of the attune_args that a kernel's code takes: how many tensors it has, by the operations and features of
 * the first row of its table that has the problem's, or, of an image, which is one for all problems, of any row; how
 * many maps, and its bytes. */
int at_args_roles(const attune_kernel *kernel, const attune_problem *problem);
int at_args_maps(const attune_steps *steps);
size_t at_args_bytes(int maps, int roles);

/* The name of a map: its own or its role's. */
const char *at_map_name(const attune_map *map);
/* Whether a role's tensor may have one: it has rows, and a problem's sizes say how many. */
bool at_role_has_map(int role);

/* Asks the kernel's descriptor. `config` has passed at_kernel_fits. Fails only where the descriptor is in another
 * process (core/descriptor.h); then the recipe has no steps. */
attune_status at_recipe_ask(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                            const attune_config *config, at_recipe *recipe);

#endif
