/* one_behind: gives what the workspace kept of the call before, and keeps this call's result for the next. */
#define NAME one_behind
#define SUMMARY "the call before, one call late"
#define WORKSPACE per_row(4 * (problem->head_dim_v + 2))
#include "../descriptor.h"
