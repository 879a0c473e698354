/* The ways of keys and values into wgmma_fp32's units: by a group of threads that split them, or split ahead, by the
 * copy engine. */
#ifndef DEVICE_FP32_UNITS_CUH
#define DEVICE_FP32_UNITS_CUH

#include "device/fp32_block.cuh"
#include "device/warp_groups.cuh"

/* ---- Split by the block ----------------------------------------------------------------------------------------- */

struct producer {
    const element *k, *v; /* row 0 of the sequence */
    attune_i64 stride_k, stride_v;
    int there_first, there_end; /* keys that any row of the head sees: others may hold anything */
    int thread;
    unsigned base;
    ring<STAGES> units;
    unsigned keys_lost, values_lost;
    float largest_key;
    share<BLOCK_N> next;
};

/* Unit number `unit` of the tile of keys from `key` on: its keys' columns, then its values'. */
template <int unit> ATTUNE_INLINE void load_unit(producer &p, int key)
{
    key = __shfl_sync(0xffffffff, key, 0);
    if constexpr (unit < chunks_qk) {
        load_share<BLOCK_N, dim_qk>(p.next, p.k, p.stride_k, key, p.there_first, p.there_end, unit, p.thread);
    } else {
        load_share<BLOCK_N, dim_v>(p.next, p.v, p.stride_v, key, p.there_first, p.there_end, unit - chunks_qk,
                                   p.thread);
    }
}

/* Arrives at the barrier for all lanes of the warp, what they wrote being seen by products. */
ATTUNE_INLINE void arrive_full(const producer &p, int stage)
{
    ptx_fence_proxy_async_shared();
    __syncwarp();
    if (p.thread % 32 == 0) {
        ptx_mbarrier_arrive(p.base + smem_full + stage * 8);
    }
}

template <int unit> ATTUNE_INLINE void produce_units(producer &p, int key, int end)
{
    if constexpr (unit < chunks_qk + chunks_v) {
        const held now = p.units.next();
        barrier_wait(p.base + smem_empty + now.stage * 8, now.parity ^ 1);
        const unsigned to = p.base + smem_unit + now.stage * unit_bytes;
        if constexpr (unit < chunks_qk) {
            store_share(p.next, to, part_bytes, p.thread, p.keys_lost);
            p.largest_key = largest_of(p.next, p.largest_key);
        } else {
            store_share(p.next, to, part_bytes, p.thread, p.values_lost);
        }
        constexpr bool last = unit + 1 == chunks_qk + chunks_v;
        if (last && key + BLOCK_N >= end) {
            return; /* arrives when it has said what it saw */
        }
        arrive_full(p, now.stage);
        if constexpr (last) {
            load_unit<0>(p, key + BLOCK_N);
        } else {
            load_unit<unit + 1>(p, key);
        }
        produce_units<unit + 1>(p, key, end);
    }
}

ATTUNE_INLINE void produce(const attune_args &args, Shared &shared)
{
    tile t;
    if (!find(args, t) || t.end_key == 0) {
        return;
    }
    const key_range there = keys_seen_by_any(args, t.at, 0, t.at.length_q - 1);
    producer p = {row_of<element>(args.tensor[ATTUNE_K], t.at.batch, t.head_kv, t.at.first_kv),
                  row_of<element>(args.tensor[ATTUNE_V], t.at.batch, t.head_kv, t.at.first_kv),
                  args.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_SEQ],
                  args.tensor[ATTUNE_V].stride[ATTUNE_STRIDE_SEQ],
                  there.first,
                  there.end,
                  (int)threadIdx.x % 128,
                  ptx_cvta_shared(&shared)};
    load_unit<0>(p, t.first_key);
#pragma unroll 1
    for (int key = t.first_key; key < t.end_key; key += BLOCK_N) {
        produce_units<0>(p, key, t.end_key);
    }
    if (has_lost(p.values_lost)) {
        shared.values_lost = 1;
    }
    tell(shared.keys_lost, has_lost(p.keys_lost), shared.keys_large, p.largest_key > large_enough);
    arrive_full(p, p.units.stage == 0 ? STAGES - 1 : p.units.stage - 1);
}

/* ---- Split ahead: units lie in the workspace as they lie in shared memory, behind them two words of each ----------
 */

constexpr int units_of_tile = chunks_qk + chunks_v;

/* The number of a tile's first unit. */
ATTUNE_INLINE attune_i64 unit_number(const attune_args &args, int batch, int head_kv, int key)
{
    const attune_i64 tiles = (args.seqlen_kv + BLOCK_N - 1) / BLOCK_N;
    return ((batch * args.heads_kv + head_kv) * tiles + key / BLOCK_N) * units_of_tile;
}

ATTUNE_INLINE unsigned char *unit_ahead(const attune_args &args, attune_i64 number)
{
    return static_cast<unsigned char *>(args.workspace) + number * unit_bytes;
}

/* Whether bits of it were lost, and whether some of it is above large_enough. */
ATTUNE_INLINE uint2 *words_ahead(const attune_args &args, attune_i64 number)
{
    return reinterpret_cast<uint2 *>(unit_ahead(args, unit_number(args, (int)args.batch, 0, 0))) + number;
}

/* One thread has the copy engine bring the units. */
ATTUNE_INLINE void bring(const attune_args &args, Shared &shared)
{
    tile t;
    if (!find(args, t) || threadIdx.x != 0) {
        return;
    }
    const unsigned base = ptx_cvta_shared(&shared);
    const unsigned char *from = unit_ahead(args, unit_number(args, t.batch, t.head_kv, t.first_key));
    ring<STAGES> units;
    ptx_griddepcontrol_wait();
#pragma unroll 1
    for (int i = (t.end_key - t.first_key + BLOCK_N - 1) / BLOCK_N * units_of_tile; i > 0; --i, from += unit_bytes) {
        const held now = units.next();
        barrier_wait(base + smem_empty + now.stage * 8, now.parity ^ 1);
        ptx_mbarrier_arrive_expect_tx(base + smem_full + now.stage * 8, unit_bytes);
        ptx_cp_async_bulk_load(base + smem_unit + now.stage * unit_bytes, from, unit_bytes,
                               base + smem_full + now.stage * 8);
    }
}

/* What was left word of the units of the block's tiles. */
ATTUNE_INLINE void read_words(const attune_args &args, Shared &shared, const tile &t, int group, int thread)
{
    const int count = (t.end_key - t.first_key + BLOCK_N - 1) / BLOCK_N * units_of_tile;
    const uint2 *words = words_ahead(args, unit_number(args, t.batch, t.head_kv, t.first_key));
    ptx_griddepcontrol_wait();
#pragma unroll 1
    for (int i = thread; i < count; i += 128) {
        const uint2 word = words[i];
        if (i % units_of_tile < chunks_qk) {
            tell(shared.keys_lost, word.x != 0, shared.keys_large, word.y != 0);
        } else if (word.x != 0) {
            shared.values_lost = 1;
        }
    }
    sync_group<GROUPS>(group);
}

/* A block splits 64 columns of a tile of keys or values. */
extern "C" __global__ void __launch_bounds__(128) sm90_split_wgmma_fp32(const __grid_constant__ attune_args args)
{
    const attune_i64 tiles = (args.seqlen_kv + BLOCK_N - 1) / BLOCK_N;
    const int unit = (int)(blockIdx.x % units_of_tile), thread = (int)threadIdx.x;
    const attune_i64 index = blockIdx.x / units_of_tile, head = index / tiles;
    const int key = (int)(index - head * tiles) * BLOCK_N, batch = (int)(head / args.heads_kv),
              head_kv = (int)(head - batch * args.heads_kv);
    const sequence at = sequence_of(args, batch);
    const key_range there = keys_seen_by_any(args, at, 0, at.length_q - 1);
    share<BLOCK_N> share;
    ptx_griddepcontrol_launch_dependents();
    if (unit < chunks_qk) {
        load_share<BLOCK_N, dim_qk>(share, row_of<element>(args.tensor[ATTUNE_K], at.batch, head_kv, at.first_kv),
                                    args.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_SEQ], key, there.first, there.end, unit,
                                    thread);
    } else {
        load_share<BLOCK_N, dim_v>(share, row_of<element>(args.tensor[ATTUNE_V], at.batch, head_kv, at.first_kv),
                                   args.tensor[ATTUNE_V].stride[ATTUNE_STRIDE_SEQ], key, there.first, there.end,
                                   unit - chunks_qk, thread);
    }
    unsigned lost = 0;
    store_share(share, unit_ahead(args, blockIdx.x), part_bytes, thread, lost);
    const bool any_lost = __syncthreads_or(has_lost(lost)),
               large = __syncthreads_or(largest_of(share, 0) > large_enough);
    if (thread == 0) {
        *words_ahead(args, blockIdx.x) = make_uint2(any_lost, large);
    }
}

#endif
