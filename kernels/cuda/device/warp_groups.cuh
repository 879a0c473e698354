/* Warp groups that wait for one another by named barriers: 1 ... groups order them, the next `groups` hold the threads
 * of one together. Barrier 0 is __syncthreads. Groups are numbered from 0, without the producer's. */
#ifndef DEVICE_WARP_GROUPS_CUH
#define DEVICE_WARP_GROUPS_CUH

#include "device/ptx.cuh"

/* Waits until the group before has arrived; for the first group the last one arrives once at the beginning. */
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

/* Whether any thread of the group says so; the group is together afterwards. */
template <int groups> ATTUNE_INLINE bool any_of_group(int group, bool says)
{
    return ptx_barrier_red_or_128(1 + groups + group, says);
}

#endif
