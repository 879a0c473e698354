/* decode: few queries of a sequence against many keys, which is a copy with a little arithmetic.
 *
 * Rows that share a head of K and V are packed: ROWS of a sequence's queries and heads are a job. Keys are cut into
 * spans of WARPS x TILES x TILE, and each block has some neighbouring spans (device/spans.cuh). Of a span each warp
 * takes every WARPS-th tile, by itself: it copies tiles of K and V into a ring of its own, STAGES of them, and
 * multiplies them from there by mma.sync. Nothing is waited for but the copies: it is the rings that keep memory busy.
 * At the end of a span the warps' sums are joined, in order; a block that has all spans of a job writes its rows, and
 * what is left in pieces is joined by a second launch.
 *
 * Pages are copied by boxes of the copy engine where a page and a tile have eight rows or more in common, else row by
 * row by cp.async. Nothing is read of table entries beyond the keys that some row sees.
 *
 * Keys that a row does not see: a score is replaced, whatever it was. Values of keys that no row of the job sees become
 * zeros in shared memory; where rows of a job differ and V holds something non-finite, it is added by itself. */
#include "device/packed_tile.cuh"
#include "device/pages.cuh"
#include "device/spans_join.cuh"

constexpr int threads = WARPS * 32;
constexpr int SLICE = 2 * threads / ROWS < stripes * 16 ? 2 * threads / ROWS : stripes * 16;
constexpr int slices = (stripes * 16 + SLICE - 1) / SLICE; /* of columns that are joined at once: two a thread */
constexpr unsigned bytes_k = chunks_qk * chunk_bytes, bytes_stage = bytes_k + chunks_v * chunk_bytes;

ATTUNE_INLINE constexpr int common_rows(int a, int b)
{
    return b == 0 ? a : common_rows(b, a % b);
}

/* Rows that one box brings: of one page. */
constexpr int BOX = PAGED ? common_rows(TILE, PAGE_ROWS) : TILE;
constexpr bool BOXES = BOX % 8 == 0; /* else rows are copied one by one */

struct alignas(1024) Shared {
    unsigned char ring[WARPS][STAGES][bytes_stage]; /* of each stage K, then V, both in chunks */
    element q[Q_REGISTERS ? 8 : rows_q * pitch_q];
    float o[WARPS][ROWS][SLICE + 4]; /* + 4: rows and columns of a warp's operand fall into different banks */
    float2 state[WARPS][ROWS];
    float kept[2][2 * slices + 2]
              [threads]; /* what a block has joined of its job: groups of spans, and the open group */
    attune_u64 full[WARPS][STAGES];
    int sums[WARPS];
};
static_assert(sizeof(Shared) <= ATTUNE_SMEM_BYTES, "the descriptor predicts less shared memory");
static_assert(threads == ATTUNE_THREADS, "the descriptor predicts another number of threads");
static_assert(slices == 1 || SLICE % 16 == 0, "slices are whole stripes");

ATTUNE_INLINE int warp_of()
{
    return (int)threadIdx.x / 32;
}

/* The first key of a warp's tile of a span; tiles of a warp are `stride` apart, from span to span as well. */
constexpr int stride = WARPS * TILE;

ATTUNE_INLINE int tile_key(int span, int tile)
{
    return span * SPAN + tile * stride + warp_of() * TILE;
}

/* ---- Copies ----------------------------------------------------------------------------------------------------- */

/* What a lane copies of every tile, if anything: a box of K or V. NOTE: lanes that do nothing else take a box each, so
 * that none has many to start. */
struct box {
    const attune_tensor_map *map;
    unsigned to; /* from the stage's first byte */
    int row, column;
    bool of_v;
};

constexpr int boxes_k = TILE / BOX * chunks_qk, boxes = boxes_k + TILE / BOX * chunks_v;
static_assert(!BOXES || boxes <= 64, "two boxes a lane");

ATTUNE_INLINE box box_of(const attune_args &args, int number)
{
    box b;
#if defined(ATTUNE_MAP_K)
    b.of_v = number >= boxes_k;
    const int of = b.of_v ? number - boxes_k : number, chunks = b.of_v ? chunks_v : chunks_qk, chunk = of % chunks;
    b.map = &args.map[b.of_v ? ATTUNE_MAP_V : ATTUNE_MAP_K];
    b.row = of / chunks * BOX;
    b.column = chunk * 64;
    b.to = (b.of_v ? bytes_k : 0) + (unsigned)chunk * chunk_bytes + (unsigned)b.row * LINE;
#endif
    return b;
}

/* The tile that a warp copies next. */
struct cursor {
    job j;
    int end;       /* the block's units */
    int key, stop; /* keys of the job from `stop` on are not the block's */
    unsigned stage;
    int page; /* that the lane's box is of, read a tile ahead */
    box own;
};

/* The page that has the key; -1, which is no page, where nobody sees any of `count` keys from it on. */
ATTUNE_INLINE int page_of(const attune_args &args, bool of_v, const job &j, int key, int count)
{
    if (!is_seen(j.keys, key, count)) {
        return -1;
    }
    const attune_i32 *table = of_v ? page_table_of<ATTUNE_V>(args, j.batch) : page_table_of<ATTUNE_K>(args, j.batch);
    return page_in_pool(args, table[key / PAGE_ROWS]);
}

ATTUNE_INLINE void read_page(const attune_args &args, cursor &c)
{
    if constexpr (PAGED && BOXES) {
        if (lane_of() < boxes && c.key < c.stop) {
            c.page = page_of(args, c.own.of_v, c.j, c.key + c.own.row, BOX);
        }
    }
}

/* The warp's first tile of the job, from a unit on, that some row sees. */
ATTUNE_INLINE void begin_job(const attune_args &args, const units &all, cursor &c, int unit)
{
    c.j = job_with(args, all, unit);
    c.stop = min(c.j.keys.end, (c.j.first_span + min(c.j.end, c.end) - c.j.begin) * SPAN);
    c.key = tile_key(span_of(c.j, unit), 0);
    while (c.key + TILE <= c.j.keys.first) {
        c.key += stride;
    }
}

/* Whether there is a tile left. */
ATTUNE_INLINE bool find_tile(const attune_args &args, const units &all, cursor &c)
{
    while (c.key >= c.stop) {
        if (c.j.end >= c.end) {
            return false;
        }
        begin_job(args, all, c, c.j.end);
        read_page(args, c);
    }
    return true;
}

ATTUNE_INLINE void copy_box(const cursor &c, const box &b, int page, unsigned stage, unsigned barrier)
{
    if constexpr (PAGED) {
        ptx_cp_async_bulk_tensor_4d_load(stage + b.to, b.map, barrier, L2_EVICT_FIRST, b.column,
                                         (c.key + b.row) % PAGE_ROWS, c.j.head, page);
    } else {
        tma_load(stage + b.to, b.map, barrier, L2_EVICT_FIRST, b.column, c.j.first_kv + c.key, c.j.head, c.j.batch);
    }
}

ATTUNE_INLINE void copy_boxes(const attune_args &args, const cursor &c, unsigned stage, unsigned barrier)
{
    if (lane_of() == 0) {
        ptx_mbarrier_arrive_expect_tx(barrier, bytes_stage);
    }
    if (lane_of() < boxes) {
        copy_box(c, c.own, c.page, stage, barrier);
    }
    if (boxes > 32 && lane_of() + 32 < boxes) {
        const box b = box_of(args, lane_of() + 32);
        copy_box(c, b, page_of(args, b.of_v, c.j, c.key + b.row, BOX), stage, barrier);
    }
}

/* Rows one by one: lane i knows where row i of the tile is, and all lanes copy parts of each. */
template <int role, int dim, int chunks>
ATTUNE_INLINE void copy_rows(const attune_args &args, const job &j, int key, unsigned tile)
{
    const attune_tensor &pool = args.tensor[role];
#pragma unroll 1
    for (int half = 0; half < TILE; half += 32) {
        const int row = half + lane_of(), page = row < TILE ? page_of(args, role == ATTUNE_V, j, key + row, 1) : -1;
        const attune_u64 own =
            page < 0 ? 0 : reinterpret_cast<attune_u64>(row_of<element>(pool, page, j.head, (key + row) % PAGE_ROWS));
        constexpr int rows = TILE < 32 ? TILE : 32, parts = chunks * 8;
#pragma unroll 4
        for (int i = lane_of(); i < rows * parts; i += 32) {
            const int of = i / parts, part = i % parts;
            const attune_u64 from = __shfl_sync(0xffffffff, own, of);
            const bool exists = from != 0 && part * 8 < dim;
            const unsigned to = tile + (unsigned)(part / 8) * chunk_bytes + (unsigned)(half + of) * LINE +
                                (unsigned)((part ^ of) & 7) * 16;
            ptx_cp_async_cg_shared_global_16(
                to, exists ? reinterpret_cast<const element *>(from) + part * 8 : pool.data, exists ? 16 : 0);
        }
    }
}

/* Starts copying the next tile, if there is one. */
ATTUNE_INLINE void copy_tile(const attune_args &args, const units &all, cursor &c, Shared &shared)
{
    if (!find_tile(args, all, c)) {
        return;
    }
    const unsigned stage = ptx_cvta_shared(shared.ring[warp_of()]) + c.stage * bytes_stage;
    const unsigned barrier = ptx_cvta_shared(shared.full[warp_of()]) + c.stage * 8;
    if constexpr (BOXES) {
        copy_boxes(args, c, stage, barrier);
    } else {
        copy_rows<ATTUNE_K, dim_qk, chunks_qk>(args, c.j, c.key, stage);
        copy_rows<ATTUNE_V, dim_v, chunks_v>(args, c.j, c.key, stage + bytes_k);
        ptx_cp_async_mbarrier_arrive_noinc(barrier);
    }
    c.stage = c.stage + 1 == STAGES ? 0 : c.stage + 1;
    c.key += stride;
    read_page(args, c);
}

/* ---- Spans ------------------------------------------------------------------------------------------------------ */

/* A warp's ring as it is used. */
struct reader {
    unsigned stage, parity;
};

ATTUNE_INLINE void clear_state(warp_state &state)
{
    state = {};
#pragma unroll
    for (float &maximum : state.maximum) {
        maximum = negative_infinity();
    }
}

/* The warp's tiles of a span. */
ATTUNE_INLINE void visit_span(const attune_args &args, const units &all, const view &v, int span, const queries &q,
                              cursor &c, reader &r, Shared &shared, warp_state &state)
{
    const float factor = score_factor(args), inner = score_inner(args);
#pragma unroll 1
    for (int tile = 0; tile < TILES; ++tile) {
        const int key = tile_key(span, tile);
        if (!is_seen(v.j.keys, key, TILE)) {
            continue;
        }
        const unsigned stage = ptx_cvta_shared(shared.ring[warp_of()]) + r.stage * bytes_stage;
        tile_scores s;
        tile_weights w;
        barrier_wait(ptx_cvta_shared(shared.full[warp_of()]) + r.stage * 8, r.parity);
        unsigned char *values = shared.ring[warp_of()][r.stage] + bytes_k;
        clean_values(v, key, values);
        multiply_keys(shared.q, stage, q, s);
        finish_scores(args, v, key, factor, inner, s);
        weigh(s, state, w);
        if (ROWS_DIFFER && needs_mask(v.all_see.first, v.all_see.end, key, TILE) && holds_nonfinite(values)) {
            add_values_seen(args, v, key, stage + bytes_k, w, state);
        } else {
            add_values(stage + bytes_k, w, state);
        }
        __syncwarp();
        copy_tile(args, all, c, shared);
        r.stage = r.stage + 1 == STAGES ? 0 : r.stage + 1;
        r.parity ^= r.stage == 0;
    }
}

/* What a thread joins: two columns of a row in each slice. */
struct element_place {
    int row, column;
};

ATTUNE_INLINE element_place place_of_thread()
{
    const int at = (int)threadIdx.x * 2;
    return element_place{at / SLICE, at % SLICE};
}

/* The warp's columns of a slice into shared memory. */
template <int slice> ATTUNE_INLINE void stage_slice(Shared &shared, const warp_state &state)
{
#pragma unroll
    for (int octet = 0; octet < OCTETS; ++octet) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = own_row(octet * 2 + i % 2);
            if (row < ROWS) {
                float *o = shared.o[warp_of()][row] + lane_of() / 4 + i / 2 * 8;
#pragma unroll
                for (int n = 0; n < SLICE / 16; ++n) {
                    constexpr int first = slice * (SLICE / 16);
                    if (first + n < stripes) {
                        o[n * 16] = state.o[first + n < stripes ? first + n : 0][octet][i];
                    }
                }
            }
        }
    }
}

ATTUNE_INLINE void stage_state(Shared &shared, const warp_state &state)
{
#pragma unroll
    for (int i = 0; i < rows_own; ++i) {
        const float sum = rows_sum(state.sum[i]);
        if (own_row(i) < ROWS && lane_of() < 4) {
            shared.state[warp_of()][own_row(i)] = make_float2(state.maximum[i], sum);
        }
    }
}

typedef partial<2 * slices> own_part;

template <int slice>
ATTUNE_INLINE void join_slices(Shared &shared, const warp_state &state, const element_place &at, bool last,
                               own_part &span)
{
    if constexpr (slice < slices) {
        stage_slice<slice>(shared, state);
        __syncthreads();
        if (at.row < ROWS) {
            float2 sum = {0, 0};
            float total = 0, maximum = negative_infinity();
#pragma unroll
            for (int w = 0; w < WARPS; ++w) {
                maximum = fmaxf(maximum, shared.state[w][at.row].x);
            }
#pragma unroll
            for (int w = 0; w < WARPS; ++w) {
                const float2 of_warp = shared.state[w][at.row];
                const float2 x = *reinterpret_cast<const float2 *>(&shared.o[w][at.row][at.column]);
                const float weight = ptx_ex2_approx_ftz_f32(of_warp.x - subtrahend(maximum));
                total = fmaf(of_warp.y, weight, total);
                sum.x = fmaf(x.x, weight, sum.x);
                sum.y = fmaf(x.y, weight, sum.y);
            }
            span.maximum = maximum;
            span.sum = total;
            span.o[slice * 2] = sum.x;
            span.o[slice * 2 + 1] = sum.y;
        }
        if (slice + 1 < slices || !last) {
            __syncthreads();
        }
        join_slices<slice + 1>(shared, state, at, last, span);
    }
}

/* NOTE: in shared memory, where registers are needed for tiles. */
enum { GROUPS, OPEN_GROUP };

ATTUNE_INLINE own_part kept_part(const Shared &shared, int which)
{
    own_part x;
    x.maximum = shared.kept[which][0][threadIdx.x];
    x.sum = shared.kept[which][1][threadIdx.x];
#pragma unroll
    for (int i = 0; i < 2 * slices; ++i) {
        x.o[i] = shared.kept[which][2 + i][threadIdx.x];
    }
    return x;
}

ATTUNE_INLINE void keep_part(Shared &shared, int which, const own_part &x)
{
    shared.kept[which][0][threadIdx.x] = x.maximum;
    shared.kept[which][1][threadIdx.x] = x.sum;
#pragma unroll
    for (int i = 0; i < 2 * slices; ++i) {
        shared.kept[which][2 + i][threadIdx.x] = x.o[i];
    }
}

ATTUNE_INLINE void keep_nothing(Shared &shared)
{
    own_part none;
    partial_clear(none);
    keep_part(shared, GROUPS, none);
    keep_part(shared, OPEN_GROUP, none);
}

/* A span has come: joined to its group, and the group to those before where it ends. */
ATTUNE_INLINE void keep_span(Shared &shared, const own_part &part, int span)
{
    own_part group = kept_part(shared, OPEN_GROUP);
    partial_join(group, part);
    if (span % GROUP == GROUP - 1) {
        own_part groups = kept_part(shared, GROUPS);
        partial_join(groups, group);
        keep_part(shared, GROUPS, groups);
        partial_clear(group);
    }
    keep_part(shared, OPEN_GROUP, group);
}

/* ---- Out -------------------------------------------------------------------------------------------------------- */

/* Where a thread's results go, if its row exists; worked out before there are any. */
struct output {
    element *o;
    float *lse; /* NULL where this thread writes none */
    int head;
};

ATTUNE_INLINE output find_output(const attune_args &args, const job &j, const element_place &at)
{
    const sequence of = sequence_of(args, j.batch);
    const packed_row r = packed_row_of(args, j, of, at.row);
    output to = {nullptr, nullptr, r.head};
    if (r.exists) {
        to.o = output_of(args, of, r);
        if (wants_lse(args) && at.column == 0) {
            to.lse = row_of<float>(args.tensor[ATTUNE_LSE], of.batch, r.head, of.first_q + r.query);
        }
    }
    return to;
}

/* A job's rows are done. */
ATTUNE_INLINE void store(const attune_args &args, const output &to, const element_place &at, own_part &all)
{
    if (to.o == nullptr) {
        return;
    }
    partial_take_sink(args, to.head, all);
    const float normaliser = online_normaliser(all.sum);
#pragma unroll
    for (int i = 0; i < slices; ++i) {
        const int column = i * SLICE + at.column;
        if (column < dim_v) {
            *reinterpret_cast<unsigned *>(to.o + column) =
                pack_two(all.o[2 * i] * normaliser, all.o[2 * i + 1] * normaliser);
        }
    }
    if (to.lse != nullptr) {
        *to.lse = online_lse(all.maximum, all.sum);
    }
}

ATTUNE_INLINE void leave(record &to, const element_place &at, const own_part &part)
{
    if (at.row < ROWS) {
#pragma unroll
        for (int i = 0; i < slices; ++i) {
            if (i * SLICE + at.column < dim_v) {
                *reinterpret_cast<float2 *>(&to.o[at.row][i * SLICE + at.column]) =
                    make_float2(part.o[2 * i], part.o[2 * i + 1]);
            }
        }
        if (at.column == 0) {
            to.state[at.row] = make_float2(part.maximum, part.sum);
        }
    }
}

ATTUNE_INLINE void init_ring(Shared &shared)
{
    if (lane_of() < STAGES) {
        ptx_mbarrier_init(ptx_cvta_shared(&shared.full[warp_of()][lane_of()]), BOXES ? 1 : 32);
        ptx_fence_mbarrier_init();
    }
    __syncwarp();
}

/* The job that a block is at. */
struct current {
    view v;
    queries q;
    output to;  /* of few rows; of many it is found when it is needed: registers are short */
    bool whole; /* the block has it from its first unit on */
};

ATTUNE_INLINE void begin_rows(const attune_args &args, const job &j, int unit, const element_place &at, Shared &shared,
                              current &now)
{
    load_queries<threads>(args, j, shared.q, now.q);
    now.v = view_of(args, j);
    if constexpr (OCTETS <= 2) {
        now.to = find_output(args, j, at);
    }
    now.whole = unit == j.begin;
    keep_nothing(shared);
    if constexpr (!Q_REGISTERS) {
        __syncthreads();
    }
}

/* The block's units, one after the other. */
ATTUNE_INLINE void visit_units(const attune_args &args, const units &all, const element_place &at, int begin, cursor &c,
                               Shared &shared, current &now)
{
    const records kept = find_records(args);
    record *own = kept.first + (int)blockIdx.x * kept.of_block;
    reader r = {0, 0};
#pragma unroll 1
    for (int unit = begin; unit < c.end; ++unit) {
        if (unit == now.v.j.end) {
            begin_rows(args, job_with(args, all, unit), unit, at, shared, now);
        }
        const int span = span_of(now.v.j, unit);
        warp_state state;
        clear_state(state);
        visit_span(args, all, now.v, span, now.q, c, r, shared, state);
        own_part part;
        stage_state(shared, state);
        join_slices<0>(shared, state, at, unit + 1 == c.end, part);
        if (!now.whole) {
            leave(own[unit - begin], at, part);
        } else {
            keep_span(shared, part, span);
            if (unit + 1 == now.v.j.end) {
                own_part spans = kept_part(shared, GROUPS);
                partial_join(spans, kept_part(shared, OPEN_GROUP));
                store(args, OCTETS <= 2 ? now.to : find_output(args, now.v.j, at), at, spans);
            }
        }
    }
    if (now.whole && c.end < now.v.j.end) {
        leave(own[kept.of_block - 2], at, kept_part(shared, GROUPS));
        leave(own[kept.of_block - 1], at, kept_part(shared, OPEN_GROUP));
    }
}

/* The block's units; its first job, if there is any. */
ATTUNE_INLINE int find_share(const attune_args &args, Shared &shared, int *before, units &all, cursor &c)
{
    all = find_units<threads>(args, before, shared.sums);
    const int begin = block_begin(all, (int)blockIdx.x);
    c.end = block_begin(all, (int)blockIdx.x + 1);
    c.stage = 0;
    if (begin < c.end) {
        begin_job(args, all, c, begin);
    }
    return begin;
}

/* NOTE: what no launch before can change is worked out while it ends. */
extern "C" __global__ void __launch_bounds__(threads, 1) fwd_decode(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    int *before = reinterpret_cast<int *>(memory + sizeof(Shared)), begin = 0;
    units all;
    cursor c;
    c.own = box_of(args, lane_of());
    if (BOXES && lane_of() < boxes) {
        ptx_prefetch_tensormap(c.own.map);
    }
    init_ring(shared);
    if constexpr (uniform_units) {
        begin = find_share(args, shared, before, all, c);
    }
    ptx_griddepcontrol_wait();
    ptx_griddepcontrol_launch_dependents();
    if constexpr (!uniform_units) {
        begin = find_share(args, shared, before, all, c);
    }
    if (begin >= c.end) {
        return;
    }
    const element_place at = place_of_thread();
    const job first = c.j;
    current now;
    read_page(args, c);
    copy_tile(args, all, c, shared);
    begin_rows(args, first, begin, at, shared, now);
#pragma unroll 1
    for (int i = 1; i < STAGES; ++i) {
        copy_tile(args, all, c, shared);
    }
    visit_units(args, all, at, begin, c, shared, now);
}

extern "C" __global__ void __launch_bounds__(join_threads) fwd_decode_join(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(16) unsigned char memory[];
    join_torn(args, *reinterpret_cast<Joint *>(memory), reinterpret_cast<int *>(memory + sizeof(Joint)));
}
