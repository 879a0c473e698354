/* A small pool of threads that runs numbered work items. It knows nothing of what they are. */
#ifndef BASE_THREADS_H
#define BASE_THREADS_H

#include <stddef.h>
#include <stdint.h>

#include "attune/attune.h"

typedef struct at_pool at_pool;

/* `scratch` belongs to the executing thread, 64-byte aligned, of the size given at creation; contents arbitrary. */
typedef void (*at_work)(void *context, int64_t item, void *scratch);

/* CPUs this process may run on (its affinity), at least 1. */
int at_cpu_count(void);
/* Starts threads - 1 workers (the caller of at_pool_run is the last), each with scratch_bytes of scratch. */
attune_status at_pool_create(int threads, size_t scratch_bytes, at_pool **pool);
void at_pool_destroy(at_pool *pool);
int at_pool_threads(const at_pool *pool);
/* Runs work for items 0 ... items - 1, each once, in any order; returns when all are done. Allocates nothing. Callable
 * from several threads: one run has the pool at a time (so never from within work on the same pool). One item runs on
 * the caller without waking anyone. */
void at_pool_run(at_pool *pool, int64_t items, at_work work, void *context);

#endif
