/* decode: few queries of a sequence against many keys, which is a copy with a little arithmetic.
 *
 * Rows that share a head of K and V are packed: ROWS of a sequence's queries and heads are a job. Keys are cut into
 * spans of TEAMS x TILES x TILE, and each block has some neighbouring spans (device/spans.cuh). A team is a warp, of
 * more than sixteen rows two, with half of the rows each. Of a span each team takes every TEAMS-th tile, by itself: it
 * copies tiles of K and V into a ring of its own, STAGES of them, and multiplies them from there by mma.sync. Nothing
 * is waited for but the copies and the other warp of a team: it is the rings that keep memory busy. At the end of a
 * span the teams' sums are joined, in order; a block that has all spans of a job writes its rows, and what is left in
 * pieces is joined by a second launch, or, where a cluster has a job, sent to its blocks.
 *
 * Pages are copied by boxes of the copy engine where a page and a tile have eight rows or more in common, else row by
 * row by cp.async. Nothing is read of table entries beyond the keys that some row sees.
 *
 * Keys that a row does not see: a score is replaced, whatever it was. Values of keys that no row of the job sees become
 * zeros in shared memory; where rows of a job differ and V holds something non-finite, it is added by itself. */
#include "device/spans_join.cuh"
#include "device/spans_warps.cuh"

/* The job that a block is at. */
struct current {
    view v;
    queries q;
    output to;
    bool whole; /* the block has it from its first unit on */
};

ATTUNE_INLINE void begin_rows(const attune_args &args, const job &j, int unit, const element_place &at, Shared &shared,
                              current &now)
{
    now.v = view_of(args, j);
    if constexpr (ALONE) {
        now.to = find_output(args, j, at);
        keep_nothing(shared);
    }
    now.whole = unit == j.begin;
    if constexpr (!Q_REGISTERS) {
        __syncthreads();
    }
}

/* A stage of the ring: its first byte, its values. */
struct stage_place {
    unsigned at;
    unsigned char *values;
};

/* Scores of the tile in a stage, when it has come. `masked`: some row may not see some key of it. */
template <bool masked>
ATTUNE_INLINE stage_place score_tile(const attune_args &args, const view &v, int key, float factor, float inner,
                                     const queries &q, const reader &r, Shared &shared, tile_scores &s)
{
    stage_place stage;
    stage.at = ptx_cvta_shared(shared.ring[team_of()]) + r.stage * bytes_stage;
    barrier_wait(ptx_cvta_shared(shared.full[team_of()]) + r.stage * 8, r.parity);
    stage.values = shared.ring[team_of()][r.stage] + bytes_k;
    if constexpr (masked) {
        clean_values(v, key, stage.values);
    }
    multiply_keys(shared.q, stage.at, q, s);
    finish_scores(args, v, key, factor, inner, masked, s);
    return stage;
}

/* And its values. */
template <bool masked>
ATTUNE_INLINE void take_tile(const view &v, int key, const stage_place &stage, const tile_scores &s, warp_state &state)
{
    tile_weights w;
    weigh(s, state, w);
    if (ROWS_DIFFER && masked && holds_nonfinite(stage.values)) {
        add_values_seen(v, key, stage.at + bytes_k, w, state);
    } else {
        add_values(stage.at + bytes_k, w, state);
    }
}

/* A tile from its arrival on. NOTE: where no row differs it is code of its own: fewer instructions, and more products
 * side by side. */
template <bool masked>
ATTUNE_INLINE void visit_tile(const attune_args &args, const view &v, int key, float factor, float inner,
                              const queries &q, const reader &r, Shared &shared, warp_state &state)
{
    tile_scores s;
    const stage_place stage = score_tile<masked>(args, v, key, factor, inner, q, r, shared, s);
    take_tile<masked>(v, key, stage, s, state);
}

/* Whether the job has keys only in a part of these. */
ATTUNE_INLINE bool is_cut(const key_range &keys, int key, int count)
{
    return key < keys.first || key + count > keys.end;
}

/* Of a span that is cut some teams have a tile fewer, and two tiles at most have values to clean: all teams meet as
 * often. NOTE: for racecheck, which does not follow a block's barrier behind unequally many meetings
 * (docs/notes/ladder.md). */
ATTUNE_INLINE void meet_as_often(const key_range &keys, int span)
{
    const int begin = span * SPAN;
    if (!is_cut(keys, begin, SPAN)) {
        return;
    }
    int missing = 2;
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
        const int key = tile_key(span, tile);
        missing += is_seen(keys, begin + tile * stride, stride);
        missing -= is_seen(keys, key, TILE) ? 1 + is_cut(keys, key, TILE) : 0;
    }
#pragma unroll 1
    for (; missing > 0; --missing) {
        team_sync();
    }
}

/* The team's tiles of a span. */
ATTUNE_INLINE void visit_span(const attune_args &args, const units &all, const view &v, int span, const queries &q,
                              cursor &c, reader &r, Shared &shared, warp_state &state)
{
    const float factor = score_factor(args), inner = score_inner(args);
    clear_state(state);
#pragma unroll 1
    for (int tile = 0; tile < TILES; ++tile) {
        const int key = tile_key(span, tile);
        if (!is_seen(v.j.keys, key, TILE)) {
            continue;
        }
        if (needs_mask(v.all_see.first, v.all_see.end, key, TILE)) {
            visit_tile<true>(args, v, key, factor, inner, q, r, shared, state);
        } else {
            visit_tile<false>(args, v, key, factor, inner, q, r, shared, state);
        }
        team_sync();
        copy_tile(args, all, c, shared);
        r.stage = r.stage + 1 == STAGES ? 0 : r.stage + 1;
        r.parity ^= r.stage == 0;
    }
    if constexpr (HALVES > 1) {
        meet_as_often(v.j.keys, span);
    }
}

/* Scores of all tiles become weights, maxima first: as one after the other, but that nothing waits for values. */
ATTUNE_INLINE void take_tiles(const unsigned (&values)[TILES], const tile_scores (&s)[TILES], warp_state &state)
{
    float most[TILES][rows_own], factor[TILES][rows_own];
    tile_weights w[TILES];
    bool moves = false;
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
        for (int i = 0; i < rows_own; ++i) {
            float largest = fmaxf(s[tile][0][i / 2][i % 2], s[tile][0][i / 2][i % 2 + 2]);
#pragma unroll
            for (int n = 1; n < steps_k; ++n) {
                largest = fmaxf(largest, fmaxf(s[tile][n][i / 2][i % 2], s[tile][n][i / 2][i % 2 + 2]));
            }
            most[tile][i] = largest;
        }
    }
#pragma unroll
    for (int step = 4; step < 32; step *= 2) {
#pragma unroll
        for (int i = 0; i < TILES * rows_own; ++i) {
            float &x = most[i / rows_own][i % rows_own];
            x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, step));
        }
    }
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
        for (int i = 0; i < rows_own; ++i) {
            const float before = state.maximum[i];
            moves |= tile > 0 && most[tile][i] > before + LAZY;
            state.maximum[i] = most[tile][i] > before + LAZY ? most[tile][i] : before;
            factor[tile][i] = ptx_ex2_approx_ftz_f32(before - subtrahend(state.maximum[i]));
            state.sum[i] *= factor[tile][i];
        }
#pragma unroll
        for (int n = 0; n < steps_k; ++n) {
#pragma unroll
            for (int octet = 0; octet < OCTETS; ++octet) {
                float p[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int row = octet * 2 + i % 2;
                    p[i] = ptx_ex2_approx_ftz_f32(s[tile][n][octet][i] - subtrahend(state.maximum[row]));
                    state.sum[row] += p[i];
                }
                w[tile][n][octet][0] = ptx_movmatrix_trans(pack_two(p[0], p[1]));
                w[tile][n][octet][1] = ptx_movmatrix_trans(pack_two(p[2], p[3]));
            }
        }
    }
    if (!__any_sync(0xffffffff, moves)) {
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
            add_values(values[tile], w[tile], state);
        }
        return;
    }
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
        for (int i = 0; i < stripes * OCTETS * 4; ++i) {
            state.o[i / (OCTETS * 4)][i / 4 % OCTETS][i % 4] *= factor[tile][i / 4 % OCTETS * 2 + i % 2];
        }
        add_values(values[tile], w[tile], state);
    }
}

/* The same of a span whose tiles are all on their way. NOTE: of tiles that all rows see there are no branches between
 * products, so that none waits for another: a warp is alone on its scheduler here. */
ATTUNE_INLINE void visit_part(const attune_args &args, const view &v, int span, const queries &q, Shared &shared,
                              warp_state &state)
{
    static_assert(PARTS <= 1 || STAGES == TILES, "a stage for each tile");
    const float factor = score_factor(args), inner = score_inner(args);
    const int begin = tile_key(span, 0), last = tile_key(span, TILES - 1);
    const key_range &all = ROWS_DIFFER ? v.all_see : v.j.keys;
    clear_state(state);
    if (begin >= all.first && last + TILE <= all.end) {
        tile_scores s[TILES];
        unsigned values[TILES];
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
            barrier_wait(ptx_cvta_shared(shared.full[team_of()]) + tile * 8, 0);
        }
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
            const unsigned at = ptx_cvta_shared(shared.ring[team_of()]) + tile * bytes_stage;
            multiply_keys(shared.q, at, q, s[tile]);
            values[tile] = at + bytes_k;
        }
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
            finish_scores(args, v, tile_key(span, tile), factor, inner, false, s[tile]);
        }
        take_tiles(values, s, state);
        return;
    }
    reader r = {0, 0};
#pragma unroll 1
    for (int tile = 0; tile < TILES; ++tile) {
        const int key = tile_key(span, tile);
        if (is_seen(v.j.keys, key, TILE)) {
            visit_tile<true>(args, v, key, factor, inner, q, r, shared, state);
            ++r.stage;
        }
    }
}

/* ---- A cluster's job --------------------------------------------------------------------------------------------- */

/* The place of a pair of columns that the block joins: neighbours, or, where warps send what they have, eight apart. */
ATTUNE_INLINE element_place place_of_pair(int number)
{
    const int pair = (int)blockIdx.x % JOB_BLOCKS * OWN_PAIRS + number, of_row = pair % ROW_PAIRS;
    return element_place{pair / ROW_PAIRS,
                         PARTS > 1 ? (of_row / 16 * 2 + of_row % 2) * 16 + of_row / 2 % 8 : of_row * 2};
}

ATTUNE_INLINE void store_pair(const attune_args &args, const output &to, int column, partial<2> &x)
{
    partial_take_sink(args, to.head, x);
    const float normaliser = online_normaliser(x.sum);
    const unsigned both = pack_two(x.o[0] * normaliser, x.o[1] * normaliser);
    if constexpr (PARTS > 1) {
        if (column < dim_v) {
            *reinterpret_cast<unsigned short *>(to.o + column) = (unsigned short)both;
        }
        if (column + 8 < dim_v) {
            *reinterpret_cast<unsigned short *>(to.o + column + 8) = (unsigned short)(both >> 16);
        }
    } else {
        *reinterpret_cast<unsigned *>(to.o + column) = both;
    }
    if (to.lse != nullptr) {
        *to.lse = online_lse(x.maximum, x.sum);
    }
}

/* Sends the thread's columns of a span that is joined. */
ATTUNE_INLINE void send_part(const mailbox &box, int span, const element_place &at, const own_part &part)
{
    if (at.row >= ROWS) {
        return;
    }
#pragma unroll
    for (int i = 0; i < slices; ++i) {
        if (column_of(at, i) < dim_v) {
            send(box, span, at.row, column_of(at, i), letter{part.o[2 * i], part.o[2 * i + 1], part.maximum, part.sum});
        }
    }
}

/* Sends what the warp has of a part of a span: each lane its columns, two stripes' at once; a row's state goes to each
 * block by one lane. */
ATTUNE_INLINE void send_warp(const mailbox &box, unsigned arrived, int span, const warp_state &state)
{
    constexpr int of_row = (ROW_PAIRS + OWN_PAIRS - 1) / OWN_PAIRS; /* blocks that join a row */
    const int sender = span * SENDERS + part_of() * OWN_TEAMS + team_of();
    float sum[rows_own];
#pragma unroll
    for (int i = 0; i < rows_own; ++i) {
        sum[i] = rows_sum(state.sum[i]);
    }
#pragma unroll
    for (int i = 0; i < rows_own; ++i) {
        const int row = own_row(i), block = lane_of() / 4;
        if (row >= ROWS) {
            continue;
        }
#pragma unroll
        for (int stripe = 0; stripe < stripes; stripe += 2) {
            constexpr float none[4] = {};
            /* NOTE: whole blocks a row, or whole rows a block: most of this is known to the compiler. */
            const int first = stripe * 8, pair = row * ROW_PAIRS + first + lane_of() / 4 * 2;
            const bool even = ROW_PAIRS % OWN_PAIRS == 0 && OWN_PAIRS % 16 == 0;
            const int to = even ? row * of_row + first / OWN_PAIRS : pair / OWN_PAIRS;
            const int place = even ? first % OWN_PAIRS + lane_of() / 4 * 2 : pair - to * OWN_PAIRS;
            const unsigned own = ptx_cvta_shared(letter_at(box, sender, place));
            const float(&a)[4] = state.o[stripe][i / 2];
            const float(&b)[4] = stripe + 1 < stripes ? state.o[stripe + 1 < stripes ? stripe + 1 : 0][i / 2] : none;
            ptx_st_async_v4_f32(ptx_mapa(own, (unsigned)to), a[i % 2], a[i % 2 + 2], b[i % 2], b[i % 2 + 2],
                                ptx_mapa(arrived, (unsigned)to));
        }
        if (block < JOB_BLOCKS) {
            const unsigned own = ptx_cvta_shared(state_at(box, sender, row));
            ptx_st_async_v2_f32(ptx_mapa(own, (unsigned)block), state.maximum[i], sum[i],
                                ptx_mapa(arrived, (unsigned)block));
        }
    }
}

/* The block's part of a span, which it sends. */
ATTUNE_INLINE void visit_own_part(const attune_args &args, int begin, const cursor &c, const mailbox &box,
                                  Shared &shared, const current &now)
{
    if (begin < c.end) {
        warp_state state;
        visit_part(args, now.v, span_of(now.v.j, begin), now.q, shared, state);
        send_warp(box, ptx_cvta_shared(&shared.arrived), begin - now.v.j.begin, state);
    }
}

/* The block's piece of a job, of which it leaves each group. */
ATTUNE_INLINE void visit_groups(const attune_args &args, const units &all, const element_place &at, int begin,
                                cursor &c, Shared &shared, const current &now)
{
    const records kept = find_records(args, gridDim.x);
    record *own = kept.first + (int)blockIdx.x * kept.of_block;
    reader r = {0, 0};
#pragma unroll 1
    for (int unit = begin; unit < c.end; ++unit) {
        const int span = span_of(now.v.j, unit);
        warp_state state;
        visit_span(args, all, now.v, span, now.q, c, r, shared, state);
        own_part part, group;
        join_warps(shared, state, at, unit + 1 == c.end, part);
        group = kept_part(shared, OPEN_GROUP);
        partial_join(group, part);
        if (span % GROUP == GROUP - 1 || unit + 1 == c.end) {
            leave(*own++, at, group);
            partial_clear(group);
        }
        keep_part(shared, OPEN_GROUP, group);
    }
}

/* The block's units, one after the other: of a cluster's job it sends what it has. */
ATTUNE_INLINE void visit_units(const attune_args &args, const units &all, const element_place &at, int begin, cursor &c,
                               const mailbox &box, Shared &shared, current &now)
{
    const records kept = find_records(args, gridDim.x);
    record *own = kept.first + (int)blockIdx.x * kept.of_block;
    reader r = {0, 0};
#pragma unroll 1
    for (int unit = begin; unit < c.end; ++unit) {
        if (ALONE && PIECES == 0 && unit == now.v.j.end) {
            const job next = job_behind(args, all, now.v.j, unit);
            if constexpr (!ASKS_EARLY) {
                load_queries<threads>(args, next, find_queries(args, next), shared.q, now.q);
            }
            begin_rows(args, next, unit, at, shared, now);
        }
        const int span = span_of(now.v.j, unit);
        warp_state state;
        visit_span(args, all, now.v, span, now.q, c, r, shared, state);
        if (ASKS_EARLY && unit + 1 == now.v.j.end && unit + 1 < c.end) {
            const job next = job_behind(args, all, now.v.j, unit + 1);
            load_queries<threads>(args, next, find_queries(args, next), shared.q, now.q);
        }
        own_part part;
        join_warps(shared, state, at, unit + 1 == c.end, part);
        if (all.together) {
            send_part(box, unit - now.v.j.begin, at, part);
        } else if (PIECES == 0 && !now.whole) {
            leave(own[unit - begin], at, part);
        } else {
            keep_span(shared, part, span);
            if (unit + 1 == now.v.j.end) {
                own_part spans = kept_part(shared, GROUPS);
                partial_join(spans, kept_part(shared, OPEN_GROUP));
                store(args, now.to, at, spans);
            }
        }
    }
    if (PIECES == 0 && !all.together && now.whole && c.end < now.v.j.end) {
        leave(own[kept.of_block - 2], at, kept_part(shared, GROUPS));
        leave(own[kept.of_block - 1], at, kept_part(shared, OPEN_GROUP));
    }
}

ATTUNE_INLINE void store_row(const attune_args &args, const output &to, int joiner, row_part &x)
{
    partial_take_sink(args, to.head, x);
    const float normaliser = online_normaliser(x.sum);
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const int column = (i / 2 * ROW_JOINERS + joiner) * 4 + i % 2 * 2;
        *reinterpret_cast<unsigned *>(to.o + column) = pack_two(x.o[2 * i] * normaliser, x.o[2 * i + 1] * normaliser);
    }
    if (to.lse != nullptr) {
        *to.lse = online_lse(x.maximum, x.sum);
    }
}

/* Joins the block's columns when all blocks have sent theirs. */
ATTUNE_INLINE void finish_job(const attune_args &args, const job &j, const mailbox &box, Shared &shared)
{
    if constexpr (PARTS == 0) {
        __syncwarp();
        ptx_barrier_cluster_arrive();
    }
    const int row = (int)threadIdx.x / ROW_JOINERS, joiner = (int)threadIdx.x % ROW_JOINERS;
    element_place at = place_of_pair(EACH > 1 ? row * ROW_PAIRS + joiner * 2 : (int)threadIdx.x);
    output to = find_output(args, j, at);
    if constexpr (PARTS > 1) {
        barrier_wait_cluster(ptx_cvta_shared(&shared.arrived), 0);
    } else {
        ptx_barrier_cluster_wait();
    }
    if constexpr (EACH > 1) {
        if (to.o != nullptr) {
            row_part x = join_row(box, j, row, joiner);
            store_row(args, to, joiner, x);
        }
        return;
    }
    for (int i = (int)threadIdx.x; i < OWN_PAIRS; i += threads) {
        if (i >= threads) {
            at = place_of_pair(i);
            to = find_output(args, j, at);
        }
        if (to.o != nullptr) {
            partial<2> x = join_letters(box, j, i);
            store_pair(args, to, at.column, x);
        }
    }
}

/* ---- The launches ------------------------------------------------------------------------------------------------ */

/* The block's units; the first job that it has any of. */
ATTUNE_INLINE int find_share(const attune_args &args, Shared &shared, int *before, units &all, cursor &c)
{
    all = find_units(args, threads, before, shared.sums);
    int begin = block_begin(all, (int)blockIdx.x);
    c.end = block_begin(all, (int)blockIdx.x + 1);
    c.stage = 0;
    if (all.together) {
        const int first = unit_of_cluster(args, all, (int)blockIdx.x / JOB_BLOCKS);
        c.end = begin = all.total;
        if (first < all.total) {
            c.j = job_with(args, all, first);
            const piece own = piece_of(c.j);
            begin = own.begin;
            c.end = own.end;
        }
    }
    if constexpr (PIECES > 0) {
        const int first = (int)blockIdx.x / PIECES * all.share;
        c.end = begin = all.total;
        if (first < all.total) {
            c.j = job_with(args, all, first);
            const cut of = cut_of(c.j);
            const int origin = c.j.begin - c.j.first_span; /* the unit that span 0 would be */
            const int group = of.first + (int)blockIdx.x % PIECES * of.each;
            begin = max(group * GROUP + origin, c.j.begin);
            c.end = min((group + of.each) * GROUP + origin, c.j.end);
        }
    }
    if (begin < c.end) {
        c.j = job_with(args, all, begin);
        begin_job(c, c.end, begin);
    }
    return begin;
}

/* Whether the caller says that all but queries and the last rows of K and V is there before the launch before ends. */
ATTUNE_INLINE bool is_settled(const attune_args &args)
{
    attune_i32 all = args.tensor[ATTUNE_K].settled & args.tensor[ATTUNE_V].settled;
    if constexpr (PAGED) {
        all &= args.tensor[ATTUNE_PAGE_TABLE_K].settled;
        if constexpr (ATTUNE_HAS_PAGED_V) {
            all &= args.tensor[ATTUNE_PAGE_TABLE_V].settled;
        }
    }
    if constexpr (ATTUNE_HAS_SEQUSED) {
        all &= args.tensor[ATTUNE_USED_KV].settled;
    }
    if constexpr (ATTUNE_HAS_VARLEN) {
        all &= args.tensor[ATTUNE_CU_Q].settled;
        if constexpr (!PAGED) {
            all &= args.tensor[ATTUNE_CU_KV].settled;
        }
    }
    return all != 0;
}

/* The first tiles of a block that has any, as far as they are settled: how many. */
ATTUNE_INLINE int copy_settled(const attune_args &args, const units &all, cursor &c, Shared &shared)
{
    const sequence at = sequence_of(args, c.j.batch);
    const int end = min((int)(at.length_kv - at.length_q), c.stop);
    int count = 0;
#pragma unroll 1
    for (; count < STAGES && c.key + TILE <= end; ++count) {
        copy_tile(args, all, c, shared);
    }
    return count;
}

/* Where lengths lie, and where entries do that the block needs first if all lengths are the greatest: what is on its
 * way from memory, pages of addresses included, is not waited for when they are read. */
ATTUNE_INLINE void prefetch_lengths(const attune_args &args)
{
    const int batch = (int)args.batch, thread = (int)threadIdx.x;
    if constexpr (ATTUNE_HAS_SEQUSED) {
        if (thread * 32 < batch) {
            ptx_prefetch_global_l2(static_cast<const attune_i32 *>(args.tensor[ATTUNE_USED_KV].data) + thread * 32);
        }
    }
    if constexpr (PAGED) {
        const int jobs = batch * (int)args.heads_kv, blocks = (int)gridDim.x, keys = (int)args.seqlen_kv;
        const float at = (float)jobs * (float)blockIdx.x / (float)blocks;
        const int job = (int)at, key = (int)((at - (float)job) * (float)keys);
        if (thread == 32 && job < jobs) {
            ptx_prefetch_global_l2(page_table_of<ATTUNE_K>(args, quotient(job, (int)args.heads_kv)) +
                                   (unsigned)key / PAGE_ROWS);
        }
    }
}

ATTUNE_INLINE void await_launch_before()
{
    ptx_griddepcontrol_wait();
    ptx_griddepcontrol_launch_dependents();
}

/* Waits for the launch before; whether lengths, and the entries that the block needs first, still are what they were
 * before it had ended: most often they are, as from layer to layer of a step. */
ATTUNE_INLINE bool came_true(const attune_args &args, const units &all, int begin, const cursor &c, Shared &shared)
{
    const int *kept = all.before + (int)args.batch + 1;
    first_entries before = {}, now = {};
    if (PAGED && begin < c.end) {
        before = read_first<true>(args, c.j, c.key, stride, c.stop);
    }
    await_launch_before();
    if (PAGED && begin < c.end) {
        now = read_first<false>(args, c.j, c.key, stride, c.stop);
        keep_first(now, c.stage, shared.next[team_of()]);
    }
    bool differs = !are_alike(before, now);
    for (int i = (int)threadIdx.x; i < (int)args.batch; i += threads) {
        differs |= length_now(args, i) != kept[i];
    }
    return __syncthreads_or(differs) == 0;
}

/* NOTE: what no launch before can change is worked out while it ends. */
extern "C" __global__ void __launch_bounds__(threads, BLOCKS) fwd_decode(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    int *before = reinterpret_cast<int *>(memory + sizeof(Shared)), copied = 0;
    units all;
    cursor c;
    c.own = box_of(args, lane_of());
    if (BOXES && lane_of() < boxes) {
        ptx_prefetch_tensormap(c.own.map);
    }
    init_ring(shared);
    const bool settled = is_settled(args), early = uniform_units || settled;
    bool foretold = KEEPS_LENGTHS && !settled;
    if (!early && !foretold) {
        prefetch_lengths(args);
        await_launch_before();
    }
    query_rows rows;
    int begin;
#pragma unroll 1
    for (;; foretold = false) {
        begin = find_share(args, shared, before, all, c);
        rows = {};
        if (begin < c.end) {
            rows = find_queries(args, c.j);
        }
        if (!foretold || came_true(args, all, begin, c, shared)) {
            break;
        }
    }
    const job first = c.j;
    if constexpr (PARTS > 1) {
        if (threadIdx.x == 0 && begin < all.total) {
            const unsigned arrived = ptx_cvta_shared(&shared.arrived);
            ptx_mbarrier_init(arrived, 1);
            ptx_fence_mbarrier_init();
            ptx_mbarrier_arrive_expect_tx(arrived,
                                          (unsigned)((first.end - first.begin) * SENDERS * (OWN_PAIRS + ROWS) * 8));
        }
        __syncwarp();
    }
    if (all.together) {
        ptx_barrier_cluster_arrive_relaxed();
    }
    constexpr bool at_once = PARTS > 1 && !PAGED;
    int settled_end = 0;
    if (at_once && settled && begin < c.end) {
        const sequence of = sequence_of(args, first.batch);
        settled_end = (int)(of.length_kv - of.length_q);
        copy_part(args, first, span_of(first, begin), 0, TILES, true, settled_end, shared);
    } else if (settled && begin < c.end) {
        find_first_entries(args, all, c, false, shared);
        copied = copy_settled(args, all, c, shared);
    }
    if (PREFETCHES && !settled && begin < c.end) {
        prefetch_tiles(args, c);
    }
    if (early) {
        await_launch_before();
    }
    if (begin >= (all.together ? all.total : c.end)) {
        return;
    }
    const element_place at = place_of_thread();
    current now;
    if (!all.together || begin < c.end) {
        if (at_once) {
            copy_part(args, first, span_of(first, begin), 0, 1, false, settled_end, shared);
        } else if (!settled) {
            find_first_entries(args, all, c, foretold, shared);
        }
        if (!at_once && copied == 0) {
            copy_tile(args, all, c, shared);
        }
        load_queries<threads>(args, first, rows, shared.q, now.q);
        begin_rows(args, first, begin, at, shared, now);
        if (at_once) {
            copy_part(args, first, span_of(first, begin), 1, TILES, false, settled_end, shared);
        }
#pragma unroll 1
        for (int i = max(copied, 1); !at_once && i < STAGES; ++i) {
            copy_tile(args, all, c, shared);
        }
    }
    constexpr int words_each = KEEPS_LENGTHS ? 2 : 1; /* of a sequence, behind Shared, and a word more */
    unsigned char *letters = memory + sizeof(Shared) + (MIXED ? (words_each * (int)args.batch + 4) / 4 * 16 : 0);
    const mailbox box = {letters, (first.end - first.begin) * SENDERS};
    if (all.together) {
        ptx_barrier_cluster_wait(); /* all blocks can be written to */
    }
    if constexpr (PARTS > 1) {
        visit_own_part(args, begin, c, box, shared, now);
    } else if constexpr (PIECES > 1) {
        visit_groups(args, all, at, begin, c, shared, now);
    } else {
        visit_units(args, all, at, begin, c, box, shared, now);
    }
    if (all.together) {
        finish_job(args, first, box, shared);
    }
}

/* NOTE: the compiler spills, unless the bounds say that one block a multiprocessor is enough. */
extern "C" __global__ void __launch_bounds__(join_threads, 1) fwd_decode_join(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(16) unsigned char memory[];
    ptx_griddepcontrol_launch_dependents();
    if constexpr (PIECES > 0) {
        join_pieces(args);
    } else {
        join_torn(args, *reinterpret_cast<Joint *>(memory), reinterpret_cast<int *>(memory + sizeof(Joint)));
    }
}
