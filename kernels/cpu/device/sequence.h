/* What CPU kernels share about a sequence: its lengths, where its rows are, and how a row's softmax ends. */
#ifndef KERNELS_CPU_DEVICE_SEQUENCE_H
#define KERNELS_CPU_DEVICE_SEQUENCE_H

#include "vector.h"

INLINE int64_t lesser_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

INLINE int64_t greater_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- Lengths ---------------------------------------------------------------------------------------------------- */

typedef struct lengths {
    int64_t start_q, start_kv; /* rows of the tensors where the sequence begins; 0 unless varlen */
    int64_t length_q, keys;    /* of the sequence; valid ones of its keys */
} lengths;

/* Start and length of a packed sequence, clamped to what the tensor has and the plan allows. */
static inline int64_t find_sequence(const attune_tensor *cu, int64_t batch, int64_t total, int64_t longest,
                                    int64_t *start)
{
    int32_t bounds[2];
    memcpy(bounds, (const int32_t *)cu->data + batch, sizeof bounds);
    *start = lesser_of(greater_of(bounds[0], 0), total);
    int64_t end = lesser_of(greater_of(bounds[1], *start), total);
    return lesser_of(end - *start, longest);
}

static inline lengths find_lengths(const attune_args *args, int64_t batch)
{
    lengths of = {.length_q = args->seqlen_q, .keys = args->seqlen_kv};
    if (args->features & ATTUNE_FEATURE_VARLEN) {
        of.length_q = find_sequence(&args->tensor[ATTUNE_CU_Q], batch, args->total_q, args->seqlen_q, &of.start_q);
        if (!(args->features & ATTUNE_FEATURE_PAGED)) {
            of.keys = find_sequence(&args->tensor[ATTUNE_CU_KV], batch, args->total_kv, args->seqlen_kv, &of.start_kv);
        }
    }
    if (args->features & ATTUNE_FEATURE_SEQUSED) {
        int32_t used;
        memcpy(&used, (const int32_t *)args->tensor[ATTUNE_USED_KV].data + batch, sizeof used);
        of.keys = lesser_of(greater_of(used, 0), of.keys);
    }
    return of;
}

/* ---- Rows of tensors -------------------------------------------------------------------------------------------- */

/* Address of a row of Q or O, or of K or V that are no pools; rows are counted in the tensor. */
static inline char *row_address(const attune_args *args, attune_role role, int64_t batch, int64_t head, int64_t row)
{
    const attune_tensor *t = &args->tensor[role];
    int64_t outer = args->features & ATTUNE_FEATURE_VARLEN ? 0 : batch * t->stride[ATTUNE_STRIDE_BATCH];
    int64_t at = outer + head * t->stride[ATTUNE_STRIDE_HEAD] + row * t->stride[ATTUNE_STRIDE_SEQ];
    return (char *)t->data + at * bytes_of(t->dtype);
}

/* Rows of K or V of a sequence's head: in one piece, or in pages of a pool. */
typedef struct kv_rows {
    const char *first;    /* row 0; with pages, of page 0 */
    int64_t step;         /* bytes from row to row */
    const int32_t *table; /* the sequence's pages; NULL: one piece */
    uint32_t page_size;
    int64_t page_count, page_step; /* bytes from page to page */
} kv_rows;

static inline kv_rows find_kv(const attune_args *args, attune_role role, int64_t batch, int64_t head, const lengths *of)
{
    const attune_tensor *t = &args->tensor[role];
    const int64_t bytes = bytes_of(t->dtype);
    kv_rows rows = {.step = t->stride[ATTUNE_STRIDE_SEQ] * bytes};
    if (t->data == NULL || of->keys == 0) {
        return rows; /* nobody asks for one */
    }
    if (!(args->features & ATTUNE_FEATURE_PAGED)) {
        rows.first = row_address(args, role, batch, head, of->start_kv);
        return rows;
    }
    const bool own = role == ATTUNE_V && (args->features & ATTUNE_FEATURE_PAGED_V) != 0;
    const attune_tensor *table = &args->tensor[own ? ATTUNE_PAGE_TABLE_V : ATTUNE_PAGE_TABLE_K];
    rows.first = (const char *)t->data + head * t->stride[ATTUNE_STRIDE_HEAD] * bytes;
    rows.table = (const int32_t *)table->data + batch * table->stride[ATTUNE_STRIDE_BATCH];
    rows.page_size = (uint32_t)args->page_size;
    rows.page_count = args->page_count;
    rows.page_step = t->stride[ATTUNE_STRIDE_BATCH] * bytes;
    return rows;
}

/* Address of a row that exists. A table's entry out of the pool counts as the nearest that is in it. */
INLINE const char *kv_row(const kv_rows *rows, int64_t row)
{
    if (rows->table == NULL) {
        return rows->first + row * rows->step;
    }
    const uint32_t place = (uint32_t)row % rows->page_size;
    int32_t page;
    memcpy(&page, rows->table + (uint32_t)row / rows->page_size, sizeof page);
    const int64_t in_pool = lesser_of(greater_of(page, 0), rows->page_count - 1);
    return rows->first + in_pool * rows->page_step + (int64_t)place * rows->step;
}

/* How many rows from `row` on, at most `count`, lie a step apart. */
INLINE int kv_run(const kv_rows *rows, int64_t row, int count)
{
    return rows->table == NULL ? count : (int)lesser_of(count, rows->page_size - (uint32_t)row % rows->page_size);
}

/* Stores a row's LSE, if it is wanted. */
static inline void store_row_lse(const attune_args *args, int64_t batch, int64_t head, int64_t row, float value)
{
    const attune_tensor *lse = &args->tensor[ATTUNE_LSE];
    if (lse->data == NULL) {
        return;
    }
    int64_t outer = args->features & ATTUNE_FEATURE_VARLEN ? 0 : batch * lse->stride[ATTUNE_STRIDE_BATCH];
    int64_t at = outer + head * lse->stride[ATTUNE_STRIDE_HEAD] + row * lse->stride[ATTUNE_STRIDE_SEQ];
    memcpy((float *)lse->data + at, &value, sizeof value);
}

/* ---- The end of a row ------------------------------------------------------------------------------------------- */

/* The sink's logit for a head; -infinity, which changes nothing, where there is none. */
static inline float sink_of(const attune_args *args, int64_t head)
{
    float sink = -INFINITY;
    if (args->features & ATTUNE_FEATURE_SINK) {
        const attune_tensor *sinks = &args->tensor[ATTUNE_SINK];
        memcpy(&sink, (const float *)sinks->data + head * sinks->stride[ATTUNE_STRIDE_HEAD], sizeof sink);
    }
    return sink;
}

/* Lets the sink join a row's denominator. Returns what O must be multiplied by; *top, the row's maximum, becomes its
 * LSE. A row without weights has the sink alone, whatever it is. */
static inline float close_row(float sink, float sum, float *top)
{
    float share = 1;
    if (sum == 0) {
        *top = sink;
        return 0;
    }
    if (!(sink <= -INFINITY)) {
        float highest = sink <= *top ? *top : sink;
        share = expf(*top - highest);
        sum = sum * share + expf(sink - highest);
        *top = highest;
    }
    *top += logf(sum);
    return share / sum;
}

#endif
