/* Bias and mask of wgmma_small: read from memory by those who need them, while keys are on their way, into the sums
 * that the products with keys begin with. */
#ifndef DEVICE_SMALL_PAIRS_CUH
#define DEVICE_SMALL_PAIRS_CUH

#include "device/pair_rows.cuh"
#include "device/row_again.cuh"
#include "device/small.cuh"

template <class T>
ATTUNE_INLINE pair_rows<T> pair_rows_of(const attune_args &args, const attune_tensor &from, const place &p)
{
    return {row_of<const T>(from, p.batch, p.head, 0), from.stride[ATTUNE_STRIDE_SEQ], (int)p.sequence.length_q,
            (int)p.sequence.length_kv};
}

/* What products with the tile's keys from `key` on begin with: the bias in their unit, an infinity where the mask
 * hides. NOTE: a factor below 0 turns them over. */
template <int n>
ATTUNE_INLINE void begin_with_pairs(const attune_args &args, const place &p, const group &g, int key, float (&s)[n])
{
#if ATTUNE_HAS_BIAS || ATTUNE_HAS_MASK
    const float factor = score_factor(args), of_bias = LOG2_E / factor;
    const float hidden = factor < 0 ? -negative_infinity() : negative_infinity();
#pragma unroll
    for (int i = 0; i < n; ++i) {
        s[i] = 0;
    }
#if ATTUNE_HAS_BIAS
    each_two<n>(pair_rows_of<element_bias>(args, args.tensor[ATTUNE_BIAS], p), g.first_row, key, g.lane,
                [&](int i, element_bias x, element_bias y) {
                    s[i] = to_float(x) * of_bias;
                    s[i + 1] = to_float(y) * of_bias;
                });
#endif
#if ATTUNE_HAS_MASK
    each_two<n>(pair_rows_of<unsigned char>(args, args.tensor[ATTUNE_MASK], p), g.first_row, key, g.lane,
                [&](int i, unsigned char x, unsigned char y) {
                    s[i] = x != 0 ? s[i] : hidden;
                    s[i + 1] = y != 0 ? s[i + 1] : hidden;
                });
#endif
#endif
}

/* The warp's rows again of which some column of its stripe `o` is not finite, of the denominators `sum` and
 * `sum_below`: hidden values of NaN make all of a tile's rows NaN, hidden keys their own. */
template <int n>
ATTUNE_INLINE void mend_rows(const attune_args &args, const place &p, const group &g, const float (&o)[n], float sum,
                             float sum_below)
{
#if ATTUNE_HAS_BIAS || ATTUNE_HAS_MASK
    const int part = g.split * CLUSTER + p.share, first = part * (n * 2);
    float none[2] = {sum * 0, sum_below * 0};
#pragma unroll
    for (int i = 0; i < n; ++i) {
        none[i / 2 % 2] = fmaf(o[i], 0.0f, none[i / 2 % 2]);
    }
    const unsigned lost[2] = {__ballot_sync(0xffffffff, !(none[0] == 0)), __ballot_sync(0xffffffff, !(none[1] == 0))};
    __syncwarp(); /* other lanes have stored what is written again */
#pragma unroll 1
    for (int i = 0; i < 16 && (lost[0] | lost[1]) != 0; ++i) {
        const int row = g.first_row - g.lane / 4 + i;
        if (((i < 8 ? lost[0] : lost[1]) >> (i % 8 * 4) & 15) != 0 && row < p.sequence.length_q) {
            element *out = row_of<element>(args.tensor[ATTUNE_O], p.batch, p.head, row);
            sum_row_again<dim_qk, dim_v>(args, p.sequence, p.batch, p.head, row, part == 0, g.lane,
                                         [&](int column, unsigned both) {
                                             if (column >= first && column < first + n * 2) {
                                                 *reinterpret_cast<unsigned *>(out + column) = both;
                                             }
                                         });
        }
    }
#endif
}

#endif
