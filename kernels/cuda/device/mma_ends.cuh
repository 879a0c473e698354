/* The ends of a window in mma: the first tiles of keys and the last ones, visited in pairs.
 *
 * Tile i of the first ones and tile i of the last ones lie one behind the other in the ring. Of the one a strip's rows
 * see the steps of sixteen keys from some step on, of the other those before about the same step: so a row of steps
 * that begins in the one and ends in the other has all that the strip sees of both, and what a row sees of it is a
 * range again. Each strip has steps of its own; of all pairs together they are one more than a window's keys fill. */
#ifndef DEVICE_MMA_ENDS_CUH
#define DEVICE_MMA_ENDS_CUH

#include "device/mma_queries.cuh"
#include "device/mma_weights.cuh"

/* Steps of a strip in a pair. Where it sees both tiles it is one more than a tile has; with a pair for each strip it
 * sees of another pair one tile at most. */
template <int pair, int strip> constexpr int end_steps = steps_pv + (PAIRS == 1 || pair == strip ? 1 : 0);

/* Decides whether the tile's ends are visited at once; then its keys end where the last tiles begin. */
ATTUNE_INLINE void fold_ends(tile &t)
{
    t.folded = 0;
    if constexpr (FOLDS) {
        const int first = t.keys.begin, off = t.sees.first - first;
        const int last = first + (t.keys.end - 1 - first) / BLOCK_N * BLOCK_N - (PAIRS - 1) * BLOCK_N;
        /* all rows see the end of the first tiles, and the beginning of the last */
        const bool wide = t.sees.end >= first + PAIRS * BLOCK_N && t.sees.first + BLOCK_M - 1 <= last;
        /* steps from the first one that a strip sees to the last one, beyond a tile's */
        const int more = ((t.sees.end - last + 30) >> 4) - (off >> 4);
        const bool in_place = PAIRS == 1 || (off >= 0 && off < 16); /* strip i begins in first tile i */
        if (wide && in_place && first + PAIRS * BLOCK_N <= last && more <= 1) {
            t.folded = last - first;
            t.keys.end = last;
        }
    }
}

/* The last tiles behind all others again; all threads take part. */
ATTUNE_INLINE void unfold_ends(tile &t)
{
    if constexpr (FOLDS) {
        if (threadIdx.x == 0 && t.folded > 0) {
            t.keys.end = min(t.keys.end + PAIRS * BLOCK_N, t.keys.kv_end);
            t.folded = 0;
        }
        __syncthreads();
    }
}

/* The steps of a pair of tiles at which strips begin. */
typedef int strip_steps[STRIPS];

template <int pair> ATTUNE_INLINE void find_steps(const tile &t, const place &p, strip_steps &step)
{
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
        const int steps = strip == 0 ? end_steps<pair, 0> : end_steps<pair, 1>;
        const int row = p.row - t.first_row + strip * STRIP_STEP; /* lane 0's counts */
        const int first = (t.sees.first + row - t.keys.begin - pair * BLOCK_N) >> 4;
        step[strip] = __shfl_sync(0xffffffff, min(max(first, 0), 2 * steps_pv - steps), 0);
    }
}

/* The same as groups_before, in half the instructions. NOTE: there it would change all kernels that hide keys, which
 * has not been measured. */
ATTUNE_INLINE unsigned bits_before(int end, int place)
{
    return ptx_bmsk_clamp((unsigned)max(end - place + 7, 0) >> 3);
}

/* The scores of a strip's steps. */
template <int n> using end_scores = float[n * 8];

/* Columns d x 16 ... of the strip's queries, times those of its steps, the first of which is at `columns`. */
template <int n>
ATTUNE_INLINE void multiply_strip(unsigned columns, const queries &q, int d, int strip, end_scores<n> &s)
{
#pragma unroll
    for (int i = 0; i < n; ++i) {
        unsigned b[4];
        load_operand<pitch_qk>(b, columns, i, d);
        mma_16x16(&s[i * 8], q.a[Q_REGISTERS ? d : 0][strip], b);
    }
}

template <int n0, int n1>
ATTUNE_INLINE void multiply_ends(const Ring &ring, const strip_steps &step, queries &q, int lane, end_scores<n0> &s0,
                                 end_scores<n1> &s1)
{
    const unsigned first = lane_columns<pitch_qk>(ring.k[0], 0, lane);
    clear(s0, n0 * 8);
    clear(s1, n1 * 8);
#pragma unroll
    for (int d = 0; d < steps_qk; ++d) {
        if constexpr (!Q_REGISTERS) {
            load_queries(q, 0, d);
        }
        multiply_strip<n0>(first + (unsigned)(step[0] * 16 * pitch_qk * 2), q, d, 0, s0);
        multiply_strip<n1>(first + (unsigned)(step[1] * 16 * pitch_qk * 2), q, d, 1, s1);
    }
}

/* Hides of them what rows do not see. NOTE: the thread's place is worked out anew, and the caller has the second strip
 * done first: else the compiler spills. */
template <int n> ATTUNE_INLINE void hide_ends(const tile &t, int pair, int strip, int step, end_scores<n> &s)
{
    const place p = place_of(ptx_mov_tid_x(), t.first_row);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int row = p.row - t.first_row + strip * STRIP_STEP + r * 8;
        const int before = step * 16, to_last = BLOCK_N - before;
        const int first = min(t.sees.first + row - (t.keys.begin + pair * BLOCK_N) - before, to_last);
        const int end = max(min(t.sees.end + row, t.keys.kv_end) - (t.keys.end + pair * BLOCK_N), 0) + to_last;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const int place = p.lane % 4 * 2 + e;
            rows_keep<n * 8>(s, r, e, bits_before(end, place) & ~bits_before(first, place));
        }
    }
}

/* Step i of the strip's, times its values, the first of which are at `rows`. */
template <int n> ATTUNE_INLINE void add_step(unsigned rows, int i, const unsigned (&w)[n][4], strip_state &state)
{
#pragma unroll
    for (int c = 0; c < columns_o; ++c) {
        unsigned b[4];
        load_operand_trans<pitch_v>(b, rows, i, c);
        mma_16x16(&state.o[c * 8], w[i], b);
    }
}

/* What their weights make of values; `first`: rows have no maxima yet. */
template <bool first, int n0, int n1>
ATTUNE_INLINE void take_ends(const Ring &ring, const strip_steps &step, int lane, float scale, end_scores<n0> &s0,
                             end_scores<n1> &s1, strip_state (&state)[STRIPS])
{
    softmax_step f[STRIPS];
    unsigned w0[n0][4], w1[n1][4];
    if constexpr (first) {
        begin_maxima(s0, state[0]);
        begin_maxima(s1, state[1]);
    } else {
        bool moves = false;
        find_moves(s0, scale, state[0], moves);
        find_moves(s1, scale, state[1], moves);
        if (__any_sync(0xffffffff, moves)) {
            move_maxima(s0, scale, state[0]);
            move_maxima(s1, scale, state[1]);
        }
    }
    begin_weights(scale, state[0], f[0]);
    begin_weights(scale, state[1], f[1]);
    rows_exponentiate<0, n0 * 8>(s0, scale, f[0]);
    rows_exponentiate<0, n1 * 8>(s1, scale, f[1]);
    rows_pack<n0 * 8>(s0, w0);
    rows_pack<n1 * 8>(s1, w1);
    const unsigned rows = lane_rows<pitch_v>(ring.v[0], 0, lane);
#pragma unroll
    for (int i = 0; i <= steps_pv; ++i) {
        if (i < n0) {
            add_step(rows + (unsigned)(step[0] * 16 * pitch_v * 2), i, w0, state[0]);
        }
        if (i < n1) {
            add_step(rows + (unsigned)(step[1] * 16 * pitch_v * 2), i, w1, state[1]);
        }
    }
    finish(f, state);
}

/* Where the thread copies from in the tile behind the first. */
ATTUNE_INLINE spot spot_behind(const attune_args &args, unsigned kept)
{
    if constexpr (!FILLS_BY_PLACE) {
        return spot{nullptr, nullptr, 0};
    }
    const spot from = kept_spot(kept);
    return spot{from.k - 2 * BLOCK_N * args.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_SEQ],
                from.v - BLOCK_N * args.tensor[ATTUNE_V].stride[ATTUNE_STRIDE_SEQ], from.at};
}

/* Starts copying a pair's keys, or values; `behind`: where the tile behind the first ones is. */
ATTUNE_INLINE void copy_keys_of(const attune_args &args, const tile &t, const loop_ends &ends, const place &p, int pair,
                                const spot &behind, Ring &ring)
{
    const int first = pair - PAIRS, last = first + t.folded / BLOCK_N;
    copy_keys_from(args, ring.k[0], t, ends, p, t.keys.begin + pair * BLOCK_N, behind, first, true);
    copy_keys_from(args, ring.k[1], t, ends, p, t.keys.end + pair * BLOCK_N, behind, last, true);
}

ATTUNE_INLINE void copy_values_of(const attune_args &args, const tile &t, const loop_ends &ends, const place &p,
                                  int pair, const spot &behind, Ring &ring)
{
    const int first = pair - PAIRS, last = first + t.folded / BLOCK_N;
    copy_values_from(args, ring.v[0], t, ends, p, t.keys.begin + pair * BLOCK_N, behind, first, true);
    copy_values_from(args, ring.v[1], t, ends, p, t.keys.end + pair * BLOCK_N, behind, last, true);
}

/* Pair `pair`, whose keys are there, and those behind it. When it returns, so are the keys of the tile behind the first
 * ones; that one's values and the next one's keys travel. NOTE: the thread's place is worked out for each pair, and by
 * the caller anew: else the compiler spills. */
template <int pair>
ATTUNE_INLINE void visit_pairs(const attune_args &args, const tile &t, const loop_ends &ends, float scale, Ring &ring,
                               unsigned kept, queries &q, strip_state (&state)[STRIPS])
{
    const place p = place_of(ptx_mov_tid_x(), t.first_row);
    const int next = t.keys.begin + PAIRS * BLOCK_N;
    strip_steps step;
    find_steps<pair>(t, p, step);
    constexpr int n0 = end_steps<pair, 0>, n1 = end_steps<pair, 1>;
    end_scores<n0> s0;
    end_scores<n1> s1;
    multiply_ends<n0, n1>(ring, step, q, p.lane, s0, s1);
    ptx_cp_async_wait_group<0>();
    __syncthreads(); /* values are there, and keys are done with */
    if constexpr (pair + 1 < PAIRS) {
        copy_keys_of(args, t, ends, p, pair + 1, spot_behind(args, kept), ring);
    } else {
        copy_keys_from(args, ring.k[0], t, ends, p, next, spot_behind(args, kept), 0);
    }
    ptx_cp_async_commit_group();
    hide_ends<n1>(t, pair, 1, step[1], s1);
    hide_ends<n0>(t, pair, 0, step[0], s0);
    take_ends<pair == 0, n0, n1>(ring, step, p.lane, scale, s0, s1, state);
    ptx_cp_async_wait_group<0>();
    __syncthreads(); /* the next keys are there, and values are done with */
    const spot behind = spot_behind(args, kept);
    if constexpr (pair + 1 < PAIRS) {
        copy_values_of(args, t, ends, p, pair + 1, behind, ring);
        ptx_cp_async_commit_group();
        visit_pairs<pair + 1>(args, t, ends, scale, ring, kept, q, state);
    } else {
        copy_values_from(args, ring.v[0], t, ends, p, next, behind, 0);
        copy_keys_from(args, ring.k[1], t, ends, p, next + BLOCK_N, behind, 1);
        ptx_cp_async_commit_group();
    }
}

#endif
