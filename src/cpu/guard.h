/* What the items of a call may leave behind on the threads that run them: nothing. */
#ifndef CPU_GUARD_H
#define CPU_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/poison.h"
#include "base/threads.h"

/* Bytes behind the largest scratch that a kernel may ask for, and before the next thread's. */
#define AT_SCRATCH_GUARD 4096

/* Of a judged call. */
typedef struct at_cpu_guard {
    at_poison poison;     /* of scratch before the call */
    size_t scratch_bytes; /* that the kernel asked for */
    bool keeps;           /* these hold what the call before left, as in calls that nobody judges */
    atomic_uint left;     /* the first control register that came back changed; 0: none */
    atomic_uint lent;     /* and what it was; both with the register's number in the upper byte */
} at_cpu_guard;

/* Fills the pool's scratch, nobody running; where the call is to find what the one before left, only behind the
 * scratch_bytes that the kernel asked for. */
void at_cpu_guard_begin(at_cpu_guard *guard, at_pool *pool, size_t scratch_bytes, uint64_t seed, bool keeps);
/* Runs work(context, item, scratch) with something else below its stack, and looks at the control registers, which it
 * gets back as they were. */
void at_cpu_guard_item(at_cpu_guard *guard, at_work work, void *context, int64_t item, void *scratch);
/* ATTUNE_WRONG_RESULT where a register was left changed, or a byte behind a thread's scratch was written. */
attune_status at_cpu_guard_end(at_cpu_guard *guard, at_pool *pool);

#endif
