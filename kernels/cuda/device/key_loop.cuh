/* A block's way through the keys that its rows see: one after the other, or by splits of its threads, each of which
 * goes through every SPLITS-th tile; and barriers of splits. */
#ifndef DEVICE_KEY_LOOP_CUH
#define DEVICE_KEY_LOOP_CUH

#include "device/schedule.cuh"
#include "device/visibility.cuh"

/* The keys and values of the block's head, and those that its rows see. */
struct key_loop {
    const element *k, *v;
    attune_i64 stride_k, stride_v;
    int begin, end; /* keys; begin is a multiple of the tile, or of less (take_ranges) */
    int first;      /* that any row sees */
    int kv_end;
    key_range all_see; /* keys between need no mask */
};

/* That of a head, but for what rows see of it. */
ATTUNE_INLINE key_loop keys_of_head(const attune_args &args, const sequence &at, const work &w)
{
    int head_kv = kv_head(args, w.head);
    key_loop j;
    j.k = row_of<element>(args.tensor[ATTUNE_K], at.batch, head_kv, at.first_kv);
    j.v = row_of<element>(args.tensor[ATTUNE_V], at.batch, head_kv, at.first_kv);
    j.stride_k = args.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_SEQ];
    j.stride_v = args.tensor[ATTUNE_V].stride[ATTUNE_STRIDE_SEQ];
    j.kv_end = (int)at.length_kv;
    return j;
}

/* Those that some row sees, in tiles of block_n keys, and those that all of them see. */
template <int block_n> ATTUNE_INLINE void take_ranges(key_loop &j, key_range any, key_range all)
{
    j.begin = any.first / block_n * block_n;
    j.end = any.end;
    j.first = any.first;
    j.all_see = all;
}

/* The same of rows first_row ... end_row - 1. */
template <int block_n>
ATTUNE_INLINE key_loop key_loop_of(const attune_args &args, const sequence &at, const work &w, int first_row,
                                   int end_row)
{
    const key_range any = keys_seen_by_any(args, at, first_row, end_row - 1);
    key_loop j = keys_of_head(args, at, w);
    take_ranges<block_n>(j, any, keys_seen_by_all(args, at, first_row, end_row - 1));
    return j;
}

/* A barrier of a split: whole warps, `threads` of them. */
template <int splits, int threads> ATTUNE_INLINE void split_barrier(int split)
{
    if constexpr (splits == 1) {
        __syncthreads();
    } else {
        ptx_barrier_sync_aligned(1 + split, threads);
    }
}

/* Zeros in a tile's values of keys beside those that the block's rows see, V being there; when it returns, so are they.
 * All threads of the split take part. */
template <int splits, int threads, int rows, int pitch>
ATTUNE_INLINE void clean_ends(element (&tile)[rows][pitch], const key_loop &j, int split, int thread, int first_key)
{
    if (first_key >= j.first && first_key + rows <= j.end) {
        return;
    }
    constexpr int step = 16 / sizeof(element), parts = pitch / step;
    for (int i = thread; i < rows * parts; i += threads) {
        int key = first_key + i / parts;
        if (key < j.first || key >= j.end) {
            *reinterpret_cast<uint4 *>(&tile[i / parts][i % parts * step]) = uint4{};
        }
    }
    split_barrier<splits, threads>(split);
}

/* A barrier of a block whose splits have had barriers of their own.
 *
 * NOTE: twice, for racecheck alone. Where splits have had unequally many, which they do whenever tiles do not divide
 * evenly, the tool reports races between what is before and after the block's next barrier, and behind a second
 * one no more: bench/racecheck.cu shows it. That one takes 0.02 us; equal numbers of them would take ten times
 * that. */
ATTUNE_INLINE void join_splits()
{
    __syncthreads();
    __syncthreads();
}

#endif
