/* The copy engine (sm_90): boxes of a tensor map, runs of bytes, and the fences between it and ordinary accesses.
 * One PTX instruction a wrapper. Shared addresses of boxes are multiples of 128 bytes; with the 128-byte swizzle tiles
 * begin at multiples of 1,024. Coordinates are innermost first: column, row, head, batch (packed: no batch); elements
 * beyond the tensor, on either side, read as zeros and are not written. One thread issues. */
#ifndef DEVICE_TMA_CUH
#define DEVICE_TMA_CUH

#include "device/barrier.cuh"

/* What L2 should do with lines: createpolicy's encoding of evict_first and evict_last for whole accesses. */
constexpr attune_u64 L2_EVICT_FIRST = 0x12f0000000000000ull;
constexpr attune_u64 L2_EVICT_NORMAL = 0x1000000000000000ull;
constexpr attune_u64 L2_EVICT_LAST = 0x14f0000000000000ull;

ATTUNE_INLINE void ptx_prefetch_tensormap(const attune_tensor_map *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* ---- Loads: the barrier counts the bytes of the whole box ---- */

ATTUNE_INLINE void ptx_cp_async_bulk_tensor_3d_load(unsigned shared, const attune_tensor_map *map, unsigned barrier,
                                                    attune_u64 policy, int column, int row, int head)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(shared),
                 "l"(map), "r"(barrier), "l"(policy), "r"(column), "r"(row), "r"(head)
                 : "memory");
}

ATTUNE_INLINE void ptx_cp_async_bulk_tensor_4d_load(unsigned shared, const attune_tensor_map *map, unsigned barrier,
                                                    attune_u64 policy, int column, int row, int head, int batch)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(shared),
                 "l"(map), "r"(barrier), "l"(policy), "r"(column), "r"(row), "r"(head), "r"(batch)
                 : "memory");
}

/* A box whatever the map's rank: packed tensors have no batch. */
ATTUNE_INLINE void tma_load(unsigned shared, const attune_tensor_map *map, unsigned barrier, attune_u64 policy,
                            int column, int row, int head, [[maybe_unused]] int batch)
{
#if ATTUNE_HAS_VARLEN
    ptx_cp_async_bulk_tensor_3d_load(shared, map, barrier, policy, column, row, head);
#else
    ptx_cp_async_bulk_tensor_4d_load(shared, map, barrier, policy, column, row, head, batch);
#endif
}

/* A run of bytes: addresses and count are multiples of 16. */
ATTUNE_INLINE void ptx_cp_async_bulk_load(unsigned shared, const void *global, unsigned bytes, unsigned barrier)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
        "l"(global), "r"(bytes), "r"(barrier)
        : "memory");
}

/* A box into L2 alone. */
ATTUNE_INLINE void ptx_cp_async_bulk_prefetch_tensor_4d(const attune_tensor_map *map, attune_u64 policy, int column,
                                                        int row, int head, int batch)
{
    asm volatile(
        "cp.async.bulk.prefetch.tensor.4d.L2.global.tile.L2::cache_hint [%0, {%2, %3, %4, %5}], %1;" ::"l"(map),
        "l"(policy), "r"(column), "r"(row), "r"(head), "r"(batch)
        : "memory");
}

/* From this block's shared memory into that of a block of the cluster; the barrier lies there too. */
ATTUNE_INLINE void ptx_cp_async_bulk_to_cluster(unsigned remote, unsigned shared, unsigned bytes,
                                                unsigned remote_barrier)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(remote),
        "r"(shared), "r"(bytes), "r"(remote_barrier)
        : "memory");
}

/* ---- Stores: counted by the thread's bulk groups ---- */

/* Between ordinary writes to shared memory and their reading by the copy engine or a wgmma, in the writing threads. */
ATTUNE_INLINE void ptx_fence_proxy_async_shared()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

ATTUNE_INLINE void ptx_cp_async_bulk_tensor_3d_store(const attune_tensor_map *map, unsigned shared, int column, int row,
                                                     int head)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(shared), "r"(column), "r"(row), "r"(head)
                 : "memory");
}

ATTUNE_INLINE void ptx_cp_async_bulk_tensor_4d_store(const attune_tensor_map *map, unsigned shared, int column, int row,
                                                     int head, int batch)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(shared), "r"(column), "r"(row), "r"(head), "r"(batch)
                 : "memory");
}

ATTUNE_INLINE void ptx_cp_async_bulk_tensor_4d_store_hinted(const attune_tensor_map *map, unsigned shared,
                                                            attune_u64 policy, int column, int row, int head, int batch)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%3, %4, %5, %6}], [%1], "
                 "%2;" ::"l"(map),
                 "r"(shared), "l"(policy), "r"(column), "r"(row), "r"(head), "r"(batch)
                 : "memory");
}

/* What leaves L2 first, if `leaves`. */
template <bool leaves>
ATTUNE_INLINE void tma_store(const attune_tensor_map *map, unsigned shared, int column, int row, int head, int batch)
{
    if constexpr (leaves) {
        ptx_cp_async_bulk_tensor_4d_store_hinted(map, shared, L2_EVICT_FIRST, column, row, head, batch);
    } else {
        ptx_cp_async_bulk_tensor_4d_store(map, shared, column, row, head, batch);
    }
}

ATTUNE_INLINE void ptx_cp_async_bulk_store(void *global, unsigned shared, unsigned bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared), "r"(bytes)
                 : "memory");
}

ATTUNE_INLINE void ptx_cp_async_bulk_commit_group()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Until all but `pending` of this thread's latest groups have read their shared memory. */
template <int pending> ATTUNE_INLINE void ptx_cp_async_bulk_wait_group_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

/* Until all but `pending` of this thread's latest groups are done. */
template <int pending> ATTUNE_INLINE void ptx_cp_async_bulk_wait_group()
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(pending) : "memory");
}

#endif
