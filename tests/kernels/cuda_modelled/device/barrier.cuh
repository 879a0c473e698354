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

ATTUNE_INLINE void barrier_wait_cluster(unsigned barrier, unsigned parity)
{
    model_cluster_barrier_wait(barrier, parity);
}

ATTUNE_INLINE void ptx_st_async_v2_f32(unsigned remote, float x, float y, unsigned remote_barrier)
{
    const float all[2] = {x, y};
    model_cluster_send(remote, all, sizeof all, remote_barrier);
}

ATTUNE_INLINE void ptx_st_async_v4_f32(unsigned remote, float x, float y, float z, float w, unsigned remote_barrier)
{
    const float all[4] = {x, y, z, w};
    model_cluster_send(remote, all, sizeof all, remote_barrier);
}

/* All of the warp come here; any of them may be the one. */
ATTUNE_INLINE bool ptx_elect_sync()
{
    __syncwarp();
    return threadIdx.x % 32 == 5;
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
