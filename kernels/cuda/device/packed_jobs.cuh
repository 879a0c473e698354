/* The order of packed sequences' tiles, up to 32 sequences: those with most keys come first, so that the last tiles are
 * short ones, and numbers are of tiles that are there. A warp looks, a lane at each sequence. */
#ifndef DEVICE_PACKED_JOBS_CUH
#define DEVICE_PACKED_JOBS_CUH

#include "device/job.cuh"

/* Keys of a sequence, and tiles of each of its heads. */
struct extent {
    int keys, tiles;
};

/* Of sequence `index`; none beyond the batch. */
template <int block_m> ATTUNE_INLINE extent extent_of(const attune_args &args, int index)
{
    if (index >= args.batch) {
        return extent{-1, 0};
    }
    const sequence at = sequence_of(args, index);
    return extent{(int)at.length_kv, (int)((at.length_q + block_m - 1) / block_m)};
}

/* What comes before a sequence: sequences, tiles of each of their heads, their keys. */
struct rank {
    int sequences, tiles;
    unsigned keys;
};

/* Of the lane's sequence among the warp's. */
ATTUNE_INLINE rank rank_of(extent own, int lane)
{
    rank before = {0, 0, 0u};
#pragma unroll
    for (int other = 0; other < 32; ++other) {
        const int its_keys = __shfl_sync(0xffffffff, own.keys, other);
        const int its_tiles = __shfl_sync(0xffffffff, own.tiles, other);
        const bool is_before = its_keys > own.keys || (its_keys == own.keys && other < lane);
        before.sequences += is_before ? 1 : 0;
        before.tiles += is_before ? its_tiles : 0;
        before.keys += is_before ? (unsigned)its_keys : 0u;
    }
    return before;
}

/* ---- Tiles by ascending numbers ---- */

enum { PACKED_SEQUENCES = 32 };

/* Where a warp is that takes ascending numbers of tiles. Under a causal mask sequences that begin in the same
 * SECTION_BYTES of keys and values, counted from the longest, are together, in parts of their heads where one has more;
 * of those at hand all tiles come that see the most keys, then those that see fewer. Else a sequence's heads come one
 * after the other. */
struct packed_queue {
    int order, tiles;     /* of the lane's sequence: how many come before it; its tiles */
    unsigned mates;       /* the lanes whose sequences go with it, */
    int heads;            /* so many of their heads at a time */
    int next, end;        /* the order of the next sequences; the number of the first tile behind those at hand */
    unsigned members;     /* the lanes whose sequences are at hand */
    int first_head, most; /* with a causal mask: the heads that are, from first_head on, at most so many; */
    int level;            /* the tile that is at hand of each */
};

template <int block_m> ATTUNE_INLINE packed_queue packed_queue_of(const attune_args &args, int lane)
{
    const extent own = extent_of<block_m>(args, lane);
    const rank before = rank_of(own, lane);
    packed_queue q = {};
    q.order = before.sequences;
    q.tiles = own.tiles;
    if constexpr (CAUSAL) {
        enum { ROOM = (int)SECTION_BYTES / ((ATTUNE_HEAD_DIM_QK + ATTUNE_HEAD_DIM_V) * 2) }; /* keys of a head */
        const int heads = (int)args.heads_q, heads_kv = (int)args.heads_kv;
        const unsigned section = before.keys / (unsigned)max(ROOM / heads_kv, 1);
        q.mates = __match_any_sync(0xffffffff, lane < args.batch ? section : ~0u);
        q.heads = min(max(ROOM / max(own.keys, 1), 1), heads_kv) * (heads / heads_kv);
        q.first_head = q.most = heads;
    }
    return q;
}

ATTUNE_INLINE int lane_of(bool has)
{
    return __ffs((int)__ballot_sync(0xffffffff, has)) - 1;
}

ATTUNE_INLINE int warp_max(int x)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        x = max(x, __shfl_xor_sync(0xffffffff, x, step));
    }
    return x;
}

ATTUNE_INLINE int heads_at_hand(const attune_args &args, const packed_queue &q)
{
    return min(q.most, (int)args.heads_q - q.first_head);
}

/* The lanes whose sequences have a tile at hand. */
ATTUNE_INLINE unsigned lanes_at_hand(const packed_queue &q, int lane)
{
    return __ballot_sync(0xffffffff, (q.members >> lane & 1) && q.tiles > q.level);
}

/* Goes on to the next heads, or to those of the next sequences; false behind all. */
ATTUNE_INLINE bool next_heads(const attune_args &args, packed_queue &q, int lane)
{
    q.first_head += q.most;
    if (q.first_head >= args.heads_q) {
        if (q.next >= args.batch) {
            return false;
        }
        const int leader = lane_of(q.order == q.next);
        q.members = __shfl_sync(0xffffffff, q.mates, leader);
        q.most = __shfl_sync(0xffffffff, q.heads, leader);
        q.next += __popc(q.members);
        q.first_head = 0;
    }
    q.level = warp_max(q.members >> lane & 1 ? q.tiles : 0);
    return true;
}

/* Goes on to tile `number`; false behind all. */
ATTUNE_INLINE bool reach(const attune_args &args, packed_queue &q, int number, int lane)
{
    while (number >= q.end) {
        if constexpr (CAUSAL) {
            while (q.level == 0) {
                if (!next_heads(args, q, lane)) {
                    return false;
                }
            }
            --q.level;
            q.end += heads_at_hand(args, q) * __popc(lanes_at_hand(q, lane));
        } else {
            if (q.next >= args.batch) {
                return false;
            }
            q.members = __ballot_sync(0xffffffff, q.order == q.next++);
            q.end += (int)args.heads_q * __shfl_sync(0xffffffff, q.tiles, __ffs((int)q.members) - 1);
        }
    }
    return true;
}

/* The job of tile `number`, which the queue has reached. The first lane fills it in. */
template <int block_m, int block_n>
ATTUNE_INLINE void job_at(const attune_args &args, packed_queue q, int number, int lane, job &j)
{
    int source, head, tile;
    if constexpr (CAUSAL) {
        const unsigned lanes = lanes_at_hand(q, lane);
        const int heads = heads_at_hand(args, q), at = number - q.end + heads * __popc(lanes), place = at / heads;
        source = lane_of((lanes >> lane & 1) && __popc(lanes & ((1u << lane) - 1)) == place);
        head = q.first_head + at - place * heads;
        tile = q.level;
    } else {
        source = __ffs((int)q.members) - 1;
        const int tiles = __shfl_sync(0xffffffff, q.tiles, source), at = number - q.end + (int)args.heads_q * tiles;
        head = at / tiles;
        tile = at - head * tiles;
    }
    if (lane == 0) {
        job_of<block_m, block_n>(args, source, head, tile, j);
    }
}

#endif
