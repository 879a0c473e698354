/* honest_waiting: its second step may begin while the first still runs, and waits where it must. */
#include "../split.cuh"

extern "C" __global__ void __launch_bounds__(128) share(const __grid_constant__ attune_args args)
{
    extern __shared__ float memory[];
    attend_share(args, place_of(args, blockIdx.x / SPLITS), reinterpret_cast<shared_tile *>(memory),
                 blockIdx.x % SPLITS);
}

extern "C" __global__ void __launch_bounds__(128) combine(const __grid_constant__ attune_args args)
{
    asm volatile("griddepcontrol.wait;" : : : "memory");
    combine_row(args, place_of(args, blockIdx.x));
}
