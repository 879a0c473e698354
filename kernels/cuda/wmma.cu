/* wmma: Q K^T and P V on tensor cores through wmma fragments. Each warp owns WARP_ROWS query rows: its logits go
 * through its own strip of shared memory, where lanes know which row and key they hold, come back as P, and O stays in
 * fragments. Rows are rescaled without knowing which lane holds what: a fragment whose columns are all the row factors
 * is loaded and multiplied in.
 *
 * WARPS warps cover the block's rows; SPLITS times as many share its keys, every SPLITS-th tile each, and add up their
 * O at the end. Tiles are copied by all of the split's warps, STAGES of them under way; with one, K of the next tile
 * travels under the softmax and P V, V under the next Q K^T.
 *
 * With LAZY a maximum stays while logits exceed it by no more than that, so that most tiles multiply no row of O.
 *
 * What it taught: with the products on tensor cores the way of S and P through shared memory is what remains; and one
 * opaque layout is no reason to give up registers for O. Where rows are few, time is the length of one chain, copy,
 * product, strip, softmax, strip, product, a tile: splits run chains side by side. TENSOR_CORES 0 computes the same in
 * scalar arithmetic, for telling mistakes of the tiling from mistakes of the fragments.
 *
 * Declared: a non-finite value may reach rows of its tile that do not see it (0 x NaN). Where a mask, bias,
 * window or offset can hide a key from all rows of the block, its value is overwritten by zeros. */
#ifndef FWD_WMMA
#define FWD_WMMA fwd_wmma
#endif
#ifndef LOGITS_GIVEN
#define LOGITS_GIVEN 0 /* 1: S = Q K^T lies in the workspace in fp32, rows padded to a multiple of 8 */
#endif
#if LOGITS_GIVEN
#define SPLITS 1
#define STAGES 1
#define LAZY 0
#endif
#include "device/fragment.cuh"
#include "device/key_loop.cuh"
#include "device/score.cuh"
#include "device/softmax.cuh"
#include "device/stage.cuh"
#include "device/tile.cuh"

constexpr int dim_qk = ATTUNE_HEAD_DIM_QK, dim_v = ATTUNE_HEAD_DIM_V;
constexpr int WARP_ROWS = FRAGMENT_M == 32 ? 32 : 16;
constexpr int BLOCK_M = WARPS * WARP_ROWS;
constexpr int lanes_row = 32 / WARP_ROWS;      /* lanes that share a row in the softmax */
constexpr int keys_lane = BLOCK_N / lanes_row; /* neighbouring keys of one lane */
constexpr int split_threads = WARPS * 32;
constexpr int strips = WARP_ROWS / FRAGMENT_M;
constexpr int fragments_s = BLOCK_N / FRAGMENT_N, fragments_o = dim_v / FRAGMENT_N;
/* Rows a multiple of 16 bytes, and an odd one: eight rows read side by side fall into different banks. */
constexpr int pitch_qk = dim_qk + 8, pitch_v = dim_v + 8;

#if ATTUNE_ACC16
typedef fp16 sum_type;
constexpr int pitch_s = BLOCK_N + 8;
constexpr int pitch_p = pitch_s;
#else
typedef float sum_type;
constexpr int pitch_s = BLOCK_N + 4;
constexpr int pitch_p = 2 * pitch_s;
#endif

struct Shared {
#if !LOGITS_GIVEN
    element q[BLOCK_M][pitch_qk];
    element k[SPLITS][STAGES][BLOCK_N][pitch_qk];
#endif
    element v[SPLITS][STAGES][BLOCK_N][pitch_v];
    sum_type s[SPLITS * WARPS][WARP_ROWS][pitch_s]; /* then P, then O on its way out */
    sum_type factor[SPLITS * WARPS][WARP_ROWS];
    online share[SPLITS][BLOCK_M]; /* of each row, at the end */
};
static_assert(sizeof(Shared) == ATTUNE_SMEM_BYTES, "the descriptor predicts another amount of shared memory");
static_assert(SPLITS * split_threads == ATTUNE_THREADS, "the descriptor predicts another number of threads");
static_assert(dim_qk % 16 == 0 && dim_v % FRAGMENT_N == 0 && BLOCK_N % FRAGMENT_N == 0, "whole fragments");

/* Steps of a product written out: all of them, but for scalar arithmetic, whose steps are long enough. */
constexpr int unrolled_steps = TENSOR_CORES ? 16 : 1;

/* What a warp carries from tile to tile. */
struct warp_state {
    accumulator o[strips][fragments_o];
    online soft; /* of the lane's row; the sum is the lane's share */
};

/* A warp's place in the block and the problem. */
struct warp_place {
    int warp, lane; /* the warp's strip of shared memory */
    int split;
    int strip_row; /* of the warp's rows in the block */
    int row, part; /* of this lane in the softmax: row of the strip, share of its keys */
    int first_row; /* of the warp, in the sequence */
};

#if LOGITS_GIVEN

/* Starts copying the warp's rows of S into its strip; zeros where there are none. */
ATTUNE_INLINE void copy_logits(const attune_args &args, const work &w, Shared &shared, const warp_place &p,
                               int first_key)
{
    constexpr int parts = BLOCK_N / 4;
    attune_i64 pitch = (args.seqlen_kv + 7) / 8 * 8;
    const float *rows = static_cast<const float *>(args.workspace) +
                        ((attune_i64)w.batch * args.heads_q + w.head) * args.seqlen_q * pitch;
    for (int i = p.lane; with_loading && i < WARP_ROWS * parts; i += 32) {
        int row = i / parts, key = i % parts * 4;
        bool exists = p.first_row + row < args.seqlen_q && first_key + key < pitch;
        const float *from = rows + (exists ? (p.first_row + row) * pitch + first_key + key : 0);
        ptx_cp_async_cg_shared_global_16(ptx_cvta_shared(&shared.s[p.warp][row][key]), from, exists ? 16 : 0);
    }
}

#else

ATTUNE_INLINE void logits_tile(Shared &shared, const warp_place &p, int stage)
{
#pragma unroll
    for (int i = 0; i < strips; ++i) {
        accumulator s[fragments_s];
#pragma unroll
        for (int n = 0; n < fragments_s; ++n) {
            fragment_clear(s[n]);
        }
#pragma unroll(unrolled_steps)
        for (int d = 0; d < dim_qk; d += FRAGMENT_K) {
            fragment_multiply<fragments_s, true>(s, place{&shared.q[p.strip_row + i * FRAGMENT_M][d], pitch_qk},
                                                 place{&shared.k[p.split][stage][0][d], pitch_qk},
                                                 FRAGMENT_N * pitch_qk);
        }
#pragma unroll
        for (int n = 0; n < fragments_s; ++n) {
            fragment_store(s[n], &shared.s[p.warp][i * FRAGMENT_M][n * FRAGMENT_N], pitch_s);
        }
    }
    __syncwarp();
}

#endif

/* ---- Keys that no row of the block sees ---- */

/* Of a lane's keys, a bit each: whether its row sees it. */
struct key_marks {
    unsigned word[(keys_lane + 31) / 32];
};

/* A warp's, over its rows: a word for every 32 keys of the tile. They lie where its row factors were, which nobody
 * needs until the split's next barrier. */
ATTUNE_INLINE unsigned *marks_of(Shared &shared, int warp)
{
    static_assert(BLOCK_N / 8 <= sizeof(Shared::factor[0]), "a bit for each key");
    return reinterpret_cast<unsigned *>(&shared.factor[warp][0]);
}

ATTUNE_INLINE void leave_marks(Shared &shared, const warp_place &p, const key_marks &seen)
{
#pragma unroll
    for (int i = 0; i < BLOCK_N / 32; ++i) {
        unsigned own;
        if constexpr (keys_lane < 32) {
            own = seen.word[0] << (p.part * keys_lane);
        } else {
            constexpr int words = keys_lane / 32;
            own = i / words == p.part ? seen.word[i % words] : 0;
        }
        unsigned any = __reduce_or_sync(0xffffffff, own);
        if (p.lane == 0) {
            marks_of(shared, p.warp)[i] = any;
        }
    }
}

/* Zeros in the values of keys that no row of the block sees, as the split's warps have left their marks. All of its
 * threads take part, V being there; when it returns, the zeros are, too. */
ATTUNE_INLINE void clean_values(Shared &shared, const warp_place &p, int stage)
{
    constexpr int words = BLOCK_N / 32, parts = dim_v / 8;
    unsigned seen[words] = {}, all = ~0u;
#pragma unroll
    for (int i = 0; i < words; ++i) {
#pragma unroll
        for (int warp = 0; warp < WARPS; ++warp) {
            seen[i] |= marks_of(shared, p.split * WARPS + warp)[i];
        }
        all &= seen[i];
    }
    if (all == ~0u) {
        return;
    }
    int thread = (int)threadIdx.x % split_threads;
#pragma unroll
    for (int i = 0; i < words; ++i) {
        for (int at = thread; at < 32 * parts; at += split_threads) {
            int key = at / parts;
            if ((seen[i] >> key & 1) == 0) {
                *reinterpret_cast<uint4 *>(&shared.v[p.split][stage][i * 32 + key][at % parts * 8]) = uint4{};
            }
        }
    }
    split_barrier<SPLITS, split_threads>(p.split);
}

/* ---- The softmax ---- */

/* Reads the lane's logits, in units of log2; -inf where hidden. Marks, if keys may be hidden anywhere, those seen. */
ATTUNE_INLINE void read_logits(const attune_args &args, const sequence &at, const work &w, const Shared &shared,
                               const warp_place &p, int first_key, bool masked, float (&s)[keys_lane], key_marks &marks)
{
    const sum_type *from = &shared.s[p.warp][p.row][p.part * keys_lane];
#pragma unroll
    for (int j = 0; j < keys_lane; ++j) {
        s[j] = to_float(from[j]);
    }
    int row = p.first_row + p.row;
    if (!masked && SCORES_ARE_SCALED && !HIDES_ANYWHERE) {
        float scale = score_factor(args);
#pragma unroll
        for (int j = 0; j < keys_lane; ++j) {
            s[j] *= scale;
        }
        return;
    }
    query_row query = query_row_of(args, at, w.batch, w.head, row);
#pragma unroll
    for (int j = 0; j < keys_lane; ++j) {
        int key = first_key + p.part * keys_lane + j;
        s[j] = visible_score(args, at, query, key, s[j]);
        if constexpr (HIDES_ANYWHERE) {
            marks.word[j / 32] |= (unsigned)sees(query, key) << j % 32;
        }
    }
}

/* The largest and sum over the lanes of a row. */
ATTUNE_INLINE float row_max(float x)
{
    return lanes_row == 2 ? fmaxf(x, __shfl_xor_sync(0xffffffff, x, WARP_ROWS % 32)) : x;
}

ATTUNE_INLINE float row_sum(float x)
{
    return lanes_row == 2 ? x + __shfl_xor_sync(0xffffffff, x, WARP_ROWS % 32) : x;
}

/* Multiplies the rows of O by each lane's factor for its row. */
ATTUNE_INLINE void scale_rows(Shared &shared, const warp_place &p, warp_state &state, float factor)
{
    if (p.part == 0) {
        shared.factor[p.warp][p.row] = from_float<sum_type>(factor);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < strips; ++i) {
        row_factors rows;
        fragment_load_factors(rows, &shared.factor[p.warp][i * FRAGMENT_M]);
#pragma unroll
        for (int n = 0; n < fragments_o; ++n) {
            fragment_scale(state.o[i][n], rows);
        }
    }
    __syncwarp();
}

/* Takes in the largest of the row's logits; returns the factor for what was summed before. Within LAZY of the maximum
 * so far they leave it where it is: the factor is then 1, no row of O is touched, and weights are at most 2^LAZY. */
ATTUNE_INLINE float raise_maximum(online *soft, float largest)
{
    if constexpr (LAZY > 0) {
        largest = largest > soft->maximum + LAZY ? largest : soft->maximum;
    }
    return online_raise(soft, largest);
}

/* The online softmax of the lane's logits; P goes where they were. */
ATTUNE_INLINE void softmax_tile(Shared &shared, const warp_place &p, warp_state &state, float (&s)[keys_lane])
{
    float largest = negative_infinity();
#pragma unroll
    for (int j = 0; j < keys_lane; j += 4) { /* by fours: in one chain each number waits for the one before */
        largest = fmaxf(largest, fmaxf(fmaxf(s[j], s[j + 1]), fmaxf(s[j + 2], s[j + 3])));
    }
    float factor = raise_maximum(&state.soft, row_max(largest));
    float subtract = subtrahend(state.soft.maximum);
    element *to = reinterpret_cast<element *>(&shared.s[p.warp][0][0]) + p.row * pitch_p + p.part * keys_lane;
    __syncwarp(); /* every lane has read its logits */
#pragma unroll
    for (int j = 0; j < keys_lane; j += 8) { /* 16 bytes at a time: rows side by side fall into different banks */
        float sums[4];
        unsigned pairs[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float a = ptx_ex2_approx_ftz_f32(s[j + 2 * i] - subtract);
            float b = ptx_ex2_approx_ftz_f32(s[j + 2 * i + 1] - subtract);
            sums[i] = a + b;
            pairs[i] = pack_two(a, b);
        }
        state.soft.sum += (sums[0] + sums[1]) + (sums[2] + sums[3]);
        *reinterpret_cast<uint4 *>(to + j) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
    if (__any_sync(0xffffffff, factor != 1.0f)) {
        scale_rows(shared, p, state, factor);
    }
    __syncwarp();
}

ATTUNE_INLINE void weigh_values(const Shared &shared, const warp_place &p, int stage, warp_state &state)
{
    const element *weights = reinterpret_cast<const element *>(&shared.s[p.warp][0][0]);
#pragma unroll
    for (int i = 0; i < strips; ++i) {
#pragma unroll(unrolled_steps)
        for (int n = 0; n < BLOCK_N; n += FRAGMENT_K) {
            fragment_multiply<fragments_o, false>(state.o[i], place{weights + i * FRAGMENT_M * pitch_p + n, pitch_p},
                                                  place{&shared.v[p.split][stage][n][0], pitch_v}, FRAGMENT_N);
        }
    }
    __syncwarp(); /* before the strip becomes logits again */
}

/* ---- Leaving ---- */

/* Who adds up and writes which rows: a warp its own, or, of splits, all threads all rows. */
constexpr int writers = SPLITS > 1 ? ATTUNE_THREADS : 32, written_rows = SPLITS > 1 ? BLOCK_M : WARP_ROWS;

ATTUNE_INLINE void writers_barrier()
{
    if constexpr (SPLITS > 1) {
        join_splits();
    } else {
        __syncwarp();
    }
}

/* The row's maximum and sum over all splits, and what each split's part of O is multiplied by. */
ATTUNE_INLINE online whole_row(const Shared &shared, int row, float (&factor)[SPLITS])
{
    online whole = {negative_infinity(), 0};
#pragma unroll
    for (int i = 0; i < SPLITS; ++i) {
        whole.maximum = fmaxf(whole.maximum, shared.share[i][row].maximum);
    }
#pragma unroll
    for (int i = 0; i < SPLITS; ++i) {
        factor[i] = ptx_ex2_approx_ftz_f32(shared.share[i][row].maximum - subtrahend(whole.maximum));
        whole.sum = fmaf(shared.share[i][row].sum, factor[i], whole.sum);
    }
    float normaliser = online_normaliser(whole.sum);
#pragma unroll
    for (int i = 0; i < SPLITS; ++i) {
        factor[i] *= normaliser;
    }
    return whole;
}

/* Four columns of the row, summed over the splits. */
ATTUNE_INLINE float4 summed_four(const Shared &shared, int row, int column, const float (&factor)[SPLITS])
{
    float4 x = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < SPLITS; ++i) {
        const sum_type *from = &shared.s[i * WARPS + row / WARP_ROWS][row % WARP_ROWS][column];
        x.x = fmaf(to_float(from[0]), factor[i], x.x), x.y = fmaf(to_float(from[1]), factor[i], x.y);
        x.z = fmaf(to_float(from[2]), factor[i], x.z), x.w = fmaf(to_float(from[3]), factor[i], x.w);
    }
    return x;
}

/* Writes columns first ... of O from the strips; with the first of them LSE. */
template <int columns>
ATTUNE_INLINE void write_columns(const attune_args &args, const sequence &at, const work &w, const Shared &shared,
                                 const warp_place &p, int first)
{
    constexpr int lanes = columns / 4;
    int first_row = SPLITS > 1 ? 0 : p.strip_row;
    for (int i = SPLITS > 1 ? (int)threadIdx.x : p.lane; i < written_rows * lanes; i += writers) {
        int row = first_row + i / lanes, column = i % lanes * 4;
        int query = w.tile * BLOCK_M + row;
        if (query >= at.length_q || first + column >= dim_v) {
            continue;
        }
        float factor[SPLITS];
        online whole = whole_row(shared, row, factor);
        store_four<dim_v>(row_of<element>(args.tensor[ATTUNE_O], at.batch, w.head, at.first_q + query), first + column,
                          summed_four(shared, row, column, factor));
        if (wants_lse(args) && first + column == 0) {
            store_lse(args, at.batch, w.head, at.first_q + query, whole.maximum, whole.sum);
        }
    }
}

/* O through the strips, BLOCK_N columns at a time, and LSE. */
ATTUNE_INLINE void store_rows(const attune_args &args, const sequence &at, const work &w, Shared &shared,
                              const warp_place &p, const warp_state &state)
{
    constexpr int columns = dim_v < BLOCK_N ? dim_v : BLOCK_N;
    float sum = row_sum(state.soft.sum);
    if (p.part == 0) {
        shared.share[p.split][p.strip_row + p.row] = {state.soft.maximum, sum};
    }
#pragma unroll
    for (int first = 0; first < dim_v; first += columns) {
#pragma unroll
        for (int i = 0; i < strips; ++i) {
#pragma unroll
            for (int n = 0; n < columns / FRAGMENT_N; ++n) {
                if (first / FRAGMENT_N + n < fragments_o) {
                    fragment_store(state.o[i][first / FRAGMENT_N + n],
                                   &shared.s[p.warp][i * FRAGMENT_M][n * FRAGMENT_N], pitch_s);
                }
            }
        }
        writers_barrier();
        write_columns<columns>(args, at, w, shared, p, first);
        if (first + columns < dim_v) {
            writers_barrier();
        }
    }
}

/* NOTE: read anew for each tile, so that addresses are computed again instead of kept in registers, which O needs. */
ATTUNE_INLINE int copying_thread()
{
    return (int)(ptx_mov_tid_x() % split_threads);
}

/* Starts copying the split's tile of K or V from this key on, if there is one. */
ATTUNE_INLINE void copy_keys(Shared &shared, const warp_place &p, const key_loop &j, int stage, int key)
{
#if !LOGITS_GIVEN
    if (key < j.end) {
        tile_copy<BLOCK_N, dim_qk, split_threads>(shared.k[p.split][stage], j.k, j.stride_k, key, j.kv_end,
                                                  copying_thread());
    }
#endif
    ptx_cp_async_commit_group();
}

ATTUNE_INLINE void copy_values(Shared &shared, const warp_place &p, const key_loop &j, int stage, int key)
{
    if (key < j.end) {
        tile_copy<BLOCK_N, dim_v, split_threads>(shared.v[p.split][stage], j.v, j.stride_v, key, j.kv_end,
                                                 copying_thread());
    }
    ptx_cp_async_commit_group();
}

ATTUNE_INLINE void softmax_stage(const attune_args &args, const sequence &at, const work &w, Shared &shared,
                                 const warp_place &p, const key_loop &j, int first_key, warp_state &state)
{
    if constexpr (with_softmax) {
        bool masked = needs_mask(j.all_see.first, j.all_see.end, first_key, BLOCK_N);
        float s[keys_lane];
        key_marks marks = {};
        read_logits(args, at, w, shared, p, first_key, masked, s, marks);
        softmax_tile(shared, p, state, s);
        if constexpr (HIDES_ANYWHERE) {
            leave_marks(shared, p, marks);
        }
    }
}

constexpr int split_step = SPLITS * BLOCK_N;

#if LOGITS_GIVEN

static_assert(!HIDES_ANYWHERE && !HIDES_ENDS, "values that no row sees are not kept out");

ATTUNE_INLINE void visit_tiles(const attune_args &args, const sequence &at, const work &w, Shared &shared,
                               const warp_place &p, const key_loop &j, warp_state &state)
{
    for (int first_key = j.begin; first_key < j.end; first_key += BLOCK_N) {
        copy_logits(args, w, shared, p, first_key);
        ptx_cp_async_commit_group();
        copy_values(shared, p, j, 0, first_key);
        ptx_cp_async_wait_group<1>();
        __syncwarp(); /* the warp's logits are there */
        softmax_stage(args, at, w, shared, p, j, first_key, state);
        ptx_cp_async_wait_group<0>();
        __syncthreads(); /* V is there */
        if constexpr (with_pv) {
            weigh_values(shared, p, 0, state);
        }
        __syncthreads(); /* V is done with */
    }
}

#else

/* Copies of a thread that may be under way while it uses what came before them: groups are K, V, K, V, ... */
constexpr int groups_pending = 2 * STAGES - 1;

/* The split's tiles one after the other, STAGES of them under way. */
ATTUNE_INLINE void visit_tiles(const attune_args &args, const sequence &at, const work &w, Shared &shared,
                               const warp_place &p, const key_loop &j, warp_state &state)
{
    int stage = 0;
    for (int first_key = j.begin + p.split * BLOCK_N; first_key < j.end; first_key += split_step) {
        int refill = first_key + STAGES * split_step;
        if constexpr (with_qk) {
            logits_tile(shared, p, stage);
        }
        if (refill < j.end) {
            split_barrier<SPLITS, split_threads>(p.split); /* K is done with */
        }
        copy_keys(shared, p, j, stage, refill);
        softmax_stage(args, at, w, shared, p, j, first_key, state);
        ptx_cp_async_wait_group<groups_pending>();
        split_barrier<SPLITS, split_threads>(p.split); /* V is there */
        if constexpr (HIDES_ANYWHERE && with_softmax) {
            clean_values(shared, p, stage);
        } else if constexpr (HIDES_ENDS) {
            clean_ends<SPLITS, split_threads>(shared.v[p.split][stage], j, p.split, copying_thread(), first_key);
        }
        if constexpr (with_pv) {
            weigh_values(shared, p, stage, state);
        }
        if (refill < j.end) {
            split_barrier<SPLITS, split_threads>(p.split); /* V is done with */
        }
        copy_values(shared, p, j, stage, refill);
        if (first_key + split_step < j.end) {
            ptx_cp_async_wait_group<groups_pending>();
            split_barrier<SPLITS, split_threads>(p.split); /* the next K is there */
        }
        stage = (stage + 1) % STAGES;
    }
}

/* Starts on Q and the first STAGES tiles of each split; returns when Q and each split's first K are there. */
ATTUNE_INLINE void fill(const attune_args &args, const sequence &at, const work &w, Shared &shared, const warp_place &p,
                        const key_loop &j, int first_row, int end_row)
{
    const element *q = row_of<element>(args.tensor[ATTUNE_Q], at.batch, w.head, at.first_q);
    tile_copy<BLOCK_M, dim_qk>(shared.q, q, args.tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_SEQ], first_row, end_row);
    for (int stage = 0; stage < STAGES; ++stage) {
        int key = j.begin + p.split * BLOCK_N + stage * split_step;
        copy_keys(shared, p, j, stage, key);
        copy_values(shared, p, j, stage, key);
    }
    ptx_cp_async_wait_group<groups_pending>();
    __syncthreads();
}

#endif

ATTUNE_INLINE void start(const attune_args &args, const work &w, const warp_place &p, warp_state &state)
{
#pragma unroll
    for (int i = 0; i < strips; ++i) {
#pragma unroll
        for (int n = 0; n < fragments_o; ++n) {
            fragment_clear(state.o[i][n]);
        }
    }
    if constexpr (!with_pv) {
        stand_in(state.o);
    }
    state.soft = online_start(args, w.head, p.part == 0 && p.split == 0); /* the sink counts once */
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, 1) FWD_WMMA(const __grid_constant__ attune_args args)
{
    follow_launch();
    extern __shared__ __align__(32) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    work w = static_work<BLOCK_M>(args);
    sequence at = sequence_of(args, w.batch);
    int first_row = w.tile * BLOCK_M;
    if (first_row >= at.length_q) {
        return;
    }
    warp_place p;
    p.warp = (int)threadIdx.x / 32;
    p.lane = (int)threadIdx.x % 32;
    p.split = SPLITS == 1 ? 0 : p.warp / WARPS;
    p.strip_row = (SPLITS == 1 ? p.warp : p.warp % WARPS) * WARP_ROWS;
    p.row = p.lane % WARP_ROWS;
    p.part = p.lane / WARP_ROWS;
    p.first_row = first_row + p.strip_row;
    int end_row = (int)min(at.length_q, (attune_i64)first_row + BLOCK_M);
    key_loop j = key_loop_of<BLOCK_N>(args, at, w, first_row, end_row);
    warp_state state;
    start(args, w, p, state);
#if !LOGITS_GIVEN
    fill(args, at, w, shared, p, j, first_row, end_row);
#endif
    visit_tiles(args, at, w, shared, p, j, state);
    store_rows(args, at, w, shared, p, state);
}
