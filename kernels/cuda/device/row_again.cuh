/* A row of O once more, from memory and by one warp: of no key that the row does not see anything is read into a sum.
 * Rare and slow: for rows that a non-finite value has reached by way of its tile (0 x NaN). */
#ifndef DEVICE_ROW_AGAIN_CUH
#define DEVICE_ROW_AGAIN_CUH

#include "device/score.cuh"
#include "device/softmax.cuh"

/* The product of two rows of `dim` elements. */
template <int dim> ATTUNE_INLINE float product_of(const element *a, const element *b)
{
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < dim; i += 4) {
        float4 x = load_four<dim>(a, i), y = load_four<dim>(b, i);
        sum = fmaf(x.x, y.x, fmaf(x.y, y.y, fmaf(x.z, y.z, fmaf(x.w, y.w, sum))));
    }
    return sum;
}

/* A row as one warp sums it up: lanes have two columns in each 64 of O, and the softmax together. */
template <int dim> struct row_sum {
    online soft;
    float o[(dim + 63) / 64][2];
};

/* Takes in up to 32 keys from `key` on: this lane's has `score`, and the row sees those of `seen`. */
template <int dim>
ATTUNE_INLINE void take_keys(row_sum<dim> &row, const attune_tensor &values, const element *first, float score,
                             unsigned seen, int lane)
{
    float factor = online_raise(&row.soft, group_max<32>(score));
    float weight = ptx_ex2_approx_ftz_f32(score - subtrahend(row.soft.maximum));
    row.soft.sum += weight;
#pragma unroll
    for (int c = 0; c < (dim + 63) / 64; ++c) {
        row.o[c][0] *= factor;
        row.o[c][1] *= factor;
    }
#pragma unroll 1
    for (int k = 0; k < 32; ++k) {
        float w = __shfl_sync(0xffffffff, weight, k);
        if (seen >> k & 1) {
            const element *v = first + k * values.stride[ATTUNE_STRIDE_SEQ];
#pragma unroll
            for (int c = 0; c < (dim + 63) / 64; ++c) {
                int at = c * 64 + lane * 2;
                row.o[c][0] = fmaf(w, at < dim ? to_float(v[at]) : 0, row.o[c][0]);
                row.o[c][1] = fmaf(w, at < dim ? to_float(v[at + 1]) : 0, row.o[c][1]);
            }
        }
    }
}

/* Row `row` of a head's sequence, that of number `batch`: `store` has each two columns of O. All lanes take part.
 * The row's LSE too where it `is_closed`, which a score of NaN that a bias or a mask hides may have reached. */
template <int dim_qk, int dim_v, class T>
ATTUNE_INLINE void sum_row_again(const attune_args &args, const sequence &at, int batch, int head, int row,
                                 bool is_closed, int lane, T store)
{
    const attune_tensor &keys = args.tensor[ATTUNE_K], &values = args.tensor[ATTUNE_V];
    const int head_kv = head / (int)(args.heads_q / args.heads_kv);
    const element *query = row_of<element>(args.tensor[ATTUNE_Q], at.batch, head, at.first_q + row);
    const query_row q = query_row_of(args, at, batch, head, row);
    row_sum<dim_v> sum = {{negative_infinity(), 0}, {}};
#pragma unroll 1
    for (int key = q.keys.first; key < q.keys.end; key += 32) {
        float score = negative_infinity();
        bool seen = sees(q, key + lane);
        if (seen) {
            const element *k = row_of<element>(keys, at.batch, head_kv, at.first_kv + key + lane);
            score = apply_score(args, at, q, key + lane, product_of<dim_qk>(query, k));
        }
        take_keys<dim_v>(sum, values, row_of<element>(values, at.batch, head_kv, at.first_kv + key), score,
                         __ballot_sync(0xffffffff, seen), lane);
    }
    float all = group_sum<32>(sum.soft.sum), maximum = sum.soft.maximum;
    const float factor = online_take_sink(args, head, maximum, all), normaliser = factor * online_normaliser(all);
    if (is_closed && wants_lse(args) && lane == 0) {
        store_lse(args, at.batch, head, at.first_q + row, maximum, all);
    }
#pragma unroll
    for (int c = 0; c < (dim_v + 63) / 64; ++c) {
        if (c * 64 + lane * 2 < dim_v) {
            store(c * 64 + lane * 2, pack_two(sum.o[c][0] * normaliser, sum.o[c][1] * normaliser));
        }
    }
}

template <int dim_qk, int dim_v>
ATTUNE_INLINE void row_again(const attune_args &args, const sequence &at, int batch, int head, int row, element *out,
                             int lane)
{
    constexpr bool hides = ATTUNE_HAS_BIAS || ATTUNE_HAS_MASK;
    sum_row_again<dim_qk, dim_v>(args, at, batch, head, row, hides, lane, [&](int column, unsigned both) {
        *reinterpret_cast<unsigned *>(out + column) = both;
    });
}

#endif
