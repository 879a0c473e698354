/* A row of fp32 problems by one warp, without tensor cores: for rows that a value has reached which parts of bf16 do
 * not hold, a non-finite one or one of the smallest. Rare, slow, and right: nothing is read into a sum of a key that
 * the row does not see, and weights are normalised before they meet values, so that no mean overflows. */
#ifndef DEVICE_PLAIN_ROW_CUH
#define DEVICE_PLAIN_ROW_CUH

#include "device/score.cuh"
#include "device/softmax.cuh"

/* The row, and its way to the keys. */
struct plain_row {
    const element *query, *k, *v; /* of the sequence's first key */
    attune_i64 stride_k, stride_v;
    query_row q;
};

/* The score of the lane's key; -inf where it is not seen. */
template <int dim>
ATTUNE_INLINE float plain_score(const attune_args &args, const sequence &at, const plain_row &row, int key)
{
    if (!sees(row.q, key)) {
        return negative_infinity();
    }
    const element *k = row.k + key * row.stride_k;
    float sum = 0;
#pragma unroll 4
    for (int d = 0; d < dim; ++d) {
        sum = fmaf(row.query[d], k[d], sum);
    }
    return apply_score(args, at, row.q, key, sum);
}

/* NOTE: a finite score has a weight, however small: an infinite value is infinite in O. */
ATTUNE_INLINE float weigh_value(float weight, bool is_weighed, float value)
{
    return fmaf(is_weighed && !is_finite(value) ? fmaxf(weight, 1e-37f) : weight, value, 0.0f);
}

/* Row `row` of a head: O to `out`, LSE where it is wanted. All lanes take part. */
template <int dim_qk, int dim_v>
ATTUNE_INLINE void attend_plainly(const attune_args &args, const sequence &at, int batch, int head, int row, int lane)
{
    constexpr int columns = (dim_v + 31) / 32;
    const int head_kv = head / (int)(args.heads_q / args.heads_kv);
    const plain_row r = {row_of<element>(args.tensor[ATTUNE_Q], at.batch, head, at.first_q + row),
                         row_of<element>(args.tensor[ATTUNE_K], at.batch, head_kv, at.first_kv),
                         row_of<element>(args.tensor[ATTUNE_V], at.batch, head_kv, at.first_kv),
                         args.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_SEQ],
                         args.tensor[ATTUNE_V].stride[ATTUNE_STRIDE_SEQ],
                         query_row_of(args, at, batch, head, row)};
    online soft = online_start(args, head, lane == 0);
#pragma unroll 1
    for (int key = r.q.keys.first; key < r.q.keys.end; key += 32) {
        const float score = plain_score<dim_qk>(args, at, r, key + lane);
        (void)online_raise(&soft, group_max<32>(score));
        soft.sum += ptx_ex2_approx_ftz_f32(score - subtrahend(soft.maximum));
    }
    const float sum = group_sum<32>(soft.sum), normaliser = online_normaliser(sum);
    float o[columns] = {};
#pragma unroll 1
    for (int key = r.q.keys.first; key < r.q.keys.end; key += 32) {
        const float score = plain_score<dim_qk>(args, at, r, key + lane);
        const float weight = sum == 0 ? 0 : ptx_ex2_approx_ftz_f32(score - subtrahend(soft.maximum)) * normaliser;
        const unsigned seen = __ballot_sync(0xffffffff, sees(r.q, key + lane));
        const unsigned weighed = __ballot_sync(0xffffffff, score != negative_infinity());
#pragma unroll 1
        for (int k = 0; k < 32; ++k) {
            const float own = __shfl_sync(0xffffffff, weight, k);
            if (seen >> k & 1) {
                const element *v = r.v + (key + k) * r.stride_v;
#pragma unroll
                for (int c = 0; c < columns; ++c) {
                    const int at_column = c * 32 + lane;
                    o[c] += at_column < dim_v ? weigh_value(own, weighed >> k & 1, v[at_column]) : 0;
                }
            }
        }
    }
    element *out = row_of<element>(args.tensor[ATTUNE_O], at.batch, head, at.first_q + row);
#pragma unroll
    for (int c = 0; c < columns; ++c) {
        if (c * 32 + lane < dim_v) {
            out[c * 32 + lane] = sum == 0 ? 0 : o[c];
        }
    }
    if (wants_lse(args) && lane == 0) {
        store_lse(args, at.batch, head, at.first_q + row, soft.maximum, sum);
    }
}

#endif
