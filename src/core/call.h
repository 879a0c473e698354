/* From a public call to the args a kernel sees. */
#ifndef CORE_CALL_H
#define CORE_CALL_H

#include <stdbool.h>

#include "core/problem.h"

enum { AT_WORKSPACE = ATTUNE_ROLE_COUNT }; /* among buffers, after the roles */
_Static_assert(AT_WORKSPACE < 32, "a bit for each buffer");

/* What a check has seen of a call's buffers: how many bytes each spans from its first to its last; 0: no elements. */
typedef struct at_spans {
    uint64_t present; /* a bit for each buffer that spans something */
    int64_t bytes[AT_WORKSPACE + 1];
} at_spans;

/* What of a call differs from another one. */
typedef struct at_change {
    uint64_t sizes;  /* a bit for each attune_size that a term may name; AT_SIZE_WORKSPACE: workspace_bytes */
    uint64_t shaped; /* tensors of other extents, strides or alignment: a bit for each role */
    uint64_t moved;  /* buffers with another address, AT_WORKSPACE among them */
} at_change;

enum { AT_SIZE_WORKSPACE = ATTUNE_SIZE_COUNT };
#define AT_CHANGE_ALL ((at_change){UINT64_MAX, UINT64_MAX, UINT64_MAX})

static inline bool at_buffer_is_written(const attune_problem *problem, int buffer)
{
    return ((at_problem_writes(problem) | UINT64_C(1) << AT_WORKSPACE) >> buffer & 1u) != 0;
}

/* Checks everything about a call that does not need to read its buffers: sizes against the problem's, roles present,
 * dtypes, strides (sign, alignment, overflow of extents), pointers' alignment, overlap of what is written with any
 * other buffer. The error names the field, the value and the limit. */
attune_status at_call_check(const attune_problem *problem, const attune_call *call);
/* The same, and of a call that passes, its spans. */
attune_status at_call_check_spans(const attune_problem *problem, const attune_call *call, at_spans *spans);
/* Whether two calls of a problem are the same; `roles` are those that its calls may have (at_call_roles), and `kept`
 * has passed the check. */
bool at_call_is_same(const attune_call *kept, const attune_call *call, uint64_t roles);
/* Copies a call that has no other roles than these. */
void at_call_copy(attune_call *to, const attune_call *from, uint64_t roles);
/* Checks a call by what it has in common with one that passed with these spans: true where it passes, with the spans
 * its own and *change complete; only what differs is looked at. Where this is false the call is to be checked in full,
 * and the spans are lost. `roles` as above. */
bool at_call_change(const attune_problem *problem, uint64_t roles, const attune_call *from, const attune_call *to,
                    at_spans *spans, at_change *change);
/* A bit for each role that a call may have: those that the problem needs, and LSE where there is an O. */
uint64_t at_call_roles(const attune_problem *problem);
/* The sizes alone: buffers need not be known to ask how much workspace a call takes. */
attune_status at_call_check_sizes(const attune_problem *problem, const attune_call *call);
/* The caller's call as one of this library's: itself where it is, else a copy in `room`. */
attune_status at_call_take(const attune_call *given, attune_call *room, const attune_call **call);
/* Fills args from a checked call. Tensor maps and params are left zero; workspace is the call's. Strides of dimensions
 * of extent 0 or 1, which the check does not look at, become 0, so that kernels never meet what a caller left there. */
void at_call_args(const attune_problem *problem, const attune_call *call, attune_args *args);
/* Makes args of another call into this one's, by what differs. */
void at_call_args_change(const attune_problem *problem, const attune_call *call, const at_change *change,
                         attune_args *args);

/* For at_call_change: those of the roles whose tensors may have other extents where these sizes differ. */
uint64_t at_call_roles_of(uint64_t roles, uint64_t sizes);
/* What the extents of a tensor, of two calls that differ in sizes, say of its check. */
typedef enum at_extents {
    AT_EXTENTS_SAME,  /* nothing: they are the same */
    AT_EXTENTS_SPAN,  /* its strides passed, and its span is another: *span */
    AT_EXTENTS_CHECK, /* it is to be checked */
} at_extents;
at_extents at_call_extents(const attune_problem *problem, const attune_call *from, const attune_call *to, int role,
                           int64_t *span);
/* Checks one tensor alone. */
attune_status at_call_check_tensor(const attune_problem *problem, const attune_call *call, int role, int64_t *span);

#endif
