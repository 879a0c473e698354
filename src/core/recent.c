#include "core/recent.h"

#include <stdlib.h>
#include <string.h>

at_recents *at_recents_create(void)
{
    at_recents *recents = aligned_alloc(_Alignof(at_recents), sizeof *recents); /* as tensor maps are */
    if (recents == NULL) {
        return NULL;
    }
    for (int i = 0; i < AT_RECENTS; ++i) {
        atomic_flag_clear(&recents->place[i].taken);
        recents->place[i].mark = 0;
        recents->place[i].kept = false;
    }
    atomic_flag_clear(&recents->model.taken);
    recents->model.kept = false;
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

at_recent *at_recent_take(at_recents *recents, const attune_call *call)
{
    uint64_t mark = mark_of(call);
    at_recent *recent = &recents->place[mark >> (64 - AT_RECENT_BITS)];
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

at_model *at_model_take(at_recents *recents)
{
    at_model *model = &recents->model;
    return atomic_flag_test_and_set_explicit(&model->taken, memory_order_acquire) ? NULL : model;
}

void at_model_leave(at_model *model)
{
    if (model != NULL) {
        atomic_flag_clear_explicit(&model->taken, memory_order_release);
    }
}
