/* Entries of tables, and rows of small pages, on their way into rings (spans_ring.cuh).
 *
 * An entry is wanted long before its tile: what asks for it stands behind all that the multiprocessor has asked memory
 * for, which takes as long as a ring. So while a tile is copied into a stage, the entry for the tile that the stage has
 * next, with ASKS_EARLY of a job behind as well, is copied into shared memory, and both are waited for together. */
#ifndef DEVICE_SPANS_PAGES_CUH
#define DEVICE_SPANS_PAGES_CUH

#include "device/packed_tile.cuh"
#include "device/pages.cuh"

ATTUNE_INLINE constexpr int common_rows(int a, int b)
{
    return b == 0 ? a : common_rows(b, a % b);
}

/* Rows that one box brings: of one page. */
constexpr int BOX = PAGED ? common_rows(TILE, PAGE_ROWS) : TILE;
constexpr bool BOXES = BOX % 8 == 0; /* else rows are copied one by one */
constexpr int boxes_k = TILE / BOX * chunks_qk, boxes = boxes_k + TILE / BOX * chunks_v;
static_assert(!BOXES || boxes <= 32, "a box a lane");

/* Of a tile a lane of the team has a box; or a row of K or of V, or, where there are more of them than lanes, one of
 * each. What the lane has of the tile, from its first row on: how many rows of one page. */
constexpr int team_lanes = HALVES * 32, SLOTS = !BOXES && 2 * TILE > team_lanes ? 2 : 1;

struct share {
    bool exists, of_v;
    int row, rows;
};

ATTUNE_INLINE int team_lane()
{
    return (int)threadIdx.x % team_lanes;
}

ATTUNE_INLINE share share_of(int slot)
{
    const int lane = team_lane();
    if constexpr (BOXES) {
        const bool of_v = lane >= boxes_k;
        return share{lane < boxes, of_v, (of_v ? lane - boxes_k : lane) / (of_v ? chunks_v : chunks_qk) * BOX, BOX};
    } else {
        return share{lane < 2 * TILE, SLOTS == 2 ? slot > 0 : lane >= TILE, lane % TILE, 1};
    }
}

/* Entries of each lane's shares for the tiles that stages have next. */
struct next_entries {
    int entry[PAGED ? STAGES : 1][SLOTS][PAGED ? team_lanes : 1];
};

/* Where the entry for a key is, and whether somebody sees any of `rows` keys from it on; else nobody reads it. */
ATTUNE_INLINE const attune_i32 *entry_at(const attune_args &args, const job &j, const share &own, int key)
{
    const attune_i32 *table =
        own.of_v ? page_table_of<ATTUNE_V>(args, j.batch) : page_table_of<ATTUNE_K>(args, j.batch);
    return table + (unsigned)(key + own.row) / PAGE_ROWS;
}

ATTUNE_INLINE bool share_is_seen(const job &j, const share &own, int key)
{
    return own.exists && is_seen(j.keys, key + own.row, own.rows);
}

/* Those of the lane for a job's first tiles. */
struct first_entries {
    int entry[STAGES][SLOTS];
};

/* Reads them, at `key` and `stride` apart before `stop`. early: before the launch before has ended, as lengths are
 * (spans.cuh). NOTE: an entry is clamped where it is used: here that would be done for tiles that there may not be. */
template <bool early>
ATTUNE_INLINE first_entries read_first(const attune_args &args, const job &j, int key, int stride, int stop)
{
    first_entries first;
#pragma unroll
    for (int i = 0; i < STAGES * SLOTS; ++i) {
        const share own = share_of(i % SLOTS);
        const int at = key + i / SLOTS * stride;
        int entry = 0;
        if (at < stop && share_is_seen(j, own, at)) {
            const attune_i32 *place = entry_at(args, j, own, at);
            entry = early ? *static_cast<const volatile attune_i32 *>(place) : *place;
        }
        first.entry[i / SLOTS][i % SLOTS] = entry;
    }
    return first;
}

/* The first of them is for the tile that goes into `stage`. */
ATTUNE_INLINE void keep_first(const first_entries &first, unsigned stage, next_entries &next)
{
#pragma unroll
    for (int i = 0; i < STAGES * SLOTS; ++i) {
        next.entry[(stage + i / SLOTS) % STAGES][i % SLOTS][team_lane()] = first.entry[i / SLOTS][i % SLOTS];
    }
}

ATTUNE_INLINE bool are_alike(const first_entries &a, const first_entries &b)
{
    bool alike = true;
#pragma unroll
    for (int i = 0; i < STAGES * SLOTS; ++i) {
        alike &= a.entry[i / SLOTS][i % SLOTS] == b.entry[i / SLOTS][i % SLOTS];
    }
    return alike;
}

/* Copies those for the tile at `key`, into the stage's place. */
ATTUNE_INLINE void copy_next(const attune_args &args, const job &j, int key, unsigned stage, next_entries &next)
{
#pragma unroll
    for (int slot = 0; slot < SLOTS; ++slot) {
        const share own = share_of(slot);
        if (share_is_seen(j, own, key)) {
            ptx_cp_async_ca_shared_global_4(ptx_cvta_shared(&next.entry[stage][slot][team_lane()]),
                                            entry_at(args, j, own, key));
        }
    }
}

/* ---- Rows one by one --------------------------------------------------------------------------------------------- */

/* Where a lane's row is; of a key that nobody sees, some row of the pool: what it holds leaves no trace. */
template <int role> ATTUNE_INLINE attune_u64 row_at(const attune_args &args, const job &j, int key, int entry)
{
    return reinterpret_cast<attune_u64>(row_of<element>(args.tensor[role], page_in_pool(args, entry), j.head,
                                                        (unsigned)(key + team_lane() % TILE) % PAGE_ROWS));
}

/* Parts of sixteen bytes of a tile's rows: all lanes of a warp copy parts of each, whose place the lane has that has
 * the row. */
template <int dim, int chunks> ATTUNE_INLINE void copy_parts_of_rows(attune_u64 own, int first_lane, unsigned tile)
{
    constexpr unsigned parts = chunks * 8;
#pragma unroll
    for (int i = 0; i < TILE * (int)parts / 32; ++i) {
        const unsigned at = (unsigned)(i * 32 + lane_of()), row = at / parts, part = at % parts;
        const element *from = reinterpret_cast<const element *>(__shfl_sync(0xffffffff, own, first_lane + (int)row));
        const unsigned to = tile + part / 8 * chunk_bytes + row * LINE + ((part ^ row) & 7) * 16;
        const bool exists = dim % 64 == 0 || (int)part * 8 < dim;
        ptx_cp_async_cg_shared_global_16(to, exists ? from + part * 8 : from, exists ? 16 : 0);
    }
}

/* A tile's rows of K into the one place, those of V into the other. Of 32 rows a team's first warp copies those of K,
 * its second, if there is one, those of V. */
ATTUNE_INLINE void copy_rows(const attune_args &args, const job &j, int key, const int (&entry)[SLOTS], unsigned k,
                             unsigned v)
{
    const int warp = warp_of() % HALVES;
    const attune_u64 of_k = row_at<ATTUNE_K>(args, j, key, entry[0]);
    const attune_u64 of_v = row_at<ATTUNE_V>(args, j, key, entry[SLOTS - 1]);
    if (warp == 0) {
        copy_parts_of_rows<dim_qk, chunks_qk>(of_k, 0, k);
    }
    if (warp == (TILE == 16 || SLOTS == 2 ? 0 : 1)) {
        copy_parts_of_rows<dim_v, chunks_v>(of_v, TILE == 16 ? 16 : 0, v);
    }
}

#endif
