/* Keys and values of a block's spans on their way into rings, one a warp. decode.cu explains it. */
#ifndef DEVICE_SPANS_RING_CUH
#define DEVICE_SPANS_RING_CUH

#include "device/spans_cluster.cuh"
#include "device/spans_pages.cuh"

constexpr int threads = WARPS / SHARERS * 32;
/* Columns that are joined at once, two a thread; slices of them are staged together where there are many. */
constexpr int SLICE = 64 * WARPS / ROWS < stripes * 16 ? 64 * WARPS / ROWS : stripes * 16;
constexpr int slices = (stripes * 16 + SLICE - 1) / SLICE, STAGED = HALVES > 1 && slices % 2 == 0 ? 2 : 1;
constexpr unsigned bytes_k = chunks_qk * chunk_bytes, bytes_stage = bytes_k + chunks_v * chunk_bytes;

constexpr bool ALONE = CLUSTER == 0 || MIXED; /* blocks may have spans by themselves */

struct alignas(1024) Shared {
    unsigned char ring[OWN_TEAMS][STAGES][bytes_stage]; /* of each stage K, then V, both in chunks */
    element q[Q_REGISTERS ? 8 : rows_q * pitch_q];
    /* + 4: rows and columns of a warp's operand fall into different banks */
    float o[PARTS > 1 ? 1 : TEAMS][PARTS > 1 ? 1 : ROWS][STAGED * SLICE + 4];
    float2 state[PARTS > 1 ? 1 : TEAMS][ROWS];
    /* What a block has joined of its job: groups of spans, and the open group. */
    float kept[ALONE ? 2 : 1][ALONE ? 2 * slices + 2 : 1][threads];
    attune_u64 full[OWN_TEAMS][STAGES];
    attune_u64 arrived; /* what other blocks of the cluster send */
    next_entries next[OWN_TEAMS];
    int sums[WARPS / SHARERS];
};
static_assert(sizeof(Shared) <= ATTUNE_SMEM_BYTES, "the descriptor predicts less shared memory");
static_assert(threads == ATTUNE_THREADS, "the descriptor predicts another number of threads");
static_assert(slices == 1 || STAGED * SLICE % 16 == 0, "slices are whole stripes");

/* The first key of a team's tile of a span; tiles of a team are `stride` apart, from span to span as well. */
constexpr int stride = TEAMS * TILE;

ATTUNE_INLINE int tile_key(int span, int tile)
{
    return span * SPAN + tile * stride + (part_of() * OWN_TEAMS + team_of()) * TILE;
}

/* ---- Copies ----------------------------------------------------------------------------------------------------- */

/* What a lane copies of every tile, if anything: a box of K or V. NOTE: lanes that do nothing else take a box each, so
 * that none has many to start. */
struct box {
    const attune_tensor_map *map;
    unsigned to; /* from the stage's first byte */
    int row, column;
    bool of_v;
};

ATTUNE_INLINE box box_of(const attune_args &args, int number)
{
    box b;
#if defined(ATTUNE_MAP_K)
    b.of_v = number >= boxes_k;
    const int of = b.of_v ? number - boxes_k : number, chunks = b.of_v ? chunks_v : chunks_qk, chunk = of % chunks;
    b.map = &args.map[b.of_v ? ATTUNE_MAP_V : ATTUNE_MAP_K];
    b.row = of / chunks * BOX;
    b.column = chunk * 64;
    b.to = (b.of_v ? bytes_k : 0) + (unsigned)chunk * chunk_bytes + (unsigned)b.row * LINE;
#endif
    return b;
}

/* The tile that a team asks entries for: STAGES ahead of what it copies, perhaps of a job behind. */
struct place_ahead {
    job j;
    int key, stop;
};

/* The tile that a team copies next: boxes its first warp, rows all. */
struct cursor {
    job j;
    int end;       /* the block's units */
    int key, stop; /* keys of the job from `stop` on are not the block's */
    unsigned stage;
    box own;
    place_ahead ahead; /* of pools, with ASKS_EARLY */
};

/* The team's first tile of the job `to.j`, from a unit on, that some row sees; the block's units end before `end`. */
template <class Place> ATTUNE_INLINE void begin_job(Place &to, int end, int unit)
{
    to.stop = min(to.j.keys.end, span_of(to.j, min(to.j.end, end)) * SPAN);
    to.key = tile_key(span_of(to.j, unit), 0);
    while (to.key + TILE <= to.j.keys.first) {
        to.key += stride;
    }
}

/* Whether there is a tile to ask entries for. */
ATTUNE_INLINE bool find_ahead(const attune_args &args, const units &all, cursor &c)
{
    while (c.ahead.key >= c.ahead.stop) {
        if (c.ahead.j.end >= c.end) {
            return false;
        }
        c.ahead.j = job_behind(args, all, c.ahead.j, c.ahead.j.end);
        begin_job(c.ahead, c.end, c.ahead.j.begin);
    }
    return true;
}

ATTUNE_INLINE void read_entries(const attune_args &args, const cursor &c, Shared &shared)
{
    if constexpr (PAGED) {
        keep_first(read_first<false>(args, c.j, c.key, stride, c.stop), c.stage, shared.next[team_of()]);
    }
}

/* Entries of the first tiles that stages have. `known`: those of the first job are there already. */
ATTUNE_INLINE void find_first_entries(const attune_args &args, const units &all, cursor &c, bool known, Shared &shared)
{
    if (!known) {
        read_entries(args, c, shared);
    }
    if constexpr (PAGED && ASKS_EARLY) {
        c.ahead = place_ahead{c.j, c.key + (int)STAGES * stride, c.stop};
        if (c.ahead.key < c.stop + stride) {
            return;
        }
        c.ahead.key = c.key;
#pragma unroll 1
        for (unsigned i = 0; i < STAGES; ++i, c.ahead.key += stride) {
            const bool is_first = c.ahead.j.begin == c.j.begin && c.ahead.key < c.stop;
            if (is_first || !find_ahead(args, all, c)) {
                continue;
            }
#pragma unroll
            for (int slot = 0; slot < SLOTS; ++slot) {
                const share own = share_of(slot);
                if (share_is_seen(c.ahead.j, own, c.ahead.key)) {
                    shared.next[team_of()].entry[(c.stage + i) % STAGES][slot][team_lane()] =
                        *entry_at(args, c.ahead.j, own, c.ahead.key);
                }
            }
        }
    }
}

/* Whether there is a tile left. */
ATTUNE_INLINE bool find_tile(const attune_args &args, const units &all, cursor &c, Shared &shared)
{
    while (c.key >= c.stop) {
        if (c.j.end >= c.end) {
            return false;
        }
        const int unit = c.j.end;
        c.j = job_behind(args, all, c.j, unit);
        begin_job(c, c.end, unit);
        if constexpr (!ASKS_EARLY) {
            read_entries(args, c, shared);
        }
    }
    return true;
}

ATTUNE_INLINE void copy_box(const cursor &c, const box &b, int page, unsigned stage, unsigned barrier)
{
    if constexpr (PAGED) {
        ptx_cp_async_bulk_tensor_4d_load(stage + b.to, b.map, barrier, L2_EVICT_FIRST, b.column,
                                         (c.key + b.row) % PAGE_ROWS, c.j.head, page);
    } else {
        tma_load(stage + b.to, b.map, barrier, L2_EVICT_FIRST, b.column, c.j.first_kv + c.key, c.j.head, c.j.batch);
    }
}

/* A tile of keys that lie in one piece: by one lane. */
ATTUNE_INLINE void copy_whole(const attune_args &args, const job &j, int key, unsigned stage, unsigned barrier)
{
#if defined(ATTUNE_MAP_K)
    ptx_mbarrier_arrive_expect_tx(barrier, bytes_stage);
#pragma unroll
    for (int i = 0; i < chunks_qk; ++i) {
        tma_load(stage + i * chunk_bytes, &args.map[ATTUNE_MAP_K], barrier, L2_EVICT_FIRST, i * 64, j.first_kv + key,
                 j.head, j.batch);
    }
#pragma unroll
    for (int i = 0; i < chunks_v; ++i) {
        tma_load(stage + bytes_k + i * chunk_bytes, &args.map[ATTUNE_MAP_V], barrier, L2_EVICT_FIRST, i * 64,
                 j.first_kv + key, j.head, j.batch);
    }
#endif
}

/* A tile's boxes. Of keys that nobody sees there come zeros, as of a page that is none. NOTE: lanes with a box each
 * start them one after the other as well, with more ado. */
ATTUNE_INLINE void copy_boxes(const attune_args &args, const cursor &c, [[maybe_unused]] int entry, unsigned stage,
                              unsigned barrier)
{
    if constexpr (!PAGED) {
        if (ptx_elect_sync()) {
            copy_whole(args, c.j, c.key, stage, barrier);
        }
        return;
    }
    const box &b = c.own;
    if (lane_of() == 0) {
        ptx_mbarrier_arrive_expect_tx(barrier, bytes_stage);
    }
    if (lane_of() < boxes) {
        const int page = is_seen(c.j.keys, c.key + b.row, BOX) ? page_in_pool(args, entry) : -1;
        ptx_cp_async_bulk_tensor_4d_load(stage + b.to, b.map, barrier, L2_EVICT_FIRST, b.column,
                                         (unsigned)(c.key + b.row) % PAGE_ROWS, c.j.head, page);
    }
}

/* The tile's arrivals at its barrier: one for boxes, and one of each lane that copies by itself. */
constexpr int arrivals = (BOXES ? 1 : 0) + (!PAGED ? 0 : BOXES ? boxes : team_lanes);

/* Starts copying the next tile, if there is one. */
ATTUNE_INLINE void copy_tile(const attune_args &args, const units &all, cursor &c, Shared &shared)
{
    if (!find_tile(args, all, c, shared)) {
        return;
    }
    const unsigned stage = ptx_cvta_shared(shared.ring[team_of()]) + c.stage * bytes_stage;
    const unsigned barrier = ptx_cvta_shared(shared.full[team_of()]) + c.stage * 8;
    int entry[SLOTS] = {};
    if constexpr (PAGED) {
#pragma unroll
        for (int slot = 0; slot < SLOTS; ++slot) {
            entry[slot] = shared.next[team_of()].entry[c.stage][slot][team_lane()];
        }
    }
    if constexpr (!BOXES) {
        copy_rows(args, c.j, c.key, entry, stage, stage + bytes_k);
    } else if (warp_of() % HALVES == 0) {
        copy_boxes(args, c, entry[0], stage, barrier);
    }
    if constexpr (PAGED) {
        if constexpr (!ASKS_EARLY) {
            if (c.key + STAGES * stride < c.stop) {
                copy_next(args, c.j, c.key + STAGES * stride, c.stage, shared.next[team_of()]);
            }
        } else if (find_ahead(args, all, c)) {
            copy_next(args, c.ahead.j, c.ahead.key, c.stage, shared.next[team_of()]);
            c.ahead.key += stride;
        }
        if (!BOXES || team_lane() < boxes) {
            ptx_cp_async_mbarrier_arrive_noinc(barrier);
        }
    }
    c.stage = c.stage + 1 == STAGES ? 0 : c.stage + 1;
    c.key += stride;
}

/* Has L2 fetch the team's first tiles, before the launch before has ended: what that still writes of them it writes
 * there. NOTE: not where a second launch has much to join, which would stand behind what the next call has asked for,
 * and not where a call is so short that asking twice costs more. */
enum { PREFETCHES = uniform_units && !PAGED && PARTS <= 1 && ROWS <= 32 && (CLUSTER > 0 || PIECES > 1) };

ATTUNE_INLINE void prefetch_tiles([[maybe_unused]] const attune_args &args, [[maybe_unused]] const cursor &c)
{
#if defined(ATTUNE_MAP_K)
    if (warp_of() % HALVES == 0 && ptx_elect_sync()) {
        int key = c.key;
#pragma unroll
        for (int tile = 0; tile < STAGES; ++tile, key += stride) {
            if (key < c.stop) {
#pragma unroll
                for (int i = 0; i < chunks_qk; ++i) {
                    ptx_cp_async_bulk_prefetch_tensor_4d(&args.map[ATTUNE_MAP_K], L2_EVICT_FIRST, i * 64,
                                                         c.j.first_kv + key, c.j.head, c.j.batch);
                }
#pragma unroll
                for (int i = 0; i < chunks_v; ++i) {
                    ptx_cp_async_bulk_prefetch_tensor_4d(&args.map[ATTUNE_MAP_V], L2_EVICT_FIRST, i * 64,
                                                         c.j.first_kv + key, c.j.head, c.j.batch);
                }
            }
        }
    }
    __syncwarp();
#endif
}

/* A span whose tiles all have a stage: those that some row sees, and of them those that end before `end` or others. */
ATTUNE_INLINE void copy_part(const attune_args &args, const job &j, int span, int begin_tile, int end_tile, bool before,
                             int end, Shared &shared)
{
    const unsigned ring = ptx_cvta_shared(shared.ring[team_of()]), full = ptx_cvta_shared(shared.full[team_of()]);
    if (ptx_elect_sync()) {
        unsigned stage = 0;
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
            const int key = tile_key(span, tile);
            if (is_seen(j.keys, key, TILE)) {
                if (tile >= begin_tile && tile < end_tile && (key + TILE <= end) == before) {
                    copy_whole(args, j, key, ring + stage * bytes_stage, full + stage * 8);
                }
                ++stage;
            }
        }
    }
    __syncwarp();
}

ATTUNE_INLINE void init_ring(Shared &shared)
{
    if (warp_of() % HALVES == 0 && lane_of() < STAGES) {
        ptx_mbarrier_init(ptx_cvta_shared(&shared.full[team_of()][lane_of()]), arrivals);
        ptx_fence_mbarrier_init();
    }
    team_sync();
}

#endif
