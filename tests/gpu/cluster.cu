/* What blocks of a cluster do with one another, one entry each. Results are floats at O. */
#include "device/barrier.cuh"

constexpr int BLOCKS = 4;

ATTUNE_INLINE float *results(const attune_args &args)
{
    return static_cast<float *>(args.tensor[ATTUNE_O].data);
}

/* Every thread gives every other block of its cluster four floats by st.async; received by block, sender and thread. */
extern "C" __global__ void cluster_exchange(const __grid_constant__ attune_args args)
{
    __shared__ __align__(128) float4 received[BLOCKS][ATTUNE_THREADS];
    __shared__ unsigned long long full;
    unsigned rank = ptx_cluster_ctarank(), thread = threadIdx.x, barrier = ptx_cvta_shared(&full);
    if (thread == 0) {
        ptx_mbarrier_init(barrier, 1);
        ptx_mbarrier_arrive_expect_tx(barrier, (BLOCKS - 1) * ATTUNE_THREADS * sizeof(float4));
        ptx_fence_mbarrier_init();
    }
    received[rank][thread] = make_float4(0, 0, 0, 0); /* nobody else writes here */
    __syncwarp();
    ptx_barrier_cluster_arrive_relaxed();
    ptx_barrier_cluster_wait();
    for (unsigned to = 0; to < BLOCKS; ++to) {
        if (to != rank) {
            ptx_st_async_v4_f32(ptx_mapa(ptx_cvta_shared(&received[rank][thread]), to), (float)rank, (float)thread,
                                (float)to, 1.0f, ptx_mapa(barrier, to));
        }
    }
    barrier_wait_cluster(barrier, 0);
    float4 *out = reinterpret_cast<float4 *>(results(args)) + rank * BLOCKS * ATTUNE_THREADS;
    for (int from = 0; from < BLOCKS; ++from) {
        out[from * ATTUNE_THREADS + thread] = received[from][thread];
    }
}
