/* my_kernel, the source: a block computes 32 query rows of one head, four threads a row; keys and values pass through
 * shared memory, BLOCK_N at a time. Compiled on the user's machine, for one problem: head dims, dtype and mask are
 * constants (docs/cuda.md lists them), BLOCK_N is the config's. Nothing of the CUDA toolkit is included. */
#include "device/visibility.cuh"

enum { ROWS = 32, LANES = 4, DIM_QK = ATTUNE_HEAD_DIM_QK, DIM_V = ATTUNE_HEAD_DIM_V };
constexpr int PART_QK = (DIM_QK + LANES - 1) / LANES; /* columns of a thread: lane, lane + 4, ... */
constexpr int PART_V = (DIM_V + LANES - 1) / LANES;

struct tile {
    float key[BLOCK_N][DIM_QK];
    float value[BLOCK_N][DIM_V];
};

/* What is known of a row so far: out is the sum of weight * value, both by 2^(score - top). */
struct state {
    float query[PART_QK], out[PART_V];
    float top, sum;
};

/* All threads of the block copy; rows behind the sequence's end are zeros. */
ATTUNE_INLINE void load_tile(const attune_args &args, tile *to, attune_i64 batch, attune_i64 head, int first)
{
    for (int i = threadIdx.x; i < BLOCK_N * DIM_QK; i += blockDim.x) {
        const int j = i / DIM_QK;
        const bool there = first + j < args.seqlen_kv;
        const element *row = row_of<element>(args.tensor[ATTUNE_K], batch, head, there ? first + j : 0);
        to->key[j][i % DIM_QK] = there ? to_float(row[i % DIM_QK]) : 0;
    }
    for (int i = threadIdx.x; i < BLOCK_N * DIM_V; i += blockDim.x) {
        const int j = i / DIM_V;
        const bool there = first + j < args.seqlen_kv;
        const element *row = row_of<element>(args.tensor[ATTUNE_V], batch, head, there ? first + j : 0);
        to->value[j][i % DIM_V] = there ? to_float(row[i % DIM_V]) : 0;
    }
}

/* q k, in all four threads of the row. */
ATTUNE_INLINE float dot(const state &row, const float *key, int lane)
{
    const unsigned lanes = 0xfu << (threadIdx.x % 32 / LANES * LANES);
    float sum = 0;
    for (int i = 0; i < PART_QK; ++i) {
        const int column = lane + i * LANES;
        sum = column < DIM_QK ? fmaf(row.query[i], key[column], sum) : sum;
    }
    sum += __shfl_xor_sync(lanes, sum, 1);
    return sum + __shfl_xor_sync(lanes, sum, 2);
}

ATTUNE_INLINE void add_key(state &row, const float *value, int lane, float score)
{
    const float top = fmaxf(row.top, score);
    const float kept = row.top == top ? 1.0f : ptx_ex2_approx_ftz_f32(row.top - top);
    const float weight = ptx_ex2_approx_ftz_f32(score - top);
    row.sum = fmaf(row.sum, kept, weight);
    for (int i = 0; i < PART_V; ++i) {
        const int column = lane + i * LANES;
        row.out[i] = fmaf(weight, column < DIM_V ? value[column] : 0, row.out[i] * kept);
    }
    row.top = top;
}

ATTUNE_INLINE void begin(state &row, const element *query, int lane)
{
    for (int i = 0; i < PART_QK; ++i) {
        const int column = lane + i * LANES;
        row.query[i] = column < DIM_QK ? to_float(query[column]) : 0;
    }
    for (int i = 0; i < PART_V; ++i) {
        row.out[i] = 0;
    }
    row.top = negative_infinity();
    row.sum = 0;
}

/* A row that sees no key is 0, and its LSE -infinity. */
ATTUNE_INLINE void finish(const attune_args &args, const state &row, attune_i64 at, int lane)
{
    element *out = row_of<element>(args.tensor[ATTUNE_O], blockIdx.z, blockIdx.y, at);
    for (int i = 0; i < PART_V; ++i) {
        const int column = lane + i * LANES;
        if (column < DIM_V) {
            out[column] = from_float<element>(row.sum == 0.0f ? 0.0f : row.out[i] / row.sum);
        }
    }
    if (lane == 0 && args.tensor[ATTUNE_LSE].data != nullptr) {
        *row_of<float>(args.tensor[ATTUNE_LSE], blockIdx.z, blockIdx.y, at) =
            row.sum == 0.0f ? negative_infinity() : fmaf(row.top, LN_2, logf(row.sum));
    }
}

extern "C" __global__ void __launch_bounds__(ROWS *LANES) my_kernel(const __grid_constant__ attune_args args)
{
    extern __shared__ float memory[];
    tile *shared = reinterpret_cast<tile *>(memory);
    const attune_i64 batch = blockIdx.z, head_kv = blockIdx.y / (args.heads_q / args.heads_kv);
    const attune_i64 first_row = (attune_i64)blockIdx.x * ROWS, at = first_row + threadIdx.x / LANES;
    const attune_i64 last_row = min(first_row + ROWS, args.seqlen_q) - 1;
    const int lane = threadIdx.x % LANES;
    const sequence whole = sequence_of(args, batch);
    const bool inside = at < args.seqlen_q;
    const key_range mine = keys_seen(args, whole, at), any = keys_seen_by_any(args, whole, first_row, last_row);
    state row;
    begin(row, row_of<element>(args.tensor[ATTUNE_Q], batch, blockIdx.y, inside ? at : 0), lane);
    for (int first = any.first / BLOCK_N * BLOCK_N; first < any.end; first += BLOCK_N) {
        load_tile(args, shared, batch, head_kv, first);
        __syncthreads();
        for (int j = 0; j < BLOCK_N && inside; ++j) {
            const bool seen = first + j >= mine.first && first + j < mine.end;
            const float score = seen ? dot(row, shared->key[j], lane) * args.scale * LOG2_E : negative_infinity();
            if (score != negative_infinity()) {
                add_key(row, shared->value[j], lane, score);
            }
        }
        __syncthreads();
    }
    if (inside) {
        finish(args, row, at, lane);
    }
}
