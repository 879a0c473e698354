/* Loads of kernels/cuda/device/tma.cuh: boxes by the arguments' tensors, since a CPU has no maps of them. */
#ifndef DEVICE_TMA_CUH
#define DEVICE_TMA_CUH

#include "device/barrier.cuh"

constexpr attune_u64 L2_EVICT_FIRST = 0, L2_EVICT_LAST = 0;

ATTUNE_INLINE void ptx_prefetch_tensormap(const attune_tensor_map *)
{
}

ATTUNE_INLINE void ptx_fence_proxy_async_shared()
{
}

ATTUNE_INLINE void ptx_cp_async_bulk_tensor_4d_load(unsigned shared, const attune_tensor_map *map, unsigned barrier,
                                                    attune_u64, int column, int row, int head, int batch)
{
    model_box(shared, model_map_index(map), barrier, column, row, head, batch);
}

ATTUNE_INLINE void ptx_cp_async_bulk_load(unsigned shared, const void *global, unsigned bytes, unsigned barrier)
{
    model_bulk(shared, global, bytes, barrier);
}

ATTUNE_INLINE void tma_load(unsigned shared, const attune_tensor_map *map, unsigned barrier, attune_u64 policy,
                            int column, int row, int head, int batch)
{
    ptx_cp_async_bulk_tensor_4d_load(shared, map, barrier, policy, column, row, head, batch);
}

ATTUNE_INLINE void ptx_cp_async_bulk_prefetch_tensor_4d(const attune_tensor_map *, attune_u64, int, int, int, int)
{
}

ATTUNE_INLINE void ptx_cp_async_bulk_tensor_4d_store(const attune_tensor_map *map, unsigned shared, int column, int row,
                                                     int head, int batch)
{
    model_store_box(shared, model_map_index(map), column, row, head, batch);
}

template <bool leaves>
ATTUNE_INLINE void tma_store(const attune_tensor_map *map, unsigned shared, int column, int row, int head, int batch)
{
    ptx_cp_async_bulk_tensor_4d_store(map, shared, column, row, head, batch);
}

ATTUNE_INLINE void ptx_cp_async_bulk_commit_group()
{
}

template <int pending> ATTUNE_INLINE void ptx_cp_async_bulk_wait_group_read()
{
}

template <int pending> ATTUNE_INLINE void ptx_cp_async_bulk_wait_group()
{
}

#endif
