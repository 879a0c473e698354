/* tiled: the general kernel of the GPU, the whole of the specification in scalar fp32 arithmetic.
 *
 * One block computes BLOCK_M query rows of one head. Q stays in shared memory; K and V pass through it BLOCK_N rows at
 * a time, converted to fp32 on the way in. Sixteen neighbouring lanes share ROWS query rows: each holds ROWS x
 * BLOCK_N/16 logits, the row's maximum and sum come from shuffles among the sixteen, and P goes back through shared
 * memory to the same half-warp. So a tile costs two block-wide barriers: K and V are there; K and V are done with.
 *
 * What it taught: once tiles are reused from shared memory, a scalar kernel is bound by shared-memory bandwidth, and
 * the ratio of FMAs to loads is set by the thread's register tile alone (ROWS x 4).
 *
 * K and V may be pools of pages, and each of Q, K, V, O and the bias of a type of its own: what is loaded and stored is
 * all that knows. With pages the query heads that share keys and values share blocks, too: such queries are mostly few.
 *
 * Non-finite keys and values that a row does not see leave no trace in it: hidden logits are -inf before the softmax;
 * and where a tile of V holds a non-finite value, products with hidden keys (marked by a negative zero in P) are left
 * out instead of multiplied by zero. */
#include "device/guard.cuh"
#include "device/pages.cuh"
#include "device/schedule.cuh"
#include "device/score.cuh"
#include "device/softmax.cuh"
#include "device/stage.cuh"
#include "device/tile.cuh"

#if ATTUNE_GUARDED
#define FWD_TILED fwd_guarded
#else
#define FWD_TILED fwd_tiled
#endif

constexpr int dim_qk = ATTUNE_HEAD_DIM_QK, dim_v = ATTUNE_HEAD_DIM_V;
constexpr int lanes = 16;                          /* that share a row */
constexpr int keys = BLOCK_N / lanes;              /* logits of one row in one lane */
constexpr int pitch_qk = (dim_qk + 3) / 4 * 4 + 4; /* floats; +4 spreads 16 rows over all banks */
constexpr int pitch_p = BLOCK_N + 4;
constexpr int width = dim_v <= 16 ? 1 : dim_v <= 32 ? 2 : 4;           /* neighbouring columns of O in one lane */
constexpr int columns = (dim_v + lanes * width - 1) / (lanes * width); /* such groups in one lane */
constexpr int pitch_v = columns * lanes * width;

struct Shared {
    float q[BLOCK_M][pitch_qk];
    float k[BLOCK_N][pitch_qk];
    float v[BLOCK_N][pitch_v];
    float p[BLOCK_M][pitch_p];
};
static_assert(sizeof(Shared) == ATTUNE_SMEM_BYTES, "the descriptor predicts another amount of shared memory");
static_assert(BLOCK_M / ROWS * lanes == ATTUNE_THREADS, "the descriptor predicts another number of threads");
static_assert(BLOCK_N % lanes == 0 && BLOCK_M % ROWS == 0, "tiles are whole numbers of lanes and rows");

/* ---- Rows of a block: query i of its head is row i; with pages, that of the i % group-th head of a group is i /
 * group, and w.head is the group's first ---- */

enum { PACKS = PAGED };

/* Query heads in a block. */
ATTUNE_INLINE int group_of(const attune_args &args)
{
    return PACKS ? (int)args.heads_q / (int)args.heads_kv : 1;
}

ATTUNE_INLINE work work_of(const attune_args &args, int group)
{
    if constexpr (!PACKS) {
        return static_work<BLOCK_M>(args);
    }
    const unsigned tiles = (unsigned)((args.seqlen_q * group + BLOCK_M - 1) / BLOCK_M);
    const unsigned head = blockIdx.x / tiles, batch = head / (unsigned)args.heads_kv;
    return {(int)batch, (int)(head - batch * (unsigned)args.heads_kv) * group, (int)(blockIdx.x - head * tiles)};
}

/* Of row `row` + r of the block. */
ATTUNE_INLINE int query_of(const work &w, int group, int row, int r)
{
    const int index = w.tile * BLOCK_M + row + r;
    return PACKS ? index / group : index;
}

ATTUNE_INLINE int head_of(const work &w, int group, int row, int r)
{
    return PACKS ? w.head + (w.tile * BLOCK_M + row + r) % group : w.head;
}

/* A lane's share of the state: ROWS rows, its keys, its columns. */
struct lane_state {
    online soft[ROWS];
    float o[ROWS][columns * width];
    guards caught;
};

/* `first` is row 0 of the sequence and of the first head. */
ATTUNE_INLINE void load_queries(const attune_args &args, const work &w, int group, const element *first, int first_row,
                                int end_row, Shared &shared)
{
    const attune_tensor &tensor = args.tensor[ATTUNE_Q];
    if constexpr (!PACKS) {
        tile_load<BLOCK_M, dim_qk, pitch_qk - 4>(shared.q, first, tensor.stride[ATTUNE_STRIDE_SEQ], first_row, end_row);
    } else {
        auto from = [&](int r) {
            return first + (head_of(w, group, 0, r) - w.head) * tensor.stride[ATTUNE_STRIDE_HEAD] +
                   query_of(w, group, 0, r) * tensor.stride[ATTUNE_STRIDE_SEQ];
        };
        tile_fill<BLOCK_M, dim_qk, pitch_qk - 4>(shared.q, from, [&](int r) { return first_row + r < end_row; });
    }
}

/* The tile of K or V from first_key on; returns whether all this thread saw was finite. NOTE: in one piece the stride
 * is read where it is used, for code that was proven before there were pages stays as it is. */
template <int role, int dim, int columns, int pitch, class T>
ATTUNE_INLINE bool load_keys(const attune_args &args, const kv_rows<T> &from, int first_key,
                             float (&tile)[BLOCK_N][pitch])
{
    if constexpr (!PAGED) {
        return tile_load<BLOCK_N, dim, columns>(tile, from.origin, args.tensor[role].stride[ATTUNE_STRIDE_SEQ],
                                                first_key, from.end);
    }
    return tile_fill<BLOCK_N, dim, columns>(
        tile, [&](int r) { return kv_may_read(from, first_key + r) ? kv_row(args, from, first_key + r) : nullptr; },
        [&](int r) { return kv_may_read(from, first_key + r); });
}

/* s[r][j] = q . k for the lane's rows and its keys lane, lane + 16, ... */
ATTUNE_INLINE void dot_products(const Shared &shared, int row, int lane, float (&s)[ROWS][keys])
{
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            s[r][j] = 0;
        }
    }
#pragma unroll 4
    for (int d = 0; d < dim_qk; d += 4) {
        float4 k[keys];
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            k[j] = *reinterpret_cast<const float4 *>(&shared.k[lane + j * lanes][d]);
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            float4 q = *reinterpret_cast<const float4 *>(&shared.q[row + r][d]);
#pragma unroll
            for (int j = 0; j < keys; ++j) {
                s[r][j] = fmaf(q.x, k[j].x, s[r][j]);
                s[r][j] = fmaf(q.y, k[j].y, s[r][j]);
                s[r][j] = fmaf(q.z, k[j].z, s[r][j]);
                s[r][j] = fmaf(q.w, k[j].w, s[r][j]);
            }
        }
    }
}

/* Logits, the online softmax, and P into shared memory (-0 for hidden keys). Rescales the lane's part of O. */
ATTUNE_INLINE void softmax_tile(const attune_args &args, const sequence &at, const work &w, int group, Shared &shared,
                                int row, int lane, int first_key, float (&s)[ROWS][keys], lane_state &state)
{
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        if constexpr (!with_softmax) {
#pragma unroll
            for (int j = 0; j < keys; ++j) {
                shared.p[row + r][lane + j * lanes] = s[r][j];
            }
            state.soft[r].sum += s[r][0];
            continue;
        }
        query_row query = query_row_of(args, at, w.batch, head_of(w, group, row, r), query_of(w, group, row, r));
        float largest = negative_infinity();
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            s[r][j] = visible_score(args, at, query, first_key + lane + j * lanes, s[r][j]);
            guard_logit(state.caught, s[r][j]);
            largest = fmaxf(largest, s[r][j]);
        }
        float factor = online_raise(&state.soft[r], group_max<lanes>(largest));
        float subtract = subtrahend(state.soft[r].maximum);
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            float p = ptx_ex2_approx_ftz_f32(guard_exponent(state.caught, s[r][j] - subtract));
            state.soft[r].sum += p;
            shared.p[row + r][lane + j * lanes] = s[r][j] == negative_infinity() ? -0.0f : p;
        }
#pragma unroll
        for (int c = 0; c < columns * width; ++c) {
            state.o[r][c] *= factor;
        }
    }
}

/* The lane's columns of one row of V. */
ATTUNE_INLINE void load_columns(const float *row, int lane, float (&v)[columns * width])
{
#pragma unroll
    for (int c = 0; c < columns; ++c) {
#pragma unroll
        for (int w = 0; w < width; ++w) {
            v[c * width + w] = row[(c * lanes + lane) * width + w];
        }
    }
}

/* O += P V over the tile. `careful`: V holds a non-finite value, so hidden keys are left out. */
template <bool careful> ATTUNE_INLINE void weigh_values(const Shared &shared, int row, int lane, lane_state &state)
{
#pragma unroll 2
    for (int n = 0; n < BLOCK_N; n += 4) {
        float4 p[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            p[r] = *reinterpret_cast<const float4 *>(&shared.p[row + r][n]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float v[columns * width];
            load_columns(shared.v[n + i], lane, v);
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                float weight = i == 0 ? p[r].x : i == 1 ? p[r].y : i == 2 ? p[r].z : p[r].w;
                if (careful && signbit(weight)) {
                    continue;
                }
                /* A visible weight that underflowed still counts against a non-finite value. */
                weight = careful ? fmaxf(weight, 1e-37f) : weight;
#pragma unroll
                for (int c = 0; c < columns * width; ++c) {
                    state.o[r][c] = fmaf(weight, v[c], state.o[r][c]);
                }
            }
        }
    }
}

/* O and LSE of the lane's rows. */
ATTUNE_INLINE void store_rows(const attune_args &args, const sequence &at, const work &w, int group, int row, int lane,
                              lane_state &state)
{
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        int head = head_of(w, group, row, r), query = query_of(w, group, row, r);
        float sum = group_sum<lanes>(state.soft[r].sum);
        if (query >= at.length_q) {
            continue;
        }
        float normaliser = online_normaliser(guard_denominator(state.caught, sum, lane == 0));
        element_o *out = row_of<element_o>(args.tensor[ATTUNE_O], at.batch, head, at.first_q + query);
#pragma unroll
        for (int c = 0; c < columns; ++c) {
            int column = (c * lanes + lane) * width;
            const float *o = &state.o[r][c * width];
            if constexpr (width == 4) {
                store_four<dim_v>(
                    out, column,
                    make_float4(o[0] * normaliser, o[1] * normaliser, o[2] * normaliser, o[3] * normaliser));
            } else {
#pragma unroll
                for (int i = 0; i < width; ++i) {
                    if (column + i < dim_v) {
                        out[column + i] = from_float<element_o>(o[i] * normaliser);
                    }
                }
            }
        }
        if (wants_lse(args) && lane == 0) {
            store_lse(args, at.batch, head, at.first_q + query, state.soft[r].maximum, sum);
        }
    }
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, MIN_BLOCKS)
    FWD_TILED(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(16) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    const int group = group_of(args);
    work w = work_of(args, group);
    sequence at = sequence_of(args, w.batch);
    int first_row = w.tile * BLOCK_M;
    if (first_row >= at.length_q * group) {
        return;
    }
    int lane = (int)threadIdx.x % lanes, row = (int)threadIdx.x / lanes * ROWS;
    int end_row = (int)min(at.length_q * group, (attune_i64)first_row + BLOCK_M);
    key_range range = keys_seen_by_any(args, at, first_row / group, (end_row - 1) / group);
    int head_kv = w.head / ((int)args.heads_q / (int)args.heads_kv);
    const element *q = row_of<element>(args.tensor[ATTUNE_Q], at.batch, w.head, at.first_q);
    kv_rows<element_k> k = kv_rows_of<ATTUNE_K, element_k>(args, at, w.batch, head_kv, range.first, range.end);
    kv_rows<element_v> v = kv_rows_of<ATTUNE_V, element_v>(args, at, w.batch, head_kv, range.first, range.end);

    lane_state state = {};
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        state.soft[r] = online_start(args, head_of(w, group, row, r), lane == 0);
    }
    load_queries(args, w, group, q, first_row, end_row, shared);
    float s[ROWS][keys];
    if constexpr (!with_qk) {
        stand_in(s);
    }
    if constexpr (!with_pv) {
        stand_in(state.o);
    }
    for (int first_key = range.first / BLOCK_N * BLOCK_N; first_key < range.end; first_key += BLOCK_N) {
        load_keys<ATTUNE_K, dim_qk, pitch_qk - 4>(args, k, first_key, shared.k);
        bool finite = load_keys<ATTUNE_V, dim_v, pitch_v>(args, v, first_key, shared.v);
        bool careful = __syncthreads_or(!finite);
        if constexpr (with_qk) {
            dot_products(shared, row, lane, s);
        }
        softmax_tile(args, at, w, group, shared, row, lane, first_key, s, state);
        __syncwarp();
        if (!with_pv) {
            /* left out */
        } else if (careful) {
            weigh_values<true>(shared, row, lane, state);
        } else {
            weigh_values<false>(shared, row, lane, state);
        }
        __syncthreads();
    }
    store_rows(args, at, w, group, row, lane, state);
    guard_report(args, state.caught);
}
