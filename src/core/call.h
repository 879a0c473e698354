/* From a public call to the args a kernel sees. */
#ifndef CORE_CALL_H
#define CORE_CALL_H

#include "attune/kernel.h"

/* Checks everything about a call that does not need to read its buffers: sizes against the problem's, roles present,
 * dtypes, strides (sign, alignment, overflow of extents), pointers' alignment, overlap of O and LSE with any other
 * buffer. The error names the field, the value and the limit. */
attune_status at_call_check(const attune_problem *problem, const attune_call *call);
/* The sizes alone: buffers need not be known to ask how much workspace a call takes. */
attune_status at_call_check_sizes(const attune_problem *problem, const attune_call *call);
/* The caller's call as one of this library's: itself where it is, else a copy in `room`. */
attune_status at_call_take(const attune_call *given, attune_call *room, const attune_call **call);
/* Fills args from a checked call. Tensor maps and params are left zero; workspace is the call's. Strides of dimensions
 * of extent 0 or 1, which the check does not look at, become 0, so that kernels never meet what a caller left there. */
void at_call_args(const attune_problem *problem, const attune_call *call, attune_args *args);

#endif
