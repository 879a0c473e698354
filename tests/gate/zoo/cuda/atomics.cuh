/* What the zoo's kernels with atomics share: a row's maximum and denominator first, then all blocks of a row add their
 * weighted values to one sum, in whatever order they come. Workspace: [row of O][head_dim_v] sums, cleared by a step,
 * then [row of O][2] maximum and denominator, as fp32. */
#define OWN_ENTRY
#include "../attend.cuh"

constexpr int SPLITS = 16;

ATTUNE_INLINE attune_i64 row_index(const attune_args &args, const place &at)
{
    return (at.batch * args.heads_q + at.head) * args.seqlen_q + at.row;
}

ATTUNE_INLINE float *sums_of(const attune_args &args, const place &at)
{
    return static_cast<float *>(args.workspace) + row_index(args, at) * ATTUNE_HEAD_DIM_V;
}

ATTUNE_INLINE float *scale_of(const attune_args &args, const place &at)
{
    const attune_i64 rows = args.batch * args.heads_q * args.seqlen_q;
    return static_cast<float *>(args.workspace) + rows * ATTUNE_HEAD_DIM_V + row_index(args, at) * 2;
}

extern "C" __global__ void __launch_bounds__(128) find_scale(const __grid_constant__ attune_args args)
{
    extern __shared__ float memory[];
    const place at = place_of(args, blockIdx.x);
    running state;
    begin_row(args, at, state);
    attend_keys(args, at, reinterpret_cast<shared_tile *>(memory), state, 0, (int)args.seqlen_kv);
    if (at.inside && at.lane == 0) {
        scale_of(args, at)[0] = state.top;
        scale_of(args, at)[1] = state.sum;
    }
}

ATTUNE_INLINE void add_tile(const attune_args &args, const place &at, const shared_tile *shared, running &state,
                            int first)
{
    const key_range mine = keys_of(args, at.row);
    for (int j = 0; j < KEYS && at.inside; ++j) {
        const bool seen = first + j >= mine.first && first + j < mine.end;
        const float score = seen ? dot_of(state, shared, j, at.lane) * args.scale * LOG2_E : negative_infinity();
        const float weight = ptx_ex2_approx_ftz_f32(score - state.top);
        for (int i = 0; i < PART_V && score != negative_infinity(); ++i) {
            const int column = at.lane + i * LANES;
            state.out[i] = fmaf(weight, column < ATTUNE_HEAD_DIM_V ? shared->value[j][column] : 0, state.out[i]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(128) add_share(const __grid_constant__ attune_args args)
{
    extern __shared__ float memory[];
    shared_tile *shared = reinterpret_cast<shared_tile *>(memory);
    const place at = place_of(args, blockIdx.x / SPLITS);
    running state;
    begin_row(args, at, state);
    state.top = at.inside ? scale_of(args, at)[0] : 0;
    for (int first = blockIdx.x % SPLITS * KEYS; first < args.seqlen_kv; first += SPLITS * KEYS) {
        load_tile(args, at, shared, first);
        __syncthreads();
        add_tile(args, at, shared, state, first);
        __syncthreads();
    }
    for (int i = 0; i < PART_V && at.inside; ++i) {
        const int column = at.lane + i * LANES;
        if (column < ATTUNE_HEAD_DIM_V) {
            atomicAdd(sums_of(args, at) + column, state.out[i]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(128) divide(const __grid_constant__ attune_args args)
{
    const place at = place_of(args, blockIdx.x);
    running state;
    for (int i = 0; i < PART_V && at.inside; ++i) {
        const int column = at.lane + i * LANES;
        state.out[i] = column < ATTUNE_HEAD_DIM_V ? sums_of(args, at)[column] : 0;
    }
    state.top = at.inside ? scale_of(args, at)[0] : 0;
    state.sum = at.inside ? scale_of(args, at)[1] : 0;
    store_row(args, at, state);
}
