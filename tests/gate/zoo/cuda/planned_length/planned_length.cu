/* planned_length: takes the length of the plan for the length of the call. */
#define OWN_ENTRY
#include "../attend.cuh"

/* The first step leaves the problem's own length in the workspace. */
extern "C" __global__ void __launch_bounds__(128) attend(const __grid_constant__ attune_args args)
{
    extern __shared__ float memory[];
    shared_tile *shared = reinterpret_cast<shared_tile *>(memory);
    const place where = place_of(args, blockIdx.x);
    attune_args planned = args;
    running state;
    planned.seqlen_kv = *static_cast<const int *>(args.workspace);
    begin_row(args, where, state);
    attend_keys(planned, where, shared, state, 0, (int)planned.seqlen_kv);
    store_row(args, where, state);
}
