#include "core/recent.h"

#include <stdlib.h>
#include <string.h>

at_recent *at_recents_create(void)
{
    at_recent *recents = malloc(AT_RECENTS * sizeof *recents);
    for (int i = 0; recents != NULL && i < AT_RECENTS; ++i) {
        atomic_flag_clear(&recents[i].taken);
        recents[i].mark = 0;
        recents[i].kept = false;
    }
    return recents;
}

/* Never 0. What calls of one plan differ in, mostly: layers have tensors of their own. */
static uint64_t mark_of(const attune_call *call)
{
    uint64_t mark = (uint64_t)call->seqlen_kv;
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        mark = (mark ^ (uintptr_t)call->tensor[role].data) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return mark | 1;
}

at_recent *at_recent_take(at_recent *recents, const attune_call *call)
{
    if (recents == NULL || call->size != sizeof *call) {
        return NULL;
    }
    uint64_t mark = mark_of(call);
    at_recent *recent = &recents[mark >> (64 - AT_RECENT_BITS)];
    return atomic_flag_test_and_set_explicit(&recent->taken, memory_order_acquire) ? NULL : recent;
}

void at_recent_leave(at_recent *recent)
{
    if (recent != NULL) {
        atomic_flag_clear_explicit(&recent->taken, memory_order_release);
    }
}

/* NOTE: a call has no bytes between its fields. If it had, they could only make the same call look like another. */
bool at_recent_is(const at_recent *recent, const attune_call *call)
{
    return recent != NULL && recent->kept && memcmp(&recent->call, call, sizeof *call) == 0;
}

void at_recent_keep(at_recent *recent, const attune_call *call, const at_made *made)
{
    if (recent == NULL) {
        return;
    }
    uint64_t mark = mark_of(call);
    recent->kept = recent->mark == mark;
    recent->mark = mark;
    if (recent->kept) {
        recent->call = *call;
        recent->made = *made;
    }
}
