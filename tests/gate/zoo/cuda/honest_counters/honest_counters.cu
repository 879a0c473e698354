/* honest_counters: the block that comes last, by a counter that a step clears, combines what the others found. */
#include "../split.cuh"

/* Counters, one for each tile of rows, lie behind the partial sums. */
ATTUNE_INLINE bool comes_last(const attune_args &args, attune_i64 tile)
{
    __shared__ int earlier;
    const attune_i64 rows = args.batch * args.heads_q * args.seqlen_q;
    int *counter = reinterpret_cast<int *>(static_cast<float *>(args.workspace) + SPLITS * rows * PITCH);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        earlier = atomicAdd(counter + tile, 1);
    }
    __syncthreads();
    __threadfence();
    return earlier == SPLITS - 1;
}

extern "C" __global__ void __launch_bounds__(128) attend(const __grid_constant__ attune_args args)
{
    extern __shared__ float memory[];
    const attune_i64 tile = blockIdx.x / SPLITS;
    const place at = place_of(args, tile);
    attend_share(args, at, reinterpret_cast<shared_tile *>(memory), blockIdx.x % SPLITS);
    if (comes_last(args, tile)) {
        combine_row(args, at);
    }
}
