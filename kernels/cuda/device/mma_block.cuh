/* A block of mma: what it holds, its rows and its threads' places, and its copies. The parameters are that kernel's. */
#ifndef DEVICE_MMA_BLOCK_CUH
#define DEVICE_MMA_BLOCK_CUH

#include "device/key_loop.cuh"
#include "device/pages.cuh"
#include "device/pairs.cuh"
#include "device/rows.cuh"
#include "device/swizzle.cuh"

constexpr int dim_qk = ATTUNE_HEAD_DIM_QK, dim_v = ATTUNE_HEAD_DIM_V;
constexpr int WARP_ROWS = STRIPS * 16, BLOCK_M = WARPS * WARP_ROWS;
constexpr int pitch_qk = swizzled_pitch<dim_qk>, pitch_v = swizzled_pitch<dim_v>;
constexpr int steps_qk = (dim_qk + 15) / 16, steps_pv = BLOCK_N / 16, columns_o = (dim_v + 15) / 16;
constexpr int scores = BLOCK_N / 2, outputs = columns_o * 8; /* of a strip, in a lane */
constexpr int split_threads = WARPS * 32;
constexpr int LAZY = 8;
/* Where some step of a tile's values is left out if no row of the warp sees its keys. */
enum { TRIM = AHEAD ? 0 : BEGINS_MOVE ? dim_v > 64 : ENDS_MOVE };
/* Where registers are short the block's tile lies in shared memory. NOTE: elsewhere that costs 3 to 6 %, since a tile's
 * copies begin with its reads. */
enum {
    SHARES_TILE =
        ATTUNE_HAS_SOFTCAP || ATTUNE_HAS_DRAFT || WINDOWED ||
        (CAUSAL && (AHEAD || STAGES_PAIRS || ATTUNE_HAS_VARLEN || ATTUNE_HAS_STRICT || ATTUNE_OFFSET_KIND != 0))
};

/* Elsewhere a tile of packed sequences, which takes long to find, is kept there for the end. */
enum { KEEPS_TILE = SHARES_TILE || (ATTUNE_HAS_VARLEN && !CHUNK) };
/* With AHEAD, and tiles of fewer keys than the block has rows, a warp leaves out the last tiles, of which its rows see
 * nothing, under a causal mask. NOTE: with windows, at both ends, that gains nothing. */
enum { OWN_ENDS = AHEAD && BLOCK_N < BLOCK_M && ENDS_MOVE && !BEGINS_MOVE && !ATTUNE_HAS_SOFTCAP };

/* Whether the next tile's bias and mask are asked for as soon as this one's have joined the scores, and not when
 * weights are packed. NOTE: 1.09 to 1.12 of the rate; but elsewhere the compiler spills. */
enum { PAIRS_EARLY = BLOCK_N <= 32 || dim_v <= 64 || SHARES_TILE };

/* Strip t of warp w is the block's sixteen rows from t x STRIP_STEP + w x WARP_STEP on. With AHEAD, where a tile takes
 * all warps alike, a warp's strips lie far apart if rows see different keys, so that all warps have masks at once. */
enum {
    SPREADS = AHEAD && !OWN_ENDS && (BEGINS_MOVE || ENDS_MOVE),
    STRIP_STEP = SPREADS ? WARPS * 16 : 16,
    WARP_STEP = SPREADS ? 16 : WARP_ROWS
};

/* With a window, first tiles of keys and last ones, as many as the block has rows, are visited in pairs (mma_ends.cuh):
 * a row sees about as many keys of the one as it does not see of the other. NOTE: of packed sequences, and from sm_100
 * on, the compiler spills. */
enum {
    FOLDS = SPREADS && STRIPS == 2 && SPLITS == 1 && BEGINS_MOVE && ENDS_MOVE && !PAGED && !ATTUNE_HAS_SOFTCAP &&
            !BY_PAIRS && !ATTUNE_HAS_VARLEN && (BLOCK_M == BLOCK_N || STRIP_STEP == BLOCK_N) && ATTUNE_ARCH < 100,
    PAIRS = BLOCK_M / BLOCK_N
};

/* With AHEAD, where all rows see all keys of packed sequences: those behind the last whole tile are visited behind the
 * loop, TAIL_STEPS x 16 at a time, so that few products are made of keys that are not there. NOTE: with tiles of 64
 * keys 0.985 of the rate. */
enum {
    TAILS = AHEAD && ATTUNE_HAS_VARLEN && SPLITS == 1 && BLOCK_N > 64 && !BEGINS_MOVE && !ENDS_MOVE && !BY_PAIRS &&
            !ATTUNE_HAS_SOFTCAP,
    TAIL_STEPS = 2
};

/* Whether each warp finds the block's tile for itself, though it is shared: so that none waits for the first. */
enum { ALL_FIND = FOLDS };

/* The block's rows, and its way through the keys. */
struct tile {
    work w;
    sequence at;
    int first_row, end_row; /* first_row >= end_row: there is nothing to work out */
    int heads;              /* with CHUNK: that share the rows; w.head is the first */
    key_loop keys;
    key_range sees;  /* keys that the first row sees, whatever keys there are; row r further on those r further on */
    key_range whole; /* of whole tiles that all rows see */
    int folded;      /* keys from each of the first tiles to its last one, if they are visited at once, else 0 */
};

struct Ring {
    element k[STAGES][BLOCK_N * pitch_qk];
    element v[STAGES][BLOCK_N * pitch_v];
};
struct Shared {
    element q[BLOCK_M * pitch_qk];
    Ring ring[SPLITS];
};
/* Behind them, for each warp, its rows of bias and mask. */
using pairs_of_warp = pair_tile<WARP_ROWS, BLOCK_N>;
constexpr int pair_bytes = STAGES_PAIRS ? SPLITS * WARPS * (int)sizeof(pairs_of_warp) : 0;
/* And the tile. */
constexpr int tile_bytes = KEEPS_TILE ? 256 : 0;
/* And for each thread where it goes on copying, and to where in a tile: COPY_ROWS rows a step, of 16 bytes each. */
enum {
    COPY_ROWS = split_threads / (dim_qk / 8),
    KEEPS_PLACES = AHEAD && !PAGED && !(ATTUNE_HAS_ALIBI && ENDS_MOVE) && dim_qk == dim_v &&
                   split_threads % (dim_qk / 8) == 0 && COPY_ROWS % 8 == 0 && BLOCK_N % COPY_ROWS == 0
};
constexpr int place_bytes = KEEPS_PLACES ? ATTUNE_THREADS * 32 : 0;
static_assert(sizeof(tile) <= 256, "a tile's room");
static_assert(sizeof(Shared) + pair_bytes + tile_bytes + place_bytes == ATTUNE_SMEM_BYTES,
              "the descriptor predicts another amount of shared memory");
static_assert(split_threads * SPLITS == ATTUNE_THREADS, "the descriptor predicts another number of threads");
static_assert(!AHEAD || (STAGES == 2 && !HIDES_ANYWHERE && !PACK), "keys of two tiles, and rows that see ranges");
static_assert(!STAGES_PAIRS || STAGES == 2, "one tile of them ahead");
static_assert(BLOCK_N <= 128, "a bit for each score of a strip");
static_assert(dim_qk % 8 == 0 && dim_v % 8 == 0 && BLOCK_N % 16 == 0, "whole parts and operands");

/* A warp's place in the block, and a lane's in the warp. */
struct place {
    int split, thread; /* of the split */
    int warp, lane;    /* warp: of the split */
    int row;           /* of the lane's first row, in the sequence */
};

ATTUNE_INLINE place place_of(unsigned thread, int first_row)
{
    place p;
    p.split = SPLITS == 1 ? 0 : (int)thread / split_threads;
    p.thread = FOLDS ? (int)(thread % split_threads) : (int)thread % split_threads; /* NOTE: elsewhere some spill */
    p.warp = p.thread / 32;
    p.lane = p.thread % 32;
    p.row = first_row + p.warp * WARP_STEP + p.lane / 4;
    return p;
}

/* Of a strip: O, and the softmax so far. */
struct strip_state {
    float o[outputs];
    row_pair rows;
};

/* ---- Copies ----------------------------------------------------------------------------------------------------- */

/* Columns of K and Q beyond the head dim, up to whole operands, are zeros: no copy writes them. */
template <int rows> ATTUNE_INLINE void pad_columns(element *tile, int thread, int threads)
{
    if constexpr (dim_qk % 16 != 0) {
        for (int row = thread; row < rows; row += threads) {
            *reinterpret_cast<uint4 *>(tile + swizzled_index<pitch_qk>(row, dim_qk / 8)) = uint4{};
        }
    }
}

/* A tile of keys or values out of pages: of one, or of one for each row. Entries are looked up for some rows at a time,
 * so that one does not wait for the other. */
template <int role, int dim> ATTUNE_INLINE void copy_pages(const attune_args &args, element *to, const tile &t, int key)
{
    constexpr int parts = dim / 8, of_part = 8, batch = 2;
    const int thread = (int)ptx_mov_tid_x() % split_threads; /* see there: registers */
    const kv_rows<element> rows =
        kv_rows_of<role, element>(args, t.at, t.w.batch, kv_head(args, t.w.head), t.keys.first, t.keys.end);
    if constexpr (PAGE_ROWS % BLOCK_N == 0) {
        const element *first =
            kv_row(args, rows, max(key, rows.first)) - (attune_i64)max(key, rows.first) * rows.stride;
        swizzled_copy<BLOCK_N, dim, split_threads>(to, first, rows.stride, key, rows.end, thread);
    } else {
        const unsigned base = ptx_cvta_shared(to);
#pragma unroll 1
        for (int i = thread; i < BLOCK_N * parts; i += batch * split_threads) {
            const element *from[batch];
            bool exists[batch];
#pragma unroll
            for (int j = 0; j < batch; ++j) {
                const int at = i + j * split_threads, row = key + at / parts;
                exists[j] = at < BLOCK_N * parts && kv_may_read(rows, row);
                from[j] = exists[j] ? kv_row(args, rows, row) + at % parts * of_part : rows.origin;
            }
#pragma unroll
            for (int j = 0; j < batch; ++j) {
                const int at = i + j * split_threads;
                if (at < BLOCK_N * parts) {
                    ptx_cp_async_cg_shared_global_16(
                        base + (unsigned)(2 * swizzled_index<swizzled_pitch<dim>>(at / parts, at % parts)), from[j],
                        exists[j] ? 16 : 0);
                }
            }
        }
    }
}

/* The thread's number in the split. NOTE: read anew for registers; with a bias alone there are fewer that way. */
ATTUNE_INLINE int copying_thread(const place &p)
{
    return (int)ptx_mov_tid_x() % split_threads;
}

/* Starts copying the tile of keys, or values, from `key` on, if there is one, or it is `there` in any case. */
ATTUNE_INLINE void copy_keys(const attune_args &args, element *to, const tile &t, const place &p, int key,
                             bool there = false)
{
    if (there || key < t.keys.end) {
        if constexpr (PAGED) {
            copy_pages<ATTUNE_K, dim_qk>(args, to, t, key);
        } else {
            swizzled_copy<BLOCK_N, dim_qk, split_threads>(to, t.keys.k, t.keys.stride_k, key, t.keys.kv_end,
                                                          copying_thread(p));
        }
    }
}

ATTUNE_INLINE void copy_values(const attune_args &args, element *to, const tile &t, const place &p, int key,
                               bool there = false)
{
    if (there || key < t.keys.end) {
        if constexpr (PAGED) {
            copy_pages<ATTUNE_V, dim_v>(args, to, t, key);
        } else {
            swizzled_copy<BLOCK_N, dim_v, split_threads>(to, t.keys.v, t.keys.stride_v, key, t.keys.kv_end,
                                                         copying_thread(p));
        }
    }
}

ATTUNE_INLINE void copy_tile(const attune_args &args, Ring &ring, int stage, const tile &t, const place &p, int key)
{
    copy_keys(args, ring.k[stage], t, p, key);
    copy_values(args, ring.v[stage], t, p, key);
    ptx_cp_async_commit_group();
}

ATTUNE_INLINE pairs_of_warp &find_pairs(Shared &shared, const place &p)
{
    return reinterpret_cast<pairs_of_warp *>(&shared + 1)[p.split * WARPS + p.warp];
}

/* Starts copying the warp's bias and mask of the tile of keys from `key` on, if there is one: what is there of another
 * all its lanes are done with. */
ATTUNE_INLINE void copy_pairs_of(const attune_args &args, pairs_of_warp &to, const tile &t, const place &p, int key)
{
    if constexpr (STAGES_PAIRS) {
        if (key < t.keys.end) {
            const unsigned thread = ptx_mov_tid_x();
            copy_pair_tile(to, args, t.at, t.w, t.first_row + (int)(thread / 32 % WARPS) * WARP_ROWS, key, t.keys.end,
                           (int)(thread % 32));
        }
    }
}

/* The same of the tile behind that from `key` on, once that one's are used. */
ATTUNE_INLINE void copy_next_pairs(const attune_args &args, pairs_of_warp &to, const tile &t, const place &p, int key)
{
    if constexpr (STAGES_PAIRS) {
        __syncwarp();
        copy_pairs_of(args, to, t, p, key + SPLITS * BLOCK_N);
        ptx_cp_async_commit_group();
    }
}

/* What comes behind the barrier of a tile whose keys are done with, keys being a tile ahead of values. */
ATTUNE_INLINE void copy_ahead(const attune_args &args, Ring &ring, int stage, const tile &t, const place &p, int key)
{
    constexpr int step = SPLITS * BLOCK_N;
    copy_keys(args, ring.k[stage], t, p, key + 2 * step);
    copy_values(args, ring.v[stage ^ 1], t, p, key + step);
    ptx_cp_async_commit_group();
}

/* The thread's place among those kept in shared memory: of addresses, 16 bytes; what lies in a tile, as far behind. */
ATTUNE_INLINE unsigned kept_place(Shared &shared)
{
    return ptx_cvta_shared(&shared) + (unsigned)sizeof(Shared) + pair_bytes + tile_bytes + threadIdx.x * 16;
}

ATTUNE_INLINE void keep_addresses(unsigned kept, const element *k, const element *v)
{
    const attune_u64 of_k = reinterpret_cast<attune_u64>(k), of_v = reinterpret_cast<attune_u64>(v);
    ptx_st_shared_v2_b32(kept, (unsigned)of_k, (unsigned)(of_k >> 32));
    ptx_st_shared_v2_b32(kept + 8, (unsigned)of_v, (unsigned)(of_v >> 32));
}

/* What the thread copies of a tile: from where, and, in bytes, to where in a tile. */
struct spot {
    const element *k, *v;
    unsigned at;
};

/* Whether a block's first tiles are copied by these, too. NOTE: with OWN_ENDS 0.97 of the rate. */
enum { FILLS_BY_PLACE = KEEPS_PLACES && !OWN_ENDS };

/* Of the tile of keys from key_k on, and of that of values from key_v on. */
ATTUNE_INLINE spot spot_of(const tile &t, const place &p, int key_k, int key_v)
{
    constexpr int parts = dim_qk / 8;
    const int row = (int)((unsigned)p.thread / parts), part = (int)((unsigned)p.thread % parts);
    return spot{t.keys.k + (attune_i64)(key_k + row) * t.keys.stride_k + part * 8,
                t.keys.v + (attune_i64)(key_v + row) * t.keys.stride_v + part * 8,
                (unsigned)(2 * swizzled_index<pitch_qk>(row, part))};
}

/* Keeps where the first copy_on begins. */
ATTUNE_INLINE void keep_place(unsigned kept, const spot &from)
{
    keep_addresses(kept, from.k, from.v);
    ptx_st_shared_b32(kept + ATTUNE_THREADS * 16, from.at);
}

/* That which is kept: of keys two tiles further than of values. */
ATTUNE_INLINE spot kept_spot(unsigned kept)
{
    const uint4 from = ptx_ld_shared_v4_b32(kept);
    return spot{reinterpret_cast<const element *>(from.x | (attune_u64)from.y << 32),
                reinterpret_cast<const element *>(from.z | (attune_u64)from.w << 32),
                ptx_ld_shared_b32(kept + ATTUNE_THREADS * 16)};
}

/* Rows of a whole tile, from the thread's first on. */
ATTUNE_INLINE void copy_rows(unsigned to, const element *from, attune_i64 stride)
{
#pragma unroll
    for (int i = 0; i < BLOCK_N; i += COPY_ROWS) {
        ptx_cp_async_cg_shared_global_16(to + (unsigned)(i * pitch_qk * 2), from + i * stride, 16);
    }
}

/* What the loop asks of the tile for each tile of keys. ALIKE: numbers that a warp's lanes have alike, and the compiler
 * knows it, so that they take none of their registers; read from shared memory each time, they are waited for. NOTE:
 * only where that is faster, windows 1.02, but under a causal mask at head dim 128 0.97, and where nothing spills. */
enum { ALIKE = SHARES_TILE && !OWN_ENDS && !ATTUNE_HAS_SOFTCAP && (ATTUNE_ARCH < 100 || dim_v <= 64) };
struct loop_ends {
    int end, kv_end; /* of the tile's keys, and of all */
    key_range whole;
};

ATTUNE_INLINE int alike(int x)
{
    return ALIKE ? __shfl_sync(0xffffffff, x, 0) : x;
}

ATTUNE_INLINE loop_ends loop_ends_of(const tile &t)
{
    return loop_ends{alike(t.keys.end), alike(t.keys.kv_end), {alike(t.whole.first), alike(t.whole.end)}};
}

/* The same as copy_ahead. NOTE: with addresses worked out for each tile copies took an eighth of the loop. */
ATTUNE_INLINE void copy_on(const attune_args &args, Ring &ring, int stage, const tile &t, const loop_ends &ends,
                           const place &p, int key, unsigned kept)
{
    constexpr int step = SPLITS * BLOCK_N;
    const int next = key + 2 * step;
    const loop_ends now = ALIKE ? ends : loop_ends_of(t);
    if (!KEEPS_PLACES || next >= now.end || next + BLOCK_N > now.kv_end) {
        copy_ahead(args, ring, stage, t, p, key);
        return;
    }
    const spot from = kept_spot(kept);
    const attune_i64 stride_k = args.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_SEQ];
    const attune_i64 stride_v = args.tensor[ATTUNE_V].stride[ATTUNE_STRIDE_SEQ];
    copy_rows(ptx_cvta_shared(ring.k[stage]) + from.at, from.k, stride_k);
    copy_rows(ptx_cvta_shared(ring.v[stage ^ 1]) + from.at, from.v, stride_v);
    keep_addresses(kept, from.k + step * stride_k, from.v + step * stride_v);
    ptx_cp_async_commit_group();
}

/* The tile of keys, or values, that is `tiles` behind the one where `from` is, if it is whole; else as any is copied.
 */
ATTUNE_INLINE void copy_keys_from(const attune_args &args, element *to, const tile &t, const loop_ends &ends,
                                  const place &p, int key, const spot &from, int tiles, bool there = false)
{
    const attune_i64 stride = args.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_SEQ];
    if (FILLS_BY_PLACE && (there || key < ends.end) && key + BLOCK_N <= ends.kv_end) {
        copy_rows(ptx_cvta_shared(to) + from.at, from.k + tiles * BLOCK_N * stride, stride);
    } else {
        copy_keys(args, to, t, p, key, there);
    }
}

ATTUNE_INLINE void copy_values_from(const attune_args &args, element *to, const tile &t, const loop_ends &ends,
                                    const place &p, int key, const spot &from, int tiles, bool there = false)
{
    const attune_i64 stride = args.tensor[ATTUNE_V].stride[ATTUNE_STRIDE_SEQ];
    if (FILLS_BY_PLACE && (there || key < ends.end) && key + BLOCK_N <= ends.kv_end) {
        copy_rows(ptx_cvta_shared(to) + from.at, from.v + tiles * BLOCK_N * stride, stride);
    } else {
        copy_values(args, to, t, p, key, there);
    }
}

/* What the loop over the keys finds under way, keys being ahead of values, and the places that it goes on from. */
ATTUNE_INLINE void fill_ahead(const attune_args &args, Ring &ring, const tile &t, const place &p, unsigned kept)
{
    constexpr int step = SPLITS * BLOCK_N;
    const int first = t.keys.begin + p.split * BLOCK_N;
    const loop_ends ends = {t.keys.end, t.keys.kv_end, {0, 0}};
    spot from = {nullptr, nullptr, 0};
    if constexpr (FILLS_BY_PLACE) {
        const int behind = step * (FOLDS && t.folded > 0 ? 1 + PAIRS : 1);
        from = spot_of(t, p, first, first);
        keep_place(kept, spot{from.k + (behind + step) * args.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_SEQ],
                              from.v + behind * args.tensor[ATTUNE_V].stride[ATTUNE_STRIDE_SEQ], from.at});
    }
    copy_keys_from(args, ring.k[0], t, ends, p, first, from, 0);
    if (FOLDS && t.folded > 0) {
        copy_keys_from(args, ring.k[1], t, ends, p, first + t.folded, from, t.folded / BLOCK_N, true);
        ptx_cp_async_commit_group();
        copy_values_from(args, ring.v[0], t, ends, p, first, from, 0);
        copy_values_from(args, ring.v[1], t, ends, p, first + t.folded, from, t.folded / BLOCK_N, true);
        ptx_cp_async_commit_group();
        return;
    }
    ptx_cp_async_commit_group();
    copy_keys_from(args, ring.k[1], t, ends, p, first + step, from, SPLITS);
    copy_values_from(args, ring.v[0], t, ends, p, first, from, 0);
    ptx_cp_async_commit_group();
}

/* The same with tiles of keys and values one by one, or one stage. */
ATTUNE_INLINE void fill_ring(const attune_args &args, Ring &ring, const tile &t, const place &p)
{
    const int first = t.keys.begin + p.split * BLOCK_N, step = SPLITS * BLOCK_N;
    if constexpr (STAGES == 1) {
        copy_keys(args, ring.k[0], t, p, first);
        ptx_cp_async_commit_group();
    } else {
#pragma unroll
        for (int i = 0; i < STAGES - 1; ++i) {
            copy_tile(args, ring, i, t, p, first + i * step);
        }
    }
}

#endif
