/* weak_tiled: kernels/cuda/tiled.cu without what makes it fast, for searches to begin from: K and V are loaded element
 * by element, a row's maximum and sum go through shared memory instead of shuffles, and the scale is applied to each
 * score (there it is so, too). */
#include "device/schedule.cuh"
#include "device/score.cuh"
#include "device/softmax.cuh"
#include "device/tile.cuh"

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
    float part[BLOCK_M][lanes]; /* of maxima and sums, one for each lane of a row */
};
static_assert(sizeof(Shared) == ATTUNE_SMEM_BYTES, "the descriptor predicts another amount of shared memory");
static_assert(BLOCK_M / ROWS * lanes == ATTUNE_THREADS, "the descriptor predicts another number of threads");
static_assert(BLOCK_N % lanes == 0 && BLOCK_M % ROWS == 0, "tiles are whole numbers of lanes and rows");

/* A lane's share of the state: ROWS rows, its keys, its columns. */
struct lane_state {
    online soft[ROWS];
    float o[ROWS][columns * width];
};

/* Rows first ... of K or V, as floats; rows from `end` on and columns from `dim` on become zero. Returns whether all
 * this thread saw was finite. */
template <int dim, int rows, int pitch>
ATTUNE_INLINE bool load_elements(float (&tile)[rows][pitch], const element *origin, attune_i64 stride, int first,
                                 int end)
{
    bool finite = true;
    for (int i = (int)threadIdx.x; i < rows * pitch; i += ATTUNE_THREADS) {
        int r = i / pitch, c = i % pitch;
        const element *from = origin + (first + r) * stride;
        float x = first + r < end && c < dim ? to_float(from[c]) : 0;
        finite = finite && is_finite(x);
        tile[r][c] = x;
    }
    return finite;
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
ATTUNE_INLINE void softmax_tile(const attune_args &args, const sequence &at, const work &w, Shared &shared, int row,
                                int lane, int first_key, float (&s)[ROWS][keys], lane_state &state)
{
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        query_row query = query_row_of(args, at, w.batch, w.head, w.tile * BLOCK_M + row + r);
        float largest = negative_infinity();
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            s[r][j] = visible_score(args, at, query, first_key + lane + j * lanes, s[r][j]);
            largest = fmaxf(largest, s[r][j]);
        }
        shared.part[row + r][lane] = largest;
        __syncthreads();
        for (int step = lanes / 2; step > 0; step /= 2) {
            if (lane < step) {
                shared.part[row + r][lane] = fmaxf(shared.part[row + r][lane], shared.part[row + r][lane + step]);
            }
            __syncthreads();
        }
        float factor = online_raise(&state.soft[r], shared.part[row + r][0]);
        float subtract = subtrahend(state.soft[r].maximum);
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            float p = ptx_ex2_approx_ftz_f32(s[r][j] - subtract);
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
ATTUNE_INLINE void store_rows(const attune_args &args, const sequence &at, const work &w, Shared &shared, int row,
                              int lane, lane_state &state)
{
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        int query = w.tile * BLOCK_M + row + r;
        shared.part[row + r][lane] = state.soft[r].sum;
        __syncthreads();
        for (int step = lanes / 2; step > 0; step /= 2) {
            if (lane < step) {
                shared.part[row + r][lane] = shared.part[row + r][lane] + shared.part[row + r][lane + step];
            }
            __syncthreads();
        }
        float sum = shared.part[row + r][0];
        if (query >= at.length_q) {
            continue;
        }
        float normaliser = online_normaliser(sum);
        element *out = row_of<element>(args.tensor[ATTUNE_O], at.batch, w.head, at.first_q + query);
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
                        out[column + i] = from_float<element>(o[i] * normaliser);
                    }
                }
            }
        }
        if (wants_lse(args) && lane == 0) {
            store_lse(args, at.batch, w.head, at.first_q + query, state.soft[r].maximum, sum);
        }
    }
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, MIN_BLOCKS)
    fwd_weak_tiled(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(16) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    work w = static_work<BLOCK_M>(args);
    sequence at = sequence_of(args, w.batch);
    int first_row = w.tile * BLOCK_M;
    if (first_row >= at.length_q) {
        return;
    }
    int lane = (int)threadIdx.x % lanes, row = (int)threadIdx.x / lanes * ROWS;
    int end_row = (int)min(at.length_q, (attune_i64)first_row + BLOCK_M);
    key_range range = keys_seen_by_any(args, at, first_row, end_row - 1);
    int head_kv = w.head / ((int)args.heads_q / (int)args.heads_kv);
    const element *q = row_of<element>(args.tensor[ATTUNE_Q], at.batch, w.head, at.first_q);
    const element *k = row_of<element>(args.tensor[ATTUNE_K], at.batch, head_kv, at.first_kv);
    const element *v = row_of<element>(args.tensor[ATTUNE_V], at.batch, head_kv, at.first_kv);

    lane_state state = {};
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        state.soft[r] = online_start(args, w.head, lane == 0);
    }
    int kv_end = (int)at.length_kv;
    tile_load<BLOCK_M, dim_qk, pitch_qk - 4>(shared.q, q, args.tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_SEQ], first_row,
                                             end_row);
    float s[ROWS][keys];
    for (int first_key = range.first / BLOCK_N * BLOCK_N; first_key < range.end; first_key += BLOCK_N) {
        load_elements<dim_qk>(shared.k, k, args.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_SEQ], first_key, kv_end);
        bool finite =
            load_elements<dim_v>(shared.v, v, args.tensor[ATTUNE_V].stride[ATTUNE_STRIDE_SEQ], first_key, kv_end);
        bool careful = __syncthreads_or(!finite);
        dot_products(shared, row, lane, s);
        softmax_tile(args, at, w, shared, row, lane, first_key, s, state);
        __syncwarp();
        if (careful) {
            weigh_values<true>(shared, row, lane, state);
        } else {
            weigh_values<false>(shared, row, lane, state);
        }
        __syncthreads();
    }
    store_rows(args, at, w, shared, row, lane, state);
}
