/* Scores in registers and what belongs to pairs of a query and a key, read two neighbours at a time: ALiBi, bias, mask.
 * What each of them does to a score is score.cuh's and visibility.cuh's to say. */
#ifndef DEVICE_PAIRS_CUH
#define DEVICE_PAIRS_CUH

#include "device/schedule.cuh"
#include "device/score.cuh"

/* Whether a problem has any. */
enum { BY_PAIRS = ATTUNE_HAS_ALIBI || ATTUNE_HAS_BIAS || ATTUNE_HAS_MASK };

/* Two neighbours of a row, at an even place; what does not exist is left at `none`. */
template <class T> struct alignas(2 * sizeof(T)) pair {
    T e[2];
};

template <class T> ATTUNE_INLINE pair<T> pair_at(const T *row, int at, int end, T none)
{
    pair<T> x = {{none, none}};
    if (at + 1 < end && (reinterpret_cast<attune_u64>(row) & (sizeof x - 1)) == 0) {
        x = *reinterpret_cast<const pair<T> *>(row + at);
    } else {
        x.e[0] = at < end ? row[at] : none;
        x.e[1] = at + 1 < end ? row[at + 1] : none;
    }
    return x;
}

/* What depends on the pair of query and key, in row r of the lane's two (rows.cuh): scores become whole, in units of
 * log2. */
template <int scores>
ATTUNE_INLINE void add_pairs(const attune_args &args, const sequence &sequence_at, const work &w, int row, int key,
                             int lane, int r, float factor, float (&s)[scores])
{
    query_row q = query_row_of(args, sequence_at, w.batch, w.head, row);
    const int column = lane % 4 * 2;
    const float ahead = (float)((attune_i64)row + sequence_at.offset - key - column);
    const int end = q.exists ? q.keys.end : 0;
#pragma unroll
    for (int i = 0; i < scores / 4; ++i) {
        const int at = key + i * 8 + column;
        pair<element> bias = {};
        pair<unsigned char> seen = {};
        if constexpr (ATTUNE_HAS_BIAS) {
            bias = pair_at(q.bias, at, end, element{});
        }
        if constexpr (ATTUNE_HAS_MASK) {
            seen = pair_at(q.mask, at, end, (unsigned char)0);
        }
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            float &x = s[i * 4 + r * 2 + e];
            x *= factor;
            if constexpr (ATTUNE_HAS_ALIBI) {
                x = fmaf(-LOG2_E * q.slope, fabsf(ahead - (float)(i * 8 + e)), x);
            }
            if constexpr (ATTUNE_HAS_BIAS) {
                const float b = to_float(bias.e[e]);
                x = b == negative_infinity() ? b : fmaf(LOG2_E, b, x);
            }
            if constexpr (ATTUNE_HAS_MASK) {
                x = seen.e[e] != 0 ? x : negative_infinity();
            }
        }
    }
}

#endif
