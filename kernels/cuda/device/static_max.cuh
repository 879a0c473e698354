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
 * Where each tile is asked for its maximum, the reference moves if a weight would be above 2^STATIC_MAX_SLACK; weights
 * up to STATIC_MAX_SCALABLE come down by a factor. NOTE: a reference above the maximum would have more room, and lose
 * in fp16 what many small weights add up to beside a large one. */
constexpr float STATIC_MAX_SLACK = 8;
#if RESCALE == 16
/* bf16 has the range of fp32: references that are raised come to lie 2^40 above the largest weight, so that the next
 * rise is 80 in units of log2 away. NOTE: first tiles' are their maxima, or V would lose bits below 2^-86 where no
 * score rises, too. */
enum { STATIC_MAX_RISES = 2 }; /* before a job's tiles take their maxima */
constexpr float STATIC_MAX_ABOVE = 40, STATIC_MAX_REACH = 0x1p40f, STATIC_MAX_SCALABLE = 0x1p126f;
#else
constexpr float STATIC_MAX_REACH = 0x1p15f, STATIC_MAX_SCALABLE = 0x1p100f;
#endif

ATTUNE_INLINE float positive_infinity()
{
    return __int_as_float(0x7f800000);
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
        float maximum = largest_score<count>(s, by, r);
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
        rows.maximum[r] = fmaxf(largest_score<count>(s, by, r), before);
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

/* Whether all of the warp's weights are in reach, and each lane's true. */
ATTUNE_INLINE bool static_max_holds(const float (&sum)[2][2], bool is_true = true)
{
    float all = (sum[0][0] + sum[0][1]) + (sum[1][0] + sum[1][1]);
    return !__any_sync(0xffffffff, !(all <= STATIC_MAX_REACH) | !is_true);
}

/* What the lane's weights of either row may sum up to, where no score may be above `end`: none is, then. */
struct weights_reach {
    float row[2];
};

ATTUNE_INLINE weights_reach reach_of(const row_pair &rows, float end)
{
    return {{ptx_ex2_approx_ftz_f32(end - rows.maximum[0]), ptx_ex2_approx_ftz_f32(end - rows.maximum[1])}};
}

ATTUNE_INLINE bool is_within(const weights_reach &reach, const float (&sum)[2][2])
{
    return sum[0][0] + sum[0][1] <= reach.row[0] && sum[1][0] + sum[1][1] <= reach.row[1];
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

/* Whether some weight of the warp's is too large to come down by a factor, or not true. A NaN among true ones is passed
 * over: it stays one. */
template <int n> ATTUNE_INLINE bool static_max_lost(const float (&s)[n], bool is_true)
{
    float largest = fmaxf(row_maximum<n>(s, 0), row_maximum<n>(s, 1));
    return __any_sync(0xffffffff, (largest > STATIC_MAX_SCALABLE) | !is_true);
}

#if RESCALE == 16
/* Weights come down with the reference, what was summed before by `factor`. NOTE: weights by its halves, since it may
 * be less than any number but 0, which is then right for what was summed before, and for no weight. */
template <int n>
ATTUNE_INLINE void static_max_lower(row_pair &rows, float (&s)[n], float (&sum)[2][2], float (&factor)[2])
{
    float half[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float largest = group_max<4>(row_maximum<n>(s, r)), before = rows.maximum[r];
        bool any = largest > 0;
        factor[r] = any ? static_max_move(rows, before + ptx_lg2_approx_ftz_f32(largest) + STATIC_MAX_ABOVE, 0, r) : 1;
        half[r] = any ? ptx_ex2_approx_ftz_f32(0.5f * (before - rows.maximum[r])) : 1;
        sum[r][0] = sum[r][1] = 0;
    }
#pragma unroll
    for (int i = 0; i < n; ++i) {
        s[i] = s[i] * half[i / 2 % 2] * half[i / 2 % 2];
        sum[i / 2 % 2][i % 2] += s[i];
    }
}
#else
/* Weights and their sum come down with the reference, by the same factor as what was summed before. */
template <int n>
ATTUNE_INLINE void static_max_lower(row_pair &rows, float (&s)[n], float (&sum)[2][2], float (&factor)[2])
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float largest = group_max<4>(row_maximum<n>(s, r));
        factor[r] = largest > 0 ? static_max_move(rows, rows.maximum[r] + ptx_lg2_approx_ftz_f32(largest), 0, r) : 1.0f;
        sum[r][0] *= factor[r];
        sum[r][1] *= factor[r];
    }
#pragma unroll
    for (int i = 0; i < n; ++i) {
        s[i] *= factor[i / 2 % 2];
    }
}
#endif

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
