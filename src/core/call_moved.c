/* Calls that differ in where their buffers are. */
#include <string.h>

#include "core/call.h"
#include "core/problem.h"

enum { MOVE_BYTES = 256 }; /* what buffers may move by multiples of, since it is one of every alignment */
_Static_assert(MOVE_BYTES % AT_ALIGN_MAX == 0, "buffers keep their alignment");

/* Whether a buffer may have moved from one place to the other; notes it if it has. */
static bool moved_to(const void *from, const void *to, int buffer, uint32_t *moved)
{
    *moved |= (uint32_t)(from != to) << buffer;
    return (from == NULL) == (to == NULL) && (((uintptr_t)from ^ (uintptr_t)to) & (MOVE_BYTES - 1)) == 0;
}

static bool is_same_view(const attune_tensor *a, const attune_tensor *b)
{
    return ((a->stride[0] ^ b->stride[0]) | (a->stride[1] ^ b->stride[1]) | (a->stride[2] ^ b->stride[2]) |
            (a->dtype ^ b->dtype) | (a->reserved ^ b->reserved)) == 0;
}

static uintptr_t begin_of(const attune_call *call, int buffer)
{
    return (uintptr_t)(buffer == AT_WORKSPACE ? call->workspace : call->tensor[buffer].data);
}

/* Whether what is written lies apart from all else, none of it beyond the end of memory. */
static bool is_apart(const attune_call *call, const at_spans *spans)
{
    for (int i = 0; i < spans->count; ++i) {
        const uintptr_t begin = begin_of(call, spans->span[i].buffer);
        const uintptr_t end = begin + (uintptr_t)spans->span[i].bytes;
        bool apart = end >= begin;
        for (int other = 0; at_buffer_is_written(spans->span[i].buffer) && other < spans->count; ++other) {
            const uintptr_t its = begin_of(call, spans->span[other].buffer);
            apart = apart && (other == i || its >= end || its + (uintptr_t)spans->span[other].bytes <= begin);
        }
        if (!apart) {
            return false;
        }
    }
    return true;
}

_Static_assert(offsetof(attune_call, tensor) + sizeof((attune_call *)0)->tensor == sizeof(attune_call) &&
                   offsetof(attune_call, tensor) == offsetof(attune_call, workspace) + 3 * sizeof(void *),
               "every field is compared");

bool at_call_moved(const attune_call *from, const at_spans *spans, const attune_call *to, uint32_t *moved)
{
    bool same = memcmp(from, to, offsetof(attune_call, workspace)) == 0;
    same = same && from->workspace_bytes == to->workspace_bytes;
    *moved = 0;
    same = same && moved_to(from->workspace, to->workspace, AT_WORKSPACE, moved);
    same = same && memcmp(&from->tensor[ATTUNE_ROLES_FORWARD], &to->tensor[ATTUNE_ROLES_FORWARD],
                          sizeof from->tensor - ATTUNE_ROLES_FORWARD * sizeof from->tensor[0]) == 0;
    for (int role = 0; same && role < ATTUNE_ROLES_FORWARD; ++role) {
        const attune_tensor *old = &from->tensor[role];
        const attune_tensor *new = &to->tensor[role];
        same = is_same_view(old, new) && moved_to(old->data, new->data, role, moved);
    }
    return same && is_apart(to, spans);
}
