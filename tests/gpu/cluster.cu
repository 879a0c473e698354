/* What blocks of a cluster do with one another, one entry each. Results are floats at O. */
#include "device/swizzle.cuh"
#include "device/tma.cuh"

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

/* Each block copies eight of 32 rows of Q to all blocks; each then holds all rows, one slice from every block. */
extern "C" __global__ void cluster_multicast(const __grid_constant__ attune_args args)
{
    constexpr int lines = 8, rows = BLOCKS * lines, dim = ATTUNE_HEAD_DIM_QK;
    __shared__ __align__(1024) element tile[rows * dim];
    __shared__ unsigned long long full;
    unsigned rank = ptx_cluster_ctarank(), barrier = ptx_cvta_shared(&full);
    if (threadIdx.x == 0) {
        ptx_mbarrier_init(barrier, 1);
        ptx_mbarrier_arrive_expect_tx(barrier, sizeof tile);
        ptx_fence_mbarrier_init();
    }
    __syncwarp();
    ptx_barrier_cluster_arrive_relaxed();
    ptx_barrier_cluster_wait();
    if (threadIdx.x == 0) {
        tma_multicast(ptx_cvta_shared(tile + rank * lines * dim), &args.map[0], barrier, (1 << BLOCKS) - 1,
                      L2_EVICT_NORMAL, 0, (int)rank * lines, 0, 0);
    }
    __syncwarp();
    barrier_wait(barrier, 0);
    for (int i = (int)threadIdx.x; i < rows * dim; i += ATTUNE_THREADS) {
        int r = i / dim, c = i % dim;
        results(args)[rank * rows * dim + i] = to_float(tile[swizzled_index<dim>(r, c / 8) + c % 8]);
    }
    ptx_barrier_cluster_arrive();
    ptx_barrier_cluster_wait(); /* nobody leaves while others copy to it */
}
