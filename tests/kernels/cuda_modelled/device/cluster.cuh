/* kernels/cuda/device/cluster.cuh on a CPU. */
#ifndef DEVICE_CLUSTER_CUH
#define DEVICE_CLUSTER_CUH

#include "device/barrier.cuh"

ATTUNE_INLINE void ptx_st_shared_cluster_v2_f32(unsigned remote, float x, float y)
{
    *static_cast<float2 *>(model_cluster_shared(remote, 8)) = float2{x, y};
}

ATTUNE_INLINE void ptx_st_shared_cluster_v4_f32(unsigned remote, float x, float y, float z, float w)
{
    *static_cast<float4 *>(model_cluster_shared(remote, 16)) = float4{x, y, z, w};
}

#endif
