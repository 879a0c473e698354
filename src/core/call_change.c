/* Calls that are like another one: what differs is found, and only that is checked. */
#include <string.h>

#include "core/call.h"

enum { MOVE_BYTES = 256 }; /* what moves by multiples of it keeps its alignment, whatever that is */

static uint64_t bit(int buffer)
{
    return UINT64_C(1) << buffer;
}

/* ---- The same call ---------------------------------------------------------------------------------------------- */

/* NOTE: a call has no bytes between its fields. If it had, they could only make the same call look like another. */
static bool is_same_tensor(const attune_tensor *a, const attune_tensor *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Whether a call has data of no role but these. */
static bool has_only(const attune_call *call, uint64_t roles)
{
    uintptr_t other = 0;
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        other |= (uintptr_t)call->tensor[role].data & ((uintptr_t)(roles >> role & 1u) - 1);
    }
    return other == 0;
}

bool at_call_is_same(const attune_call *kept, const attune_call *call, uint64_t roles)
{
    bool same = memcmp(kept, call, offsetof(attune_call, tensor)) == 0 && has_only(call, roles);
    for (; same && roles != 0; roles &= roles - 1) {
        const int role = __builtin_ctzll(roles);
        same = is_same_tensor(&kept->tensor[role], &call->tensor[role]);
    }
    return same;
}

void at_call_copy(attune_call *to, const attune_call *from, uint64_t roles)
{
    memcpy(to, from, offsetof(attune_call, tensor));
    for (; roles != 0; roles &= roles - 1) {
        const int role = __builtin_ctzll(roles);
        to->tensor[role] = from->tensor[role];
    }
}

/* ---- What differs ----------------------------------------------------------------------------------------------- */

static bool is_same_layout(const attune_tensor *a, const attune_tensor *b)
{
    return ((a->stride[0] ^ b->stride[0]) | (a->stride[1] ^ b->stride[1]) | (a->stride[2] ^ b->stride[2])) == 0;
}

/* Notes how a tensor differs; false where that is in more than shape and place. */
static bool compare_tensor(const attune_tensor *from, const attune_tensor *to, uint64_t role, at_change *change)
{
    const uintptr_t way = (uintptr_t)from->data ^ (uintptr_t)to->data;
    change->moved |= way != 0 ? role : 0;
    change->shaped |= !is_same_layout(from, to) || way % MOVE_BYTES != 0 ? role : 0;
    return from->dtype == to->dtype && from->reserved == to->reserved && (from->data == NULL) == (to->data == NULL);
}

static bool compare_workspace(const attune_call *from, const attune_call *to, at_change *change)
{
    const uintptr_t way = (uintptr_t)from->workspace ^ (uintptr_t)to->workspace;
    change->moved |= way != 0 ? bit(AT_WORKSPACE) : 0;
    return way % MOVE_BYTES == 0 && (from->workspace == NULL) == (to->workspace == NULL) &&
           (from->workspace_bytes == 0) == (to->workspace_bytes == 0) && to->workspace_bytes <= INT64_MAX;
}

_Static_assert(offsetof(attune_call, tensor) + sizeof((attune_call *)0)->tensor == sizeof(attune_call) &&
                   offsetof(attune_call, tensor) == offsetof(attune_call, workspace) + 3 * sizeof(void *),
               "every field is compared");

/* Sizes are checked, and change the shapes of some tensors. */
static bool compare_sizes(const attune_problem *problem, const attune_call *from, const attune_call *to, uint64_t roles,
                          at_change *change)
{
    change->sizes = from->workspace_bytes != to->workspace_bytes;
    if (memcmp(from, to, offsetof(attune_call, workspace)) == 0) {
        return true;
    }
    change->sizes = true;
    for (; roles != 0; roles &= roles - 1) {
        const int role = __builtin_ctzll(roles);
        change->shaped |= at_call_same_shape(problem, from, to, role) ? 0 : bit(role);
    }
    return at_call_check_sizes(problem, to) == ATTUNE_OK;
}

static bool compare(const attune_problem *problem, const attune_call *from, const attune_call *to, at_change *change)
{
    const uint64_t roles = at_call_roles(problem);
    *change = (at_change){false, 0, 0};
    bool like = has_only(to, roles) && compare_workspace(from, to, change);
    for (uint64_t left = roles; like && left != 0; left &= left - 1) {
        const int role = __builtin_ctzll(left);
        like = compare_tensor(&from->tensor[role], &to->tensor[role], bit(role), change);
    }
    return like && compare_sizes(problem, from, to, roles, change);
}

/* ---- Checking that ---------------------------------------------------------------------------------------------- */

static bool check_shapes(const attune_problem *problem, const attune_call *call, uint64_t roles, at_spans *spans)
{
    for (; roles != 0; roles &= roles - 1) {
        const int role = __builtin_ctzll(roles);
        if (at_call_check_tensor(problem, call, role, &spans->bytes[role]) != ATTUNE_OK) {
            return false;
        }
        spans->present &= ~bit(role);
        spans->present |= spans->bytes[role] > 0 ? bit(role) : 0;
    }
    return true;
}

static uintptr_t begin_of(const attune_call *call, int buffer)
{
    return (uintptr_t)(buffer == AT_WORKSPACE ? call->workspace : call->tensor[buffer].data);
}

static uintptr_t end_of(const attune_call *call, const at_spans *spans, int buffer)
{
    return begin_of(call, buffer) + (uintptr_t)spans->bytes[buffer];
}

/* Whether a buffer shares no byte with any other. */
static bool is_apart(const attune_call *call, const at_spans *spans, int buffer)
{
    const uintptr_t begin = begin_of(call, buffer);
    const uintptr_t end = end_of(call, spans, buffer);
    bool apart = true;
    for (uint64_t left = spans->present & ~bit(buffer); left != 0; left &= left - 1) {
        const int other = __builtin_ctzll(left);
        apart = apart && (begin_of(call, other) >= end || end_of(call, spans, other) <= begin);
    }
    return apart;
}

/* Whether no buffer reaches beyond the end of memory, and what is written lies apart from all else. */
static bool are_in_place(const attune_call *call, const at_spans *spans)
{
    bool fine = true;
    for (uint64_t left = spans->present; fine && left != 0; left &= left - 1) {
        const int buffer = __builtin_ctzll(left);
        fine = end_of(call, spans, buffer) >= begin_of(call, buffer) &&
               (!at_buffer_is_written(buffer) || is_apart(call, spans, buffer));
    }
    return fine;
}

bool at_call_change(const attune_problem *problem, const attune_call *from, const attune_call *to, at_spans *spans,
                    at_change *change)
{
    if (!compare(problem, from, to, change) || !check_shapes(problem, to, change->shaped, spans)) {
        return false;
    }
    spans->bytes[AT_WORKSPACE] = (int64_t)to->workspace_bytes;
    return are_in_place(to, spans);
}
