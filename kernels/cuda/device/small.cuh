/* A block of wgmma_small: what it holds, its place in the work, and its copies. The parameters are that kernel's. */
#ifndef DEVICE_SMALL_CUH
#define DEVICE_SMALL_CUH

#include "device/element.cuh"
#include "device/tma.cuh"
#include "device/visibility.cuh"

constexpr int dim_qk = ATTUNE_HEAD_DIM_QK, dim_v = ATTUNE_HEAD_DIM_V;
constexpr int CHUNK = 64; /* elements of a swizzled line */
constexpr int chunks_qk = (dim_qk + CHUNK - 1) / CHUNK, chunks_v = (dim_v + CHUNK - 1) / CHUNK;
constexpr int steps_qk = (dim_qk + 15) / 16, steps_p = BLOCK_N / 16;
constexpr int logits = BLOCK_N / 2; /* of a thread, half of them in either of its rows */
constexpr int GROUP = 128;          /* threads of a warp group */
constexpr int BLOCK_M = ROWS * 64;
constexpr int SLOTS = STAGES * SPLITS;
constexpr int PARTS = CLUSTER * SPLITS;
constexpr int columns_o = chunks_v * CHUNK;
constexpr int octets_o = columns_o / 8;         /* of columns; a thread has two sums of each in either row */
constexpr int octets_split = octets_o / SPLITS; /* that a warp group is left with when those of its block have met */
constexpr int octets_part = octets_split / CLUSTER; /* and in the end */
constexpr int threads = ROWS * SPLITS * GROUP, warps = threads / 32;
/* Bias and mask: rows that hidden NaN have reached are mended once they are stored. */
enum { PAIRED = ATTUNE_HAS_BIAS || ATTUNE_HAS_MASK };
/* Whether O leaves through the copy engine, from the place of its queries. */
constexpr bool boxed = !PAIRED && OVERLAP && Q_REGISTERS && PARTS == 1 && dim_v % 16 == 0 && chunks_v <= chunks_qk;
static_assert(threads == ATTUNE_THREADS, "the descriptor predicts another number of threads");
static_assert(octets_part * PARTS == octets_o && octets_part % 2 == 0, "stripes of whole pairs of octets");
static_assert(steps_p % STEPS_PV == 0, "whole groups of steps");
static_assert(!LOOPED || STAGES > 1, "values are asked for a tile later than keys");

/* What a warp hands to the one of another part that has the same rows: sums of some octets, and for each of its sixteen
 * rows, two in a place, the maximum and the sum of weights. */
template <int octets> struct partial {
    float4 o[octets][32];
    float4 soft[8];
};

constexpr int partials_splits = SPLITS * (SPLITS - 1) * ROWS * 4, partials_blocks = (CLUSTER - 1) * warps;
constexpr int partial_bytes =
    partials_splits * sizeof(partial<octets_split>) + partials_blocks * sizeof(partial<octets_part>);
constexpr int barriers_copies = ROWS + SLOTS * 4;
/* How far behind the barrier of a tile's keys that of its values is. With OVERLAP, where values are needed together
 * with the next tile's keys, it is theirs. */
constexpr int values_behind = OVERLAP ? SPLITS : SLOTS;

struct Shared {
    element q[chunks_qk * BLOCK_M * CHUNK];
    element k[SLOTS][chunks_qk * BLOCK_N * CHUNK];
    element v[SLOTS][chunks_v * BLOCK_N * CHUNK];
    float4 partials[PARTS > 1 ? partial_bytes / 16 : 8];
    unsigned long long full_q[ROWS], full[2 * SLOTS], empty_k[SLOTS], empty_v[SLOTS];
    unsigned long long merged[(barriers_copies + warps + 15) / 16 * 16 - barriers_copies]; /* `warps` of them used */
};
static_assert(sizeof(Shared) == ATTUNE_SMEM_BYTES, "the descriptor predicts another amount of shared memory");

ATTUNE_INLINE unsigned at(const void *shared)
{
    return ptx_cvta_shared(shared);
}

ATTUNE_INLINE partial<octets_split> *partials_of_splits(Shared &shared)
{
    return reinterpret_cast<partial<octets_split> *>(shared.partials);
}

ATTUNE_INLINE partial<octets_part> *partials_of_blocks(Shared &shared)
{
    return reinterpret_cast<partial<octets_part> *>(partials_of_splits(shared) + partials_splits);
}

/* The block's place. */
struct place {
    int batch, head, head_kv;
    int first_row;     /* of the block's tile */
    int share;         /* which of the keys: 0 ... CLUSTER - 1 */
    int tiles;         /* of keys, that some row of the block sees */
    sequence sequence; /* lengths and offset */
};

ATTUNE_INLINE place find_place(const attune_args &args)
{
    place p;
    p.share = (int)(blockIdx.x % CLUSTER);
    p.head = (int)(blockIdx.x / CLUSTER);
    p.batch = (int)blockIdx.y;
    int heads = (int)args.heads_q, heads_kv = (int)args.heads_kv;
    p.head_kv = heads == heads_kv ? p.head : p.head / (heads / heads_kv);
    /* Under a causal mask the last rows see most: they go first. */
    p.first_row = (int)(CAUSAL ? gridDim.z - 1 - blockIdx.z : blockIdx.z) * BLOCK_M;
    p.sequence = sequence_of(args, p.batch);
    attune_i64 last_row = min(p.sequence.length_q, (attune_i64)p.first_row + BLOCK_M) - 1;
    p.tiles = (keys_seen(args, p.sequence, last_row).end + BLOCK_N - 1) / BLOCK_N;
    return p;
}

/* A warp group's rows and share of the keys, and its threads' place in it. */
struct group {
    int rows, split; /* which */
    int warp, lane;
    int first_row; /* of the thread's two; the other is 8 below */
    int count;     /* of the split's tiles of keys */
};

/* Tiles of keys of a split of the block. */
ATTUNE_INLINE int tiles_of(const place &p, int split)
{
    return (p.tiles - p.share * SPLITS - split + PARTS - 1) / PARTS;
}

ATTUNE_INLINE group find_group(const place &p)
{
    group g;
    g.rows = (int)threadIdx.x / GROUP % ROWS;
    g.split = SPLITS == 1 ? 0 : (int)threadIdx.x / GROUP / ROWS; /* so that the compiler knows, too */
    g.warp = (int)threadIdx.x / 32 % 4;
    g.lane = (int)threadIdx.x % 32;
    g.first_row = p.first_row + g.rows * 64 + g.warp * 16 + g.lane / 4;
    g.count = tiles_of(p, g.split);
    return g;
}

/* The first key of the group's i-th tile, and the tile's place in the ring. */
ATTUNE_INLINE int key_of(const place &p, const group &g, int i)
{
    return (i * PARTS + p.share * SPLITS + g.split) * BLOCK_N;
}

ATTUNE_INLINE int slot_of(const group &g, int i)
{
    return i % STAGES * SPLITS + g.split;
}

ATTUNE_INLINE unsigned parity_of(int i)
{
    return (unsigned)(i / STAGES) & 1;
}

/* ---- Copies ---- */

constexpr unsigned bytes_q = sizeof(Shared::q) / ROWS, bytes_k = sizeof(Shared::k) / SLOTS,
                   bytes_v = sizeof(Shared::v) / SLOTS;

/* Also announces what is copied first, so that after the launch before there is nothing to do but to start copying. */
ATTUNE_INLINE void init_barriers(const attune_args &args, Shared &shared)
{
    for (int i = 0; i < 3; ++i) {
        ptx_prefetch_tensormap(&args.map[i]);
    }
    for (int i = 0; i < ROWS; ++i) {
        ptx_mbarrier_init(at(&shared.full_q[i]), 1);
        ptx_mbarrier_arrive_expect_tx(at(&shared.full_q[i]), bytes_q);
    }
    for (int i = 0; i < SLOTS; ++i) {
        ptx_mbarrier_init(at(&shared.full[i]), 1);
        ptx_mbarrier_init(at(&shared.full[SLOTS + i]), 1);
        ptx_mbarrier_arrive_expect_tx(at(&shared.full[i]), bytes_k);
        ptx_mbarrier_arrive_expect_tx(at(&shared.full[SLOTS + i]), bytes_v);
        if (LOOPED) {
            ptx_mbarrier_init(at(&shared.empty_k[i]), ROWS * 4);
            ptx_mbarrier_init(at(&shared.empty_v[i]), ROWS * 4);
        }
    }
    for (int i = 0; i < warps && CLUSTER > 1; ++i) {
        ptx_mbarrier_init(at(&shared.merged[i]), 1);
        ptx_mbarrier_arrive_expect_tx(at(&shared.merged[i]), (CLUSTER - 1) * sizeof(partial<octets_part>));
    }
    ptx_fence_mbarrier_init();
}

/* The same with a thread for each, where there are many, and to each what the tiles bring that there are. */
ATTUNE_INLINE void init_all_barriers(const attune_args &args, const place &p, Shared &shared)
{
    int thread = (int)threadIdx.x, tile = thread / SPLITS, lane = thread % 32;
    unsigned long long *barrier = nullptr;
    unsigned bytes = 0;
    if (thread < SLOTS + SPLITS) {
        int count = tiles_of(p, thread % SPLITS);
        barrier = &shared.full[thread];
        bytes = (tile < count ? bytes_k : 0) + (tile > 0 && tile <= count ? bytes_v : 0);
    } else if (thread / 32 == 2 && lane < ROWS) {
        barrier = &shared.full_q[lane];
        bytes = bytes_q;
    } else if (CLUSTER > 1 && thread / 32 == 3 && lane < warps) {
        barrier = &shared.merged[lane];
        bytes = (CLUSTER - 1) * sizeof(partial<octets_part>);
    } else if (thread / 32 == 3 && lane >= 28 && (boxed || lane < 31)) {
        ptx_prefetch_tensormap(&args.map[lane - 28]);
    }
    if (barrier != nullptr) {
        ptx_mbarrier_init(at(barrier), 1);
    }
    __syncwarp(); /* each thread's own order would do; racecheck wants the warp's */
    if (barrier != nullptr) {
        ptx_mbarrier_arrive_expect_tx(at(barrier), bytes);
        ptx_fence_mbarrier_init();
    }
}

/* Rows row ... of a map into the chunks of a tile of `rows` lines. */
template <int rows, int chunks>
ATTUNE_INLINE void copy_tile(const attune_tensor_map *map, element *tile, unsigned long long *full, int row, int head,
                             int batch)
{
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
        tma_load(at(tile + c * rows * CHUNK), map, at(full), L2_EVICT_NORMAL, c * CHUNK, row, head, batch);
    }
}

ATTUNE_INLINE void copy_keys(const attune_args &args, const place &p, const group &g, Shared &shared, int i)
{
    int slot = slot_of(g, i);
    copy_tile<BLOCK_N, chunks_qk>(&args.map[ATTUNE_MAP_K], shared.k[slot], &shared.full[slot], key_of(p, g, i),
                                  p.head_kv, p.batch);
}

ATTUNE_INLINE void copy_values(const attune_args &args, const place &p, const group &g, Shared &shared, int i)
{
    int slot = slot_of(g, i);
    copy_tile<BLOCK_N, chunks_v>(&args.map[ATTUNE_MAP_V], shared.v[slot], &shared.full[slot + values_behind],
                                 key_of(p, g, i), p.head_kv, p.batch);
}

/* Who starts copies: lane 0 of three warps, K in warp 0 and V in warp 2 of the groups of the first rows, Q in warp 1 of
 * every row's. NOTE: a copy for each warp, so that nobody starts many, takes longer: tiles then arrive in any order. */
ATTUNE_INLINE void fill_ring(const attune_args &args, const place &p, const group &g, Shared &shared)
{
    if (g.warp == 1 && g.split == 0 && g.lane == 0) {
        copy_tile<BLOCK_M, chunks_qk>(&args.map[ATTUNE_MAP_Q], shared.q + g.rows * 64 * CHUNK, &shared.full_q[g.rows],
                                      p.first_row + g.rows * 64, p.head, p.batch);
    }
    if (g.rows == 0 && g.lane == 0) {
#pragma unroll
        for (int i = 0; i < STAGES; ++i) {
            if (g.warp == 0 && i < g.count) {
                copy_keys(args, p, g, shared, i);
            }
            if (g.warp == 2 && i < g.count) {
                copy_values(args, p, g, shared, i);
            }
        }
    }
    __syncwarp();
}

/* After the i-th tile: its place for K is asked for again, and that of the tile before it for V, which the other groups
 * have left by then. */
ATTUNE_INLINE void refill(const attune_args &args, const place &p, const group &g, Shared &shared, int i)
{
    if (LOOPED && g.rows == 0 && g.lane == 0) {
        int slot_k = slot_of(g, i), slot_v = slot_of(g, i + STAGES - 1);
        if (g.warp == 0 && i + STAGES < g.count) {
            barrier_wait(at(&shared.empty_k[slot_k]), parity_of(i));
            ptx_mbarrier_arrive_expect_tx(at(&shared.full[slot_k]), bytes_k);
            copy_keys(args, p, g, shared, i + STAGES);
        }
        if (g.warp == 2 && i > 0 && i - 1 + STAGES < g.count) {
            barrier_wait(at(&shared.empty_v[slot_v]), parity_of(i - 1));
            ptx_mbarrier_arrive_expect_tx(at(&shared.full[slot_v + SLOTS]), bytes_v);
            copy_values(args, p, g, shared, i - 1 + STAGES);
        }
    }
    __syncwarp();
}

/* The warp is done with the i-th tile's keys or values; nobody asks where the place is not needed again. */
ATTUNE_INLINE void leave(unsigned long long *empty, const group &g, int i)
{
    if (LOOPED && i + STAGES < g.count) {
        __syncwarp();
        if (g.lane == 0) {
            ptx_mbarrier_arrive(at(empty));
        }
    }
}

#endif
