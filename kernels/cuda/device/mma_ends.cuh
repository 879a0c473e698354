/* The ends of a window in mma: the first tile of keys and the last one, visited at once.
 *
 * Of the first tile a row sees the keys from some place on, of the last those before about the same place. So a strip's
 * scores are, step of sixteen keys by step, of the last tile where its rows see nothing of the first, and of the first
 * elsewhere; what rows see of the last beyond that, where tiles have as many keys as the block rows, comes behind, a
 * step at a time. All warps have as much to do, which they had not in either tile alone. */
#ifndef DEVICE_MMA_ENDS_CUH
#define DEVICE_MMA_ENDS_CUH

#include "device/mma_queries.cuh"
#include "device/mma_weights.cuh"

/* Decides whether the tile's ends are visited at once; then its keys end where the last tile begins. */
ATTUNE_INLINE void fold_ends(tile &t)
{
    t.folded = 0;
    if constexpr (FOLDS) {
        const int last = (t.keys.end - 1) / BLOCK_N * BLOCK_N;
        /* all rows see the first tile's last key, and the last tile's first */
        const bool wide = t.sees.end >= t.keys.begin + BLOCK_N && t.sees.first + BLOCK_M - 1 <= last;
        t.more = max(((t.sees.end - last + 30) >> 4) - ((t.sees.first - t.keys.begin) >> 4), 0);
        if (wide && last > t.keys.begin && t.more <= FOLD_MORE) {
            t.folded = last - t.keys.begin;
            t.keys.end = last;
        }
    }
}

/* The last tile behind all others again; all threads take part. */
ATTUNE_INLINE void unfold_ends(tile &t)
{
    if constexpr (FOLDS) {
        if (threadIdx.x == 0 && t.folded > 0) {
            t.keys.end = min(t.keys.end + BLOCK_N, t.keys.kv_end);
            t.folded = 0;
        }
        __syncthreads();
    }
}

/* A warp's view of both tiles. */
struct two_ends {
    int turn[STRIPS]; /* the first step of the first tile that a strip's rows see; steps before are the last tile's */
};

ATTUNE_INLINE two_ends two_ends_of(const tile &t, const place &p)
{
    two_ends of;
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
        const int row = __shfl_sync(0xffffffff, p.row, 0) - t.first_row + strip * STRIP_STEP;
        of.turn[strip] = min(max((t.sees.first + row - t.keys.begin) >> 4, 0), steps_pv);
    }
    return of;
}

/* The step of the last tile that is `more` behind what stands in the first one's place. NOTE: there may be none, and
 * one taken twice is hidden. */
ATTUNE_INLINE int step_left(const two_ends &of, int strip, int more)
{
    return min(of.turn[strip] + more, steps_pv - 1);
}

/* The same as groups_before, in half the instructions. NOTE: there it would change all kernels that hide keys, which
 * has not been measured. */
ATTUNE_INLINE unsigned bits_before(int end, int place)
{
    return ptx_bmsk_clamp((unsigned)max(end - place + 7, 0) >> 3);
}

/* Hides of a strip's scores of that step what its rows do not see. */
ATTUNE_INLINE void hide_step(const tile &t, const place &p, const two_ends &of, int strip, int more, float (&s)[8])
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int row = p.row - t.first_row + strip * STRIP_STEP + r * 8;
        const int end = of.turn[strip] + more < steps_pv ? min(t.sees.end + row, t.keys.kv_end) - t.keys.end : 0;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            rows_keep<8>(s, r, e, bits_before(end - step_left(of, strip, more) * 16, p.lane % 4 * 2 + e));
        }
    }
}

/* ---- Both tiles as one ------------------------------------------------------------------------------------------ */

/* The scores of as many steps as a tile has, and of the first step left over, if any may be. */
enum { STEPS_LEFT = FOLD_MORE > 0, END_STEPS = steps_pv + STEPS_LEFT, END_SCORES = END_STEPS * 8 };

/* How far behind the first tile's step n a strip's lies: it is the last tile's, or the first step left over. */
ATTUNE_INLINE unsigned step_offset(const two_ends &of, int strip, int n, unsigned tile_bytes, int pitch)
{
    return n == steps_pv        ? tile_bytes + (unsigned)(step_left(of, strip, 0) * 16 * pitch * 2)
           : n < of.turn[strip] ? tile_bytes
                                : 0;
}

ATTUNE_INLINE void multiply_ends(const Ring &ring, const two_ends &of, queries &q, int lane,
                                 float (&s)[STRIPS][END_SCORES])
{
    const unsigned first = lane_columns<pitch_qk>(ring.k[0], 0, lane);
#pragma unroll
    for (int i = 0; i < STRIPS * END_SCORES; ++i) {
        s[i / END_SCORES][i % END_SCORES] = 0;
    }
#pragma unroll
    for (int d = 0; d < steps_qk; ++d) {
        if constexpr (!Q_REGISTERS) {
            load_queries(q, 0, d);
        }
#pragma unroll
        for (int t = 0; t < STRIPS; ++t) {
#pragma unroll
            for (int n = 0; n < END_STEPS; ++n) {
                unsigned b[4];
                ptx_ldmatrix_x4(b, operand_address<pitch_qk>(first, n == steps_pv ? 0 : n, d) +
                                       step_offset(of, t, n, sizeof ring.k[0], pitch_qk));
                mma_16x16(&s[t][n * 8], q.a[Q_REGISTERS ? d : 0][t], b);
            }
        }
    }
}

ATTUNE_INLINE void hide_ends(const tile &t, const place &p, const two_ends &of, float (&s)[STRIPS][END_SCORES])
{
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
        const unsigned of_last = (1u << (2 * of.turn[strip])) - 1;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int row = p.row - t.first_row + strip * STRIP_STEP + r * 8;
            const int first = t.sees.first + row - t.keys.begin;
            const int end = min(t.sees.end + row, t.keys.kv_end) - t.keys.end;
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int place = p.lane % 4 * 2 + e;
                rows_keep<scores>(s[strip], r, e,
                                  (bits_before(end, place) & of_last) | ~(bits_before(first, place) | of_last));
            }
        }
        if constexpr (STEPS_LEFT > 0) {
            hide_step(t, p, of, strip, 0, reinterpret_cast<float(&)[8]>(s[strip][scores]));
        }
    }
}

ATTUNE_INLINE void add_values_of_ends(const Ring &ring, const two_ends &of, const unsigned (&w)[STRIPS][END_STEPS][4],
                                      int lane, strip_state (&state)[STRIPS])
{
    const unsigned first = lane_rows<pitch_v>(ring.v[0], 0, lane);
#pragma unroll
    for (int n = 0; n < END_STEPS; ++n) {
#pragma unroll
        for (int t = 0; t < STRIPS; ++t) {
#pragma unroll
            for (int c = 0; c < columns_o; ++c) {
                unsigned b[4];
                ptx_ldmatrix_x4_trans(b, operand_address<pitch_v>(first, n == steps_pv ? 0 : n, c) +
                                             step_offset(of, t, n, sizeof ring.v[0], pitch_v));
                mma_16x16(&state[t].o[c * 8], w[t][n], b);
            }
        }
    }
}

/* ---- What is left of the last tile ------------------------------------------------------------------------------- */

/* Step `more` of it, for each strip its own. */
ATTUNE_INLINE void visit_step(const tile &t, const place &p, const Ring &ring, const two_ends &of, int more,
                              float scale, queries &q, strip_state (&state)[STRIPS])
{
    const int lane = (int)(ptx_mov_tid_x() % 32); /* read anew: registers */
    float s[STRIPS][8] = {};
    const unsigned columns = lane_columns<pitch_qk>(ring.k[1], 0, lane);
#pragma unroll
    for (int d = 0; d < steps_qk; ++d) {
        if constexpr (!Q_REGISTERS) {
            load_queries(q, 0, d);
        }
#pragma unroll
        for (int strip = 0; strip < STRIPS; ++strip) {
            unsigned b[4];
            load_operand<pitch_qk>(b, columns + (unsigned)(step_left(of, strip, more) * 16 * pitch_qk * 2), 0, d);
            mma_16x16(s[strip], q.a[Q_REGISTERS ? d : 0][strip], b);
        }
    }
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
        hide_step(t, p, of, strip, more, s[strip]);
    }
    unsigned w[STRIPS][1][4];
    softmax_step f[STRIPS];
    weigh(s, scale, state, f);
    pack(s, w);
    const unsigned rows = lane_rows<pitch_v>(ring.v[1], 0, lane);
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
#pragma unroll
        for (int c = 0; c < columns_o; ++c) {
            unsigned b[4];
            load_operand_trans<pitch_v>(b, rows + (unsigned)(step_left(of, strip, more) * 16 * pitch_v * 2), 0, c);
            mma_16x16(&state[strip].o[c * 8], w[strip][0], b);
        }
    }
    finish(f, state);
}

/* ---- All of it --------------------------------------------------------------------------------------------------- */

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

/* Both tiles, whose keys are there. When it returns, so are the keys of the tile behind the first; that one's values
 * and the next one's keys travel. */
ATTUNE_INLINE void visit_ends(const attune_args &args, const tile &t, const loop_ends &ends, const place &p,
                              float scale, Ring &ring, unsigned kept, queries &q, strip_state (&state)[STRIPS])
{
    const two_ends of = two_ends_of(t, p);
    float s[STRIPS][END_SCORES];
    multiply_ends(ring, of, q, p.lane, s);
    ptx_cp_async_wait_group<0>();
    __syncthreads(); /* values are there, and the first keys are done with */
    copy_keys_from(args, ring.k[0], t, ends, p, t.keys.begin + BLOCK_N, spot_behind(args, kept), 0);
    ptx_cp_async_commit_group();
    hide_ends(t, p, of, s);
    softmax_step f[STRIPS];
    unsigned w[STRIPS][END_STEPS][4];
    weigh_first(s, scale, state, f);
    pack(s, w);
    add_values_of_ends(ring, of, w, p.lane, state);
    finish(f, state);
    if constexpr (FOLD_MORE > STEPS_LEFT) {
#pragma unroll 1
        for (int more = STEPS_LEFT; more < t.more; ++more) {
            visit_step(t, p, ring, of, more, scale, q, state);
        }
    }
    ptx_cp_async_wait_group<0>();
    __syncthreads();
    const spot behind = spot_behind(args, kept);
    const int next = t.keys.begin + BLOCK_N;
    copy_values_from(args, ring.v[0], t, ends, p, next, behind, 0);
    copy_keys_from(args, ring.k[1], t, ends, p, next + BLOCK_N, behind, 1);
    ptx_cp_async_commit_group();
}

#endif
