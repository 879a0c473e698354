/* Scores of mma become weights: maxima that move, softcap's curve, sums. */
#ifndef DEVICE_MMA_WEIGHTS_CUH
#define DEVICE_MMA_WEIGHTS_CUH

#include "device/mma_values.cuh"
#include "device/scaling.cuh"

/* Where scores are products capped, and nothing more, their curve (score_curve) stands where the factor does: a score
 * costs three instructions more, and no exponential. Products are then what is hidden and what maxima are taken of, for
 * tanh is monotone. */
enum { CURVED = ATTUNE_HAS_SOFTCAP && !BY_PAIRS };

/* What a warp's rows see, and what their products are multiplied by. */
struct warp_view {
    float scale, inner;
    key_range any_sees, all_see;
};

/* ---- Maxima ---- */

/* The largest of row r's scores, whatever its sign, as far as the lane has it. */
template <int n> ATTUNE_INLINE float row_extent(const float (&s)[scores], int r)
{
    float largest[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
        largest[i % 2] = fmaxf(largest[i % 2], fabsf(s[i / 2 * 4 + r * 2 + i % 2]));
    }
    return fmaxf(largest[0], largest[1]);
}

/* `moves`: or whether the maximum of some row of a strip has grown by so much that it moves. NOTE: lanes look at their
 * own scores alone, since the maximum mostly stays: what it costs to know it, shuffles that wait for each other and a
 * factor, is spared. */
template <int n> ATTUNE_INLINE void find_moves(const float (&s)[n], float scale, const strip_state &state, bool &moves)
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        moves |= (row_maximum<n>(s, r) - state.rows.maximum[r]) * scale > (float)LAZY;
    }
}

template <int n>
ATTUNE_INLINE bool any_moves(const float (&s)[STRIPS][n], float scale, const strip_state (&state)[STRIPS])
{
    bool moves = false;
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
        find_moves(s[t], scale, state[t], moves);
    }
    return __any_sync(0xffffffff, moves);
}

/* Takes in maxima, `most` being those of the rows' scores: where one moves, what was summed before is rescaled. */
ATTUNE_INLINE void move_rows(const float (&most)[2], float scale, strip_state &state)
{
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const float before = state.rows.maximum[r], all = fmaxf(most[r], before);
        const float after = (all - before) * scale > (float)LAZY ? all : before;
        factor[r] = ptx_ex2_approx_ftz_f32(fmaf(before, scale, -subtrahend(after) * scale));
        state.rows.sum[r] *= factor[r];
        state.rows.maximum[r] = after;
    }
    rows_rescale<0>(state.o, factor);
}

/* The same of a strip's scores. */
template <int n> ATTUNE_INLINE void move_maxima(const float (&s)[n], float scale, strip_state &state)
{
    softmax_step f;
    rows_raise<LAZY, n>(state.rows, s, scale, f);
    rows_finish(state.rows, f);
    rows_rescale<0>(state.o, f.factor);
}

/* Maxima of a strip's first scores. */
template <int n> ATTUNE_INLINE void begin_maxima(const float (&s)[n], strip_state &state)
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        state.rows.maximum[r] = group_max<4>(row_maximum<n>(s, r));
    }
}

/* ---- Scores on a curve ---- */

/* The largest product of each row, whatever its sign, as far as the lane has it. */
typedef float row_extents[STRIPS][2];

/* Whether all of the warp's products are on the curve. NOTE: with an `inner` that is all but 0 the last term would be
 * 0, and times that of a hidden product NaN. */
ATTUNE_INLINE bool all_on_curve(const float (&s)[STRIPS][scores], float inner, row_extents &extents)
{
    float largest = 0;
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            extents[t][r] = row_extent<scores>(s[t], r);
            largest = fmaxf(largest, extents[t][r]);
        }
    }
    return !__any_sync(0xffffffff, !(largest * inner <= 0.5f && inner > 1e-6f));
}

ATTUNE_INLINE void weigh_on_curve(float (&s)[STRIPS][scores], const warp_view &view, const row_extents &extents,
                                  strip_state (&state)[STRIPS])
{
    const score_curve capped = tanh_curve_of(view.inner);
    bool may_move = false;
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float x = extents[t][r];
            may_move |= (on_curve(capped, x, x * x) - state[t].rows.maximum[r]) * view.scale > (float)LAZY;
        }
    }
    if (__any_sync(0xffffffff, may_move)) {
#pragma unroll
        for (int t = 0; t < STRIPS; ++t) {
            float most[2];
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const float x = group_max<4>(row_maximum<scores>(s[t], r));
                most[r] = on_curve(capped, x, x * x);
            }
            move_rows(most, view.scale, state[t]);
        }
    }
    const score_curve by = {capped.a * view.scale, capped.b * view.scale, capped.c * view.scale};
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
        row_pair &rows = state[t].rows;
        const float subtract[2] = {subtrahend(rows.maximum[0]) * view.scale, subtrahend(rows.maximum[1]) * view.scale};
#pragma unroll
        for (int i = 0; i < scores; ++i) {
            const float x = s[t][i], square = x * x;
            s[t][i] =
                ptx_ex2_approx_ftz_f32(fmaf(x, fmaf(fmaf(by.c, square, by.b), square, by.a), -subtract[i / 2 % 2]));
            rows.sum[i / 2 % 2] += s[t][i];
        }
    }
}

/* ---- Weights ---- */

/* What a strip's scores become weights by, maxima being what they are. */
ATTUNE_INLINE void begin_weights(float scale, const strip_state &state, softmax_step &f)
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        f.subtract[r] = subtrahend(state.rows.maximum[r]) * scale;
        f.sum[r][0] = state.rows.sum[r];
        f.sum[r][1] = 0;
    }
}

/* Scores become weights; their sums are `finish`'s to take. */
template <int n>
ATTUNE_INLINE void weigh(float (&s)[STRIPS][n], float scale, strip_state (&state)[STRIPS], softmax_step (&f)[STRIPS])
{
    if (any_moves(s, scale, state)) {
#pragma unroll
        for (int t = 0; t < STRIPS; ++t) {
            move_maxima(s[t], scale, state[t]);
        }
    }
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
        begin_weights(scale, state[t], f[t]);
    }
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
        rows_exponentiate<0, n>(s[t], scale, f[t]);
    }
}

ATTUNE_INLINE void finish(const softmax_step (&f)[STRIPS], strip_state (&state)[STRIPS])
{
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
        rows_finish(state[t].rows, f[t]);
    }
}

template <int n> ATTUNE_INLINE void pack(const float (&s)[STRIPS][n], unsigned (&w)[STRIPS][n / 8][4])
{
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
        rows_pack<n>(s[strip], w[strip]);
    }
}

/* Whether no row of the warp sees any key of the tile: all scores are -inf. NOTE: maxima pass over NaN, which a row
 * that sees such a score must get; sums do not. */
ATTUNE_INLINE bool sees_nothing(const float (&s)[STRIPS][scores])
{
    float most = negative_infinity();
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
        most = fmaxf(most, fmaxf(row_maximum<scores>(s[t], 0), row_maximum<scores>(s[t], 1)));
    }
    if (__any_sync(0xffffffff, most > negative_infinity())) {
        return false;
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < STRIPS * scores; ++i) {
        sum += s[i / scores][i % scores];
    }
    return !__any_sync(0xffffffff, sum != sum);
}

#endif
