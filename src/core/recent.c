#include "core/recent.h"

#include <stdlib.h>
#include <string.h>

/* `room` has place for one made call more than there are places. */
static void init(at_recents *recents, char *room)
{
    atomic_flag_clear(&recents->model.taken);
    recents->model.kept = false;
    recents->model.made = (at_made *)(void *)room;
    for (int i = 0; i < AT_RECENTS; ++i) {
        at_recent *recent = &recents->place[i];
        atomic_flag_clear(&recent->taken);
        recent->mark = 0;
        recent->kept = false;
        recent->made = (at_made *)(void *)(room + (size_t)(i + 1) * recents->made_bytes);
    }
}

/* Before the made calls, which are aligned as tensor maps are. */
static size_t head_bytes(void)
{
    const size_t align = _Alignof(at_made);
    return (sizeof(at_recents) + align - 1) / align * align;
}

static size_t all_bytes(size_t made_bytes)
{
    return head_bytes() + (AT_RECENTS + 1) * made_bytes;
}

size_t at_recents_bytes(const at_recents *recents)
{
    return all_bytes(recents->made_bytes);
}

at_recents *at_recents_create(const attune_problem *problem, const at_loaded *loaded)
{
    const size_t made = at_made_bytes(loaded);
    char *memory = aligned_alloc(_Alignof(at_made), all_bytes(made));
    if (memory == NULL) {
        return NULL;
    }
    at_recents *recents = (at_recents *)(void *)memory;
    recents->roles = at_call_roles(problem);
    recents->made_bytes = made;
    init(recents, memory + head_bytes());
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

bool at_recent_is(const at_recents *recents, const at_recent *recent, const attune_call *call)
{
    return recent != NULL && recent->kept && at_call_is_same(&recent->call, call, recents->roles);
}

void at_recent_keep(const at_recents *recents, at_recent *recent, const attune_call *call, const at_made *made)
{
    if (recent == NULL) {
        return;
    }
    uint64_t mark = mark_of(call);
    recent->kept = recent->mark == mark;
    recent->mark = mark;
    if (recent->kept) {
        at_call_copy(&recent->call, call, recents->roles);
        memcpy(recent->made, made, recents->made_bytes);
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
