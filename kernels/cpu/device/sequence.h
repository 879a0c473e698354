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
        of.keys = find_sequence(&args->tensor[ATTUNE_CU_KV], batch, args->total_kv, args->seqlen_kv, &of.start_kv);
    }
    if (args->features & ATTUNE_FEATURE_SEQUSED) {
        int32_t used;
        memcpy(&used, (const int32_t *)args->tensor[ATTUNE_USED_KV].data + batch, sizeof used);
        of.keys = lesser_of(greater_of(used, 0), of.keys);
    }
    return of;
}

/* ---- Rows of tensors -------------------------------------------------------------------------------------------- */

/* Address of a row of Q, O, K or V; rows are counted in the tensor. */
static inline char *row_address(const attune_args *args, attune_role role, int64_t batch, int64_t head, int64_t row)
{
    const attune_tensor *t = &args->tensor[role];
    int64_t outer = args->features & ATTUNE_FEATURE_VARLEN ? 0 : batch * t->stride[ATTUNE_STRIDE_BATCH];
    int64_t at = outer + head * t->stride[ATTUNE_STRIDE_HEAD] + row * t->stride[ATTUNE_STRIDE_SEQ];
    return (char *)t->data + at * bytes_of(args->dtype);
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
