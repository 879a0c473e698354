/* What sm_90 adds to barriers, and who runs when: transaction counts, clusters, register shares, dependent launches.
 * One PTX instruction a wrapper; barriers and addresses are of shared memory (ptx_cvta_shared). */
#ifndef DEVICE_BARRIER_CUH
#define DEVICE_BARRIER_CUH

#include "device/ptx.cuh"

/* Debugging builds define it as a number of polls after which a wait gives up, so that a lost arrival shows as a wrong
 * result instead of a hang. 0: wait for ever. */
#ifndef ATTUNE_POLLS
#define ATTUNE_POLLS 0
#endif

/* ---- mbarriers ---- */

/* Makes initialised barriers visible to the other blocks of the cluster and to the copy engine. */
ATTUNE_INLINE void ptx_fence_mbarrier_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* One arrival that also announces bytes: the phase completes once they have landed. */
ATTUNE_INLINE void ptx_mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* Announces bytes without arriving. */
ATTUNE_INLINE void ptx_mbarrier_expect_tx(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* An arrival at a barrier of any block of the cluster (ptx_mapa). */
ATTUNE_INLINE void ptx_mbarrier_arrive_cluster(unsigned remote)
{
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote) : "memory");
}

/* Whether the phase of this parity has completed; the thread may sleep for a while before it answers no. */
ATTUNE_INLINE bool ptx_mbarrier_try_wait_parity(unsigned barrier, unsigned parity)
{
    unsigned done;
    asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done != 0;
}

/* The same, taking in what other blocks of the cluster wrote before they arrived. */
ATTUNE_INLINE bool ptx_mbarrier_try_wait_parity_cluster(unsigned barrier, unsigned parity)
{
    unsigned done;
    asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n "
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done != 0;
}

/* Until the phase of this parity has completed. */
ATTUNE_INLINE void barrier_wait(unsigned barrier, unsigned parity)
{
    for (int polls = 0; !ptx_mbarrier_try_wait_parity(barrier, parity); ++polls) {
        if (ATTUNE_POLLS > 0 && polls > ATTUNE_POLLS) {
            return;
        }
    }
}

ATTUNE_INLINE void barrier_wait_cluster(unsigned barrier, unsigned parity)
{
    for (int polls = 0; !ptx_mbarrier_try_wait_parity_cluster(barrier, parity); ++polls) {
        if (ATTUNE_POLLS > 0 && polls > ATTUNE_POLLS) {
            return;
        }
    }
}

/* A buffer of a ring that somebody has its hands on. */
struct held {
    int stage;
    unsigned parity;
};

/* A place in a ring: buffers are used in order; the parity that its users wait for changes with each round. */
template <int stages> struct ring {
    int stage = 0;
    unsigned parity = 0;
    __device__ __forceinline__ void step()
    {
        stage = stage + 1 == stages ? 0 : stage + 1;
        parity ^= stage == 0;
    }
    __device__ __forceinline__ held next()
    {
        held now = {stage, parity};
        step();
        return now;
    }
    /* Tells that all lanes have the same. NOTE: the compiler no longer sees it where tiles were skipped in a loop that
     * waits, and then moves every descriptor of every product to a uniform register; of a shuffle's result it does. */
    template <bool needed> __device__ __forceinline__ void declare_uniform()
    {
        if constexpr (needed) {
            stage = __shfl_sync(0xffffffff, stage, 0);
            parity = __shfl_sync(0xffffffff, parity, 0);
        }
    }
};

/* ---- Clusters ---- */

/* The address in block `rank` of the cluster that corresponds to an address of this block. */
ATTUNE_INLINE unsigned ptx_mapa(unsigned shared, unsigned rank)
{
    unsigned remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(shared), "r"(rank));
    return remote;
}

ATTUNE_INLINE unsigned ptx_cluster_ctarank()
{
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

ATTUNE_INLINE void ptx_barrier_cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

ATTUNE_INLINE void ptx_barrier_cluster_arrive_relaxed()
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

ATTUNE_INLINE void ptx_barrier_cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* Stores into a block of the cluster; the barrier, in the same block, counts 4, 8 or 16 bytes of its transaction. */
ATTUNE_INLINE void ptx_st_async_b32(unsigned remote, unsigned value, unsigned remote_barrier)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(remote), "r"(value),
                 "r"(remote_barrier)
                 : "memory");
}

ATTUNE_INLINE void ptx_st_async_v2_f32(unsigned remote, float x, float y, unsigned remote_barrier)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(remote),
                 "f"(x), "f"(y), "r"(remote_barrier)
                 : "memory");
}

ATTUNE_INLINE void ptx_st_async_v4_f32(unsigned remote, float x, float y, float z, float w, unsigned remote_barrier)
{
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(remote),
        "f"(x), "f"(y), "f"(z), "f"(w), "r"(remote_barrier)
        : "memory");
}

ATTUNE_INLINE float4 ptx_ld_shared_cluster_v4_f32(unsigned remote)
{
    float4 x;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(remote)
                 : "memory");
    return x;
}

ATTUNE_INLINE float2 ptx_ld_shared_cluster_v2_f32(unsigned remote)
{
    float2 x;
    asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(remote) : "memory");
    return x;
}

/* ---- Registers ---- */

/* A warp group takes on or hands back registers: a multiple of 8, 24 to 256, of each thread. */
template <int registers> ATTUNE_INLINE void ptx_setmaxnreg_inc()
{
    static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256, "what setmaxnreg takes");
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

template <int registers> ATTUNE_INLINE void ptx_setmaxnreg_dec()
{
    static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256, "what setmaxnreg takes");
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

/* ---- Warps ---- */

/* True in one lane of a warp that has all its lanes here. */
ATTUNE_INLINE bool ptx_elect_sync()
{
    unsigned elected;
    asm volatile("{\n .reg .pred p;\n elect.sync _|p, 0xffffffff;\n selp.u32 %0, 1, 0, p;\n}" : "=r"(elected));
    return elected != 0;
}

/* ---- Dependent launches ---- */

/* Waits until what the launch before has written can be read; returns at once where nothing came before. */
ATTUNE_INLINE void ptx_griddepcontrol_wait()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

/* Lets the next launch start once every block has come here or ended. */
ATTUNE_INLINE void ptx_griddepcontrol_launch_dependents()
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

#endif
