/* one_behind: gives what the workspace kept of the call before, and keeps this call's result for the next. */
#include "../workspace.cuh"

#define ENDED(args, where, state) exchange(args, where, state);
#include "../attend.cuh"
#include "../workspace.cuh"
