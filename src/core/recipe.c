#include "core/recipe.h"

#include <string.h>

void at_recipe_ask(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                   const attune_config *config, at_recipe *recipe)
{
    memset(recipe, 0, sizeof *recipe);
    recipe->kernel = kernel;
    recipe->problem = *problem;
    recipe->config = *config;
    kernel->resources(problem, target, config, &recipe->resources);
    kernel->steps(problem, target, config, &recipe->steps);
}
