#include "worker/fresh.h"

#include <string.h>

#include "base/random.h"
#include "core/problem.h"

enum { ROW_BYTES = 256 * 4 }; /* head dims have at most 256 columns */

at_fresh_key at_fresh_key_of(uint64_t transform, attune_role role, int sample, int call)
{
    const uint64_t which = role == ATTUNE_Q ? ((uint64_t)sample << 32) + (uint64_t)call + 1 : 0;
    at_random columns = at_random_seed(transform, 4 * which + (uint64_t)role);
    at_random places = at_random_seed(transform, 0x706c61636573);
    return transform == 0 ? (at_fresh_key){0, 0}
                          : (at_fresh_key){at_random_next(&columns) | 1, at_random_next(&places) | 1};
}

/* How rows change: columns begin with number `first`, and these bits flip. */
typedef struct change {
    size_t first; /* bytes */
    unsigned char flips[ROW_BYTES];
    int64_t batch, head; /* by how much they move */
} change;

static void draw_change(const at_transform_map *base, const at_transform_role *of, at_fresh_key key, change *by)
{
    const size_t bytes = at_dtype_bytes(of->tensor.dtype);
    at_random random = at_random_seed(key.columns, 0x6672657368), places = at_random_seed(key.places, 0);
    memset(by, 0, sizeof *by);
    if (key.columns == 0) {
        return;
    }
    by->first = (size_t)at_random_below(&random, (uint64_t)of->columns) * bytes;
    for (int64_t column = 0; column < of->columns; ++column) {
        const bool flips = at_random_below(&random, 2) != 0;
        by->flips[(size_t)(column + 1) * bytes - 1] =
            flips ? 0x80 : 0; /* little-endian: the sign is in the last byte */
    }
    if (base->moves) {
        by->batch = (int64_t)at_random_below(&places, (uint64_t)base->batch);
        by->head = (int64_t)at_random_below(&places, (uint64_t)base->heads_kv) * (of->heads / base->heads_kv);
    }
}

static void write_row(const change *by, size_t bytes, const unsigned char *from, unsigned char *to)
{
    memcpy(to, from + by->first, bytes - by->first);
    memcpy(to + bytes - by->first, from, by->first);
    for (size_t i = 0; i < bytes; ++i) {
        to[i] ^= by->flips[i];
    }
}

static size_t row_at(const attune_tensor *tensor, int64_t batch, int64_t head, int64_t row)
{
    const int64_t at = batch * tensor->stride[ATTUNE_STRIDE_BATCH] + head * tensor->stride[ATTUNE_STRIDE_HEAD] +
                       row * tensor->stride[ATTUNE_STRIDE_SEQ];
    return (size_t)at * at_dtype_bytes(tensor->dtype);
}

void at_fresh_write(const at_transform_map *base, attune_role role, at_fresh_key key, void *to)
{
    const at_transform_role *of = &base->role[role];
    const size_t bytes = (size_t)of->columns * at_dtype_bytes(of->tensor.dtype);
    const unsigned char *from = of->tensor.data;
    change by;
    draw_change(base, of, key, &by);
    for (int64_t batch = 0; batch < of->batch; ++batch) {
        for (int64_t head = 0; head < of->heads; ++head) {
            const int64_t other_batch = (batch + by.batch) % of->batch, other_head = (head + by.head) % of->heads;
            for (int64_t row = 0; row < of->rows; ++row) {
                write_row(&by, bytes, from + row_at(&of->tensor, other_batch, other_head, row),
                          (unsigned char *)to + row_at(&of->tensor, batch, head, row));
            }
        }
    }
}

/* NOTE: the bits of a number that consists of one byte are compared as a whole. */
static bool is_row_written(const unsigned char *row, int64_t columns, size_t bytes, uint32_t unwritten)
{
    bool written = true;
    for (int64_t column = 0; column < columns; ++column) {
        uint32_t bits = unwritten;
        memcpy(&bits, row + (size_t)column * bytes, bytes);
        written = written && bits != unwritten;
    }
    return written;
}

bool at_fresh_is_written(const at_transform_map *base, const attune_tensor *result, unsigned char byte)
{
    const at_transform_role *of = &base->role[ATTUNE_O];
    const unsigned char *from = result->data;
    uint32_t unwritten;
    memset(&unwritten, byte, sizeof unwritten);
    for (int64_t i = 0; i < base->batch * of->heads * of->rows; ++i) {
        const size_t at = row_at(result, i / of->rows / of->heads, i / of->rows % of->heads, i % of->rows);
        if (!is_row_written(from + at, of->columns, at_dtype_bytes(result->dtype), unwritten)) {
            return false;
        }
    }
    return true;
}
