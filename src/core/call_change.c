/* Calls that are like another one: what differs is found, and only that is checked. */
#include <string.h>

#include "core/call.h"

enum { MOVE_BYTES = 256 }; /* what moves by multiples of it keeps its alignment, whatever that is */

static uint64_t bit(int buffer)
{
    return UINT64_C(1) << buffer;
}

/* ---- The same call ---------------------------------------------------------------------------------------------- */

static uint64_t differ(const attune_tensor *a, const attune_tensor *b)
{
    return (uint64_t)(a->stride[0] ^ b->stride[0]) | (uint64_t)(a->stride[1] ^ b->stride[1]) |
           (uint64_t)(a->stride[2] ^ b->stride[2]);
}

static uint32_t differ_in_kind(const attune_tensor *a, const attune_tensor *b)
{
    return (uint32_t)(a->dtype ^ b->dtype) | (uint32_t)(a->settled ^ b->settled);
}

/* Whether a call has data of no role but these. */
static bool has_only(const attune_call *call, uint64_t roles)
{
    const int last = 63 - __builtin_clzll(roles);
    uintptr_t other = 0;
    for (int role = last + 1; role < ATTUNE_ROLE_COUNT; ++role) {
        other |= (uintptr_t)call->tensor[role].data;
    }
    for (uint64_t left = ~roles & (bit(last) - 1); left != 0; left &= left - 1) {
        other |= (uintptr_t)call->tensor[__builtin_ctzll(left)].data;
    }
    return other == 0;
}

bool at_call_is_same(const attune_call *kept, const attune_call *call, uint64_t roles)
{
    uint64_t other = 0;
    for (uint64_t left = roles; left != 0; left &= left - 1) {
        const int role = __builtin_ctzll(left);
        const attune_tensor *a = &kept->tensor[role], *b = &call->tensor[role];
        other |= ((uintptr_t)a->data ^ (uintptr_t)b->data) | differ(a, b) | differ_in_kind(a, b);
    }
    /* NOTE: a call has no bytes between its fields. If it had, they could only make the same call look like another. */
    return other == 0 && memcmp(kept, call, offsetof(attune_call, tensor)) == 0 && has_only(call, roles);
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

/* Notes how a tensor differs; false where that is in more than strides and place. */
static bool compare_tensor(const attune_tensor *from, const attune_tensor *to, uint64_t role, at_change *change)
{
    const uintptr_t way = (uintptr_t)from->data ^ (uintptr_t)to->data;
    change->moved |= way != 0 ? role : 0;
    change->shaped |= differ(from, to) != 0 || way % MOVE_BYTES != 0 ? role : 0;
    return differ_in_kind(from, to) == 0 && (from->data == NULL) == (to->data == NULL);
}

static bool compare_workspace(const attune_call *from, const attune_call *to, at_change *change)
{
    const uintptr_t way = (uintptr_t)from->workspace ^ (uintptr_t)to->workspace;
    change->moved |= way != 0 ? bit(AT_WORKSPACE) : 0;
    change->sizes |= from->workspace_bytes != to->workspace_bytes ? bit(AT_SIZE_WORKSPACE) : 0;
    return way % MOVE_BYTES == 0 && (from->workspace == NULL) == (to->workspace == NULL) &&
           (from->workspace_bytes == 0) == (to->workspace_bytes == 0) && to->workspace_bytes <= INT64_MAX;
}

_Static_assert(offsetof(attune_call, tensor) + sizeof((attune_call *)0)->tensor == sizeof(attune_call) &&
                   offsetof(attune_call, tensor) == offsetof(attune_call, workspace) + 3 * sizeof(void *),
               "every field is compared");

/* Whether page_count ... state_stride_lse are the same. */
static bool have_like_caches(const attune_call *from, const attune_call *to)
{
    const size_t first = offsetof(attune_call, page_count);
    return memcmp((const char *)from + first, (const char *)to + first, offsetof(attune_call, workspace) - first) == 0;
}

/* The sizes of a call, in the order of attune_size. */
enum { CALL_SIZES = ATTUNE_SIZE_TOTAL_KV + 1 };
_Static_assert(offsetof(attune_call, total_kv) - offsetof(attune_call, batch) ==
                       ATTUNE_SIZE_TOTAL_KV * sizeof(int64_t) &&
                   offsetof(attune_call, seqlen_kv) - offsetof(attune_call, batch) ==
                       ATTUNE_SIZE_SEQLEN_KV * sizeof(int64_t),
               "sizes are used as terms name them");

/* A bit for each size that terms will find another. */
static uint64_t compare_sizes(const attune_call *from, const attune_call *to)
{
    const int64_t *a = &from->batch, *b = &to->batch;
    uint64_t sizes = 0;
    for (int i = 0; i < CALL_SIZES; ++i) {
        sizes |= (uint64_t)(a[i] != b[i]) << i;
    }
    sizes |= (sizes & (bit(ATTUNE_SIZE_BATCH) | bit(ATTUNE_SIZE_SEQLEN_Q))) != 0 ? bit(ATTUNE_SIZE_TOTAL_Q) : 0;
    return sizes |
           ((sizes & (bit(ATTUNE_SIZE_BATCH) | bit(ATTUNE_SIZE_SEQLEN_KV))) != 0 ? bit(ATTUNE_SIZE_TOTAL_KV) : 0);
}

static bool compare(const attune_call *from, const attune_call *to, uint64_t roles, at_change *change)
{
    *change = (at_change){0, 0, 0};
    bool like = has_only(to, roles) && compare_workspace(from, to, change);
    for (uint64_t left = roles; like && left != 0; left &= left - 1) {
        const int role = __builtin_ctzll(left);
        like = compare_tensor(&from->tensor[role], &to->tensor[role], bit(role), change);
    }
    return like;
}

/* ---- Checking that ---------------------------------------------------------------------------------------------- */

static void set_span(at_spans *spans, int role, int64_t bytes)
{
    spans->bytes[role] = bytes;
    spans->present = (spans->present & ~bit(role)) | (bytes > 0 ? bit(role) : 0);
}

/* Of tensors whose strides are as they were, what other sizes mean for them; the rest is left to the check. */
static bool change_sizes(const attune_problem *problem, uint64_t roles, const attune_call *from, const attune_call *to,
                         at_spans *spans, at_change *change, uint64_t *check)
{
    if (memcmp(from, to, offsetof(attune_call, workspace)) == 0) {
        return true;
    }
    change->sizes |= compare_sizes(from, to);
    for (uint64_t left = at_call_roles_of(roles & ~*check, change->sizes); left != 0; left &= left - 1) {
        const int role = __builtin_ctzll(left);
        int64_t span = 0;
        const at_extents extents = at_call_extents(problem, from, to, role, &span);
        change->shaped |= extents != AT_EXTENTS_SAME ? bit(role) : 0;
        *check |= extents == AT_EXTENTS_CHECK ? bit(role) : 0;
        if (extents == AT_EXTENTS_SPAN) {
            set_span(spans, role, span);
        }
    }
    return at_call_check_sizes(problem, to) == ATTUNE_OK;
}

static bool check_tensors(const attune_problem *problem, const attune_call *call, uint64_t roles, at_spans *spans)
{
    for (; roles != 0; roles &= roles - 1) {
        const int role = __builtin_ctzll(roles);
        int64_t span = 0;
        if (at_call_check_tensor(problem, call, role, &span) != ATTUNE_OK) {
            return false;
        }
        set_span(spans, role, span);
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
static bool are_in_place(const attune_problem *problem, const attune_call *call, const at_spans *spans)
{
    bool fine = true;
    for (uint64_t left = spans->present; fine && left != 0; left &= left - 1) {
        const int buffer = __builtin_ctzll(left);
        fine = end_of(call, spans, buffer) >= begin_of(call, buffer) &&
               (!at_buffer_is_written(problem, buffer) || is_apart(call, spans, buffer));
    }
    return fine;
}

bool at_call_change(const attune_problem *problem, uint64_t roles, const attune_call *from, const attune_call *to,
                    at_spans *spans, at_change *change)
{
    if (!compare(from, to, roles, change) || !have_like_caches(from, to)) {
        return false;
    }
    uint64_t check = change->shaped;
    if (!change_sizes(problem, roles, from, to, spans, change, &check) || !check_tensors(problem, to, check, spans)) {
        return false;
    }
    spans->bytes[AT_WORKSPACE] = (int64_t)to->workspace_bytes;
    return are_in_place(problem, to, spans);
}
