/* decode: few queries of a sequence against many keys, which is a copy with a little arithmetic.
 *
 * Rows that share a head of K and V are packed: ROWS of a sequence's queries and heads are a job. Keys are cut into
 * spans of WARPS x TILES x TILE, and each block has some neighbouring spans (device/spans.cuh). Of a span each warp
 * takes every WARPS-th tile, by itself: it copies tiles of K and V into a ring of its own, STAGES of them, and
 * multiplies them from there by mma.sync. Nothing is waited for but the copies: it is the rings that keep memory busy.
 * At the end of a span the warps' sums are joined, in order; a block that has all spans of a job writes its rows, and
 * what is left in pieces is joined by a second launch.
 *
 * Both products are turned: S^T = K Q^T and O^T = V^T P^T, so that keys and columns fill the sixteen rows of an
 * operand, and eight packed rows its eight columns. Weights become an operand by turning 8 x 8 of them among lanes.
 *
 * Pages are copied by boxes of the copy engine where a page and a tile have eight rows or more in common, else row by
 * row by cp.async. Nothing is read of table entries beyond the keys that some row sees.
 *
 * Keys that a row does not see: a score is replaced, whatever it was. Values of keys that no row of the job sees become
 * zeros in shared memory; where rows of a job differ and V holds something non-finite, it is added by itself. */
#include "device/mma.cuh"
#include "device/nonfinite.cuh"
#include "device/score.cuh"
#include "device/spans.cuh"
#include "device/spans_join.cuh"
#include "device/swizzle.cuh"
#include "device/tma.cuh"
#include "device/wgmma.cuh"

constexpr int dim_qk = ATTUNE_HEAD_DIM_QK, dim_v = ATTUNE_HEAD_DIM_V;
constexpr int chunks_qk = (dim_qk + 63) / 64, chunks_v = (dim_v + 63) / 64; /* of 64 columns, a line of 128 bytes */
constexpr int steps_qk = (dim_qk + 15) / 16, steps_k = TILE / 16, stripes = (dim_v + 15) / 16;
constexpr int OCTETS = (ROWS + 7) / 8, rows_own = 2 * OCTETS; /* of packed rows; rows of which a lane has scores */
constexpr int threads = WARPS * 32;
constexpr int SLICE = 2 * threads / ROWS < stripes * 16 ? 2 * threads / ROWS : stripes * 16;
constexpr int slices = (stripes * 16 + SLICE - 1) / SLICE; /* of columns that are joined at once: two a thread */
constexpr int LAZY = 8;
constexpr unsigned LINE = 128, chunk_bytes = TILE * LINE; /* of a tile */
constexpr unsigned bytes_k = chunks_qk * chunk_bytes, bytes_stage = bytes_k + chunks_v * chunk_bytes;

/* Queries are operands in registers where there is room. */
constexpr bool Q_REGISTERS = OCTETS == 1 && dim_qk <= 128;
constexpr int rows_q = OCTETS * 8 < 16 ? 16 : OCTETS * 8; /* in shared memory */

ATTUNE_INLINE constexpr int common_rows(int a, int b)
{
    return b == 0 ? a : common_rows(b, a % b);
}

/* Rows that one box brings: of one page. */
constexpr bool PAGED = ATTUNE_PAGE_SIZE > 0;
constexpr int page_size = PAGED ? ATTUNE_PAGE_SIZE : 1;
constexpr int BOX = PAGED ? common_rows(TILE, page_size) : TILE;
constexpr bool BOXES = BOX % 8 == 0; /* else rows are copied one by one */

struct alignas(1024) Shared {
    unsigned char ring[WARPS][STAGES][bytes_stage]; /* of each stage K, then V, both in chunks */
    element q[Q_REGISTERS ? 8 : rows_q * chunks_qk * 64];
    float o[WARPS][ROWS][SLICE + 4]; /* + 4: rows and columns of a warp's operand fall into different banks */
    float2 state[WARPS][ROWS];
    float kept[2][2 * slices + 2][threads]; /* what a block has joined of its job: groups of spans, and the open group */
    attune_u64 full[WARPS][STAGES];
    int sums[WARPS];
};
static_assert(sizeof(Shared) <= ATTUNE_SMEM_BYTES, "the descriptor predicts less shared memory");
static_assert(threads == ATTUNE_THREADS, "the descriptor predicts another number of threads");
static_assert(dim_qk % 8 == 0 && dim_v % 8 == 0 && TILE % 16 == 0 && TILE <= 64, "whole parts and operands");
static_assert(slices == 1 || SLICE % 16 == 0, "slices are whole stripes");

ATTUNE_INLINE int lane_of()
{
    return (int)threadIdx.x % 32;
}

ATTUNE_INLINE int warp_of()
{
    return (int)threadIdx.x / 32;
}

ATTUNE_INLINE bool is_seen(const key_range &keys, int key, int count)
{
    return key < keys.end && key + count > keys.first;
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

constexpr attune_role table_v = ATTUNE_HAS_PAGED_V ? ATTUNE_PAGE_TABLE_V : ATTUNE_PAGE_TABLE_K;

/* The page that has the key; -1, which is no page, where nobody sees any of `count` keys from it on. */
ATTUNE_INLINE int page_of(const attune_args &args, attune_role table, const job &j, int key, int count)
{
    if (!is_seen(j.keys, key, count)) {
        return -1;
    }
    const attune_tensor &t = args.tensor[table];
    const int page = static_cast<const attune_i32 *>(t.data)[j.batch * t.stride[ATTUNE_STRIDE_BATCH] + key / page_size];
    return min(max(page, 0), (int)args.page_count - 1);
}

ATTUNE_INLINE void read_page(const attune_args &args, cursor &c)
{
    if constexpr (PAGED && BOXES) {
        if (lane_of() < boxes && c.key < c.stop) {
            c.page = page_of(args, c.own.of_v ? table_v : ATTUNE_PAGE_TABLE_K, c.j, c.key + c.own.row, BOX);
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
    read_page(args, c);
}

/* Whether there is a tile left. */
ATTUNE_INLINE bool find_tile(const attune_args &args, const units &all, cursor &c)
{
    while (c.key >= c.stop) {
        if (c.j.end >= c.end) {
            return false;
        }
        begin_job(args, all, c, c.j.end);
    }
    return true;
}

ATTUNE_INLINE void copy_box(const cursor &c, const box &b, int page, unsigned stage, unsigned barrier)
{
    if constexpr (PAGED) {
        ptx_cp_async_bulk_tensor_4d_load(stage + b.to, b.map, barrier, L2_EVICT_NORMAL, b.column,
                                         (c.key + b.row) % page_size, c.j.head, page);
    } else {
        tma_load(stage + b.to, b.map, barrier, L2_EVICT_NORMAL, b.column, c.j.first_kv + c.key, c.j.head, c.j.batch);
    }
}

ATTUNE_INLINE void copy_boxes(const attune_args &args, const cursor &c, unsigned stage, unsigned barrier)
{
    if (lane_of() == 0) {
        ptx_mbarrier_arrive_expect_tx(barrier, bytes_stage);
    }
    __syncwarp();
    if (lane_of() < boxes) {
        copy_box(c, c.own, c.page, stage, barrier);
    }
    if (boxes > 32 && lane_of() + 32 < boxes) {
        const box b = box_of(args, lane_of() + 32);
        copy_box(c, b, page_of(args, b.of_v ? table_v : ATTUNE_PAGE_TABLE_K, c.j, c.key + b.row, BOX), stage, barrier);
    }
}

/* Rows one by one: lane i knows where row i of the tile is, and all lanes copy parts of each. */
template <int dim, int chunks>
ATTUNE_INLINE void copy_rows(const attune_args &args, const job &j, int key, attune_role role, attune_role table,
                             unsigned tile)
{
    const attune_tensor &pool = args.tensor[role];
#pragma unroll 1
    for (int half = 0; half < TILE; half += 32) {
        const int row = half + lane_of(), page = row < TILE ? page_of(args, table, j, key + row, 1) : -1;
        const attune_u64 own = page < 0 ? 0
                                        : reinterpret_cast<attune_u64>(row_of<element>(pool, page, j.head,
                                                                                       (key + row) % page_size));
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
        copy_rows<dim_qk, chunks_qk>(args, c.j, c.key, ATTUNE_K, ATTUNE_PAGE_TABLE_K, stage);
        copy_rows<dim_v, chunks_v>(args, c.j, c.key, ATTUNE_V, table_v, stage + bytes_k);
        ptx_cp_async_mbarrier_arrive_noinc(barrier);
    }
    c.stage = c.stage + 1 == STAGES ? 0 : c.stage + 1;
    c.key += stride;
    read_page(args, c);
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

/* Whether rows of a job may see different keys. */
constexpr bool ROWS_DIFFER = BEGINS_MOVE || ENDS_MOVE || ATTUNE_HAS_DRAFT;

/* A job as its rows see it; of the lane's rows which keys they see, and what else they bring to a score. */
struct view {
    job j;
    key_range all_see;
    int draft_begin; /* the first key that words of DRAFT_MASK are about */
    key_range keys[ROWS_DIFFER ? rows_own : 1];
    unsigned draft[ATTUNE_HAS_DRAFT ? rows_own : 1];
    float slope[ATTUNE_HAS_ALIBI ? rows_own : 1], position[ATTUNE_HAS_ALIBI ? rows_own : 1];
};

/* The lane's i-th row. */
ATTUNE_INLINE int own_row(int i)
{
    return i / 2 * 8 + lane_of() % 4 * 2 + i % 2;
}

ATTUNE_INLINE unsigned draft_of(const attune_args &args, const job &j, const sequence &at, const packed_row &r)
{
    const attune_tensor &draft = args.tensor[ATTUNE_DRAFT_MASK];
    const attune_i64 first = ATTUNE_HAS_VARLEN ? at.first_q : j.batch * draft.stride[ATTUNE_STRIDE_BATCH];
    return r.exists ? static_cast<const unsigned *>(draft.data)[first + r.query] : 0;
}

ATTUNE_INLINE view view_of(const attune_args &args, const job &j)
{
    const sequence at = sequence_of(args, j.batch);
    view v;
    v.j = j;
    v.all_see = j.keys;
    if constexpr (ROWS_DIFFER) {
        const int first = packed_row_of(args, j, at, 0).query;
        const int last = min(packed_row_of(args, j, at, ROWS - 1).query, (int)at.length_q - 1);
        v.all_see = keys_seen_by_all(args, at, first, last);
    }
    if constexpr (ATTUNE_HAS_DRAFT) {
        v.draft_begin = (int)max(at.length_kv - at.length_q, (attune_i64)0);
        v.all_see.end = v.draft_begin;
    }
#pragma unroll
    for (int i = 0; i < rows_own; ++i) {
        const packed_row r = packed_row_of(args, j, at, own_row(i));
        if constexpr (ROWS_DIFFER) {
            v.keys[i] = r.exists ? keys_seen(args, at, r.query) : j.keys;
        }
        if constexpr (ATTUNE_HAS_DRAFT) {
            v.draft[i] = draft_of(args, j, at, r);
        }
        if constexpr (ATTUNE_HAS_ALIBI) {
            v.slope[i] = r.exists ? LOG2_E * *row_of<float>(args.tensor[ATTUNE_SLOPES], 0, r.head, 0) : 0;
            v.position[i] = (float)(r.query + at.offset);
        }
    }
    return v;
}

/* Whether the lane's i-th row sees the key. */
ATTUNE_INLINE bool row_sees(const view &v, int i, int key)
{
    const key_range &keys = ROWS_DIFFER ? v.keys[ROWS_DIFFER ? i : 0] : v.j.keys;
    bool seen = key >= keys.first & key < keys.end;
    if constexpr (ATTUNE_HAS_DRAFT) {
        const int place = key - v.draft_begin;
        seen &= place < 0 || (v.draft[i] >> (place & 31) & 1);
    }
    return seen;
}

/* ---- Queries ---------------------------------------------------------------------------------------------------- */

struct queries {
    unsigned b[Q_REGISTERS ? steps_qk : 1][2];
};

ATTUNE_INLINE const element *query_of(const attune_args &args, const job &j, const sequence &at, int row)
{
    const packed_row r = packed_row_of(args, j, at, row);
    return r.exists ? row_of<element>(args.tensor[ATTUNE_Q], at.batch, r.head, at.first_q + r.query) : nullptr;
}

/* Two neighbouring elements of a row, zeros where there are none. */
ATTUNE_INLINE unsigned two_of(const element *row, int column)
{
    return row != nullptr && column < dim_qk ? *reinterpret_cast<const unsigned *>(row + column) : 0;
}

/* The job's queries: as operands, or into shared memory, where all warps have done with those of the job before. */
ATTUNE_INLINE void load_queries(const attune_args &args, const job &j, Shared &shared, queries &q)
{
    const sequence at = sequence_of(args, j.batch);
    if constexpr (Q_REGISTERS) {
        const element *row = query_of(args, j, at, lane_of() / 4);
#pragma unroll
        for (int step = 0; step < steps_qk; ++step) {
            q.b[step][0] = two_of(row, step * 16 + lane_of() % 4 * 2);
            q.b[step][1] = two_of(row, step * 16 + lane_of() % 4 * 2 + 8);
        }
    } else {
        constexpr int parts = chunks_qk * 8;
        for (int i = (int)threadIdx.x; i < rows_q * parts; i += threads) {
            const int row = i / parts, part = i % parts;
            const element *from = query_of(args, j, at, row);
            const bool exists = from != nullptr && part * 8 < dim_qk;
            *reinterpret_cast<uint4 *>(shared.q + swizzled_index<chunks_qk * 64>(row, part)) =
                exists ? *reinterpret_cast<const uint4 *>(from + part * 8) : uint4{};
        }
        __syncthreads();
    }
}

/* ---- A tile of keys ---------------------------------------------------------------------------------------------
 *
 * Sums of a product: lane l has rows l / 4 and 8 below of sixteen keys or columns, and packed rows 2 (l % 4) and the
 * next of eight: sum i belongs to key or column l / 4 + i / 2 * 8 and row i % 2 of the lane's two. */

typedef float tile_scores[steps_k][OCTETS][4];
typedef unsigned tile_weights[steps_k][OCTETS][2];

/* What a warp has of a job's rows. */
struct warp_state {
    float o[stripes][OCTETS][4];
    float maximum[rows_own], sum[rows_own]; /* in units of log2; the sum is the lane's share */
};

/* Where sixteen columns of sixteen rows of a tile in chunks are. */
ATTUNE_INLINE unsigned tile_operand(unsigned lane, int down, int step)
{
    return (lane ^ (unsigned)(2 * step % 8 * 16)) + (unsigned)(2 * step / 8) * chunk_bytes + (unsigned)down * 16 * LINE;
}

/* For the operand whose rows are the tile's, and for the one whose rows are its columns; of two octets of queries. */
ATTUNE_INLINE unsigned lane_of_rows(unsigned tile)
{
    return tile + (unsigned)(lane_of() % 16) * LINE + (unsigned)((lane_of() & 7) ^ (lane_of() / 16)) * 16;
}

ATTUNE_INLINE unsigned lane_of_columns(unsigned tile)
{
    return tile + (unsigned)(lane_of() % 8 + lane_of() / 16 * 8) * LINE +
           (unsigned)((lane_of() & 7) ^ (lane_of() / 8 % 2)) * 16;
}

ATTUNE_INLINE void multiply_keys(const Shared &shared, unsigned stage, const queries &q, tile_scores &s)
{
    const unsigned k = lane_of_rows(stage);
    unsigned rows = 0;
    if constexpr (!Q_REGISTERS) {
        rows = lane_columns<chunks_qk * 64>(shared.q, 0, lane_of());
    }
#pragma unroll
    for (int i = 0; i < steps_k * OCTETS * 4; ++i) {
        s[i / (OCTETS * 4)][i / 4 % OCTETS][i % 4] = 0;
    }
#pragma unroll
    for (int step = 0; step < steps_qk; ++step) {
        unsigned b[(OCTETS + 1) / 2][4];
#pragma unroll
        for (int two = 0; two < (OCTETS + 1) / 2; ++two) {
            if constexpr (Q_REGISTERS) {
                b[two][0] = q.b[step][0];
                b[two][1] = q.b[step][1];
            } else {
                load_operand<chunks_qk * 64>(b[two], rows, two, step);
            }
        }
#pragma unroll
        for (int n = 0; n < steps_k; ++n) {
            unsigned a[4];
            ptx_ldmatrix_x4(a, tile_operand(k, n, step));
#pragma unroll
            for (int octet = 0; octet < OCTETS; ++octet) {
                const unsigned own[2] = {b[octet / 2][octet % 2 * 2], b[octet / 2][octet % 2 * 2 + 1]};
                ptx_mma_m16n8k16(s[n][octet], a, own);
            }
        }
    }
}

/* Products become scores, in units of log2. */
ATTUNE_INLINE void finish_scores(const view &v, int key, float factor, float inner, tile_scores &s)
{
    const bool masked = needs_mask(v.all_see.first, v.all_see.end, key, TILE);
    const int own = key + lane_of() / 4;
#pragma unroll
    for (int n = 0; n < steps_k; ++n) {
#pragma unroll
        for (int octet = 0; octet < OCTETS; ++octet) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float &x = s[n][octet][i];
                const int row = octet * 2 + i % 2, at = own + n * 16 + i / 2 * 8;
                x = shape_score_fast(x, inner) * factor;
                if constexpr (ATTUNE_HAS_ALIBI) {
                    x = fmaf(-v.slope[row], fabsf(v.position[row] - (float)at), x);
                }
                if (masked) {
                    x = row_sees(v, row, at) ? x : negative_infinity();
                }
            }
        }
    }
}

/* Over the lanes that have the same rows. */
ATTUNE_INLINE float rows_max(float x)
{
#pragma unroll
    for (int step = 4; step < 32; step *= 2) {
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, step));
    }
    return x;
}

ATTUNE_INLINE float rows_sum(float x)
{
#pragma unroll
    for (int step = 4; step < 32; step *= 2) {
        x += __shfl_xor_sync(0xffffffff, x, step);
    }
    return x;
}

/* Moves the maxima of rows that have passed theirs by LAZY; what was summed before shrinks. */
ATTUNE_INLINE void move_maxima(const float (&largest)[rows_own], warp_state &state)
{
    float factor[rows_own];
#pragma unroll
    for (int i = 0; i < rows_own; ++i) {
        const float most = rows_max(largest[i]), maximum = most > state.maximum[i] + LAZY ? most : state.maximum[i];
        factor[i] = ptx_ex2_approx_ftz_f32(state.maximum[i] - subtrahend(maximum));
        state.maximum[i] = maximum;
        state.sum[i] *= factor[i];
    }
#pragma unroll
    for (int i = 0; i < stripes * OCTETS * 4; ++i) {
        state.o[i / (OCTETS * 4)][i / 4 % OCTETS][i % 4] *= factor[i / 4 % OCTETS * 2 + i % 2];
    }
}

/* Eight keys by eight rows become eight rows by eight keys. */
ATTUNE_INLINE unsigned turn(unsigned two)
{
    unsigned turned;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(two));
    return turned;
}

/* Scores become weights, as an operand. */
ATTUNE_INLINE void weigh(const tile_scores &s, warp_state &state, tile_weights &w)
{
    float largest[rows_own];
    bool moves = false;
#pragma unroll
    for (int i = 0; i < rows_own; ++i) {
        largest[i] = fmaxf(s[0][i / 2][i % 2], s[0][i / 2][i % 2 + 2]);
#pragma unroll
        for (int n = 1; n < steps_k; ++n) {
            largest[i] = fmaxf(largest[i], fmaxf(s[n][i / 2][i % 2], s[n][i / 2][i % 2 + 2]));
        }
        moves |= largest[i] > state.maximum[i] + LAZY;
    }
    if (__any_sync(0xffffffff, moves)) {
        move_maxima(largest, state);
    }
#pragma unroll
    for (int n = 0; n < steps_k; ++n) {
#pragma unroll
        for (int octet = 0; octet < OCTETS; ++octet) {
            float p[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = octet * 2 + i % 2;
                p[i] = ptx_ex2_approx_ftz_f32(s[n][octet][i] - subtrahend(state.maximum[row]));
                state.sum[row] += p[i];
            }
            w[n][octet][0] = turn(pack_two(p[0], p[1]));
            w[n][octet][1] = turn(pack_two(p[2], p[3]));
        }
    }
}

/* Zeros in place of values that no row of the job sees. */
ATTUNE_INLINE void clean_values(const view &v, int key, unsigned char *tile)
{
    if (key >= v.j.keys.first && key + TILE <= v.j.keys.end) {
        return;
    }
    for (int i = lane_of(); i < TILE * chunks_v * 8; i += 32) {
        const int row = i / 8 % TILE;
        if (key + row < v.j.keys.first || key + row >= v.j.keys.end) {
            *reinterpret_cast<uint4 *>(tile + i * 16) = uint4{};
        }
    }
    ptx_fence_proxy_async_shared(); /* the copy that follows comes after these */
    __syncwarp();
}

ATTUNE_INLINE void add_values(unsigned tile, const tile_weights &w, warp_state &state)
{
    const unsigned v = lane_of_columns(tile);
#pragma unroll
    for (int n = 0; n < steps_k; ++n) {
#pragma unroll
        for (int stripe = 0; stripe < stripes; ++stripe) {
            unsigned a[4];
            ptx_ldmatrix_x4_trans(a, tile_operand(v, n, stripe));
#pragma unroll
            for (int octet = 0; octet < OCTETS; ++octet) {
                ptx_mma_m16n8k16(state.o[stripe][octet], a, w[n][octet]);
            }
        }
    }
}

ATTUNE_INLINE bool holds_nonfinite(const unsigned char *tile)
{
    unsigned found = 0;
#pragma unroll 1
    for (int i = lane_of(); i < TILE * chunks_v * 8; i += 32) {
        const uint4 x = *reinterpret_cast<const uint4 *>(tile + i * 16);
        found |= nonfinite(x.x) | nonfinite(x.y) | nonfinite(x.z) | nonfinite(x.w);
    }
    return __any_sync(0xffffffff, found != 0);
}

/* 1 for each pair of a key and a row that sees it, as an operand. */
ATTUNE_INLINE void find_seen(const view &v, int key, tile_weights &seen)
{
    const int own = key + lane_of() / 4;
#pragma unroll
    for (int i = 0; i < steps_k * OCTETS * 2; ++i) {
        const int octet = i / 2 % OCTETS, at = own + i / (OCTETS * 2) * 16 + i % 2 * 8;
        const unsigned both = (row_sees(v, octet * 2, at) ? 0xffffu : 0) |
                              (row_sees(v, octet * 2 + 1, at) ? 0xffff0000u : 0);
        seen[i / (OCTETS * 2)][octet][i % 2] = turn(both & ones);
    }
}

/* The same as add_values where V holds what is not finite: it reaches the rows that see it, and no other. To each
 * output goes what is finite, and each kind of which its row sees one. */
ATTUNE_INLINE void add_values_seen(const view &view, int key, unsigned tile, const tile_weights &w, warp_state &state)
{
    const unsigned v = lane_of_columns(tile);
    tile_weights seen;
    find_seen(view, key, seen);
#pragma unroll
    for (int stripe = 0; stripe < stripes; ++stripe) {
#pragma unroll
        for (int n = 0; n < steps_k; ++n) {
            unsigned a[4], finite[4];
            ptx_ldmatrix_x4_trans(a, tile_operand(v, n, stripe));
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                finite[i] = a[i] & ~nonfinite(a[i]);
            }
#pragma unroll
            for (int octet = 0; octet < OCTETS; ++octet) {
                ptx_mma_m16n8k16(state.o[stripe][octet], finite, w[n][octet]);
            }
#pragma unroll 1
            for (int kind = 0; kind < 3; ++kind) {
                const float value = __int_as_float(kind == 2 ? 0x7fc00000 : kind == 1 ? 0xff800000 : 0x7f800000);
                const unsigned of_kind[4] = {nonfinite_of_kind(a[0], kind), nonfinite_of_kind(a[1], kind),
                                             nonfinite_of_kind(a[2], kind), nonfinite_of_kind(a[3], kind)};
#pragma unroll
                for (int octet = 0; octet < OCTETS; ++octet) {
                    float count[4] = {};
                    ptx_mma_m16n8k16(count, of_kind, seen[n][octet]);
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        float &o = state.o[stripe][octet][i];
                        o = count[i] > 0 ? o + value : o;
                    }
                }
            }
        }
    }
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
        multiply_keys(shared, stage, q, s);
        finish_scores(v, key, factor, inner, s);
        weigh(s, state, w);
        if (ROWS_DIFFER && needs_mask(v.all_see.first, v.all_see.end, key, TILE) && holds_nonfinite(values)) {
            add_values_seen(v, key, stage + bytes_k, w, state);
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
ATTUNE_INLINE void join_slices(Shared &shared, const warp_state &state, const element_place &at, own_part &span)
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
        __syncthreads();
        join_slices<slice + 1>(shared, state, at, span);
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

/* A job's rows are done. */
ATTUNE_INLINE void store(const attune_args &args, const job &j, const element_place &at, own_part &all)
{
    const sequence of = sequence_of(args, j.batch);
    const packed_row r = packed_row_of(args, j, of, at.row);
    if (!r.exists) {
        return;
    }
    partial_take_sink(args, r.head, all);
    const float normaliser = online_normaliser(all.sum);
    element *o = output_of(args, of, r);
#pragma unroll
    for (int i = 0; i < slices; ++i) {
        const int column = i * SLICE + at.column;
        if (column < dim_v) {
            *reinterpret_cast<unsigned *>(o + column) =
                pack_two(all.o[2 * i] * normaliser, all.o[2 * i + 1] * normaliser);
        }
    }
    if (at.column == 0) {
        store_row_lse(args, of, r, all.maximum, all.sum);
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

/* The block's units, one after the other. */
ATTUNE_INLINE void visit_units(const attune_args &args, const units &all, cursor &c, int begin, Shared &shared)
{
    const records kept = find_records(args);
    record *own = kept.first + (int)blockIdx.x * kept.of_block;
    const element_place at = place_of_thread();
    reader r = {0, 0};
    queries q;
    view v;
    v.j.end = begin; /* none yet */
    bool whole = false;
#pragma unroll 1
    for (int unit = begin; unit < c.end; ++unit) {
        if (unit >= v.j.end) {
            v = view_of(args, job_with(args, all, unit));
            load_queries(args, v.j, shared, q);
            keep_nothing(shared);
            whole = unit == v.j.begin;
        }
        const int span = span_of(v.j, unit);
        warp_state state;
        clear_state(state);
        visit_span(args, all, v, span, q, c, r, shared, state);
        own_part part;
        stage_state(shared, state);
        join_slices<0>(shared, state, at, part);
        if (!whole) {
            leave(own[unit - begin], at, part);
        } else {
            keep_span(shared, part, span);
            if (unit + 1 == v.j.end) {
                own_part spans = kept_part(shared, GROUPS);
                partial_join(spans, kept_part(shared, OPEN_GROUP));
                store(args, v.j, at, spans);
            }
        }
    }
    if (whole && c.end < v.j.end) {
        leave(own[kept.of_block - 2], at, kept_part(shared, GROUPS));
        leave(own[kept.of_block - 1], at, kept_part(shared, OPEN_GROUP));
    }
}

extern "C" __global__ void __launch_bounds__(threads, BLOCKS) fwd_decode(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    cursor c;
    c.own = box_of(args, lane_of());
    if (BOXES && lane_of() < boxes) {
        ptx_prefetch_tensormap(c.own.map);
    }
    init_ring(shared);
    ptx_griddepcontrol_wait();
    ptx_griddepcontrol_launch_dependents();
    const units all = find_units<threads>(args, reinterpret_cast<int *>(memory + sizeof(Shared)), shared.sums);
    const int begin = block_begin(all, (int)blockIdx.x);
    c.end = block_begin(all, (int)blockIdx.x + 1);
    if (begin >= c.end) {
        return;
    }
    c.stage = 0;
    begin_job(args, all, c, begin);
#pragma unroll 1
    for (int i = 0; i < STAGES; ++i) {
        copy_tile(args, all, c, shared);
    }
    visit_units(args, all, c, begin, shared);
}

extern "C" __global__ void __launch_bounds__(join_threads) fwd_decode_join(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(16) unsigned char memory[];
    join_torn(args, *reinterpret_cast<Joint *>(memory), reinterpret_cast<int *>(memory + sizeof(Joint)));
}
