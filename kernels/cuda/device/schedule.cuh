/* Which tile of which head a block computes. */
#ifndef DEVICE_SCHEDULE_CUH
#define DEVICE_SCHEDULE_CUH

#include "device/barrier.cuh"

struct work {
    int batch, head, tile;
};

/* One block a tile: tiles of a head are neighbours, so that they find its keys and values in L2. One dimension, since
 * only the first of a grid reaches beyond 65,535. */
template <int block_m> ATTUNE_INLINE work static_work(const attune_args &args)
{
    unsigned tiles = (unsigned)((args.seqlen_q + block_m - 1) / block_m);
    unsigned row = blockIdx.x / tiles;
    work w;
    w.tile = (int)(blockIdx.x - row * tiles);
    w.batch = (int)(row / (unsigned)args.heads_q);
    w.head = (int)(row - (unsigned)w.batch * (unsigned)args.heads_q);
    return w;
}

/* The head of K and V that a query head reads. NOTE: a division takes some forty dependent instructions, and most
 * problems do not need it. */
ATTUNE_INLINE int kv_head(const attune_args &args, int head)
{
    int heads_q = (int)args.heads_q, heads_kv = (int)args.heads_kv;
    return heads_q == heads_kv ? head : head / (heads_q / heads_kv);
}

/* From sm_90 on a programmatic step starts while the launch before it drains: lets the next one do so, and waits until
 * what came before has been written. Before the first access to a tensor. */
ATTUNE_INLINE void follow_launch()
{
#if ATTUNE_ARCH >= 90
    ptx_griddepcontrol_launch_dependents();
    ptx_griddepcontrol_wait();
#endif
}

#endif
