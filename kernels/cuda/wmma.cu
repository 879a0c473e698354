/* wmma: Q K^T and P V on tensor cores through wmma fragments. Each warp owns WARP_ROWS query rows from start to end:
 * its logits go through its own strip of shared memory, where lanes know which row and key they hold, come back as P,
 * and O stays in fragments. Rows are rescaled without knowing which lane holds what: a fragment whose columns are all
 * the row factors is loaded and multiplied in.
 *
 * K of the next tile travels under the softmax and P V, V under the next Q K^T.
 *
 * What it taught: with the products on tensor cores the way of S and P through shared memory is what remains; and one
 * opaque layout is no reason to give up registers for O. TENSOR_CORES 0 computes the same in scalar arithmetic, for
 * telling mistakes of the tiling from mistakes of the fragments.
 *
 * Declared: a non-finite value may reach rows of its tile that do not see it (0 x NaN). */
#ifndef FWD_WMMA
#define FWD_WMMA fwd_wmma
#endif
#ifndef LOGITS_GIVEN
#define LOGITS_GIVEN 0 /* 1: S = Q K^T lies in the workspace in fp32, rows padded to a multiple of 8 */
#endif
#include "device/fragment.cuh"
#include "device/mask.cuh"
#include "device/schedule.cuh"
#include "device/softmax.cuh"
#include "device/stage.cuh"
#include "device/tile.cuh"

constexpr int dim_qk = ATTUNE_HEAD_DIM_QK, dim_v = ATTUNE_HEAD_DIM_V;
constexpr int WARP_ROWS = FRAGMENT_M == 32 ? 32 : 16;
constexpr int BLOCK_M = WARPS * WARP_ROWS;
constexpr int lanes_row = 32 / WARP_ROWS;      /* lanes that share a row in the softmax */
constexpr int keys_lane = BLOCK_N / lanes_row; /* neighbouring keys of one lane */
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
    element k[BLOCK_N][pitch_qk];
#endif
    element v[BLOCK_N][pitch_v];
    sum_type s[WARPS][WARP_ROWS][pitch_s]; /* then P, then O on its way out */
    sum_type factor[WARPS][WARP_ROWS];
};
static_assert(sizeof(Shared) == ATTUNE_SMEM_BYTES, "the descriptor predicts another amount of shared memory");
static_assert(WARPS * 32 == ATTUNE_THREADS, "the descriptor predicts another number of threads");
static_assert(dim_qk % 16 == 0 && dim_v % FRAGMENT_N == 0 && BLOCK_N % FRAGMENT_N == 0, "whole fragments");

/* What a warp carries from tile to tile. */
struct warp_state {
    accumulator o[strips][fragments_o];
    online soft; /* of the lane's row; the sum is the lane's share */
};

/* A warp's place in the block and the problem. */
struct warp_place {
    int warp, lane;
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

ATTUNE_INLINE void logits_tile(Shared &shared, const warp_place &p)
{
#pragma unroll
    for (int i = 0; i < strips; ++i) {
        accumulator s[fragments_s];
#pragma unroll
        for (int n = 0; n < fragments_s; ++n) {
            fragment_clear(s[n]);
        }
#pragma unroll
        for (int d = 0; d < dim_qk; d += FRAGMENT_K) {
            fragment_multiply<fragments_s, true>(s, place{&shared.q[p.warp * WARP_ROWS + i * FRAGMENT_M][d], pitch_qk},
                                                 place{&shared.k[0][d], pitch_qk}, FRAGMENT_N * pitch_qk);
        }
#pragma unroll
        for (int n = 0; n < fragments_s; ++n) {
            fragment_store(s[n], &shared.s[p.warp][i * FRAGMENT_M][n * FRAGMENT_N], pitch_s);
        }
    }
    __syncwarp();
}

#endif

/* Reads the lane's logits, in units of log2; -inf where hidden. */
ATTUNE_INLINE void read_logits(const attune_args &args, const sequence &at, const work &w, const Shared &shared,
                               const warp_place &p, int first_key, bool masked, float (&s)[keys_lane])
{
    const sum_type *from = &shared.s[p.warp][p.row][p.part * keys_lane];
#pragma unroll
    for (int j = 0; j < keys_lane; ++j) {
        s[j] = to_float(from[j]);
    }
    int query = p.first_row + p.row;
    constexpr bool more = ATTUNE_HAS_BIAS || ATTUNE_HAS_MASK || ATTUNE_HAS_ALIBI || ATTUNE_HAS_SOFTCAP;
    if (!masked && !more) {
        float scale = args.scale * LOG2_E;
#pragma unroll
        for (int j = 0; j < keys_lane; ++j) {
            s[j] *= scale;
        }
        return;
    }
    bool exists = query < at.length_q;
    key_range sees = keys_seen(args, at, query);
    extras x = exists ? extras_of(args, w.batch, w.head, query) : extras{};
#pragma unroll
    for (int j = 0; j < keys_lane; ++j) {
        int key = first_key + p.part * keys_lane + j;
        bool seen = exists && key >= sees.first && key < sees.end;
        s[j] = seen ? logit(args, at, x, query, key, s[j]) : negative_infinity();
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

/* The online softmax of the lane's logits; P goes where they were. */
ATTUNE_INLINE void softmax_tile(Shared &shared, const warp_place &p, warp_state &state, float (&s)[keys_lane])
{
    float largest = negative_infinity();
#pragma unroll
    for (int j = 0; j < keys_lane; ++j) {
        largest = fmaxf(largest, s[j]);
    }
    float factor = online_raise(&state.soft, row_max(largest));
    float subtract = subtrahend(state.soft.maximum);
    element *to = reinterpret_cast<element *>(&shared.s[p.warp][0][0]) + p.row * pitch_p + p.part * keys_lane;
    __syncwarp(); /* every lane has read its logits */
#pragma unroll
    for (int j = 0; j < keys_lane; j += 2) {
        float a = ptx_ex2_approx_ftz_f32(s[j] - subtract), b = ptx_ex2_approx_ftz_f32(s[j + 1] - subtract);
        state.soft.sum += a + b;
        to[j] = from_float<element>(a);
        to[j + 1] = from_float<element>(b);
    }
    if (__any_sync(0xffffffff, factor != 1.0f)) {
        scale_rows(shared, p, state, factor);
    }
    __syncwarp();
}

ATTUNE_INLINE void weigh_values(const Shared &shared, const warp_place &p, warp_state &state)
{
    const element *weights = reinterpret_cast<const element *>(&shared.s[p.warp][0][0]);
#pragma unroll
    for (int i = 0; i < strips; ++i) {
#pragma unroll
        for (int n = 0; n < BLOCK_N; n += FRAGMENT_K) {
            fragment_multiply<fragments_o, false>(state.o[i], place{weights + i * FRAGMENT_M * pitch_p + n, pitch_p},
                                                  place{&shared.v[n][0], pitch_v}, FRAGMENT_N);
        }
    }
    __syncwarp(); /* before the strip becomes logits again */
}

/* O through the warp's strip, BLOCK_N columns at a time, and LSE. */
ATTUNE_INLINE void store_rows(const attune_args &args, const sequence &at, const work &w, Shared &shared,
                              const warp_place &p, warp_state &state)
{
    float sum = row_sum(state.soft.sum);
    int query = p.first_row + p.row;
    if (args.tensor[ATTUNE_LSE].data != nullptr && p.part == 0 && query < at.length_q) {
        *row_of<float>(args.tensor[ATTUNE_LSE], at.batch, w.head, at.first_q + query) =
            online_lse(state.soft.maximum, sum);
    }
    scale_rows(shared, p, state, online_normaliser(sum));
    constexpr int columns = dim_v < BLOCK_N ? dim_v : BLOCK_N;
    constexpr int lanes = columns / 4;
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
        __syncwarp();
        for (int i = p.lane; i < WARP_ROWS * lanes; i += 32) {
            int row = i / lanes, column = i % lanes * 4;
            if (p.first_row + row < at.length_q && first + column < dim_v) {
                const sum_type *from = &shared.s[p.warp][row][column];
                store_four<dim_v>(
                    row_of<element>(args.tensor[ATTUNE_O], at.batch, w.head, at.first_q + p.first_row + row),
                    first + column,
                    make_float4(to_float(from[0]), to_float(from[1]), to_float(from[2]), to_float(from[3])));
            }
        }
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, 1) FWD_WMMA(const __grid_constant__ attune_args args)
{
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
    p.row = p.lane % WARP_ROWS;
    p.part = p.lane / WARP_ROWS;
    p.first_row = first_row + p.warp * WARP_ROWS;
    int end_row = (int)min(at.length_q, (attune_i64)first_row + BLOCK_M);
    key_range range = keys_seen_by_rows(args, at, first_row, end_row - 1);
    key_range all_see = {keys_seen(args, at, end_row - 1).first, keys_seen(args, at, first_row).end};
    int head_kv = w.head / ((int)args.heads_q / (int)args.heads_kv);
    const element *v = row_of<element>(args.tensor[ATTUNE_V], at.batch, head_kv, at.first_kv);
    attune_i64 stride_v = args.tensor[ATTUNE_V].stride[ATTUNE_STRIDE_SEQ];
    int begin = range.first / BLOCK_N * BLOCK_N, end = range.end, kv_end = (int)at.length_kv;

    warp_state state;
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
    state.soft = online_start(args, w.head, p.part == 0);
#if !LOGITS_GIVEN
    const element *q = row_of<element>(args.tensor[ATTUNE_Q], at.batch, w.head, at.first_q);
    const element *k = row_of<element>(args.tensor[ATTUNE_K], at.batch, head_kv, at.first_kv);
    attune_i64 stride_k = args.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_SEQ];
    if (begin < end) {
        tile_copy<BLOCK_M, dim_qk>(shared.q, q, args.tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_SEQ], first_row, end_row);
        tile_copy<BLOCK_N, dim_qk>(shared.k, k, stride_k, begin, kv_end);
    }
    ptx_cp_async_commit_group();
#endif
    for (int first_key = begin; first_key < end; first_key += BLOCK_N) {
#if LOGITS_GIVEN
        copy_logits(args, w, shared, p, first_key);
        ptx_cp_async_commit_group();
        tile_copy<BLOCK_N, dim_v>(shared.v, v, stride_v, first_key, kv_end);
        ptx_cp_async_commit_group();
        ptx_cp_async_wait_group<1>();
        __syncwarp(); /* the warp's logits are there */
#else
        tile_copy<BLOCK_N, dim_v>(shared.v, v, stride_v, first_key, kv_end);
        ptx_cp_async_commit_group();
        ptx_cp_async_wait_group<1>();
        __syncthreads(); /* K is there */
        if constexpr (with_qk) {
            logits_tile(shared, p);
        }
        __syncthreads(); /* K is done with */
        if (first_key + BLOCK_N < end) {
            tile_copy<BLOCK_N, dim_qk>(shared.k, k, stride_k, first_key + BLOCK_N, kv_end);
        }
        ptx_cp_async_commit_group();
#endif
        bool masked = first_key < all_see.first || first_key + BLOCK_N > all_see.end;
        if constexpr (with_softmax) {
            float s[keys_lane];
            read_logits(args, at, w, shared, p, first_key, masked, s);
            softmax_tile(shared, p, state, s);
        }
        ptx_cp_async_wait_group<LOGITS_GIVEN ? 0 : 1>();
        __syncthreads(); /* V is there */
        if constexpr (with_pv) {
            weigh_values(shared, p, state);
        }
        __syncthreads(); /* V is done with */
    }
    store_rows(args, at, w, shared, p, state);
}
