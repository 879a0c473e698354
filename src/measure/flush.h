/* Noise: what the caches happen to hold. A warm measurement leaves the tensors there; a cold one must not find them.
 * Cure for the cold mode: before each sample, every thread of the pool reads and writes its part of a buffer several
 * times as large as the caches. */
#ifndef MEASURE_FLUSH_H
#define MEASURE_FLUSH_H

#include <stddef.h>

#include "base/threads.h"

typedef struct at_flush {
    at_pool *pool;
    unsigned char *buffer;
    size_t bytes;
} at_flush;

/* A flush of `cache_bytes` of caches in all (0: unknown, 64 MB is taken). The pool must outlive it. */
attune_status at_flush_create(at_pool *pool, size_t cache_bytes, at_flush *flush);
/* Fits at_interleave.before; `self` is the at_flush. */
attune_status at_flush_run(void *self);
void at_flush_free(at_flush *flush);

#endif
