/* mma: FlashAttention-2's kind of kernel, on mma.sync: for every GPU from sm_80 on.
 *
 * A block is WARPS x STRIPS x 16 query rows of one head, SPLITS times: that many groups of WARPS warps share the rows
 * and take every SPLITS-th tile of BLOCK_N keys each, and the first group merges what the others have. K and V travel
 * by cp.async into a ring of STAGES swizzled tiles for each split; scores, weights and O stay in registers. A warp
 * reads an operand of K or V once for its STRIPS strips of sixteen rows: with one strip shared memory, with two the
 * tensor cores are what is waited for.
 *
 * Keys that some row does not see: a score is replaced, whatever it was, so that nothing non-finite passes through Q
 * K^T; its weight is then 0, and where V holds something non-finite under such a weight, the tile's values are added
 * row by row, by those who see them.
 *
 * K and V may lie in pages: what is copied is all that knows. */
#include "device/job.cuh"
#if ATTUNE_DTYPE == 0
#include "device/mma_floats.cuh"
#else
#include "device/mma_halves.cuh"
#endif

/* ---- Scores ----------------------------------------------------------------------------------------------------- */

/* -inf for keys that lengths, windows and drafts hide. */
ATTUNE_INLINE void hide_keys(const attune_args &args, const tile &t, int row, int key, int lane, float (&s)[scores])
{
    int first[2], end[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const key_range seen = keys_seen(args, t.at, (attune_i64)row + r * 8);
        first[r] = seen.first - key;
        end[r] = seen.end - key;
    }
    rows_hide<BEGINS_MOVE, scores>(s, first, end, lane);
    if constexpr (ATTUNE_HAS_DRAFT) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            if (row + r * 8 < t.at.length_q) {
                const draft_row draft = draft_row_of(args, t.at, row + r * 8);
#pragma unroll
                for (int i = 0; i < scores / 2; ++i) {
                    float &x = s[i / 2 * 4 + r * 2 + i % 2];
                    x = draft_sees(draft, key + i / 2 * 8 + lane % 4 * 2 + i % 2) ? x : negative_infinity();
                }
            }
        }
    }
}

/* Products become scores, but for `scale`; -inf where hidden. */
ATTUNE_INLINE void finish_scores(const attune_args &args, const tile &t, int row, int key, bool masked, int lane,
                                 float inner, pairs_of_warp &pairs, int strip, float (&s)[scores])
{
    shape_scores(s, inner);
    if constexpr (STAGES_PAIRS || FLOATS) {
        lane = (int)ptx_mov_tid_x() % 32; /* read anew, so that no place in a tile is kept in a register */
    }
    if constexpr (BY_PAIRS) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            add_pairs(args, t.at, t.w, pairs, strip * 16 + lane / 4 + r * 8, row + r * 8, key, lane, r,
                      score_factor(args), s);
        }
    }
    if (masked) {
        hide_keys(args, t, row, key, lane, s);
    }
}

/* ---- A tile of keys --------------------------------------------------------------------------------------------- */

/* Scores become weights, of all strips. */
ATTUNE_INLINE void weigh(float (&s)[STRIPS][scores], float scale, strip_state (&state)[STRIPS])
{
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
        softmax_step f;
        rows_raise<LAZY, scores>(state[t].rows, s[t], scale, f);
        rows_exponentiate<0, scores>(s[t], scale, f);
        rows_finish(state[t].rows, f);
        rows_rescale<LAZY>(state[t].o, f.factor);
    }
}

/* What a warp's rows see, and what their products are multiplied by. */
struct warp_view {
    float scale, inner;
    key_range any_sees, all_see;
};

/* Weights of the tile's scores, and what they make of its values. */
ATTUNE_INLINE void take_in(const attune_args &args, const tile &t, const place &p, const warp_view &view, int key,
                           pairs_of_warp &pairs, const element *v, float (&s)[STRIPS][scores],
                           strip_state (&state)[STRIPS])
{
    const bool masked = needs_mask(view.all_see.first, view.all_see.end, key, BLOCK_N);
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
        finish_scores(args, t, row_of_lane(t, p) + strip * 16, key, masked, p.lane, view.inner, pairs, strip, s[strip]);
    }
    copy_next_pairs(args, pairs, t, p, key);
    if constexpr (HIDES_ANYWHERE) {
        if (sees_nothing(s)) {
            return;
        }
    }
    weigh(s, BY_PAIRS ? 1.0f : view.scale, state);
    weights w;
    pack(s, w);
    add_tile(args, t, p, v, key, masked, w, state);
}

/* Whether no row of the warp sees any key of the tile, as far as that is known before the products. */
ATTUNE_INLINE bool is_hidden(const warp_view &view, pairs_of_warp &pairs, const place &p, int key)
{
    return hides_tile(view.any_sees.first, view.any_sees.end, key, BLOCK_N) || !mask_shows_any(pairs, p.lane);
}

/* Each tile's products, weights and values one after the other: other warps fill the gaps. */
ATTUNE_INLINE void visit_in_order(const attune_args &args, const tile &t, const place &p, const warp_view &view,
                                  Ring &ring, pairs_of_warp &pairs, queries &q, strip_state (&state)[STRIPS])
{
    int stage = 0;
    for (int key = t.keys.begin + p.split * BLOCK_N; key < t.keys.end; key += SPLITS * BLOCK_N) {
        ptx_cp_async_wait_group<STAGES - 2>();
        split_barrier<SPLITS, split_threads>(p.split); /* the tile is there, and the one before is done with */
        copy_tile(args, ring, (stage + STAGES - 1) % STAGES, t, p, key + (STAGES - 1) * SPLITS * BLOCK_N);
        if (!is_hidden(view, pairs, p, key)) {
            float s[STRIPS][scores];
            multiply_keys(ring.k[stage], q, p.lane, s);
            take_in(args, t, p, view, key, pairs, ring.v[stage], s, state);
        } else {
            copy_next_pairs(args, pairs, t, p, key);
        }
        stage = (stage + 1) % STAGES;
    }
}

#if OVERLAP
/* Step `d` of the next tile's products, and a share of this one's exponentials. */
template <int d, int share>
ATTUNE_INLINE void overlap_steps(unsigned columns, float scale, queries &q, float (&s)[STRIPS][scores],
                                 float (&next)[STRIPS][scores], softmax_step (&f)[STRIPS])
{
    if constexpr (d < steps_qk) {
        multiply_step(columns, q, d, next);
#pragma unroll
        for (int strip = 0; strip < STRIPS; ++strip) {
            constexpr int first = d * share < scores ? d * share : scores,
                          end = first + share < scores ? first + share : scores;
            rows_exponentiate<first, end>(s[strip], scale, f[strip]);
        }
        overlap_steps<d + 1, share>(columns, scale, q, s, next, f);
    }
}

/* Products of the next tile while exponentials of this one are worked out. */
ATTUNE_INLINE void overlap(const place &p, const warp_view &view, const element *next_k, const element *v, queries &q,
                           float (&s)[STRIPS][scores], float (&next)[STRIPS][scores], strip_state (&state)[STRIPS])
{
    const unsigned columns = lane_columns<pitch_qk>(next_k, 0, p.lane);
    softmax_step f[STRIPS];
    constexpr int share = (scores / 4 + steps_qk - 1) / steps_qk * 4;
    clear(next);
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
        rows_shape<scores>(s[strip], view.inner);
        rows_raise<LAZY, scores>(state[strip].rows, s[strip], view.scale, f[strip]);
    }
    overlap_steps<0, share>(columns, view.scale, q, s, next, f);
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
        rows_finish(state[strip].rows, f[strip]);
        rows_rescale<LAZY>(state[strip].o, f[strip].factor);
    }
    weights w;
    pack(s, w);
    add_values(v, w, p.lane, state);
}

/* A tile whose scores are there: the next tile's, too, when it returns. */
template <int stage>
ATTUNE_INLINE void visit_and_look_ahead(const attune_args &args, const tile &t, const place &p, const warp_view &view,
                                        int key, Ring &ring, pairs_of_warp &pairs, queries &q,
                                        float (&s)[STRIPS][scores], float (&next)[STRIPS][scores],
                                        strip_state (&state)[STRIPS])
{
    constexpr int step = SPLITS * BLOCK_N;
    ptx_cp_async_wait_group<0>();
    split_barrier<SPLITS, split_threads>(p.split); /* this tile's values and the next one's keys are there */
    copy_keys(args, ring.k[stage], t, p, key + 2 * step);
    copy_values(args, ring.v[stage ^ 1], t, p, key + step);
    ptx_cp_async_commit_group();
    const bool plain = !BY_PAIRS && !needs_mask(view.all_see.first, view.all_see.end, key, BLOCK_N);
    const bool more = key + step < t.keys.end;
    if (plain && more) {
        overlap(p, view, ring.k[stage ^ 1], ring.v[stage], q, s, next, state);
    } else {
        if (!is_hidden(view, pairs, p, key)) {
            take_in(args, t, p, view, key, pairs, ring.v[stage], s, state);
        } else {
            copy_next_pairs(args, pairs, t, p, key);
        }
        if (more) {
            multiply_keys(ring.k[stage ^ 1], q, p.lane, next);
        }
    }
}

ATTUNE_INLINE void visit_overlapped(const attune_args &args, const tile &t, const place &p, const warp_view &view,
                                    Ring &ring, pairs_of_warp &pairs, queries &q, strip_state (&state)[STRIPS])
{
    constexpr int step = SPLITS * BLOCK_N;
    const int first = t.keys.begin + p.split * BLOCK_N;
    if (first >= t.keys.end) {
        return;
    }
    float s[2][STRIPS][scores];
    ptx_cp_async_wait_group<1>();
    split_barrier<SPLITS, split_threads>(p.split);
    multiply_keys(ring.k[0], q, p.lane, s[0]);
#pragma unroll 1
    for (int key = first; key < t.keys.end; key += 2 * step) {
        visit_and_look_ahead<0>(args, t, p, view, key, ring, pairs, q, s[0], s[1], state);
        if (key + step < t.keys.end) {
            visit_and_look_ahead<1>(args, t, p, view, key + step, ring, pairs, q, s[1], s[0], state);
        }
    }
}
#endif

/* ---- The whole -------------------------------------------------------------------------------------------------- */

ATTUNE_INLINE void begin_strips(strip_state (&state)[STRIPS])
{
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
        state[strip] = strip_state{{}, {{negative_infinity(), negative_infinity()}, {0, 0}}};
    }
}

/* The queries are there when it returns. */
ATTUNE_INLINE void begin_queries(Shared &shared, const place &p, bool negative, queries &q)
{
    ptx_cp_async_wait_group<OVERLAP ? 2 : STAGES - 1>();
    __syncthreads();
    if (negative) {
        negate_queries(shared);
        __syncthreads();
    }
    place_queries(shared, p, q);
}

ATTUNE_INLINE void visit_keys(const attune_args &args, const tile &t, const place &p, Shared &shared,
                              strip_state (&state)[STRIPS])
{
    const float factor = score_factor(args);
    const int first_row = p.row - p.lane / 4, last_row = min(first_row + WARP_ROWS, t.end_row) - 1;
    warp_view view = {fabsf(factor), score_inner(args), {0, 0}, {0, 0}};
    if (last_row >= first_row) {
        view.any_sees = keys_seen_by_any(args, t.at, first_row, last_row);
        view.all_see = keys_seen_by_all(args, t.at, first_row, last_row);
        if constexpr (ATTUNE_HAS_DRAFT) { /* whose rows differ in the last keys */
            view.all_see.end = min(view.all_see.end, (int)max(t.at.length_kv - t.at.length_q, (attune_i64)0));
        }
    }
    queries q;
    begin_queries(shared, p, !BY_PAIRS && !ATTUNE_HAS_SOFTCAP && factor < 0, q);
#if OVERLAP
    visit_overlapped(args, t, p, view, shared.ring[p.split], find_pairs(shared, p), q, state);
#else
    visit_in_order(args, t, p, view, shared.ring[p.split], find_pairs(shared, p), q, state);
#endif
}

/* The sink counts in the denominator, once. From here on maxima are in units of log2. */
ATTUNE_INLINE void add_sink(const attune_args &args, const tile &t, bool first_lane, strip_state &state)
{
    const float scale = BY_PAIRS ? 1.0f : fabsf(score_factor(args));
    online sink = online_start(args, t.w.head, first_lane);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        state.rows.maximum[r] = state.rows.maximum[r] * scale;
        if constexpr (ATTUNE_HAS_SINK) {
            online all = {state.rows.maximum[r], state.rows.sum[r]};
            const float factor = online_raise(&all, sink.maximum);
            all.sum += sink.sum * ptx_ex2_approx_ftz_f32(sink.maximum - subtrahend(all.maximum));
            state.rows.maximum[r] = all.maximum;
            state.rows.sum[r] = all.sum;
#pragma unroll
            for (int i = 0; i < outputs; ++i) {
                state.o[i] *= i / 2 % 2 == r ? factor : 1.0f;
            }
        }
    }
}

/* Returns the bits of rows that it leaves out, of the strip's sixteen. */
ATTUNE_INLINE unsigned store_strip(const attune_args &args, const tile &t, const place &p, int strip,
                                   const strip_state &state)
{
    unsigned strange = 0;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int row = p.row + strip * 16 + r * 8;
        const unsigned own = find_strange(state, r, p.lane);
        const bool exists = row < t.at.length_q && (own >> p.lane / 4 & 1) == 0;
        strange |= own << r * 8;
        const float sum = group_sum<4>(state.rows.sum[r]);
        const attune_i64 place = t.at.first_q + row;
        if (wants_lse(args) && exists && p.lane % 4 == 0) {
            store_lse(args, t.at.batch, t.w.head, place, state.rows.maximum[r], sum);
        }
        store_row(args, t, p, place, exists, r, sum, state);
    }
    return strange;
}

/* What a split hands over, in the ring that it is done with: lanes are neighbours, so that nobody waits for a bank. */
constexpr int partial_floats = STRIPS * (outputs + 4);
static_assert(SPLITS == 1 || split_threads * partial_floats * sizeof(float) <= sizeof(Ring),
              "what a split hands over fits into its ring");

ATTUNE_INLINE float &partial_of(Shared &shared, int split, const place &p, int i)
{
    return reinterpret_cast<float *>(&shared.ring[split])[i * split_threads + p.thread];
}

ATTUNE_INLINE void hand_over(Shared &shared, const place &p, const strip_state (&state)[STRIPS])
{
    int at = 0;
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            partial_of(shared, p.split, p, at++) = state[t].rows.maximum[r];
            partial_of(shared, p.split, p, at++) = state[t].rows.sum[r];
        }
#pragma unroll
        for (int i = 0; i < outputs; ++i) {
            partial_of(shared, p.split, p, at++) = state[t].o[i];
        }
    }
}

/* Takes in what another split has handed over; maxima are as scores are kept, `scale` off. */
ATTUNE_INLINE void merge(Shared &shared, const place &p, int split, float scale, strip_state (&state)[STRIPS])
{
    int at = 0;
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
        float own[2], other[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float maximum = partial_of(shared, split, p, at++), sum = partial_of(shared, split, p, at++);
            const float before = state[t].rows.maximum[r], after = fmaxf(before, maximum);
            own[r] = ptx_ex2_approx_ftz_f32((before - subtrahend(after)) * scale);
            other[r] = ptx_ex2_approx_ftz_f32((maximum - subtrahend(after)) * scale);
            state[t].rows.maximum[r] = after;
            state[t].rows.sum[r] = state[t].rows.sum[r] * own[r] + sum * other[r];
        }
#pragma unroll
        for (int i = 0; i < outputs; ++i) {
            const float o = partial_of(shared, split, p, at++);
            state[t].o[i] = state[t].o[i] * own[i / 2 % 2] + o * other[i / 2 % 2];
        }
    }
}

/* Whether this warp has the block's rows, all keys taken in. */
ATTUNE_INLINE bool join(const attune_args &args, Shared &shared, const place &p, strip_state (&state)[STRIPS])
{
    if constexpr (SPLITS > 1) {
        split_barrier<SPLITS, split_threads>(p.split); /* nobody reads the ring any more */
        if (p.split > 0) {
            hand_over(shared, p, state);
        }
        join_splits();
        if (p.split > 0) {
            return false;
        }
#pragma unroll 1
        for (int split = 1; split < SPLITS; ++split) {
            merge(shared, p, split, BY_PAIRS ? 1.0f : fabsf(score_factor(args)), state);
        }
    }
    return true;
}

ATTUNE_INLINE bool find_tile_of_block(const attune_args &args, unsigned block, tile &t)
{
    const queue q = queue_of<BLOCK_M>(args);
    int row;
    find_tile(q, (int)block, row, t.w.tile);
    t.w.batch = row / (int)args.heads_q;
    t.w.head = row - t.w.batch * (int)args.heads_q;
    t.at = sequence_of(args, t.w.batch);
    t.first_row = t.w.tile * BLOCK_M;
    t.end_row = (int)min(t.at.length_q, (attune_i64)t.first_row + BLOCK_M);
    return t.first_row < t.at.length_q;
}

ATTUNE_INLINE place place_of(unsigned thread, int first_row)
{
    place p;
    p.split = SPLITS == 1 ? 0 : (int)thread / split_threads;
    p.thread = (int)thread % split_threads;
    p.warp = p.thread / 32;
    p.lane = p.thread % 32;
    p.row = first_row + p.warp * WARP_ROWS + p.lane / 4;
    return p;
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, MIN_BLOCKS)
    fwd_mma(const __grid_constant__ attune_args args)
{
    follow_launch();
    extern __shared__ __align__(128) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    tile t;
    if (!find_tile_of_block(args, blockIdx.x, t)) {
        return;
    }
    place p = place_of(threadIdx.x, t.first_row);
    t.keys = key_loop_of<BLOCK_N>(args, t.at, t.w, t.first_row, t.end_row);
    place_origins(t);
    pad_columns<BLOCK_M>(shared.q, (int)threadIdx.x, ATTUNE_THREADS);
    pad_columns<STAGES * BLOCK_N>(shared.ring[p.split].k[0], p.thread, split_threads);
    swizzled_copy<BLOCK_M, dim_qk * HALVES, ATTUNE_THREADS, pitch_qk>(
        shared.q, row_of<element>(args.tensor[ATTUNE_Q], t.at.batch, t.w.head, t.at.first_q),
        args.tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_SEQ], t.first_row, t.end_row, (int)threadIdx.x);
    copy_pairs_of(args, find_pairs(shared, p), t, p, t.keys.begin + p.split * BLOCK_N);
    ptx_cp_async_commit_group();
    fill_ring(args, shared.ring[p.split], t, p);
    strip_state state[STRIPS];
    begin_strips(state);
    visit_keys(args, t, p, shared, state);
    ptx_cp_async_wait_group<0>(); /* a block must not end with copies in flight */
    if constexpr (FLOATS ||
                  dim_v <= 64) { /* worked out anew, so that the loop's scores need not share registers with them */
        find_tile_of_block(args, ptx_mov_ctaid_x(), t);
        p = place_of(ptx_mov_tid_x(), t.first_row);
    }
    if (join(args, shared, p, state)) {
        unsigned strange = 0;
#pragma unroll
        for (int strip = 0; strip < STRIPS; ++strip) {
            add_sink(args, t, p.lane % 4 == 0, state[strip]);
            strange |= store_strip(args, t, p, strip, state[strip]) << strip * 16;
        }
        mend_rows(args, t, p.row - p.lane / 4, strange, p.lane);
    }
}
