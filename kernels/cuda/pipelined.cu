/* pipelined: scalar fp32 arithmetic at its best effort. Tiles of BLOCK_M x 64 keys, copied as stored by 16-byte
 * asynchronous copies into two buffers, so that the next tile of K and V travels while this one is computed; a thread
 * holds ROWS x 4 logits and ROWS x dim_v/16 outputs, and elements are converted as they are read.
 *
 * What it taught: with loads out of the way a scalar kernel is bound by issue slots, of which conversions of 16-bit
 * elements take a share that only a larger register tile can thin out; the rest of the way is tensor cores.
 *
 * Declared: a non-finite value may reach rows of its tile that do not see it (0 x NaN). */
#include "device/mask.cuh"
#include "device/schedule.cuh"
#include "device/softmax.cuh"
#include "device/stage.cuh"
#include "device/tile.cuh"

constexpr int dim_qk = ATTUNE_HEAD_DIM_QK, dim_v = ATTUNE_HEAD_DIM_V;
constexpr int BLOCK_N = 64;
constexpr int lanes = 16;                  /* that share a row */
constexpr int keys = BLOCK_N / lanes;      /* logits of one row in one lane */
constexpr int part = 16 / sizeof(element); /* elements of 16 bytes */
constexpr int pitch_qk = dim_qk + part;    /* 16 rows read side by side fall into different banks */
constexpr int pitch_v = dim_v + part;
constexpr int pitch_p = BLOCK_N + 4;
constexpr int part_v = dim_v <= 64 ? 4 : part; /* neighbouring columns of O in one lane: no lane idle at d = 64 */
constexpr int parts_v = (dim_v + lanes * part_v - 1) / (lanes * part_v);

struct Shared {
    element q[BLOCK_M][pitch_qk];
    element k[2][BLOCK_N][pitch_qk];
    element v[2][BLOCK_N][pitch_v];
    float p[BLOCK_M][pitch_p];
};
static_assert(sizeof(Shared) == ATTUNE_SMEM_BYTES, "the descriptor predicts another amount of shared memory");
static_assert(BLOCK_M / ROWS * lanes == ATTUNE_THREADS, "the descriptor predicts another number of threads");

struct lane_state {
    online soft[ROWS];
    float o[ROWS][parts_v * part_v];
};

/* Neighbouring elements as floats, read at once. */
template <int count> ATTUNE_INLINE void load_part(const element *from, float (&x)[count])
{
    struct alignas(count * sizeof(element)) packed {
        element e[count];
    } p = *reinterpret_cast<const packed *>(from);
#pragma unroll
    for (int i = 0; i < count; ++i) {
        x[i] = to_float(p.e[i]);
    }
}

ATTUNE_INLINE void dot_products(const Shared &shared, int buffer, int row, int lane, float (&s)[ROWS][keys])
{
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            s[r][j] = 0;
        }
    }
#pragma unroll 1
    for (int d = 0; d < dim_qk; d += part) {
        float k[keys][part];
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            load_part(&shared.k[buffer][lane + j * lanes][d], k[j]);
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            float q[part];
            load_part(&shared.q[row + r][d], q);
#pragma unroll
            for (int j = 0; j < keys; ++j) {
#pragma unroll
                for (int i = 0; i < part; ++i) {
                    s[r][j] = fmaf(q[i], k[j][i], s[r][j]);
                }
            }
        }
    }
}

/* Logits, the online softmax, P into shared memory; rescales the lane's part of O. */
ATTUNE_INLINE void softmax_tile(const attune_args &args, const sequence &at, const work &w, Shared &shared, int row,
                                int lane, int first_key, float (&s)[ROWS][keys], lane_state &state)
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
        int query = w.tile * BLOCK_M + row + r;
        bool exists = query < at.length_q;
        key_range sees = keys_seen(args, at, query);
        extras x = exists ? extras_of(args, w.batch, w.head, query) : extras{};
        float largest = negative_infinity();
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            int key = first_key + lane + j * lanes;
            bool seen = exists && key >= sees.first && key < sees.end;
            s[r][j] = seen ? logit(args, at, x, query, key, s[r][j]) : negative_infinity();
            largest = fmaxf(largest, s[r][j]);
        }
        float factor = online_raise(&state.soft[r], group_max<lanes>(largest));
        float subtract = subtrahend(state.soft[r].maximum);
#pragma unroll
        for (int j = 0; j < keys; ++j) {
            float p = ptx_ex2_approx_ftz_f32(s[r][j] - subtract);
            state.soft[r].sum += p;
            shared.p[row + r][lane + j * lanes] = p;
        }
#pragma unroll
        for (int c = 0; c < parts_v * part_v; ++c) {
            state.o[r][c] *= factor;
        }
    }
}

/* O += P V over the tile; a lane's columns are neighbours in parts of part_v. */
ATTUNE_INLINE void weigh_values(const Shared &shared, int buffer, int row, int lane, lane_state &state)
{
#pragma unroll 1
    for (int n = 0; n < BLOCK_N; n += 4) {
        float p[ROWS][4];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            float4 x = *reinterpret_cast<const float4 *>(&shared.p[row + r][n]);
            p[r][0] = x.x, p[r][1] = x.y, p[r][2] = x.z, p[r][3] = x.w;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int c = 0; c < parts_v; ++c) {
                float v[part_v];
                int column = (c * lanes + lane) * part_v;
                /* Lanes beyond a narrow head re-read column 0: harmless, and no branch around the arithmetic. */
                load_part(&shared.v[buffer][n + i][column < dim_v ? column : 0], v);
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
#pragma unroll
                    for (int e = 0; e < part_v; ++e) {
                        state.o[r][c * part_v + e] = fmaf(p[r][i], v[e], state.o[r][c * part_v + e]);
                    }
                }
            }
        }
    }
}

ATTUNE_INLINE void store_rows(const attune_args &args, const sequence &at, const work &w, int row, int lane,
                              const lane_state &state)
{
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        int query = w.tile * BLOCK_M + row + r;
        float sum = group_sum<lanes>(state.soft[r].sum);
        if (query >= at.length_q) {
            continue;
        }
        float normaliser = online_normaliser(sum);
        element *out = row_of<element>(args.tensor[ATTUNE_O], at.batch, w.head, at.first_q + query);
#pragma unroll
        for (int c = 0; c < parts_v * part_v; c += 4) {
            int column = (c / part_v * lanes + lane) * part_v + c % part_v;
            const float *o = &state.o[r][c];
            store_four<dim_v>(out, column,
                              make_float4(o[0] * normaliser, o[1] * normaliser, o[2] * normaliser, o[3] * normaliser));
        }
        if (args.tensor[ATTUNE_LSE].data != nullptr && lane == 0) {
            *row_of<float>(args.tensor[ATTUNE_LSE], at.batch, w.head, at.first_q + query) =
                online_lse(state.soft[r].maximum, sum);
        }
    }
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, MIN_BLOCKS)
    fwd_pipelined(const __grid_constant__ attune_args args)
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
    key_range range = keys_seen_by_rows(args, at, first_row, end_row - 1);
    int head_kv = w.head / ((int)args.heads_q / (int)args.heads_kv);
    const element *q = row_of<element>(args.tensor[ATTUNE_Q], at.batch, w.head, at.first_q);
    const element *k = row_of<element>(args.tensor[ATTUNE_K], at.batch, head_kv, at.first_kv);
    const element *v = row_of<element>(args.tensor[ATTUNE_V], at.batch, head_kv, at.first_kv);
    attune_i64 stride_k = args.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_SEQ];
    attune_i64 stride_v = args.tensor[ATTUNE_V].stride[ATTUNE_STRIDE_SEQ];
    int begin = range.first / BLOCK_N * BLOCK_N, end = range.end, kv_end = (int)at.length_kv;

    lane_state state = {};
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        state.soft[r] = online_start(args, w.head, lane == 0);
    }
    if (begin < end) {
        tile_copy<BLOCK_M, dim_qk>(shared.q, q, args.tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_SEQ], first_row, end_row);
        tile_copy<BLOCK_N, dim_qk>(shared.k[0], k, stride_k, begin, kv_end);
        tile_copy<BLOCK_N, dim_v>(shared.v[0], v, stride_v, begin, kv_end);
    }
    ptx_cp_async_commit_group();
    float s[ROWS][keys];
    if constexpr (!with_qk) {
        stand_in(s);
    }
    if constexpr (!with_pv) {
        stand_in(state.o);
    }
    for (int first_key = begin, buffer = 0; first_key < end; first_key += BLOCK_N, buffer ^= 1) {
        ptx_cp_async_wait_group<0>();
        __syncthreads(); /* this tile is there for all, and the other buffer is done with */
        if (first_key + BLOCK_N < end) {
            tile_copy<BLOCK_N, dim_qk>(shared.k[buffer ^ 1], k, stride_k, first_key + BLOCK_N, kv_end);
            tile_copy<BLOCK_N, dim_v>(shared.v[buffer ^ 1], v, stride_v, first_key + BLOCK_N, kv_end);
            ptx_cp_async_commit_group();
        }
        if constexpr (with_qk) {
            dot_products(shared, buffer, row, lane, s);
        }
        softmax_tile(args, at, w, shared, row, lane, first_key, s, state);
        __syncwarp();
        if constexpr (with_pv) {
            weigh_values(shared, buffer, row, lane, state);
        }
    }
    store_rows(args, at, w, row, lane, state);
}
