/* Rows of a block of mma, and their way out where a block has some of their keys.
 *
 * With PACK query heads that share keys share a block: its rows are of a head of K and V, queries outside, heads
 * inside. With CHUNK the keys of a sequence are cut, by their places in it, into chunks of so many, each a block of its
 * own. It leaves its rows' sums in the workspace, and a second launch folds them in an order that their places say:
 * whatever else is computed at the same time, the bits are the same. */
#ifndef DEVICE_MMA_ROWS_CUH
#define DEVICE_MMA_ROWS_CUH

#include "device/mma_block.cuh"
#include "device/packed_jobs.cuh"

static_assert(!PACK || !BY_PAIRS, "what depends on pairs is of one head");
static_assert(!PACK || CHUNK, "only the second launch knows whose rows are whose");
static_assert(CHUNK % (SPLITS * BLOCK_N) == 0, "whole tiles of all splits");

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

/* The query of a row, and those before it of a row's. */
ATTUNE_INLINE attune_i64 query_of(const tile &t, attune_i64 row)
{
    return PACK ? (attune_i64)((unsigned)row / (unsigned)t.heads) : row;
}

ATTUNE_INLINE int head_of(const tile &t, int row)
{
    return PACK ? t.w.head + (int)((unsigned)row % (unsigned)t.heads) : t.w.head;
}

/* The block's tile: tiles of a head are neighbours, so that they find its keys and values in L2. */
ATTUNE_INLINE bool find_packed_tile(const attune_args &args, unsigned block, tile &t)
{
    t.heads = PACK ? (int)(args.heads_q / args.heads_kv) : 1;
    const int heads = PACK ? (int)args.heads_kv : (int)args.heads_q;
    const int tiles = (int)((args.seqlen_q * t.heads + BLOCK_M - 1) / BLOCK_M), row = (int)block / tiles;
    t.w.tile = (int)block - row * tiles;
    t.w.batch = row / heads;
    t.w.head = (row - t.w.batch * heads) * t.heads;
    t.at = sequence_of(args, t.w.batch);
    t.first_row = t.w.tile * BLOCK_M;
    t.end_row = (int)min(t.at.length_q * t.heads, (attune_i64)t.first_row + BLOCK_M);
    return t.first_row < t.end_row;
}

/* Starts copying the block's queries. */
ATTUNE_INLINE void copy_packed_queries(const attune_args &args, element *to, const tile &t)
{
    constexpr int parts = dim_qk / 8;
    const unsigned base = ptx_cvta_shared(to);
    const element *origin = row_of<element>(args.tensor[ATTUNE_Q], t.at.batch, t.w.head, t.at.first_q);
    for (int i = (int)threadIdx.x; i < BLOCK_M * parts; i += ATTUNE_THREADS) {
        const int row = t.first_row + i / parts;
        const bool exists = row < t.end_row;
        const element *from = exists ? row_of<element>(args.tensor[ATTUNE_Q], t.at.batch, head_of(t, row),
                                                       t.at.first_q + query_of(t, row)) +
                                           i % parts * 8
                                     : origin;
        ptx_cp_async_cg_shared_global_16(base + (unsigned)(2 * swizzled_index<pitch_qk>(i / parts, i % parts)), from,
                                         exists ? 16 : 0);
    }
}

/* Places of tiles, of each head, that belong to sequences before `index`: as many as have tiles, or some more. */
ATTUNE_INLINE attune_i64 places_before(const attune_args &args, int index)
{
    const attune_i64 rows = static_cast<const attune_i32 *>(args.tensor[ATTUNE_CU_Q].data)[index];
    return min(clamp_i64(rows, 0, args.total_q) / BLOCK_M + index, index * ((args.seqlen_q + BLOCK_M - 1) / BLOCK_M));
}

/* The first of the 32 sequences, a multiple of 32, to which place `block` of all heads belongs. A warp looks. */
ATTUNE_INLINE int find_sequences(const attune_args &args, int block, int lane)
{
    int first = 0, step = 32;
    while (step < (args.batch + 31) / 32) {
        step *= 32;
    }
    for (; step >= 32; step /= 32) {
        const int index = first + lane * step;
        const bool before = lane == 0 || (index < args.batch && places_before(args, index) * args.heads_q <= block);
        first += (31 - __clz((int)__ballot_sync(0xffffffff, before))) * step;
    }
    return first;
}

/* The place of a block's tile among those of sequences of different lengths: of 32 sequences those with most keys come
 * first, so that the last blocks are short ones, and places that have no tile come behind all of theirs. A warp looks,
 * a lane at each sequence; false: there is no such tile. */
ATTUNE_INLINE bool find_tile_by_length(const attune_args &args, int block, work &w)
{
    const int lane = (int)(ptx_mov_tid_x() % 32), heads = (int)args.heads_q;
    int first = 0;
    if (args.batch > 32) {
        first = find_sequences(args, block, lane);
        block -= (int)(places_before(args, first) * heads);
    }
    const extent own = extent_of<BLOCK_M>(args, first + lane);
    const int before = rank_of(own, lane).tiles;
    const int at = block - before * heads;
    const unsigned has = __ballot_sync(0xffffffff, at >= 0 && at < own.tiles * heads);
    if (has == 0) {
        return false;
    }
    const int source = __ffs((int)has) - 1;
    const unsigned place = (unsigned)__shfl_sync(0xffffffff, at, source);
    const unsigned its_tiles = (unsigned)__shfl_sync(0xffffffff, own.tiles, source);
    const unsigned fast = CAUSAL && !BEGINS_MOVE ? (unsigned)heads : its_tiles, slow = place / fast;
    const int rest = (int)(place - slow * fast);
    w.batch = first + source;
    w.head = CAUSAL && !BEGINS_MOVE ? rest : (int)slow;
    w.tile = CAUSAL && !BEGINS_MOVE ? (int)(its_tiles - 1 - slow) : rest;
    return true;
}

/* Heads whose keys and values share L2 while tiles of all of them are worked out, those that see most keys first: as
 * many as have 32 MiB of them, or 16 if these are 32. */
ATTUNE_INLINE unsigned heads_together(const attune_args &args)
{
    const attune_u64 bytes = (attune_u64)max(args.seqlen_kv, (attune_i64)1) * ((dim_qk + dim_v) * 2);
    const int bits = 42 - __clz((int)min((bytes - 1) >> 10, (attune_u64)1 << 20));
    const unsigned heads = bits > 25 ? 1 : min(1u << (25 - bits), max(bits > 24 ? 1u : 1u << (24 - bits), 32u));
    return heads * (args.heads_q == args.heads_kv ? 1 : (unsigned)args.heads_q / (unsigned)args.heads_kv);
}

/* The same with a window, of whose keys fewer are in use: sections of equally many, up to WINDOW_HEADS. */
enum { WINDOW_HEADS = 32 };

ATTUNE_INLINE unsigned window_heads_together(unsigned rows)
{
    const unsigned sections = (rows + WINDOW_HEADS - 1) / WINDOW_HEADS;
    return sections <= 1 ? rows : (rows + sections - 1) / sections;
}

/* Under a causal mask tiles that see fewer keys come last, so that the last blocks are short ones. NOTE: with a window
 * these are the first of each sequence; head by head windows of 1,024 to 4,096 keys took 1.02 to 1.05 of the time. */
ATTUNE_INLINE void find_tile_of_head(const attune_args &args, unsigned block, work &w)
{
    const unsigned tiles = (unsigned)((args.seqlen_q + BLOCK_M - 1) / BLOCK_M), heads = (unsigned)args.heads_q;
    unsigned row;
    if constexpr (CAUSAL) {
        const unsigned rows = (unsigned)args.batch * heads;
        const unsigned most = BEGINS_MOVE ? window_heads_together(rows) : min(heads_together(args), rows);
        const unsigned first = block / (most * tiles) * most, at = block - first * tiles;
        const unsigned together = min(most, rows - first), rank = at / together;
        row = first + at - rank * together;
        w.tile = (int)(tiles - 1 - rank);
    } else {
        row = block / tiles;
        w.tile = (int)(block - row * tiles);
    }
    w.batch = (int)(row / heads);
    w.head = (int)(row - (unsigned)w.batch * heads);
}

/* The same where a block has rows of one head. A whole warp calls it. NOTE: where all warps look for themselves and
 * sequences are many and short, to look takes longer than what is left out; the grid is made by the same 32 (steps, in
 * mma.c). */
ATTUNE_INLINE bool find_tile_of_block(const attune_args &args, unsigned block, tile &t)
{
    if constexpr (CHUNK) {
        return find_packed_tile(args, block, t);
    }
    if (ATTUNE_HAS_VARLEN && (SHARES_TILE || args.batch <= 32)) {
        if (!find_tile_by_length(args, (int)block, t.w)) {
            t.first_row = 0;
            return false;
        }
    } else {
        find_tile_of_head(args, block, t.w);
    }
    t.at = sequence_of(args, t.w.batch);
    t.first_row = t.w.tile * BLOCK_M;
    t.end_row = (int)min(t.at.length_q, (attune_i64)t.first_row + BLOCK_M);
    return t.first_row < t.at.length_q;
}

/* ---- The sink ---------------------------------------------------------------------------------------------------- */

/* A row's maximum, in units of log2, and sum take in the sink; returns the root of the factor for O. NOTE: a sink has a
 * weight and no value, so that what is left of O may be less than a factor can be; the root is multiplied twice. */
ATTUNE_INLINE float take_sink(const online &sink, float &maximum, float &sum)
{
    online all = {maximum, sum};
    (void)online_raise(&all, sink.maximum);
    const float subtract = subtrahend(all.maximum);
    const float root = ptx_ex2_approx_ftz_f32((maximum - subtract) * 0.5f);
    sum = all.sum + sink.sum * ptx_ex2_approx_ftz_f32(sink.maximum - subtract);
    maximum = all.maximum;
    return root;
}

/* ---- Chunks ----------------------------------------------------------------------------------------------------- */

ATTUNE_INLINE key_range keys_of_tile(const attune_args &args, const tile &t)
{
    return keys_seen_by_any(args, t.at, query_of(t, t.first_row), query_of(t, t.end_row - 1));
}

/* What the block has of the tile's keys; false: nothing. */
ATTUNE_INLINE bool take_chunk(const attune_args &args, tile &t)
{
    const int first = (int)blockIdx.y * CHUNK;
    t.keys = key_loop_of<BLOCK_N>(args, t.at, t.w, (int)query_of(t, t.first_row), (int)query_of(t, t.end_row - 1) + 1);
    t.keys.begin = max(t.keys.begin, first);
    t.keys.first = max(t.keys.first, first);
    t.keys.end = min(t.keys.end, first + CHUNK);
    return t.keys.first < t.keys.end;
}

/* Rows' sums of weighted values, and pairs of maximum, in units of log2, and sum of weights. */
struct alignas(16) record {
    float o[BLOCK_M][dim_v];
    float2 state[BLOCK_M];
};

/* That of a tile's first chunk. */
ATTUNE_INLINE record *records_of(const attune_args &args)
{
    const unsigned chunks = max((unsigned)((args.seqlen_kv + CHUNK - 1) / max(CHUNK, 1)), 1u);
    return static_cast<record *>(args.workspace) + (attune_i64)blockIdx.x * chunks;
}

/* Leaves a strip's rows to the second launch. */
ATTUNE_INLINE void leave_strip(const attune_args &args, const tile &t, const place &p, int strip,
                               const strip_state &state)
{
    record &to = records_of(args)[blockIdx.y];
    const float scale = pair_scale(args);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int row = p.row + strip * STRIP_STEP + r * 8, local = row - t.first_row;
        const float maximum = state.rows.maximum[r], sum = group_sum<4>(state.rows.sum[r]);
        if (row >= t.end_row) {
            continue;
        }
#pragma unroll
        for (int i = 0; i < dim_v / 8; ++i) {
            *reinterpret_cast<float2 *>(&to.o[local][i * 8 + p.lane % 4 * 2]) =
                make_float2(state.o[i * 4 + r * 2], state.o[i * 4 + r * 2 + 1]);
        }
        if (p.lane % 4 == 0) {
            to.state[local] = make_float2(maximum == negative_infinity() ? maximum : maximum * scale, sum);
        }
    }
}

/* ---- The second launch ------------------------------------------------------------------------------------------ */

enum { JOIN_WARPS = 4 };                   /* of a block, which has a row: each has every fourth chunk */
constexpr int quads = (dim_v + 127) / 128; /* of a lane: four neighbouring columns of each 128 */
constexpr int JOIN_AT_ONCE = 8 / quads;    /* chunks that a warp reads at once */

struct folded {
    float maximum, sum, o[quads * 4];
};

/* What warps but the first hand over. */
struct Joint {
    float4 o[JOIN_WARPS][quads][32];
    float sum[JOIN_WARPS];
};

/* A row's part of chunks c, c + JOIN_WARPS ..., nothing of those from `end` on. */
struct row_parts {
    float2 state[JOIN_AT_ONCE];
    float4 o[JOIN_AT_ONCE][quads];
};

ATTUNE_INLINE void read_parts(const record *from, int local, int c, int end, int lane, row_parts &parts)
{
#pragma unroll
    for (int i = 0; i < JOIN_AT_ONCE; ++i) {
        const record &chunk = from[c + i * JOIN_WARPS];
        const bool exists = c + i * JOIN_WARPS < end;
        parts.state[i] = exists ? chunk.state[local] : make_float2(negative_infinity(), 0);
#pragma unroll
        for (int n = 0; n < quads; ++n) {
            const int column = n * 128 + lane * 4;
            parts.o[i][n] = exists && column < dim_v ? *reinterpret_cast<const float4 *>(&chunk.o[local][column])
                                                     : make_float4(0, 0, 0, 0);
        }
    }
}

ATTUNE_INLINE void add_part(float4 o, float weight, float *sums)
{
    sums[0] = fmaf(o.x, weight, sums[0]);
    sums[1] = fmaf(o.y, weight, sums[1]);
    sums[2] = fmaf(o.z, weight, sums[2]);
    sums[3] = fmaf(o.w, weight, sums[3]);
}

/* The warp's share of a row's sums, of the chunks that have any of the tile's keys, from the left to the right. NOTE:
 * which chunks a warp has depends on their places alone. */
ATTUNE_INLINE folded fold_share(const record *from, int local, int first, int end, int warp, int lane)
{
    folded all = {negative_infinity(), 0, {}};
    row_parts parts;
    int c = first + (warp - first % JOIN_WARPS + JOIN_WARPS) % JOIN_WARPS;
    read_parts(from, local, c, end, lane, parts);
    for (int i = first + lane; i < end; i += 32) {
        all.maximum = fmaxf(all.maximum, from[i].state[local].x);
    }
    all.maximum = group_max<32>(all.maximum);
    const float subtract = subtrahend(all.maximum);
    while (c < end) {
#pragma unroll
        for (int i = 0; i < JOIN_AT_ONCE; ++i) {
            const float weight = ptx_ex2_approx_ftz_f32(parts.state[i].x - subtract);
            all.sum = fmaf(parts.state[i].y, weight, all.sum);
#pragma unroll
            for (int n = 0; n < quads; ++n) {
                add_part(parts.o[i][n], weight, all.o + n * 4);
            }
        }
        c += JOIN_AT_ONCE * JOIN_WARPS;
        read_parts(from, local, c, end, lane, parts);
    }
    return all;
}

/* The row's sums, in the first warp. */
ATTUNE_INLINE void fold_shares(Joint &joint, int warp, int lane, folded &all)
{
    joint.sum[warp] = all.sum;
#pragma unroll
    for (int n = 0; n < quads; ++n) {
        joint.o[warp][n][lane] = make_float4(all.o[n * 4], all.o[n * 4 + 1], all.o[n * 4 + 2], all.o[n * 4 + 3]);
    }
    __syncthreads();
#pragma unroll
    for (int w = 1; w < JOIN_WARPS; ++w) {
        all.sum += joint.sum[w];
#pragma unroll
        for (int n = 0; n < quads; ++n) {
            add_part(joint.o[w][n][lane], 1, all.o + n * 4);
        }
    }
}

ATTUNE_INLINE void fold_sink(const attune_args &args, int head, folded &all)
{
    if constexpr (ATTUNE_HAS_SINK) {
        const float root = take_sink(online_start(args, head, true), all.maximum, all.sum);
#pragma unroll
        for (float &o : all.o) {
            o = o * root * root;
        }
    }
}

/* Row `row` of the tile, which exists, by a block. */
ATTUNE_INLINE void join_row(const attune_args &args, Joint &joint, const tile &t, int row)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const key_range keys = keys_of_tile(args, t);
    const int first = keys.first / max(CHUNK, 1);
    const int end = keys.first < keys.end ? (keys.end + CHUNK - 1) / max(CHUNK, 1) : first;
    const int head = head_of(t, row);
    const attune_i64 at = t.at.first_q + query_of(t, row);
    folded all = fold_share(records_of(args), row - t.first_row, first, end, warp, lane);
    fold_shares(joint, warp, lane, all);
    if (warp > 0) {
        return;
    }
    fold_sink(args, head, all);
    const float normaliser = online_normaliser(all.sum);
    element_o *out = row_of<element_o>(args.tensor[ATTUNE_O], t.at.batch, head, at);
#pragma unroll
    for (int i = 0; i < quads * 2; ++i) {
        const int column = i / 2 * 128 + lane * 4 + i % 2 * 2;
        if (column < dim_v) {
            *reinterpret_cast<pair<element_o> *>(out +
                                                 column) = {{from_float<element_o>(all.o[i * 2] * normaliser),
                                                             from_float<element_o>(all.o[i * 2 + 1] * normaliser)}};
        }
    }
    if (wants_lse(args) && lane == 0) {
        store_lse(args, t.at.batch, head, at, all.maximum, all.sum);
    }
}

#endif
