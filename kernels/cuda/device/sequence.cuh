/* The sequences of a batch and their rows. */
#ifndef DEVICE_SEQUENCE_CUH
#define DEVICE_SEQUENCE_CUH

#include "device/ptx.cuh"

/* ---- Rows ---- */

/* The row of a tensor at (batch, head, row). Packed tensors are addressed with batch 0 and rows of the whole. */
template <class T>
ATTUNE_INLINE T *row_of(const attune_tensor &tensor, attune_i64 batch, attune_i64 head, attune_i64 row)
{
    return static_cast<T *>(tensor.data) + batch * tensor.stride[ATTUNE_STRIDE_BATCH] +
           head * tensor.stride[ATTUNE_STRIDE_HEAD] + row * tensor.stride[ATTUNE_STRIDE_SEQ];
}

/* ---- Sequences ---- */

/* One sequence of the batch: where its rows begin in Q (O, LSE) and in K (V), and how many there are. */
struct sequence {
    attune_i64 batch;             /* what to address tensors with: 0 where they are packed */
    attune_i64 first_q, first_kv; /* 0 where K and V are pools (pages.cuh) */
    attune_i64 length_q, length_kv;
    attune_i64 offset; /* query row i is at position i + offset */
};

ATTUNE_INLINE attune_i64 clamp_i64(attune_i64 value, attune_i64 least, attune_i64 most)
{
    return value < least ? least : value > most ? most : value;
}

/* A packed sequence's rows. NOTE: the array lives on the device and nobody has checked it: whatever it holds, the rows
 * stay within the tensor and the declared maximum. */
ATTUNE_INLINE void packed_rows(const attune_tensor &cumulative, attune_i64 index, attune_i64 longest, attune_i64 total,
                               attune_i64 &first, attune_i64 &length)
{
    const attune_i32 *at = static_cast<const attune_i32 *>(cumulative.data) + index;
    first = clamp_i64(at[0], 0, total);
    length = clamp_i64(at[1] - static_cast<attune_i64>(at[0]), 0, longest);
    length = clamp_i64(length, 0, total - first);
}

ATTUNE_INLINE sequence sequence_of(const attune_args &args, attune_i64 index)
{
    sequence at = {index, 0, 0, args.seqlen_q, args.seqlen_kv, 0};
#if ATTUNE_HAS_VARLEN
    at.batch = 0;
    packed_rows(args.tensor[ATTUNE_CU_Q], index, args.seqlen_q, args.total_q, at.first_q, at.length_q);
#if !ATTUNE_HAS_PAGED
    packed_rows(args.tensor[ATTUNE_CU_KV], index, args.seqlen_kv, args.total_kv, at.first_kv, at.length_kv);
#endif
#endif
#if ATTUNE_HAS_SEQUSED
    at.length_kv = clamp_i64(static_cast<const attune_i32 *>(args.tensor[ATTUNE_USED_KV].data)[index], 0, at.length_kv);
#endif
#if ATTUNE_OFFSET_KIND == 0
    at.offset = at.length_kv - at.length_q;
#elif ATTUNE_OFFSET_KIND == 2
    at.offset = args.offset;
#endif
    return at;
}

#endif
