/* Softmax by a static maximum: weights are 2^(s - reference) where the reference was taken from a maximum that was
 * true once, of a row's first keys, and stays until weights have grown out of reach. So no tile needs its maximum
 * before its exponentials, nor O its rescaling; all that is asked of a tile is whether the sum of its weights, which is
 * needed anyway, is still in reach. Any reference gives the same quotient, and one that is not above the maximum loses
 * nothing in rounding (FlashDecoding++, Hong et al. 2023, guess one for all rows and recompute likewise).
 *
 * Of a row_pair maximum is the reference here: in units of log2, scale included, +inf while the row has seen no key
 * (whatever it then sees weighs 0, so tiles in which that may change must raise the reference first). */
#ifndef DEVICE_STATIC_MAX_CUH
#define DEVICE_STATIC_MAX_CUH

#include "device/mma.cuh"
#include "device/rows.cuh"
#include "device/scaling.cuh"

/* A lane's share of a row in one tile may sum up to STATIC_MAX_REACH, so no weight is above it: fp16 ends at 65,504.
 * Where each tile is asked for its maximum, the reference moves if a weight would be above 2^STATIC_MAX_SLACK. NOTE: a
 * reference above the maximum would have more room, and lose in fp16 what many small weights add up to beside a large
 * one. */
#if RESCALE == 16
/* bf16 has the range of fp32: references lie by 2^60 above what maxima they were taken from, so that scores may rise by
 * 90 in units of log2 before weights are out of reach. */
enum { STATIC_MAX_HEADROOM = 60 };
constexpr float STATIC_MAX_ABOVE = 0x1p60f;
constexpr float STATIC_MAX_REACH = 0x1p30f, STATIC_MAX_SLACK = 8;
/* Up to where weights and what was summed can come down by one factor that is no subnormal number. */
constexpr float STATIC_MAX_SCALABLE = 0x1p66f;
#else
enum { STATIC_MAX_HEADROOM = 0 };
constexpr float STATIC_MAX_REACH = 0x1p15f, STATIC_MAX_SLACK = 8;
/* Up to where weights and what was summed can come down by one factor that is no subnormal number. */
constexpr float STATIC_MAX_SCALABLE = 0x1p100f;
#endif

ATTUNE_INLINE float positive_infinity()
{
    return __int_as_float(0x7f800000);
}

/* The reference of a row with that maximum. */
ATTUNE_INLINE float static_max_reference(float maximum)
{
    return STATIC_MAX_HEADROOM > 0 ? maximum + STATIC_MAX_HEADROOM : maximum;
}

/* Moves row r's reference to `maximum`, if that is the first, or higher by more than `slack`; returns the factor for
 * what was summed. */
ATTUNE_INLINE float static_max_move(row_pair &rows, float maximum, float slack, int r)
{
    float before = rows.maximum[r];
    bool begun = before != positive_infinity();
    float after = begun && !(maximum > before + slack) ? before : maximum;
    rows.maximum[r] = after == negative_infinity() ? positive_infinity() : after;
    float factor = begun ? ptx_ex2_approx_ftz_f32(before - after) : 0.0f;
    rows.sum[r] *= factor;
    return factor;
}

/* The largest score of row r. NOTE: lanes' shifts are of their own columns. */
template <int count, int n, class scaling>
ATTUNE_INLINE float largest_score(const float (&s)[n], const scaling &by, int r)
{
    return score_of(by, group_max<4>(row_maximum<count>(s, r)), r);
}

template <int count, int n> ATTUNE_INLINE float largest_score(const float (&s)[n], const shifted &by, int r)
{
    return group_max<4>(score_of(by, row_maximum<count>(s, r), r));
}

/* Both rows' references to the maximum of the tile's scores, if it is out of reach by far enough for O's rescaling to
 * be worth it; the factors are for O. */
template <int count, int n, class scaling>
ATTUNE_INLINE void static_max_raise(row_pair &rows, const float (&s)[n], const scaling &by, float (&factor)[2])
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float maximum = static_max_reference(largest_score<count>(s, by, r));
        factor[r] = static_max_move(rows, maximum, STATIC_MAX_SLACK, r);
    }
}

/* From here on every tile's maximum is taken: rows that have seen no key begin with the least number. */
ATTUNE_INLINE void static_max_end(row_pair &rows)
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        rows.maximum[r] = rows.maximum[r] == positive_infinity() ? __int_as_float(0xff7fffff) : rows.maximum[r];
    }
}

/* Then: both rows' references to the maxima so far; the factors are for O. */
template <int count, int n, class scaling>
ATTUNE_INLINE void static_max_follow(row_pair &rows, const float (&s)[n], const scaling &by, float (&factor)[2])
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float before = rows.maximum[r];
        rows.maximum[r] = fmaxf(static_max_reference(largest_score<count>(s, by, r)), before);
        factor[r] = ptx_ex2_approx_ftz_f32(before - rows.maximum[r]);
        rows.sum[r] *= factor[r];
    }
}

/* Scores first ... end - 1 become weights, which are added to `sum`. */
template <int first, int end, int n, class scaling>
ATTUNE_INLINE void static_max_exponentiate(const row_pair &rows, float (&s)[n], const scaling &by, float (&sum)[2][2])
{
#pragma unroll
    for (int i = first; i < end; ++i) {
        s[i] = ptx_ex2_approx_ftz_f32(score_above(by, s[i], rows.maximum[i / 2 % 2], i / 2 % 2));
        sum[i / 2 % 2][i % 2] += s[i];
    }
}

template <int first, int end, int n>
ATTUNE_INLINE void static_max_exponentiate(const row_pair &rows, float (&s)[n], score_curve &by, float (&sum)[2][2])
{
#pragma unroll
    for (int i = first; i < end; i += 2) {
        float square[2] = {s[i] * s[i], s[i + 1] * s[i + 1]}, reference = rows.maximum[i / 2 % 2];
        by.largest = __vimax3_u32(by.largest, __float_as_uint(square[0]), __float_as_uint(square[1]));
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            float slope = fmaf(fmaf(by.c, square[e], by.b), square[e], by.a);
            s[i + e] = ptx_ex2_approx_ftz_f32(fmaf(s[i + e], slope, -reference));
            sum[i / 2 % 2][e] += s[i + e];
        }
    }
}

/* Whether all of the warp's weights are in reach, and its scores as true as they are to be. */
template <class scaling> ATTUNE_INLINE bool static_max_holds(const float (&sum)[2][2], const scaling &by)
{
    float all = (sum[0][0] + sum[0][1]) + (sum[1][0] + sum[1][1]);
    return !__any_sync(0xffffffff, !(all <= STATIC_MAX_REACH) | !curve_held(by));
}

ATTUNE_INLINE void static_max_finish(row_pair &rows, const float (&sum)[2][2])
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        rows.sum[r] += sum[r][0] + sum[r][1];
    }
}

/* What a first tile says of those to come, from its sums of weights by its own maximum: of the warp's `rows` that have
 * seen a few keys, in how many one outweighs all others, by twice (mild) and by eight times (sharp). There the next
 * tile may have one that outweighs it as much. `few`: some row has seen too few keys for its maximum to say anything.
 */
struct static_max_signs {
    int rows, mild, sharp;
    bool few;
};

ATTUNE_INLINE static_max_signs find_static_max_signs(const float (&sum)[2], const int (&seen)[2])
{
    enum { FEW = 16, ANY = 4 };
    static_max_signs signs = {0, 0, 0, __any_sync(0xffffffff, min(seen[0], seen[1]) < FEW) != 0};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float all = group_sum<4>(sum[r]);
        signs.rows += __popc(__ballot_sync(0xffffffff, seen[r] >= ANY));
        signs.mild += __popc(__ballot_sync(0xffffffff, seen[r] >= ANY && all < 1.5f));
        signs.sharp += __popc(__ballot_sync(0xffffffff, seen[r] >= ANY && all < 1.125f));
    }
    return signs;
}

#if RESCALE == 16
/* The same of references far above: `uneven`, in some rows that have seen enough keys to say so one outweighs the
 * others twice. Only scores that spread most are sharp: in most rows one key outweighs the others by 2^10, in some by
 * 2^14. NOTE: scores of 2^9 are true to 2^-15, and so is the sum of a first tile's weights. */
struct far_max_signs : static_max_signs {
    bool uneven;
};

template <bool by_group> ATTUNE_INLINE far_max_signs find_far_max_signs(const float (&sum)[2], const int (&seen)[2])
{
    enum { FEW = 16, ENOUGH = 32, ANY = 4, LANES = 4 };
    far_max_signs signs = {{0, 0, 0, __any_sync(0xffffffff, min(seen[0], seen[1]) < FEW) != 0}, false};
    int uneven = 0;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float all = group_sum<4>(sum[r]) * STATIC_MAX_ABOVE;
        bool some = seen[r] >= ANY, enough = seen[r] >= ENOUGH, tells = by_group ? enough : some;
        signs.rows += 3 * __popc(__ballot_sync(0xffffffff, tells));
        signs.sharp += 2 * __popc(__ballot_sync(0xffffffff, tells && all < 1 + 0x1p-10f));
        signs.sharp += 2 * __popc(__ballot_sync(0xffffffff, tells && all < 1 + 0x1p-14f));
        signs.mild += 3 * __popc(__ballot_sync(0xffffffff, some && all < 1.125f));
        uneven += __popc(__ballot_sync(0xffffffff, enough && all < 1.5f));
    }
    signs.uneven = uneven >= 2 * LANES;
    return signs;
}

/* ---- The largest weight ---- */

/* Products take weights rounded, sums do not: where one key outweighs the others, O is off by what its weight lost. So
 * each lane keeps its rows' largest weights (as bits: they are not negative), and what these lost comes off the sums.
 */
struct largest_weights {
    unsigned bits[2];
};

template <int n> ATTUNE_INLINE void take_largest(largest_weights &largest, const float (&s)[n], int i)
{
    unsigned &bits = largest.bits[i / 2 % 2];
    bits = __vimax3_u32(bits, __float_as_uint(s[i]), __float_as_uint(s[i + 1]));
}

template <int count, int n> ATTUNE_INLINE largest_weights largest_of(const float (&s)[n])
{
    largest_weights largest = {{0, 0}};
#pragma unroll
    for (int i = 0; i < count; i += 2) {
        take_largest(largest, s, i);
    }
    return largest;
}

/* By how much a weight is larger once it is rounded. */
ATTUNE_INLINE float rounded_off(unsigned bits)
{
    return to_float(from_float<element>(__uint_as_float(bits))) - __uint_as_float(bits);
}

/* Before references move. NOTE: what sums have too little for O is kept apart, since LSE is of the weights as they are.
 */
ATTUNE_INLINE void settle_largest(float (&lost)[2], largest_weights &largest)
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        lost[r] += rounded_off(largest.bits[r]);
        largest.bits[r] = 0;
    }
}

/* Scores first ... end - 1 become weights, likewise. */
template <int first, int end, int n>
ATTUNE_INLINE void static_max_exponentiate(const row_pair &rows, float (&s)[n], float by, float (&sum)[2][2],
                                           largest_weights &largest)
{
#pragma unroll
    for (int i = first; i < end; i += 2) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            s[i + e] = ptx_ex2_approx_ftz_f32(score_above(by, s[i + e], rows.maximum[i / 2 % 2], i / 2 % 2));
            sum[i / 2 % 2][e] += s[i + e];
        }
        take_largest(largest, s, i);
    }
}
#endif

/* Whether some weight of the warp's is too large to come down by a factor, or not true. A NaN is passed over: it stays
 * one. */
template <int n, class scaling> ATTUNE_INLINE bool static_max_lost(const float (&s)[n], const scaling &by)
{
    float largest = fmaxf(row_maximum<n>(s, 0), row_maximum<n>(s, 1));
    return __any_sync(0xffffffff, (largest > STATIC_MAX_SCALABLE) | !curve_held(by));
}

/* Weights and their sum come down with the reference, by the same factor as what was summed before. */
template <int n>
ATTUNE_INLINE void static_max_lower(row_pair &rows, float (&s)[n], float (&sum)[2][2], float (&factor)[2])
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float largest = group_max<4>(row_maximum<n>(s, r));
        factor[r] =
            largest > 0
                ? static_max_move(rows, static_max_reference(rows.maximum[r] + ptx_lg2_approx_ftz_f32(largest)), 0, r)
                : 1.0f;
        sum[r][0] *= factor[r];
        sum[r][1] *= factor[r];
    }
#pragma unroll
    for (int i = 0; i < n; ++i) {
        s[i] *= factor[i / 2 % 2];
    }
}

/* ---- The scores once more ---- */

/* Rows in memory, `count` of them (none before row 0). */
struct rows_at {
    const element *first;
    attune_i64 stride;
    int count;
};

/* Two neighbouring elements of a row; zeros where there is none. */
template <int dim> ATTUNE_INLINE unsigned two_of(const rows_at &rows, int row, int at)
{
    bool exists = row >= 0 && row < rows.count && at < dim;
    return exists ? *reinterpret_cast<const unsigned *>(rows.first + row * rows.stride + at) : 0;
}

/* The scores of the warp's sixteen rows (`row`: this lane's first) with the tile's keys from `key` on, from memory: the
 * tile in shared memory may be gone. Rare, and of one warp alone, hence not by wgmma. */
template <int dim, int n>
ATTUNE_INLINE void static_max_rescore(const rows_at &q, const rows_at &k, int row, int key, int lane, float (&s)[n])
{
#pragma unroll
    for (int i = 0; i < n / 4; ++i) {
        s[i * 4] = s[i * 4 + 1] = s[i * 4 + 2] = s[i * 4 + 3] = 0;
#pragma unroll 2
        for (int step = 0; step < dim; step += 16) {
            int at = step + lane % 4 * 2, which = key + i * 8 + lane / 4;
            unsigned a[4] = {two_of<dim>(q, row, at), two_of<dim>(q, row + 8, at), two_of<dim>(q, row, at + 8),
                             two_of<dim>(q, row + 8, at + 8)};
            unsigned b[2] = {two_of<dim>(k, which, at), two_of<dim>(k, which, at + 8)};
            mma_16x8(s + i * 4, a, b);
        }
    }
}

#endif
