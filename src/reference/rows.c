/* Which rows to compute, and how they are dealt to threads. */
#include <stdlib.h>

#include "base/random.h"
#include "base/status.h"
#include "reference/chunks.h"
#include "reference/sequence.h"

static int64_t rows_total(const attune_args *args)
{
    int64_t total = 0;
    for (int64_t b = 0; b < args->batch; ++b) {
        total += args->heads_q * at_sequence_of(args, b).seqlen_q;
    }
    return total;
}

/* Every row without a tile; else the first and last row of every head, the edges of tiles, and a seeded share of the
 * rest. Where there are many heads, a tile's edges are taken in every `deal`-th of them. */
typedef struct choice {
    int64_t tile, deal;
    double share;
    uint64_t seed;
} choice;

/* `head` counts those of all sequences. */
static bool taken(const choice *which, int64_t head, int64_t row, int64_t rows, uint64_t index)
{
    if (which->tile == 0 || row == 0 || row == rows - 1) {
        return true;
    }
    bool edge = row % which->tile == 0 || row % which->tile == which->tile - 1;
    if (edge && ((uint64_t)(row / which->tile + head) + which->seed) % (uint64_t)which->deal == 0) {
        return true;
    }
    at_random random = at_random_seed(which->seed, index);
    return at_random_uniform(&random) < which->share;
}

static attune_status choose(const attune_args *args, const choice *which, at_rows *rows)
{
    int64_t total = rows_total(args);
    rows->count = 0;
    rows->row = malloc((size_t)(total > 0 ? total : 1) * sizeof *rows->row);
    AT_FAIL_IF(rows->row == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a list of %lld rows", (long long)total);
    uint64_t index = 0;
    for (int64_t b = 0; b < args->batch; ++b) {
        int64_t length = at_sequence_of(args, b).seqlen_q;
        for (int64_t h = 0; h < args->heads_q; ++h) {
            for (int64_t i = 0; i < length; ++i) {
                if (taken(which, b * args->heads_q + h, i, length, index++)) {
                    rows->row[rows->count++] = (at_row){b, h, i};
                }
            }
        }
    }
    return ATTUNE_OK;
}

attune_status at_rows_all(const attune_args *args, at_rows *rows)
{
    const choice all = {0};
    return choose(args, &all, rows);
}

attune_status at_rows_some(const attune_args *args, int64_t wanted, int64_t tile, uint64_t seed, at_rows *rows)
{
    int64_t total = rows_total(args);
    int64_t heads = args->batch * args->heads_q;
    int64_t edges = tile > 0 ? total / tile * 2 : 0;
    int64_t deal = edges / AT_EDGES_MOST < heads ? edges / AT_EDGES_MOST : heads;
    const choice some = {.tile = tile > 0 ? tile : INT64_MAX,
                         .deal = deal > 1 ? deal : 1,
                         .share = total > 0 ? (double)wanted / (double)total : 0,
                         .seed = seed};
    return choose(args, &some, rows);
}

void at_rows_free(at_rows *rows)
{
    free(rows->row);
    rows->row = NULL;
    rows->count = 0;
}

/* Rows whose scores against `keys` keys fit a few megabytes, so that a thread's buffers stay near its cache. */
static int64_t chunk_rows(int64_t keys)
{
    const int64_t budget = INT64_C(4) << 20;
    int64_t rows = budget / (8 * (keys > 0 ? keys : 1));
    return rows < 2 ? 2 : rows > AT_CHUNK_ROWS ? AT_CHUNK_ROWS : rows;
}

attune_status at_chunks_create(const attune_args *args, const at_rows *rows, at_chunks *chunks)
{
    int64_t most = chunk_rows(args->seqlen_kv);
    chunks->count = 0;
    chunks->first = malloc((size_t)(rows->count + 1) * sizeof *chunks->first);
    AT_FAIL_IF(chunks->first == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to deal %lld rows to threads",
               (long long)rows->count);
    for (int64_t r = 0; r < rows->count; ++r) {
        const at_row *row = &rows->row[r];
        int64_t first = chunks->count > 0 ? chunks->first[chunks->count - 1] : 0;
        if (r == 0 || r - first == most || row->head != row[-1].head || row->batch != row[-1].batch) {
            chunks->first[chunks->count++] = r;
        }
    }
    chunks->first[chunks->count] = rows->count;
    return ATTUNE_OK;
}

void at_chunks_destroy(at_chunks *chunks)
{
    free(chunks->first);
}

at_chunk at_chunk_of(const attune_args *args, const at_rows *rows, const at_chunks *chunks, int64_t index)
{
    at_chunk chunk = {.first = chunks->first[index]};
    chunk.rows = chunks->first[index + 1] - chunk.first;
    chunk.row = rows->row + chunk.first;
    chunk.head = chunk.row->head;
    chunk.head_kv = chunk.head / (args->heads_q / args->heads_kv);
    chunk.sequence = at_sequence_of(args, chunk.row->batch);
    chunk.key_first = INT64_MAX;
    for (int64_t r = 0; r < chunk.rows; ++r) {
        int64_t first, end;
        at_sequence_range(args, &chunk.sequence, chunk.row[r].row, &first, &end);
        if (first < end) {
            chunk.key_first = first < chunk.key_first ? first : chunk.key_first;
            chunk.key_end = end > chunk.key_end ? end : chunk.key_end;
        }
    }
    if (chunk.key_end == 0) {
        chunk.key_first = 0;
    }
    return chunk;
}

void at_chunk_seen(const attune_args *args, const at_chunk *chunk, int64_t row, unsigned char *seen)
{
    int64_t i = chunk->row[row].row;
    int64_t batch = chunk->sequence.batch;
    int64_t first, end;
    at_sequence_range(args, &chunk->sequence, i, &first, &end);
    for (int64_t j = chunk->key_first; j < chunk->key_end; ++j) {
        seen[j - chunk->key_first] = j >= first && j < end;
    }
    if (args->features & ATTUNE_FEATURE_MASK) {
        const unsigned char *mask = (const unsigned char *)args->tensor[ATTUNE_MASK].data +
                                    at_pair_index(args, ATTUNE_MASK, batch, chunk->head, i);
        for (int64_t j = first; j < end; ++j) {
            seen[j - chunk->key_first] &= mask[j] != 0;
        }
    }
    for (int64_t j = first; (args->features & ATTUNE_FEATURE_DRAFT) && j < end; ++j) {
        seen[j - chunk->key_first] &= at_draft_sees(args, &chunk->sequence, i, j);
    }
    if (args->features & ATTUNE_FEATURE_BIAS) {
        int64_t at = at_pair_index(args, ATTUNE_BIAS, batch, chunk->head, i);
        for (int64_t j = first; j < end; ++j) {
            seen[j - chunk->key_first] &= at_element(&args->tensor[ATTUNE_BIAS], at + j) != -__builtin_inf();
        }
    }
}
