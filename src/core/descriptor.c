#include "core/descriptor.h"

const at_described *at_kernel_described(const attune_kernel *kernel)
{
    return kernel->heuristic == NULL ? (const at_described *)kernel : NULL;
}

bool at_kernel_heuristic(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                         int32_t index, attune_config *config)
{
    const at_described *elsewhere = at_kernel_described(kernel);
    return elsewhere != NULL ? elsewhere->ops->heuristic(elsewhere->self, problem, target, index, config)
                             : kernel->heuristic(problem, target, index, config);
}
