/* A small pool of threads that runs numbered work items. It knows nothing of what they are. */
#ifndef BASE_THREADS_H
#define BASE_THREADS_H

#include <stdbool.h>

#include "base/memory.h"

typedef struct at_pool at_pool;

/* `scratch` belongs to the executing thread, 64-byte aligned, of the size given at creation; contents arbitrary. */
typedef void (*at_work)(void *context, int64_t item, void *scratch);

enum { AT_CALLERS_MAX = 64 };

typedef struct at_pool_options {
    int threads; /* that a run takes; all but the caller's are the pool's own */
    size_t scratch_bytes;
    int callers; /* at most AT_CALLERS_MAX threads that call at the same time, whose scratch is allocated at once; 0: 1
                  */
    bool sleeps; /* its threads sleep as soon as they have nothing to do */
    const int *cpus; /* of the pool's own threads, one for each and from the beginning again; NULL: any */
    int cpu_count;
    at_memory memory;                 /* for scratch */
    attune_parallel_for parallel_for; /* NULL: threads of the pool's own; else it has none */
    void *parallel_user;
} at_pool_options;

/* CPUs this process may run on (its affinity), at least 1. */
int at_cpu_count(void);
/* Starts threads - 1 workers (the caller of at_pool_run is the last), each with scratch_bytes of scratch. */
attune_status at_pool_create(int threads, size_t scratch_bytes, at_pool **pool);
/* `options` is not kept, what it points to neither. */
attune_status at_pool_create_with(const at_pool_options *options, at_pool **pool);
void at_pool_destroy(at_pool *pool);
int at_pool_threads(const at_pool *pool);
/* In front of each scratch, so that who writes there can be seen: bytes that are nobody's. */
#define AT_SCRATCH_FRONT 256
/* Calls `see` with each scratch that there is, of the pool's threads and of callers. Nobody may be running. */
void at_pool_each_scratch(at_pool *pool, void (*see)(void *context, unsigned char *scratch), void *context);
/* Runs work for items 0 ... items - 1, each once, in any order; returns when all are done. Allocates nothing, unless
 * more threads call at the same time than ever before. Callable from several threads, from within work too: who finds
 * the pool's threads busy does its items alone until they are free. One item, and a pool of one thread, run on the
 * caller without waking or locking anything.
 *
 * In a child that was forked from the process the pool has no threads until the first run there that has use for them.
 * Forking in the middle of an item is not possible. */
void at_pool_run(at_pool *pool, int64_t items, at_work work, void *context);

#endif
