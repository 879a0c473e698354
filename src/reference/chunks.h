/* Chunks: runs of rows of one head that a thread computes together. */
#ifndef REFERENCE_CHUNKS_H
#define REFERENCE_CHUNKS_H

#include "reference/reference.h"
#include "reference/sequence.h"

enum {
    AT_CHUNK_ROWS = 32, /* at most */
    AT_BLOCK_KEYS = 64  /* keys converted at a time */
};

typedef struct at_chunks {
    int64_t count;
    int64_t *first; /* [count + 1] first row of each chunk */
} at_chunks;

typedef struct at_chunk {
    int64_t first, rows; /* in the list of rows */
    const at_row *row;
    int64_t head, head_kv;
    at_sequence sequence;
    int64_t key_first, key_end; /* the keys that position lets any of its rows see */
} at_chunk;

attune_status at_chunks_create(const attune_args *args, const at_rows *rows, at_chunks *chunks);
void at_chunks_destroy(at_chunks *chunks);
at_chunk at_chunk_of(const attune_args *args, const at_rows *rows, const at_chunks *chunks, int64_t index);
/* Which keys [key_first, key_end) the chunk's `row`-th row sees: position, MASK and a BIAS of -inf. */
void at_chunk_seen(const attune_args *args, const at_chunk *chunk, int64_t row, unsigned char *seen);

#endif
