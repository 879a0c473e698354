#include "base/slots.h"

#include "base/status.h"
#include "base/threads.h"

/* Where a thread looks first: what it had last. Callers that come again and again each find their own. */
static _Thread_local unsigned latest;

static void init_waiting(at_slots *slots)
{
    /* With default attributes these cannot fail on Linux. */
    (void)pthread_mutex_init(&slots->lock, NULL);
    (void)pthread_cond_init(&slots->given, NULL);
    atomic_init(&slots->waiting, 0);
}

static void *take_scratch(const at_slots *slots)
{
    unsigned char *taken = at_memory_take(&slots->memory, AT_SCRATCH_FRONT + slots->bytes, AT_SLOT_ALIGN);
    return taken == NULL ? NULL : taken + AT_SCRATCH_FRONT;
}

attune_status at_slots_init(at_slots *slots, int ready, size_t bytes, const at_memory *memory)
{
    slots->bytes = bytes;
    slots->memory = *memory;
    for (int i = 0; i < AT_SLOTS; ++i) {
        atomic_init(&slots->slot[i].taken, false);
        slots->slot[i].scratch = NULL;
    }
    init_waiting(slots);
    for (int i = 0; i < ready; ++i) {
        slots->slot[i].scratch = take_scratch(slots);
        if (slots->slot[i].scratch == NULL) {
            at_slots_free(slots);
            return at_fail(ATTUNE_OUT_OF_MEMORY, "%zu bytes of scratch for each of %d callers: out of memory", bytes,
                           ready);
        }
    }
    return ATTUNE_OK;
}

void at_slots_free(at_slots *slots)
{
    for (int i = 0; i < AT_SLOTS; ++i) {
        unsigned char *scratch = slots->slot[i].scratch;
        at_memory_give(&slots->memory, scratch == NULL ? NULL : scratch - AT_SCRATCH_FRONT);
    }
    pthread_cond_destroy(&slots->given);
    pthread_mutex_destroy(&slots->lock);
}

/* Only who has a slot writes its scratch. */
static bool take(at_slots *slots, at_slot *slot, bool may_allocate)
{
    if (atomic_load(&slot->taken) || (slot->scratch == NULL && !may_allocate) || atomic_exchange(&slot->taken, true)) {
        return false;
    }
    if (slot->scratch == NULL) {
        slot->scratch = take_scratch(slots);
    }
    if (slot->scratch == NULL) {
        atomic_store(&slot->taken, false);
        return false;
    }
    return true;
}

static at_slot *look(at_slots *slots)
{
    const unsigned begin = latest;
    for (unsigned i = 0; i < 2 * AT_SLOTS; ++i) {
        const unsigned at = (begin + i) % AT_SLOTS;
        if (take(slots, &slots->slot[at], i >= AT_SLOTS)) {
            latest = at;
            return &slots->slot[at];
        }
    }
    return NULL;
}

at_slot *at_slots_take(at_slots *slots)
{
    at_slot *slot = look(slots);
    if (slot != NULL) {
        return slot;
    }
    /* The count rises before the last look, and who gives reads it afterwards: one of the two sees the other. */
    pthread_mutex_lock(&slots->lock);
    atomic_fetch_add(&slots->waiting, 1);
    while ((slot = look(slots)) == NULL) {
        pthread_cond_wait(&slots->given, &slots->lock);
    }
    atomic_fetch_sub(&slots->waiting, 1);
    pthread_mutex_unlock(&slots->lock);
    return slot;
}

void at_slots_give(at_slots *slots, at_slot *slot)
{
    atomic_store(&slot->taken, false);
    if (atomic_load(&slots->waiting) > 0) {
        pthread_mutex_lock(&slots->lock);
        pthread_cond_signal(&slots->given);
        pthread_mutex_unlock(&slots->lock);
    }
}

void at_slots_forget(at_slots *slots)
{
    for (int i = 0; i < AT_SLOTS; ++i) {
        atomic_store(&slots->slot[i].taken, false);
    }
    init_waiting(slots);
}
