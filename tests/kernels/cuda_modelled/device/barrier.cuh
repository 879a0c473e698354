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

/* As there: a place in a ring. */
struct held {
    int stage;
    unsigned parity;
};

template <int stages> struct ring {
    int stage = 0;
    unsigned parity = 0;
    void step()
    {
        stage = stage + 1 == stages ? 0 : stage + 1;
        parity ^= stage == 0;
    }
    held next()
    {
        const held now = {stage, parity};
        step();
        return now;
    }
    template <bool needed> void declare_uniform()
    {
    }
};

ATTUNE_INLINE unsigned ptx_mapa(unsigned shared, unsigned rank)
{
    return model_cluster_address(shared, rank);
}

ATTUNE_INLINE void ptx_barrier_cluster_arrive()
{
    model_cluster_arrive();
}

ATTUNE_INLINE void ptx_barrier_cluster_arrive_relaxed()
{
    model_cluster_arrive();
}

ATTUNE_INLINE void ptx_barrier_cluster_wait()
{
    model_cluster_wait();
}

template <int registers> ATTUNE_INLINE void ptx_setmaxnreg_inc()
{
}

template <int registers> ATTUNE_INLINE void ptx_setmaxnreg_dec()
{
}

ATTUNE_INLINE void ptx_griddepcontrol_wait()
{
}

ATTUNE_INLINE void ptx_griddepcontrol_launch_dependents()
{
}

#endif
