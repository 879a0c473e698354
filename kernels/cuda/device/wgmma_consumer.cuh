/* A consumer of the wgmma kernel: a warp group of 64 query rows, what it knows of its job, how it waits for tiles and
 * hands them back, and its two products. */
#ifndef DEVICE_WGMMA_CONSUMER_CUH
#define DEVICE_WGMMA_CONSUMER_CUH

#include "device/static_max.cuh"
#include "device/warp_groups.cuh"
#include "device/wgmma_block.cuh"

typedef float scores[BLOCK_N / 2];
constexpr int all_scores = BLOCK_N / 2, some_scores = BLOCK_N / 4 / 8 * 8;
typedef unsigned weights[steps_kv][4];
typedef float outputs[columns_v / 2];
constexpr bool static_max = RESCALE >= 15; /* weights by a static maximum */

/* How scores come of products (wgmma_score.cuh): with ALiBi, by a factor and a shift; with a softcap, by a curve. Where
 * a softcap is not all, or maxima are those of products, tiles are made scores at once. */
enum {
    SCORES_AT_ONCE = (ATTUNE_HAS_SOFTCAP && (ATTUNE_HAS_ALIBI || PAIRED)) || !static_max,
    SHIFTED = ATTUNE_HAS_ALIBI && static_max,
    CURVED = ATTUNE_HAS_SOFTCAP && !SCORES_AT_ONCE,
    /* Tiles without a maximum take in their bias among the exponentials. NOTE: a mask there costs more than before
     * them, and hides NaN of the bias besides; with a softcap registers are too few. */
    BIAS_LATE = BIAS_PLACED && !ATTUNE_HAS_MASK && !ATTUNE_HAS_SOFTCAP && static_max,
    /* A bias is read before the group's turn, where it waits anyway; a mask, which is here later, behind it. */
    PAIRS_AHEAD = BIAS_PLACED && !ATTUNE_HAS_MASK,
    /* One of fp32 is read from memory, into the sums that products begin with; with a softcap behind them. */
    BIAS_FIRST = ATTUNE_HAS_BIAS && !BIAS_PLACED && !ATTUNE_HAS_SOFTCAP
};

struct consumer {
    int group, thread;      /* of the block's, of the group's */
    unsigned base, queries; /* address of shared memory; of the group's queries, as a descriptor has it */
    ring<STAGES> tiles;
    int number;                /* jobs taken so far, this one among them */
    int first, blocks;         /* tiles of the job: the group's are first ... blocks - 1 */
    int right_edge, left_edge; /* those before right_edge and from left_edge on need a mask */
    int exact_until;           /* tiles up to it take their maxima; before `first`: so many were raised */
    int sharp;                 /* tiles from it on take theirs in all warps alike */
    bool narrow;               /* the first one is seen in its left half at most */
    float scale;
    row_pair rows;
/* NOTE: not there where they are of no use, or the compiler gives others' registers other names, and code of which
 * there is evidence is not that code any more. */
#if ATTUNE_HAS_ALIBI
    int position, begins; /* of the lane's first row less its first column; the tile the walk begins at */
    float slope, shift[2];
#endif
#if ATTUNE_HAS_SOFTCAP
    score_curve curve, now; /* of products; of what this tile has */
    bool bends;             /* the job's scores are not for the curve (find_bends): all tiles by the formula */
#endif
#if ATTUNE_HAS_STRICT || PAIRED
    bool again; /* rows are to be done again */
#endif
#if PAIRED
    ring<PLACES> places;
    held place;                 /* of this tile's bias and mask */
    unsigned bias[steps_kv][4]; /* of the tile: of two scores in a register, as they lie */
    float of_bias;              /* what it is multiplied by, to be added to products */
    unsigned seen[2][OCTETS];   /* of row r and 64 columns: a bit for each eight of the first, and of the next */
    unsigned all_seen;
#endif
};

ATTUNE_INLINE consumer consumer_of(const attune_args &args, const Shared &shared, int group)
{
    consumer c = {};
    c.group = group;
    c.thread = (int)threadIdx.x % 128;
    c.base = ptx_cvta_shared(&shared);
    asm("" : "+r"(c.base)); /* NOTE: or it would be known, and every place worked out in 64 bits again */
    c.scale = score_factor(args);
#if ATTUNE_HAS_SOFTCAP
    c.curve = score_curve_of(args);
#endif
#if PAIRED
    c.of_bias = LOG2_E / c.scale;
#endif
    return c;
}

/* How this tile's products become scores. */
ATTUNE_INLINE auto scaling_of(const consumer &c)
{
#if ATTUNE_HAS_ALIBI
    if constexpr (SHIFTED) {
        return shifted{c.scale, {c.shift[0], c.shift[1]}};
    } else {
        return c.scale;
    }
#elif ATTUNE_HAS_SOFTCAP
    if constexpr (CURVED) {
        return c.now;
    } else {
        return c.scale;
    }
#else
    return c.scale;
#endif
}

/* Which of the barriers of a place for queries is the group's. */
ATTUNE_INLINE int queries_part(const consumer &c)
{
    return Q_PARTS > 1 ? c.group : 0;
}

/* Where the queries lie of the job `before` jobs ago. */
ATTUNE_INLINE int queries_stage(const consumer &c, int before)
{
    return (c.number - 1 - before) % Q_STAGES;
}

ATTUNE_INLINE void await_tile(const consumer &c, held tile)
{
    barrier_wait(c.base + smem_full + tile.stage * 8, tile.parity);
}

/* A branch that is never taken, which the compiler does not know: it moves nothing across. NOTE: a barrier of a tile
 * would do as well but for a warp that comes so late that the stage has been filled again: it would wait for ever. */
ATTUNE_INLINE void keep_order(const consumer &c)
{
    barrier_wait(c.base + smem_never, 1);
}

/* NOTE: one thread arrives for four warps: products are of the whole group, so what it has waited for is done. */
ATTUNE_INLINE void leave_tile(const consumer &c, held tile)
{
    if (c.thread == 0) {
        ptx_mbarrier_arrive(c.base + smem_empty + tile.stage * 8);
    }
}

/* Where operands of products begin, as a shuffle's result. NOTE: without turns the compiler does not see that these are
 * the same in all lanes (ring.declare_uniform). */
ATTUNE_INLINE void declare_uniform(consumer &c)
{
    if constexpr (!PINGPONG) {
        c.base = __shfl_sync(0xffffffff, c.base, 0);
        c.queries = __shfl_sync(0xffffffff, c.queries, 0);
    }
}

/* A tile that the group does not need. NOTE: not before it is here, or this would count for the tile before; and not
 * before all four warps have seen it: one that comes late, after the stage was filled again, would wait for ever. */
ATTUNE_INLINE void skip_tile(consumer &c)
{
    held tile = c.tiles.next();
    await_tile(c, tile);
    sync_group<GROUPS>(c.group);
    leave_tile(c, tile);
}

/* An address of shared memory as a descriptor has it. NOTE: that of a block without a cluster: else the block's rank
 * is above it, from bit 24 on, and would be added to the leading offset. */
ATTUNE_INLINE unsigned operand_at(unsigned address)
{
    return address >> 4;
}

ATTUNE_INLINE unsigned place_of(const consumer &c, held tile)
{
    return operand_at(c.base + smem_tile) + tile.stage * (tile_bytes >> 4);
}

ATTUNE_INLINE void multiply_keys(const consumer &c, held tile, scores &s)
{
    attune_u64 q = wgmma_descriptor(c.queries), k = wgmma_descriptor(place_of(c, tile));
    register_fence(s);
    ptx_wgmma_fence();
#pragma unroll
    for (int i = 0; i < steps_qk; ++i) {
        wgmma_shape<BLOCK_N>::ss<0>(s, q + wgmma_step_k<BLOCK_M>(i), k + wgmma_step_k<BLOCK_N>(i), BIAS_FIRST || i > 0);
    }
    ptx_wgmma_commit_group();
}

ATTUNE_INLINE void multiply_values(const consumer &c, held tile, weights &p, outputs &o, int accumulate)
{
    attune_u64 v = wgmma_descriptor(place_of(c, tile) + (chunk_kv_bytes >> 4 << 16));
    register_fence(o);
    ptx_wgmma_fence();
#pragma unroll
    for (int i = 0; i < steps_kv; ++i) {
        wgmma_shape<columns_v>::rs<1>(o, p[i], v + wgmma_step_mn<BLOCK_N>(i), i > 0 ? 1 : accumulate);
    }
    ptx_wgmma_commit_group();
}

template <int pending> ATTUNE_INLINE void await_scores(scores &s)
{
    ptx_wgmma_wait_group<pending>();
    register_fence(s);
}

template <int pending> ATTUNE_INLINE void await_outputs(weights &p, outputs &o)
{
    ptx_wgmma_wait_group<pending>();
    register_fence(o);
#pragma unroll
    for (int i = 0; i < steps_kv; ++i) {
        register_fence(p[i]);
    }
}

#endif
