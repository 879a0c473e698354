/* What kernels/cuda/device/barrier.cuh has of mbarriers and dependent launches: those before have ended. */
#ifndef DEVICE_BARRIER_CUH
#define DEVICE_BARRIER_CUH

#include "device/ptx.cuh"

ATTUNE_INLINE void ptx_fence_mbarrier_init()
{
}

ATTUNE_INLINE void ptx_mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes)
{
    model_barrier_expect(barrier, (int)bytes);
    model_barrier_arrive(barrier);
}

ATTUNE_INLINE void barrier_wait(unsigned barrier, unsigned parity)
{
    model_barrier_wait(barrier, parity);
}

ATTUNE_INLINE void ptx_griddepcontrol_wait()
{
}

ATTUNE_INLINE void ptx_griddepcontrol_launch_dependents()
{
}

#endif
