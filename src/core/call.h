/* From a public call to the args a kernel sees. */
#ifndef CORE_CALL_H
#define CORE_CALL_H

#include <stdbool.h>

#include "attune/kernel.h"

enum { AT_WORKSPACE = ATTUNE_ROLE_COUNT }; /* among buffers, after the roles */
_Static_assert(AT_WORKSPACE < 32, "a bit for each buffer");

/* What a check has seen of a call's buffers: of each that has elements, how many bytes from its first to its last. */
typedef struct at_spans {
    int count;
    struct {
        int buffer; /* its role, or AT_WORKSPACE */
        int64_t bytes;
    } span[AT_WORKSPACE + 1];
} at_spans;

static inline bool at_buffer_is_written(int buffer)
{
    return buffer == ATTUNE_O || buffer == ATTUNE_LSE || buffer == AT_WORKSPACE;
}

/* Checks everything about a call that does not need to read its buffers: sizes against the problem's, roles present,
 * dtypes, strides (sign, alignment, overflow of extents), pointers' alignment, overlap of O and LSE with any other
 * buffer. The error names the field, the value and the limit. */
attune_status at_call_check(const attune_problem *problem, const attune_call *call);
/* The same, and of a call that passes, its spans. */
attune_status at_call_check_spans(const attune_problem *problem, const attune_call *call, at_spans *spans);
/* Whether `to` differs in nothing but its stream and where its buffers are from `from`, which passed with these spans,
 * and passes by that: all it has moved by multiples of 256 bytes, what is written to memory that lies apart. *moved
 * gets a bit for each buffer that is elsewhere. Where this is false, `to` is to be checked. */
bool at_call_moved(const attune_call *from, const at_spans *spans, const attune_call *to, uint32_t *moved);
/* The sizes alone: buffers need not be known to ask how much workspace a call takes. */
attune_status at_call_check_sizes(const attune_problem *problem, const attune_call *call);
/* The caller's call as one of this library's: itself where it is, else a copy in `room`. */
attune_status at_call_take(const attune_call *given, attune_call *room, const attune_call **call);
/* Fills args from a checked call. Tensor maps and params are left zero; workspace is the call's. Strides of dimensions
 * of extent 0 or 1, which the check does not look at, become 0, so that kernels never meet what a caller left there. */
void at_call_args(const attune_problem *problem, const attune_call *call, attune_args *args);

#endif
