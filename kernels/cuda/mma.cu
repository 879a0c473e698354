/* mma: FlashAttention-2's kind of kernel, on mma.sync: for every GPU from sm_80 on.
 *
 * A block is WARPS x STRIPS x 16 query rows of one head, SPLITS times: that many groups of WARPS warps share the rows
 * and take every SPLITS-th tile of BLOCK_N keys each, and the first group merges what the others have. K and V travel
 * by cp.async into a ring of STAGES swizzled tiles for each split; scores, weights and O stay in registers. A warp
 * reads an operand of K or V once for its STRIPS strips of sixteen rows: with one strip shared memory, with two the
 * tensor cores are what is waited for.
 *
 * Keys that some row does not see: a score is replaced, whatever it was, so that nothing non-finite passes through Q
 * K^T; its weight is then 0, and where V holds something non-finite under such a weight that must not reach the row
 * (mma_values.cuh), the tile's values are added row by row, by those who see them.
 *
 * K and V may lie in pages: what is copied is all that knows. */
#include "device/mma_ends.cuh"
#include "device/mma_store.cuh"

/* ---- Scores ----------------------------------------------------------------------------------------------------- */

/* -inf for keys that lengths, windows and drafts hide. */
ATTUNE_INLINE void hide_keys(const attune_args &args, const tile &t, int row, int key, int lane, float (&s)[scores])
{
    int first[2], end[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        if constexpr (PACK) {
            const key_range seen = keys_seen(args, t.at, query_of(t, (attune_i64)row + r * 8));
            first[r] = seen.first - key;
            end[r] = seen.end - key;
        } else { /* in the tile's numbers: 32 bits are enough */
            const int more = row - t.first_row + r * 8;
            first[r] = BEGINS_MOVE ? max(t.sees.first + more, 0) - key : 0;
            end[r] = (ENDS_MOVE ? max(min(t.sees.end + more, t.keys.kv_end), 0) : t.keys.kv_end) - key;
        }
    }
    rows_hide<BEGINS_MOVE, scores>(s, first, end, lane);
    if constexpr (ATTUNE_HAS_DRAFT) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            if (query_of(t, row + r * 8) < t.at.length_q) {
                const draft_row draft = draft_row_of(args, t.at, query_of(t, row + r * 8));
#pragma unroll
                for (int i = 0; i < scores / 2; ++i) {
                    float &x = s[i / 2 * 4 + r * 2 + i % 2];
                    x = draft_sees(draft, key + i / 2 * 8 + lane % 4 * 2 + i % 2) ? x : negative_infinity();
                }
            }
        }
    }
}

/* Products are capped: tanh x as a polynomial where |x| is at most 1/2 in all of the strip (score_curve), so that a
 * score costs no second exponential; else as it is. */
ATTUNE_INLINE void cap_scores(float inner, float (&s)[scores])
{
    float largest = 0;
#pragma unroll
    for (int i = 0; i < scores; ++i) {
        largest = fmaxf(largest, fabsf(s[i]));
    }
    if (__any_sync(0xffffffff, largest * fabsf(inner) > 0.5f)) {
        rows_shape<scores>(s, inner);
        return;
    }
    const score_curve by = tanh_curve_of(inner);
#pragma unroll
    for (int i = 0; i < scores; ++i) {
        s[i] = on_curve(by, s[i], s[i] * s[i]);
    }
}

/* Products become scores, but for `pair_scale`; -inf where hidden. */
ATTUNE_INLINE void finish_scores(const attune_args &args, const tile &t, const warp_view &view, int row, int key,
                                 bool masked, int lane, bool careful, pairs_of_warp &pairs, int strip,
                                 float (&s)[scores])
{
    if constexpr (ATTUNE_HAS_SOFTCAP) {
        cap_scores(view.inner, s);
    }
    if constexpr (STAGES_PAIRS) {
        lane = (int)(ptx_mov_tid_x() % 32); /* read anew, so that no place in a tile is kept in a register */
    }
    if constexpr (BY_PAIRS) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            add_pairs(args, t.at, t.w, pairs, strip * 16 + r * 8, row + r * 8, key, lane, r, careful, s);
        }
    }
    if (masked) {
        hide_keys(args, t, row, key, lane, s);
    }
}

/* ---- A tile of keys --------------------------------------------------------------------------------------------- */

ATTUNE_INLINE void hide_strips(const attune_args &args, const tile &t, const place &p, int key,
                               float (&s)[STRIPS][scores])
{
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
        hide_keys(args, t, p.row + strip * STRIP_STEP, key, p.lane, s[strip]);
    }
}

/* Of the tile of keys from `key` on, the steps of sixteen that any of the warp's rows sees. */
ATTUNE_INLINE steps_seen steps_of(const warp_view &view, int key)
{
    return steps_seen{BEGINS_MOVE ? max(view.any_sees.first - key, 0) / 16 : 0,
                      min((view.any_sees.end - key + 15) / 16, steps_pv)};
}

/* Weights of the tile's scores, and what they make of its values. */
template <bool careful>
ATTUNE_INLINE void take_in(const attune_args &args, const tile &t, const place &p, const warp_view &view, int key,
                           bool masked, pairs_of_warp &pairs, const element *v, float (&s)[STRIPS][scores],
                           strip_state (&state)[STRIPS])
{
    weights w;
    if constexpr (CURVED && !careful) {
        row_extents extents;
        if (all_on_curve(s, view.inner, extents)) {
            if (masked) {
                hide_strips(args, t, p, key, s);
            }
            weigh_on_curve(s, view, extents, state);
            pack(s, w);
            add_values<false>(v, w, p.lane, {}, state);
            return;
        }
    }
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
        finish_scores(args, t, view, p.row + strip * STRIP_STEP, key, masked, p.lane, careful, pairs, strip, s[strip]);
    }
    if constexpr (PAIRS_EARLY) {
        copy_next_pairs(args, pairs, t, p, key);
    }
    if constexpr (HIDES_ANYWHERE) {
        if (sees_nothing(s)) {
            if constexpr (!PAIRS_EARLY) {
                copy_next_pairs(args, pairs, t, p, key);
            }
            return;
        }
    }
    const bool wild =
        CONTAINS && careful && (HIDES_ANYWHERE || masked) && finds_nonfinite<BLOCK_N, dim_v, pitch_v>(v, p.lane);
    softmax_step f[STRIPS];
    weigh(s, view.scale, state, f);
    pack(s, w);
    if constexpr (!PAIRS_EARLY) {
        copy_next_pairs(args, pairs, t, p, key);
    }
    if (wild) {
        add_values_seen(args, t, p, v, key, w, state);
    } else if (TRIM && masked) {
        add_values<true>(v, w, p.lane, steps_of(view, key), state);
    } else {
        add_values<false>(v, w, p.lane, {}, state);
    }
    finish(f, state);
}

/* Whether no row of the warp sees any key of the tile, as far as that is known before the products. */
ATTUNE_INLINE bool is_hidden(const warp_view &view, pairs_of_warp &pairs, const place &p, int key)
{
    return hides_tile(view.any_sees.first, view.any_sees.end, key, BLOCK_N) || !mask_shows_any(pairs, p.lane);
}

/* Each tile's products, weights and values one after the other: other warps fill the gaps. */
template <bool careful>
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
            take_in<careful>(args, t, p, view, key, needs_mask(view.all_see.first, view.all_see.end, key, BLOCK_N),
                             pairs, ring.v[stage], s, state);
        } else {
            copy_next_pairs(args, pairs, t, p, key);
        }
        stage = (stage + 1) % STAGES;
    }
}

/* The same with one tile of keys and one of values: values travel while scores are worked out, the next keys while
 * weights and values are. */
template <bool careful>
ATTUNE_INLINE void visit_by_turns(const attune_args &args, const tile &t, const place &p, const warp_view &view,
                                  Ring &ring, pairs_of_warp &pairs, queries &q, strip_state (&state)[STRIPS])
{
    constexpr int step = SPLITS * BLOCK_N;
    for (int key = t.keys.begin + p.split * BLOCK_N; key < t.keys.end; key += step) {
        const bool hidden = is_hidden(view, pairs, p, key);
        float s[STRIPS][scores];
        ptx_cp_async_wait_group<0>();
        split_barrier<SPLITS, split_threads>(p.split); /* keys are there, and the values before are done with */
        copy_values(args, ring.v[0], t, p, key);
        ptx_cp_async_commit_group();
        if (!hidden) {
            multiply_keys(ring.k[0], q, p.lane, s);
        }
        ptx_cp_async_wait_group<0>();
        split_barrier<SPLITS, split_threads>(p.split); /* values are there, and the keys are done with */
        copy_keys(args, ring.k[0], t, p, key + step);
        ptx_cp_async_commit_group();
        if (!hidden) {
            take_in<careful>(args, t, p, view, key, needs_mask(view.all_see.first, view.all_see.end, key, BLOCK_N),
                             pairs, ring.v[0], s, state);
        }
    }
}

/* A warp whose rows see nothing more copies its share of what comes behind tiles up to the last. */
ATTUNE_INLINE void copy_rest(const attune_args &args, const tile &t, const loop_ends &ends, const place &p, Ring &ring,
                             unsigned kept, int key, int stage)
{
#pragma unroll 1
    for (; key < t.keys.end; key += SPLITS * BLOCK_N, stage ^= 1) {
        ptx_cp_async_wait_group<0>();
        split_barrier<SPLITS, split_threads>(p.split);
        copy_on(args, ring, stage, t, ends, p, key, kept);
    }
}

/* Keys behind the last whole tile, `keys` of them, a few steps at a time: all of them are there, and so are values. */
ATTUNE_INLINE void visit_tail(const Ring &ring, int stage, int keys, float scale, int lane, queries &q,
                              strip_state (&state)[STRIPS])
{
    constexpr int rows = TAIL_STEPS * 16;
#pragma unroll 1
    for (int first = 0; first < keys; first += rows) {
        float s[STRIPS][rows / 2];
        softmax_step f[STRIPS];
        weights_of<TAIL_STEPS> w;
        multiply_keys(ring.k[stage] + first * pitch_qk, q, lane, s);
        const int end[2] = {keys - first, keys - first};
#pragma unroll
        for (int strip = 0; strip < STRIPS; ++strip) {
            rows_hide<false, rows / 2>(s[strip], end, end, lane);
        }
        weigh(s, scale, state, f);
        pack(s, w);
        add_values<false>(ring.v[stage] + first * pitch_v, w, lane, {}, state);
        finish(f, state);
    }
}

/* The same with keys a tile ahead of values: the next tile's products follow this one's values, and no barrier stands
 * between; the first wait for keys alone. NOTE: no step of a tile is left out for what a warp's rows do not see. Where
 * scores come of two ways the compiler keeps both in registers, and a branch between weights and values keeps it from
 * mixing them. */
ATTUNE_INLINE void visit_ahead(const attune_args &args, const tile &t, const place &own, const warp_view &view,
                               Ring &ring, pairs_of_warp &pairs, unsigned kept, queries &q,
                               strip_state (&state)[STRIPS])
{
    constexpr int step = SPLITS * BLOCK_N;
    place p = own;
    if constexpr (ALL_FIND) { /* the shared tile is there, and so are the first keys */
        ptx_cp_async_wait_group<1>();
        __syncthreads();
    }
    const loop_ends ends = loop_ends_of(t);
    int key = alike(t.keys.begin + p.split * BLOCK_N), stage = 0;
    if (key >= ends.end) {
        return;
    }
    if constexpr (!ALL_FIND) {
        ptx_cp_async_wait_group<1>();
        split_barrier<SPLITS, split_threads>(p.split); /* the first keys are there */
    }
    if (ATTUNE_HAS_VARLEN && !OWN_ENDS && p.row - p.lane / 4 >= t.end_row) { /* the warp has no rows */
        copy_rest(args, t, ends, p, ring, kept, key, stage);
        return;
    }
    const int end = OWN_ENDS ? min(view.any_sees.end, ends.end) : TAILS ? ends.end / BLOCK_N * BLOCK_N : ends.end;
    if constexpr (FOLDS) {
        if (t.folded > 0) {
            visit_pairs<0>(args, t, ends, view.scale, ring, kept, q, state);
            key += PAIRS * BLOCK_N;
            p = place_of(ptx_mov_tid_x(), t.first_row);
        }
    }
    if (key < end) {
        float s[STRIPS][scores];
        multiply_keys(ring.k[stage], q, p.lane, s);
#pragma unroll 1
        while (key < end) {
            ptx_cp_async_wait_group<0>();
            split_barrier<SPLITS, split_threads>(p.split); /* this tile's values and the next one's keys are there */
            copy_on(args, ring, stage, t, ends, p, key, kept);
            const key_range whole = ALIKE ? ends.whole : t.whole;
            const bool masked = OWN_ENDS ? needs_mask(view.all_see.first, view.all_see.end, key, BLOCK_N)
                                         : !TAILS && (key < whole.first || key >= whole.end);
            take_in<false>(args, t, p, view, key, masked, pairs, ring.v[stage], s, state);
            key += step;
            stage ^= 1;
            if (key < end) {
                multiply_keys(ring.k[stage], q, p.lane, s);
            }
        }
    }
    if constexpr (OWN_ENDS) {
        copy_rest(args, t, ends, p, ring, kept, key, stage);
    }
    if constexpr (TAILS) {
        if (key < ends.end) {
            ptx_cp_async_wait_group<0>();
            split_barrier<SPLITS, split_threads>(p.split); /* values are there */
            visit_tail(ring, stage, ends.end - key, view.scale, p.lane, q, state);
        }
    }
}

/* ---- The whole -------------------------------------------------------------------------------------------------- */

ATTUNE_INLINE void begin_strips(strip_state (&state)[STRIPS])
{
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
        state[strip] = strip_state{{}, {{negative_infinity(), negative_infinity()}, {0, 0}}};
    }
}

/* The queries are there when it returns, or, with FOLDS, if they stay where they are, with the first keys. */
ATTUNE_INLINE void begin_queries(Shared &shared, const place &p, bool negative, queries &q)
{
    constexpr bool with_keys = FOLDS && !Q_REGISTERS;
    if (!with_keys || negative) {
        ptx_cp_async_wait_group<AHEAD ? 2 : STAGES == 1 ? 1 : STAGES - 1>();
        __syncthreads();
    }
    if (negative) {
        negate_queries(shared);
        __syncthreads();
    }
    q.rows = lane_rows<pitch_qk>(shared.q, p.warp * WARP_STEP, p.lane);
    if constexpr (Q_REGISTERS) {
#pragma unroll
        for (int d = 0; d < steps_qk; ++d) {
            load_queries(q, d, d);
        }
    }
}

/* The keys that the warp's rows see. */
ATTUNE_INLINE void find_view(const attune_args &args, const tile &t, const place &p, warp_view &view)
{
    const int first_row = p.row - p.lane / 4, last_row = min(first_row + (STRIPS - 1) * STRIP_STEP + 16, t.end_row) - 1;
    if (last_row >= first_row) {
        view.any_sees = keys_seen_by_any(args, t.at, query_of(t, first_row), query_of(t, last_row));
        view.all_see = keys_seen_by_all(args, t.at, query_of(t, first_row), query_of(t, last_row));
        if constexpr (ATTUNE_HAS_DRAFT) { /* whose rows differ in the last keys */
            view.all_see.end = min(view.all_see.end, (int)max(t.at.length_kv - t.at.length_q, (attune_i64)0));
        }
    }
}

template <bool careful>
ATTUNE_INLINE void visit_keys(const attune_args &args, const tile &t, const place &p, Shared &shared,
                              strip_state (&state)[STRIPS])
{
    const float factor = score_factor(args);
    warp_view view = {pair_scale(args), CURVED ? fabsf(score_inner(args)) : score_inner(args), {0, 0}, {0, 0}};
    if constexpr (!ALL_FIND || careful) { /* else the shared tile is not there yet, and no range is asked for */
        find_view(args, t, p, view);
    }
    queries q;
    begin_queries(shared, p, (CURVED ? args.scale < 0 : !ADDS_PAIRS && !ATTUNE_HAS_SOFTCAP && factor < 0) && !careful,
                  q);
    if constexpr (AHEAD && !careful) {
        const unsigned kept = kept_place(shared);
        if constexpr (KEEPS_PLACES && !FILLS_BY_PLACE) {
            const int first = t.keys.begin + p.split * BLOCK_N;
            keep_place(kept, spot_of(t, p, first + 2 * SPLITS * BLOCK_N, first + SPLITS * BLOCK_N));
        }
        visit_ahead(args, t, p, view, shared.ring[p.split], find_pairs(shared, p), kept, q, state);
    } else if constexpr (STAGES == 1) {
        visit_by_turns<careful>(args, t, p, view, shared.ring[p.split], find_pairs(shared, p), q, state);
    } else {
        visit_in_order<careful>(args, t, p, view, shared.ring[p.split], find_pairs(shared, p), q, state);
    }
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
            merge(shared, p, split, pair_scale(args), state);
        }
    }
    return true;
}

/* Whether a tile's keys are found by what its first row sees, in 32-bit numbers: where no copy begins before they are
 * found. NOTE: not with OWN_ENDS, to be as fast as before. */
enum { FINDS_BY_ROW = SHARES_TILE && !CHUNK && !OWN_ENDS };

/* What rows `first` ... `last` of the tile see, the tile's first row being row 0. */
ATTUNE_INLINE key_range seen_by_any(const tile &t, int first, int last)
{
    return key_range{BEGINS_MOVE ? min(max(t.sees.first + first, 0), t.keys.kv_end) : 0,
                     ENDS_MOVE ? max(min(t.sees.end + last, t.keys.kv_end), 0) : t.keys.kv_end};
}

ATTUNE_INLINE key_range seen_by_all(const tile &t, int first, int last)
{
    return seen_by_any(t, last, first);
}

/* Keys that the tile's rows see. */
ATTUNE_INLINE void find_ranges(const attune_args &args, tile &t)
{
    const attune_i64 position = t.first_row + t.at.offset;
    const attune_i64 most = min(t.at.length_kv + 1024, (attune_i64)0x7ffffc00);
    const int last = t.end_row - t.first_row - 1;
    t.sees.first = BEGINS_MOVE ? (int)clamp_i64(window_first(args, position), -1024, most) : 0;
    t.sees.end = ENDS_MOVE ? (int)clamp_i64(window_end(args, position), -1024, most) : 0;
    if constexpr (FINDS_BY_ROW) {
        t.keys = keys_of_head(args, t.at, t.w);
        take_ranges<FOLDS && PAIRS != 1 ? 16 : BLOCK_N>(t.keys, seen_by_any(t, 0, last), seen_by_all(t, 0, last));
    }
    t.whole = key_range{t.keys.all_see.first,
                        FOLDS ? t.keys.all_see.end - (BLOCK_N - 1) : t.keys.all_see.end / BLOCK_N * BLOCK_N};
    fold_ends(t);
}

/* Whether some key of the tile's may be one that no row of the head sees. */
ATTUNE_INLINE bool may_hold_unseen(const tile &t)
{
    if constexpr (!KNOWS_UNSEEN) {
        return true;
    }
    const key_range head = seen_by_any(t, -t.first_row, (int)t.at.length_q - 1 - t.first_row);
    const int keys = t.keys.end - t.keys.begin + (FOLDS && t.folded > 0 ? PAIRS * BLOCK_N : 0);
    const int end = t.keys.begin + (keys + BLOCK_N - 1) / BLOCK_N * BLOCK_N;
    return t.keys.begin < head.first || min(end, t.keys.kv_end) > head.end;
}

/* The block's tile, and what it has of its keys. */
ATTUNE_INLINE tile tile_of_block(const attune_args &args)
{
    tile t;
    if (!find_tile_of_block(args, blockIdx.x, t)) {
        t.end_row = t.first_row;
        return t;
    }
    if constexpr (CHUNK) {
        t.end_row = take_chunk(args, t) ? t.end_row : t.first_row;
    } else if constexpr (!FINDS_BY_ROW) {
        t.keys = key_loop_of<BLOCK_N>(args, t.at, t.w, t.first_row, t.end_row);
    }
    find_ranges(args, t);
    return t;
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, MIN_BLOCKS)
    fwd_mma(const __grid_constant__ attune_args args)
{
    follow_launch();
    extern __shared__ __align__(128) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    tile own;
    tile &kept = *reinterpret_cast<tile *>(memory + sizeof(Shared) + pair_bytes), &t = SHARES_TILE ? kept : own;
    if (SHARES_TILE == 0 || ALL_FIND || threadIdx.x < 32) {
        own = tile_of_block(args);
    }
    if constexpr (KEEPS_TILE) {
        if (threadIdx.x == 0) {
            kept = own;
        }
    }
    if constexpr (SHARES_TILE && !ALL_FIND) {
        __syncthreads();
    }
    const tile &now = ALL_FIND ? own : t;
    if (now.first_row >= now.end_row) {
        return;
    }
    place p = place_of(threadIdx.x, now.first_row);
    pad_columns<BLOCK_M>(shared.q, (int)threadIdx.x, ATTUNE_THREADS);
    pad_columns<STAGES * BLOCK_N>(shared.ring[p.split].k[0], p.thread, split_threads);
#if PACK
    copy_packed_queries(args, shared.q, now);
#else
    swizzled_copy<BLOCK_M, dim_qk, ATTUNE_THREADS, pitch_qk>(
        shared.q, row_of<element>(args.tensor[ATTUNE_Q], now.at.batch, now.w.head, now.at.first_q),
        args.tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_SEQ], now.first_row, now.end_row, (int)threadIdx.x);
#endif
    copy_pairs_of(args, find_pairs(shared, p), now, p, now.keys.begin + p.split * BLOCK_N);
    ptx_cp_async_commit_group();
    if constexpr (AHEAD) {
        fill_ahead(args, shared.ring[p.split], now, p, kept_place(shared));
    } else {
        fill_ring(args, shared.ring[p.split], now, p);
    }
    strip_state state[STRIPS];
    begin_strips(state);
    visit_keys<false>(args, t, p, shared, state);
    ptx_cp_async_wait_group<0>(); /* a block must not end with copies in flight */
    if constexpr (CONTAINS) {
        if (may_hold_unseen(t) && __syncthreads_or(is_tainted(state))) {
            unfold_ends(t);
            copy_pairs_of(args, find_pairs(shared, p), t, p, t.keys.begin + p.split * BLOCK_N);
            fill_ring(args, shared.ring[p.split], t, p);
            begin_strips(state);
            visit_keys<true>(args, t, p, shared, state);
            ptx_cp_async_wait_group<0>();
        }
    }
    /* Worked out anew, so that the loop's scores need not share registers with them. */
    if constexpr (KEEPS_TILE && !SHARES_TILE) {
        own = kept;
    } else if constexpr (!SHARES_TILE) {
        find_tile_of_block(args, ptx_mov_ctaid_x(), own);
    }
    p = place_of(ptx_mov_tid_x(), t.first_row);
    if (join(args, shared, p, state)) {
#if CHUNK
#pragma unroll
        for (int strip = 0; strip < STRIPS; ++strip) {
            leave_strip(args, t, p, strip, state[strip]);
        }
#else
        store_strips(args, shared, t, p, state);
#endif
    }
}

#if CHUNK
/* Block (x, y) folds row y of tile x. */
extern "C" __global__ void __launch_bounds__(JOIN_WARPS * 32) fwd_mma_join(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(128) unsigned char memory[];
    follow_launch();
    tile t;
    if (find_packed_tile(args, blockIdx.x, t) && t.first_row + (int)blockIdx.y < t.end_row) {
        join_row(args, *reinterpret_cast<Joint *>(memory), t, t.first_row + (int)blockIdx.y);
    }
}
#endif
