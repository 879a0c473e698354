/* Jobs: the tiles of queries that a persistent block works through, each with all that its consumers need to know. A
 * thread of the producer's group works them out, so that divisions and 64-bit arithmetic cost the consumers nothing,
 * and leaves them in shared memory. */
#ifndef DEVICE_JOB_CUH
#define DEVICE_JOB_CUH

#include "device/visibility.cuh"

/* A tile of queries of one head, and the tiles of keys it visits, from the right to the left. */
struct job {
    int batch, head, head_kv;   /* batch is 0 where sequences are packed */
    int row, rows;              /* first row of the tile in its sequence; rows of the sequence */
    int first_q, first_kv;      /* where the sequence begins in Q and in K */
    int key, blocks;            /* first key of the rightmost tile; tiles to visit, at least one; 0: no more jobs */
    int sees_first, sees_end;   /* the keys that the tile's first row sees; row r of the tile sees those r further on */
    int keys;                   /* of the sequence */
    int clean_first, clean_end; /* the keys that any row of the head sees: other values may hold anything */
    int position;               /* with ALiBi: of the tile's first row, as near as counts; the head's slope */
    float slope;
#if ATTUNE_HAS_BIAS || ATTUNE_HAS_MASK
    int sequence; /* which of the batch */
#endif
};

/* Numbers to which up to 512 may be added. */
ATTUNE_INLINE int within_int(attune_i64 x)
{
    return (int)clamp_i64(x, -0x7ffffc00, 0x7ffffc00);
}

/* Whether rows see different keys on this side. */
constexpr bool ends_move = ENDS_MOVE;
constexpr bool begins_move = BEGINS_MOVE;

/* The keys that the window lets row `row` see, without the sequence's own bounds. */
ATTUNE_INLINE void keys_allowed(const attune_args &args, const sequence &at, attune_i64 row, job &j)
{
    attune_i64 position = row + at.offset;
    j.sees_first = begins_move ? within_int(window_first(args, position)) : -0x7ffffc00;
    j.sees_end = ends_move ? within_int(window_end(args, position)) : 0x7ffffc00;
}

/* With ALiBi scores fall on both sides of a row's own position: where no end moves with the rows, which then begins the
 * walk, it begins there, goes on to the left, and then from the right end to where it began. */
enum { FROM_DIAGONAL = ATTUNE_HAS_ALIBI && !ENDS_MOVE };

/* The number, counted from the right, of the tile at which the walk begins. */
template <int block_m, int block_n> ATTUNE_INLINE int walk_begins(const job &j)
{
    int left_of = j.key + block_n - 1 - (j.position + block_m - 1);
    return FROM_DIAGONAL ? min(max(left_of, 0) / block_n, max(j.blocks - 1, 0)) : 0;
}

/* The number of the tile that the walk takes i-th, from 0. */
ATTUNE_INLINE int walk_from(int begins, int blocks, int i)
{
    return i + begins < blocks ? i + begins : blocks - 1 - i;
}

/* NOTE: no call where there is nothing to work out: it would change code of which there is evidence. */
#if ATTUNE_HAS_ALIBI
#define WALK(begins, blocks, i) (FROM_DIAGONAL ? walk_from(begins, blocks, i) : (i))
#else
#define WALK(begins, blocks, i) (i)
#endif

/* The tiles of `block_n` keys that rows row ... row + block_m - 1 see any of; one that nobody sees where there are
 * none, so that every job has a tile. */
template <int block_m, int block_n> ATTUNE_INLINE void visit(const attune_args &args, const sequence &at, job &j)
{
    key_range any = keys_seen_by_any(args, at, j.row, min((attune_i64)j.row + block_m, at.length_q) - 1);
    int first = any.first / block_n, end = (any.end + block_n - 1) / block_n;
    if (any.first >= any.end) {
        first = 0, end = 1;
    }
    j.blocks = end - first;
    j.key = (end - 1) * block_n;
}

/* With ALiBi: how much further all keys are from the tile's rows than from its position in the job. Where they are all
 * on one side of it that changes no weight, and near ones are exact. */
ATTUNE_INLINE float further_away(const attune_args &args, const job &j)
{
    attune_i64 offset = ATTUNE_OFFSET_KIND == 0 ? j.keys - j.rows : ATTUNE_OFFSET_KIND == 2 ? args.offset : 0;
    return fabsf((float)(j.row + offset - j.position));
}

/* Fills in the job of rows tile * block_m ... of a head; false where the sequence has no such rows. */
template <int block_m, int block_n>
ATTUNE_INLINE bool job_of(const attune_args &args, int batch, int head, int tile, job &j)
{
    sequence at = sequence_of(args, batch);
    j.row = tile * block_m;
    if (j.row >= at.length_q) {
        return false;
    }
    j.batch = (int)at.batch;
    j.head = head;
#if ATTUNE_HAS_BIAS || ATTUNE_HAS_MASK
    j.sequence = batch;
#endif
    j.head_kv = head / ((int)args.heads_q / (int)args.heads_kv);
    j.rows = (int)at.length_q;
    j.keys = (int)at.length_kv;
    j.first_q = (int)at.first_q;
    j.first_kv = (int)at.first_kv;
    keys_allowed(args, at, j.row, j);
    if constexpr (ATTUNE_HAS_ALIBI) {
        j.position = (int)clamp_i64(j.row + at.offset, -block_m, at.length_kv);
        j.slope = *row_of<float>(args.tensor[ATTUNE_SLOPES], 0, head, 0);
    }
    visit<block_m, block_n>(args, at, j);
    key_range clean = keys_seen_by_any(args, at, 0, at.length_q - 1);
    j.clean_first = clean.first;
    j.clean_end = clean.end;
    return true;
}

/* ---- The order of the jobs (of packed sequences also packed_jobs.cuh) ---- */

/* With SCHEDULER 3 heads go together in fours, so that keys and values come from memory evenly and not a section at
 * once; but the last ones as sections else are, or the last jobs would be long ones. NOTE: of the preprocessor, for
 * evidence is of the code without it. */
#if SCHEDULER == 3
#define FEW_HEADS 4
#else
#define FEW_HEADS 0
#endif

/* Numbers 0 ... count - 1 are tiles: heads in sections whose keys and values share L2, in a section the tiles that see
 * most keys first (where that differs), else head by head. */
struct queue {
    int tiles, rows; /* of a head; heads of the batch */
    int section;     /* heads that go together; a multiple of those that share keys */
    int sections, count;
#if FEW_HEADS
    int last; /* heads of the last section */
#endif
};

/* A section's keys and values; half of it where that still leaves enough heads, so that memory is read more evenly. */
constexpr attune_i64 SECTION_BYTES = 32 << 20, SECTION_HEADS = 32;

/* Heads of `bytes` each for which there is room. NOTE: a division in 64 bits may be a call, for which a thread of 24
 * registers has none to spare. Where a key's bytes are a power of two it is none; that code stays as it is, for
 * evidence is of its bytes. */
template <attune_i64 room> ATTUNE_INLINE attune_i64 heads_within(attune_i64 bytes)
{
    enum { key_bytes = (ATTUNE_HEAD_DIM_QK + ATTUNE_HEAD_DIM_V) * 2 };
    if constexpr ((key_bytes & (key_bytes - 1)) == 0) {
        return room / bytes;
    } else {
        return (int)room / (int)min(bytes, room + 1);
    }
}

template <int block_m> ATTUNE_INLINE queue queue_of(const attune_args &args)
{
    queue q;
    q.tiles = (int)((args.seqlen_q + block_m - 1) / block_m);
    q.rows = (int)(args.batch * args.heads_q);
    q.count = q.tiles * q.rows;
    attune_i64 bytes = max(args.seqlen_kv, (attune_i64)1) * (ATTUNE_HEAD_DIM_QK + ATTUNE_HEAD_DIM_V) * 2;
    int shared = (int)(args.heads_q / args.heads_kv);
    attune_i64 heads =
        min(heads_within<SECTION_BYTES>(bytes), max(heads_within<SECTION_BYTES / 2>(bytes), SECTION_HEADS));
    q.section = (int)min(max(heads, (attune_i64)1) * shared, (attune_i64)q.rows);
#if FEW_HEADS
    q.last = q.section;
    q.section = min(FEW_HEADS * shared, q.last);
    q.sections = (q.rows - q.last + q.section - 1) / q.section + 1;
#else
    q.sections = (q.rows + q.section - 1) / q.section;
#endif
    return q;
}

/* The tile of number `index`, and its head among all of the batch. Sections take turns in going down and up, so that
 * work grows and shrinks without jumps: blocks that take numbers to and fro then get equal shares; the last one goes
 * down. */
ATTUNE_INLINE void find_tile(const queue &q, int index, int &row, int &tile)
{
    if constexpr (CAUSAL) {
#if FEW_HEADS
        int before = q.rows - q.last, is_last = index >= before * q.tiles;
        int section = is_last ? q.sections - 1 : index / (q.section * q.tiles);
        int first = is_last ? before : section * q.section, at = index - first * q.tiles;
        int heads = is_last ? q.last : min(q.section, before - first);
        int rank = at / heads;
        row = first + at - rank * heads;
#else
        int section = index / (q.section * q.tiles), at = index - section * q.section * q.tiles;
        int heads = min(q.section, q.rows - section * q.section);
        int rank = at / heads;
        row = section * q.section + at - rank * heads;
#endif
        tile = (q.sections - section) % 2 ? q.tiles - 1 - rank : rank;
    } else {
        row = index / q.tiles;
        tile = index - row * q.tiles;
    }
}

template <int block_m, int block_n>
ATTUNE_INLINE bool job_at(const attune_args &args, const queue &q, int index, job &j)
{
    int row, tile;
    find_tile(q, index, row, tile);
    int batch = row / (int)args.heads_q;
    return job_of<block_m, block_n>(args, batch, row - batch * (int)args.heads_q, tile, j);
}

/* The number of this block's turn: to and fro over the blocks, or in one direction. */
template <bool to_and_fro> ATTUNE_INLINE int job_number(int turn)
{
    int place = to_and_fro && turn % 2 ? (int)gridDim.x - 1 - (int)blockIdx.x : (int)blockIdx.x;
    return turn * (int)gridDim.x + place;
}

#endif
