/* Keys and values of a block's spans on their way into rings, one a warp. decode.cu explains it. */
#ifndef DEVICE_SPANS_RING_CUH
#define DEVICE_SPANS_RING_CUH

#include "device/packed_tile.cuh"
#include "device/pages.cuh"
#include "device/spans_cluster.cuh"

constexpr int threads = WARPS / SHARERS * 32;
/* Columns that are joined at once, two a thread; slices of them are staged together where there are many. */
constexpr int SLICE = 64 * WARPS / ROWS < stripes * 16 ? 64 * WARPS / ROWS : stripes * 16;
constexpr int slices = (stripes * 16 + SLICE - 1) / SLICE, STAGED = HALVES > 1 && slices % 2 == 0 ? 2 : 1;
constexpr unsigned bytes_k = chunks_qk * chunk_bytes, bytes_stage = bytes_k + chunks_v * chunk_bytes;

ATTUNE_INLINE constexpr int common_rows(int a, int b)
{
    return b == 0 ? a : common_rows(b, a % b);
}

/* Rows that one box brings: of one page. */
constexpr int BOX = PAGED ? common_rows(TILE, PAGE_ROWS) : TILE;
constexpr bool BOXES = BOX % 8 == 0; /* else rows are copied one by one */

struct alignas(1024) Shared {
    unsigned char ring[OWN_TEAMS][STAGES][bytes_stage]; /* of each stage K, then V, both in chunks */
    element q[Q_REGISTERS ? 8 : rows_q * pitch_q];
    /* + 4: rows and columns of a warp's operand fall into different banks */
    float o[PARTS > 1 ? 1 : TEAMS][PARTS > 1 ? 1 : ROWS][STAGED * SLICE + 4];
    float2 state[PARTS > 1 ? 1 : TEAMS][ROWS];
    /* What a block has joined of its job: groups of spans, and the open group. */
    float kept[CLUSTER > 0 ? 1 : 2][CLUSTER > 0 ? 1 : 2 * slices + 2][threads];
    attune_u64 full[OWN_TEAMS][STAGES];
    attune_u64 arrived; /* what other blocks of the cluster send */
    int sums[WARPS / SHARERS];
};
static_assert(sizeof(Shared) <= ATTUNE_SMEM_BYTES, "the descriptor predicts less shared memory");
static_assert(threads == ATTUNE_THREADS, "the descriptor predicts another number of threads");
static_assert(slices == 1 || SLICE % 16 == 0, "slices are whole stripes");

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

constexpr int boxes_k = TILE / BOX * chunks_qk, boxes = boxes_k + TILE / BOX * chunks_v;
static_assert(!BOXES || boxes <= 64, "two boxes a lane");

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

/* The tile that a team copies next: boxes its first warp, rows all. */
struct cursor {
    job j;
    int end;       /* the block's units */
    int key, stop; /* keys of the job from `stop` on are not the block's */
    unsigned stage;
    int page; /* that the lane's box is of, read a tile ahead */
    box own;
};

/* The page that has the key; -1, which is no page, where nobody sees any of `count` keys from it on. */
ATTUNE_INLINE int page_of(const attune_args &args, bool of_v, const job &j, int key, int count)
{
    if (!is_seen(j.keys, key, count)) {
        return -1;
    }
    const attune_i32 *table = of_v ? page_table_of<ATTUNE_V>(args, j.batch) : page_table_of<ATTUNE_K>(args, j.batch);
    return page_in_pool(args, table[key / PAGE_ROWS]);
}

ATTUNE_INLINE void read_page(const attune_args &args, cursor &c)
{
    if constexpr (PAGED && BOXES) {
        if (lane_of() < boxes && c.key < c.stop) {
            c.page = page_of(args, c.own.of_v, c.j, c.key + c.own.row, BOX);
        }
    }
}

/* The team's first tile of the job, from a unit on, that some row sees. */
ATTUNE_INLINE void begin_job(const attune_args &args, const units &all, cursor &c, int unit)
{
    c.j = job_with(args, all, unit);
    c.stop = min(c.j.keys.end, span_of(c.j, min(c.j.end, c.end)) * SPAN);
    c.key = tile_key(span_of(c.j, unit), 0);
    while (c.key + TILE <= c.j.keys.first) {
        c.key += stride;
    }
}

/* Whether there is a tile left. */
ATTUNE_INLINE bool find_tile(const attune_args &args, const units &all, cursor &c)
{
    while (c.key >= c.stop) {
        if (c.j.end >= c.end) {
            return false;
        }
        begin_job(args, all, c, c.j.end);
        read_page(args, c);
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

ATTUNE_INLINE void copy_boxes(const attune_args &args, const cursor &c, unsigned stage, unsigned barrier)
{
    if constexpr (!PAGED) { /* NOTE: lanes with a box each start them one after the other as well, with more ado */
        if (ptx_elect_sync()) {
            copy_whole(args, c.j, c.key, stage, barrier);
        }
        return;
    }
    if (lane_of() == 0) {
        ptx_mbarrier_arrive_expect_tx(barrier, bytes_stage);
    }
    if (lane_of() < boxes) {
        copy_box(c, c.own, c.page, stage, barrier);
    }
    if (boxes > 32 && lane_of() + 32 < boxes) {
        const box b = box_of(args, lane_of() + 32);
        copy_box(c, b, page_of(args, b.of_v, c.j, c.key + b.row, BOX), stage, barrier);
    }
}

/* Rows one by one: lane i knows where row i of the tile is, and all lanes copy parts of each. */
template <int role, int dim, int chunks>
ATTUNE_INLINE void copy_rows(const attune_args &args, const job &j, int key, unsigned tile)
{
    const attune_tensor &pool = args.tensor[role];
#pragma unroll 1
    for (int half = 0; half < TILE; half += 32) {
        const int row = half + lane_of(), page = row < TILE ? page_of(args, role == ATTUNE_V, j, key + row, 1) : -1;
        const attune_u64 own =
            page < 0 ? 0 : reinterpret_cast<attune_u64>(row_of<element>(pool, page, j.head, (key + row) % PAGE_ROWS));
        constexpr int rows = TILE < 32 ? TILE : 32, parts = chunks * 8;
#pragma unroll 4
        for (int i = (int)threadIdx.x % (HALVES * 32); i < rows * parts; i += HALVES * 32) {
            const int of = i / parts, part = i % parts;
            const attune_u64 from = __shfl_sync(0xffffffff, own, of);
            const bool exists = from != 0 && part * 8 < dim;
            const unsigned to = tile + (unsigned)(part / 8) * chunk_bytes + (unsigned)(half + of) * LINE +
                                (unsigned)((part ^ of) & 7) * 16;
            ptx_cp_async_cg_shared_global_16(
                to, exists ? reinterpret_cast<const element *>(from) + part * 8 : pool.data, exists ? 16 : 0);
        }
    }
}

/* Starts copying the next tile, if there is one. */
ATTUNE_INLINE void copy_tile(const attune_args &args, const units &all, cursor &c, Shared &shared)
{
    if (!find_tile(args, all, c)) {
        return;
    }
    const unsigned stage = ptx_cvta_shared(shared.ring[team_of()]) + c.stage * bytes_stage;
    const unsigned barrier = ptx_cvta_shared(shared.full[team_of()]) + c.stage * 8;
    if constexpr (BOXES) {
        if (warp_of() % HALVES == 0) {
            copy_boxes(args, c, stage, barrier);
        }
    } else {
        copy_rows<ATTUNE_K, dim_qk, chunks_qk>(args, c.j, c.key, stage);
        copy_rows<ATTUNE_V, dim_v, chunks_v>(args, c.j, c.key, stage + bytes_k);
        ptx_cp_async_mbarrier_arrive_noinc(barrier);
    }
    c.stage = c.stage + 1 == STAGES ? 0 : c.stage + 1;
    c.key += stride;
    read_page(args, c);
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
        ptx_mbarrier_init(ptx_cvta_shared(&shared.full[team_of()][lane_of()]), BOXES ? 1 : HALVES * 32);
        ptx_fence_mbarrier_init();
    }
    team_sync();
}

#endif
