/* Blocks attend to a share of the keys each, then those of a second step combine what they found. */
#include "../split.cuh"

#ifndef BEFORE_COMBINING
#define BEFORE_COMBINING()
#endif

extern "C" __global__ void __launch_bounds__(128) share(const __grid_constant__ attune_args args)
{
    extern __shared__ float memory[];
    attend_share(args, place_of(args, blockIdx.x / SPLITS), reinterpret_cast<shared_tile *>(memory),
                 blockIdx.x % SPLITS);
}

extern "C" __global__ void __launch_bounds__(128) combine(const __grid_constant__ attune_args args)
{
    BEFORE_COMBINING();
    combine_row(args, place_of(args, blockIdx.x));
}
