#include "core/recipe.h"

#include <string.h>

#include "core/descriptor.h"
#include "core/problem.h"

static int greater_of(int a, int b)
{
    return a > b ? a : b;
}

/* How many roles what a row states may have. */
static int roles_of(const attune_capability *can)
{
    static const int of_op[] = {[ATTUNE_FORWARD] = ATTUNE_ROLES_FORWARD,
                                [ATTUNE_APPEND] = ATTUNE_SLOTS + 1,
                                [ATTUNE_MERGE] = ATTUNE_STATE_LSE + 1};
    int most = ATTUNE_ROLES_FORWARD; /* the first of them, which every operation has */
    for (size_t op = 0; op < sizeof of_op / sizeof of_op[0]; ++op) {
        most = (can->ops & ATTUNE_BIT(op)) != 0 ? greater_of(most, of_op[op]) : most;
    }
    return (can->features & ATTUNE_FEATURES_CACHE) != 0 ? greater_of(most, ATTUNE_DRAFT_MASK + 1) : most;
}

int at_args_roles(const attune_kernel *kernel, const attune_problem *problem)
{
    const uint32_t features = at_problem_demands(problem);
    int most = ATTUNE_ROLES_FORWARD;
    for (int32_t i = 0; i < kernel->can_count; ++i) {
        const attune_capability *can = &kernel->can[i];
        if (kernel->image == NULL && (can->ops & ATTUNE_BIT(problem->op)) != 0 && (features & ~can->features) == 0) {
            return roles_of(can);
        }
        most = greater_of(most, roles_of(can));
    }
    return most;
}

int at_args_maps(const attune_steps *steps)
{
    int most = ATTUNE_ARGS_MAPS;
    for (int i = 0; i < steps->count; ++i) {
        const attune_step_kernel *step = &steps->step[i].as.kernel;
        most = steps->step[i].kind == ATTUNE_STEP_KERNEL && step->map_count > most ? step->map_count : most;
    }
    return most;
}

size_t at_args_bytes(int maps, int roles)
{
    const size_t align = _Alignof(attune_args);
    const size_t bytes =
        offsetof(attune_args, map) + (size_t)maps * sizeof(attune_tensor_map) + (size_t)roles * sizeof(attune_tensor);
    return (bytes + align - 1) / align * align;
}

const char *at_map_name(const attune_map *map)
{
    return map->name[0] != '\0' ? map->name : at_role_name(map->role);
}

bool at_role_has_map(int role)
{
    static const bool has[ATTUNE_ROLE_COUNT] = {
        [ATTUNE_Q] = true,    [ATTUNE_K] = true,     [ATTUNE_V] = true,   [ATTUNE_O] = true,  [ATTUNE_LSE] = true,
        [ATTUNE_BIAS] = true, [ATTUNE_MASK] = true,  [ATTUNE_DO] = true,  [ATTUNE_DQ] = true, [ATTUNE_DK] = true,
        [ATTUNE_DV] = true,   [ATTUNE_DBIAS] = true, [ATTUNE_DLSE] = true};
    return role >= 0 && role < ATTUNE_ROLE_COUNT && has[role];
}

attune_status at_recipe_ask(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                            const attune_config *config, at_recipe *recipe)
{
    const at_described *elsewhere = at_kernel_described(kernel);
    memset(recipe, 0, sizeof *recipe);
    recipe->kernel = kernel;
    recipe->problem = *problem;
    recipe->config = *config;
    if (elsewhere != NULL) {
        return elsewhere->ops->recipe(elsewhere->self, target, recipe);
    }
    kernel->resources(problem, target, config, &recipe->resources);
    kernel->steps(problem, target, config, &recipe->steps);
    return ATTUNE_OK;
}
