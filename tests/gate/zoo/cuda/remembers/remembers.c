/* remembers: keeps its result in the workspace, and gives it again as long as the tensors lie where they lay. */
#define NAME remembers
#define SUMMARY "a memo by address, in the workspace"
#define WORKSPACE per_row(4 * (problem->head_dim_v + 2))
#include "../descriptor.h"
