#include "measure/flush.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/status.h"

enum { TIMES = 3, LINE = 64, PIECE = 1 << 20 };
static const size_t unknown_cache_bytes = (size_t)64 << 20;

attune_status at_flush_create(at_pool *pool, size_t cache_bytes, at_flush *flush)
{
    size_t wanted = (cache_bytes > 0 ? cache_bytes : unknown_cache_bytes) * TIMES;
    *flush = (at_flush){.pool = pool, .bytes = (wanted + PIECE - 1) / PIECE * PIECE};
    flush->buffer = calloc(flush->bytes, 1);
    AT_FAIL_IF(flush->buffer == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu bytes to flush the caches with",
               flush->bytes);
    return ATTUNE_OK;
}

static void touch(void *context, int64_t item, void *scratch)
{
    const at_flush *flush = context;
    (void)scratch;
    /* volatile, because nothing ever looks at the result. */
    volatile unsigned char *piece = flush->buffer + (size_t)item * PIECE;
    for (size_t at = 0; at < PIECE; at += LINE) {
        piece[at] = (unsigned char)(piece[at] + 1);
    }
}

attune_status at_flush_run(void *self)
{
    at_flush *flush = self;
    at_pool_run(flush->pool, (int64_t)(flush->bytes / PIECE), touch, flush);
    return ATTUNE_OK;
}

void at_flush_free(at_flush *flush)
{
    free(flush->buffer);
    flush->buffer = NULL;
}
