/* Scratch for the threads that call: a slot is one thread's for the time of its call. The first is there from the
 * beginning; the others are allocated when so many threads call at once for the first time, and stay. */
#ifndef BASE_SLOTS_H
#define BASE_SLOTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/memory.h"

enum { AT_SLOTS = 64, AT_SLOT_ALIGN = 64 };

typedef struct at_slot {
    _Alignas(64) atomic_bool taken;
    _Atomic(void *) scratch; /* NULL: not yet */
} at_slot;

typedef struct at_slots {
    size_t bytes; /* of each */
    at_memory memory;
    pthread_mutex_t lock; /* with the condition: for threads that find none */
    pthread_cond_t given;
    atomic_int waiting;
    at_slot slot[AT_SLOTS];
} at_slots;

/* With `ready` slots allocated, at least 1 and at most AT_SLOTS. ATTUNE_OUT_OF_MEMORY leaves nothing behind. */
attune_status at_slots_init(at_slots *slots, int ready, size_t bytes, const at_memory *memory);
void at_slots_free(at_slots *slots);
/* Waits only where all slots are taken, or no memory is left for another one. */
at_slot *at_slots_take(at_slots *slots);
void at_slots_give(at_slots *slots, at_slot *slot);
/* In a child of the process: nobody has any. */
void at_slots_forget(at_slots *slots);

#endif
