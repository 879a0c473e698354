/* Named barriers of kernels/cuda/device/warp_groups.cuh. */
#ifndef DEVICE_WARP_GROUPS_CUH
#define DEVICE_WARP_GROUPS_CUH

#include "device/ptx.cuh"

template <bool wanted> ATTUNE_INLINE void await_order(int group)
{
    if constexpr (wanted) {
        ptx_barrier_sync(1 + group, 256);
    }
}

template <bool wanted, int groups> ATTUNE_INLINE void pass_order(int group)
{
    if constexpr (wanted) {
        ptx_barrier_arrive(1 + (group + 1 == groups ? 0 : group + 1), 256);
    }
}

template <int groups> ATTUNE_INLINE void sync_group(int group)
{
    ptx_barrier_sync(1 + groups + group, 128);
}

template <int groups> ATTUNE_INLINE bool any_of_group(int group, bool says)
{
    return model_barrier_any(1 + groups + group, 128, says);
}

#endif
