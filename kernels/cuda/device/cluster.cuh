/* What blocks of a cluster write into one another's shared memory without counting it: a barrier of the cluster
 * publishes it (barrier.cuh). */
#ifndef DEVICE_CLUSTER_CUH
#define DEVICE_CLUSTER_CUH

#include "device/barrier.cuh"

ATTUNE_INLINE void ptx_st_shared_cluster_v2_f32(unsigned remote, float x, float y)
{
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(remote), "f"(x), "f"(y) : "memory");
}

ATTUNE_INLINE void ptx_st_shared_cluster_v4_f32(unsigned remote, float x, float y, float z, float w)
{
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(remote), "f"(x), "f"(y), "f"(z), "f"(w)
                 : "memory");
}

#endif
