/* wgmma: attention forward for sm_90a. docs/hopper.md draws it.
 *
 * A block stays for many tiles of queries (jobs). One producer thread has the copy engine fill rings of Q, K and V
 * tiles; GROUPS warp groups of 64 query rows each multiply by wgmma. Scores, weights and O never leave registers.
 * With OVERLAP the scores of the next tile of keys are multiplied while the softmax of this one runs, across the end of
 * a job too where Q_STAGES is 2; with PINGPONG the groups take turns in giving work to the tensor cores.
 * Declared: a non-finite value may reach rows of its tile that do not see it (0 x NaN). */
#include "device/job.cuh"
#include "device/rows.cuh"
#include "device/stage.cuh"
#include "device/tma.cuh"
#include "device/turns.cuh"

constexpr int dim_qk = ATTUNE_HEAD_DIM_QK, dim_v = ATTUNE_HEAD_DIM_V;
constexpr int BLOCK_M = GROUPS * 64;
constexpr int chunks_qk = (dim_qk + 63) / 64, chunks_v = (dim_v + 63) / 64; /* of 64 columns, as boxes bring them */
constexpr int steps_qk = (dim_qk + 15) / 16, steps_kv = BLOCK_N / 16;
constexpr int columns_v = (dim_v + 7) / 8 * 8;
constexpr int JOBS = 8;
constexpr bool by_counter = SCHEDULER == 2; /* else in turns */
/* Whether the scores of a job's first tile can be given out before the job before has been stored. */
constexpr bool early = Q_STAGES > 1;
/* Whether O leaves through the copy engine: from the place of its queries, box by box, sixteen rows a warp. */
constexpr bool boxed = Q_STAGES > 1 && chunks_v <= chunks_qk &&dim_v % 16 == 0 && !ATTUNE_HAS_VARLEN;

constexpr unsigned chunk_q_bytes = BLOCK_M * 128, chunk_kv_bytes = BLOCK_N * 128;
constexpr unsigned tile_q_bytes = chunks_qk * chunk_q_bytes;
constexpr unsigned tile_bytes = (chunks_qk > chunks_v ? chunks_qk : chunks_v) * chunk_kv_bytes; /* keys or values */

/* As many stages as the descriptor has found room for. */
constexpr int STAGES = (ATTUNE_SMEM_BYTES - 1024 - Q_STAGES * (int)tile_q_bytes) / (int)tile_bytes;

struct alignas(1024) Shared {
    unsigned char q[Q_STAGES][tile_q_bytes];
    unsigned char tile[STAGES][tile_bytes];
    unsigned long long full[STAGES], empty[STAGES], full_q[Q_STAGES], empty_q[Q_STAGES];
    unsigned long long planned, taken; /* the next job: worked out, begun */
    job jobs[JOBS];
    queue jobs_to_do;
};

/* Where what consumers use begins. NOTE: NVRTC works out &shared.full[i] in 64 bits, and anew each time; base + place +
 * i * size in 32 are 30 of 500 instructions less in the loop over tiles. */
constexpr unsigned place_q = 0, place_tile = place_q + Q_STAGES * tile_q_bytes;
constexpr unsigned place_full = place_tile + STAGES * tile_bytes, place_empty = place_full + STAGES * 8;
constexpr unsigned place_full_q = place_empty + STAGES * 8, place_empty_q = place_full_q + Q_STAGES * 8;
static_assert(sizeof(Shared) == ATTUNE_SMEM_BYTES, "the descriptor predicts another amount of shared memory");
static_assert(STAGES >= 3, "a tile of keys, one of values, and the next");
static_assert((GROUPS + 1) * 128 == ATTUNE_THREADS, "the descriptor predicts another number of threads");
static_assert(BLOCK_N % 16 == 0 && BLOCK_N <= 256 && BLOCK_M <= 256, "what boxes and products take");
static_assert(dim_qk % 8 == 0 && dim_v % 8 == 0 && ATTUNE_ALIGN % 16 == 0, "what tensor maps take");

/* Registers of a thread: together what the launch has given. */
constexpr bool elaborate = ATTUNE_HAS_VARLEN || ATTUNE_HAS_SEQUSED || ATTUNE_HAS_WINDOW; /* for the producer */
constexpr int producer_registers = GROUPS == 3 ? 32 : elaborate ? 40 : 24;
constexpr int consumer_registers = GROUPS == 3 ? 160 : elaborate ? 232 : 240;

ATTUNE_INLINE unsigned address(const unsigned long long &barrier)
{
    return ptx_cvta_shared(&barrier);
}

ATTUNE_INLINE void init_barriers(Shared &shared)
{
    for (int i = 0; i < Q_STAGES; ++i) {
        ptx_mbarrier_init(address(shared.full_q[i]), 1);
        ptx_mbarrier_init(address(shared.empty_q[i]), boxed ? 4 * GROUPS : GROUPS);
    }
    for (int i = 0; i < STAGES; ++i) {
        ptx_mbarrier_init(address(shared.full[i]), 1);
        ptx_mbarrier_init(address(shared.empty[i]), GROUPS);
    }
    ptx_mbarrier_init(address(shared.planned), 1);
    ptx_mbarrier_init(address(shared.taken), 1);
    ptx_fence_mbarrier_init();
}

/* ---- The producer: one thread ---- */

struct producer {
    ring<Q_STAGES> q;
    ring<STAGES> tiles;
    int number; /* of the job */
};

/* Fills a stage with `chunks` boxes. A sequence without keys has none to bring: zeros, so that no NaN lies there. */
template <int chunks, unsigned chunk_bytes>
ATTUNE_INLINE void fill(unsigned char *stage, const attune_tensor_map *map, const unsigned long long &full, bool exists,
                        attune_u64 policy, int row, int head, int batch)
{
    if (!exists || !with_loading) {
        for (unsigned i = 0; with_loading && i < chunks * chunk_bytes; i += 16) {
            *reinterpret_cast<uint4 *>(stage + i) = make_uint4(0, 0, 0, 0);
        }
        ptx_fence_proxy_async_shared();
        ptx_mbarrier_arrive(address(full));
        return;
    }
    ptx_mbarrier_arrive_expect_tx(address(full), chunks * chunk_bytes);
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
        tma_load(ptx_cvta_shared(stage) + c * chunk_bytes, map, address(full), policy, c * 64, row, head, batch);
    }
}

/* The tile of keys or values that begins with `key`. */
template <int role>
ATTUNE_INLINE void produce_tile(const attune_args &args, Shared &shared, producer &p, const job &j, int key)
{
    int stage = p.tiles.stage;
    barrier_wait(address(shared.empty[stage]), p.tiles.parity ^ 1);
    fill<role == ATTUNE_K ? chunks_qk : chunks_v, chunk_kv_bytes>(shared.tile[stage], &args.map[role],
                                                                  shared.full[stage], j.keys > 0, L2_EVICT_LAST,
                                                                  j.first_kv + key, j.head_kv, j.batch);
    p.tiles.step();
}

ATTUNE_INLINE void produce_queries(const attune_args &args, Shared &shared, producer &p, const job &j)
{
    barrier_wait(address(shared.empty_q[p.q.stage]), p.q.parity ^ 1);
    if (j.blocks == 0) {
        ptx_mbarrier_arrive(address(shared.full_q[p.q.stage]));
        return;
    }
    fill<chunks_qk, chunk_q_bytes>(shared.q[p.q.stage], &args.map[0], shared.full_q[p.q.stage], true, L2_EVICT_FIRST,
                                   j.first_q + j.row, j.head, j.batch);
    p.q.step();
    ++p.number;
}

/* Values come one tile behind keys, as they are needed. */
ATTUNE_INLINE void produce_job(const attune_args &args, Shared &shared, producer &p, const job &j)
{
    produce_queries(args, shared, p, j);
    if (j.blocks == 0) {
        return;
    }
    produce_tile<ATTUNE_K>(args, shared, p, j, j.key);
    for (int i = 1; i < j.blocks; ++i) {
        produce_tile<ATTUNE_K>(args, shared, p, j, j.key - i * BLOCK_N);
        produce_tile<ATTUNE_V>(args, shared, p, j, j.key - (i - 1) * BLOCK_N);
    }
    produce_tile<ATTUNE_V>(args, shared, p, j, j.key - (j.blocks - 1) * BLOCK_N);
}

/* Works out the block's jobs in their order, one after the other, and gives each to `take`; last one without tiles.
 * NOTE: jobs and queue are written to shared memory and read again from there: these threads have few registers. */
template <class T> ATTUNE_INLINE void each_job(const attune_args &args, Shared &shared, T take)
{
    queue &q = shared.jobs_to_do;
    q = queue_of<BLOCK_M>(args);
    int count = 0, number = (int)blockIdx.x;
    for (int turn = 1; (by_counter ? number : (turn - 1) * (int)gridDim.x) < q.count; ++turn) {
        job &j = shared.jobs[count % JOBS];
        if (number < q.count && job_at<BLOCK_M, BLOCK_N>(args, q, number, j)) {
            take(j, count++);
        }
        number = by_counter ? atomicAdd(static_cast<int *>(args.workspace), 1) + (int)gridDim.x
                            : job_number<ATTUNE_HAS_CAUSAL>(turn);
    }
    job &end = shared.jobs[count % JOBS];
    end.blocks = 0;
    take(end, count);
}

/* By counter, jobs are short, and divisions and the counter's answer take two microseconds: another thread works out
 * the next job while the producer brings this one. NOTE: in turns its polls cost long jobs 2 %. */
ATTUNE_INLINE void plan(const attune_args &args, Shared &shared)
{
    each_job(args, shared, [&](const job &j, int count) {
        ptx_mbarrier_arrive(address(shared.planned));
        if (j.blocks > 0) {
            barrier_wait(address(shared.taken), count % 2);
        }
    });
}

ATTUNE_INLINE void produce_planned(const attune_args &args, Shared &shared, producer &p)
{
    for (bool more = true; more;) {
        const job &j = shared.jobs[p.number % JOBS];
        barrier_wait(address(shared.planned), p.number % 2);
        ptx_mbarrier_arrive(address(shared.taken));
        more = j.blocks > 0;
        produce_job(args, shared, p, j);
    }
}

ATTUNE_INLINE void produce(const attune_args &args, Shared &shared)
{
    producer p = {};
    if constexpr (by_counter) {
        produce_planned(args, shared, p);
    } else {
        each_job(args, shared, [&](const job &j, int) { produce_job(args, shared, p, j); });
    }
}

/* ---- The consumers: GROUPS warp groups ---- */

typedef float scores[BLOCK_N / 2];
constexpr int all_scores = BLOCK_N / 2, some_scores = BLOCK_N / 4 / 8 * 8;
typedef unsigned weights[steps_kv][4];
typedef float outputs[columns_v / 2];

struct consumer {
    int group, thread;      /* of the block's, of the group's */
    unsigned base, queries; /* address of shared memory; of the group's queries, as a descriptor has it */
    ring<STAGES> tiles;
    int number;                /* jobs taken so far, this one among them */
    int first, blocks;         /* tiles of the job: the group's are first ... blocks - 1 */
    int right_edge, left_edge; /* those before right_edge and from left_edge on need a mask */
    bool narrow;               /* the first one is seen in its left half at most */
    float scale;
    row_pair rows;
};

ATTUNE_INLINE consumer consumer_of(const attune_args &args, const Shared &shared, int group)
{
    consumer c = {};
    c.group = group;
    c.thread = (int)threadIdx.x % 128;
    c.base = ptx_cvta_shared(&shared);
    asm("" : "+r"(c.base)); /* NOTE: or it would be known, and every place worked out in 64 bits again */
    c.scale = LOG2_E * (ATTUNE_HAS_SOFTCAP ? args.softcap : args.scale);
    return c;
}

/* Where the queries lie of the job `before` jobs ago. */
ATTUNE_INLINE int queries_stage(const consumer &c, int before)
{
    return (c.number - 1 - before) % Q_STAGES;
}

ATTUNE_INLINE void await_tile(const consumer &c, held tile)
{
    barrier_wait(c.base + place_full + tile.stage * 8, tile.parity);
}

ATTUNE_INLINE void leave_tile(const consumer &c, held tile)
{
    if (c.thread == 0) {
        ptx_mbarrier_arrive(c.base + place_empty + tile.stage * 8);
    }
}

/* What the groups take turns in: with OVERLAP in giving work to the tensor cores, without in the softmax. */
constexpr bool turns_of_products = PINGPONG && OVERLAP;
constexpr bool turns_of_softmax = PINGPONG && !OVERLAP;

/* A tile that the group does not need. NOTE: not before it is here, or this would count for the tile before; and not
 * before all four warps have seen it: one that comes late, after the stage was filled again, would wait for ever. */
ATTUNE_INLINE void let_pass(consumer &c)
{
    held tile = c.tiles.next();
    await_tile(c, tile);
    sync_group<GROUPS>(c.group);
    leave_tile(c, tile);
}

ATTUNE_INLINE unsigned place_of(const consumer &c, held tile)
{
    return ((c.base + place_tile) >> 4) + tile.stage * (tile_bytes >> 4);
}

ATTUNE_INLINE void multiply_keys(const consumer &c, held tile, scores &s)
{
    attune_u64 q = wgmma_descriptor(c.queries), k = wgmma_descriptor(place_of(c, tile));
    register_fence(s);
    ptx_wgmma_fence();
#pragma unroll
    for (int i = 0; i < steps_qk; ++i) {
        wgmma_shape<BLOCK_N>::ss<0>(s, q + wgmma_step_k<BLOCK_M>(i), k + wgmma_step_k<BLOCK_N>(i), i > 0);
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

/* ---- Softmax ---- */

/* The first of the lane's two rows, within the tile of queries; the other is 8 below. */
ATTUNE_INLINE int first_row(const consumer &c)
{
    return c.group * 64 + c.thread / 32 * 16 + c.thread % 32 / 4;
}

/* -inf for keys that a row does not see. */
template <int count> ATTUNE_INLINE void hide(const job &j, const consumer &c, int key, scores &s)
{
    int first[2], end[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        int row = first_row(c) + r * 8;
        first[r] = begins_move ? j.sees_first + row - key : 0;
        end[r] = (ends_move ? min(j.sees_end + row, j.keys) : j.keys) - key;
    }
    rows_hide<begins_move, count>(s, first, end, c.thread % 32);
}

/* Whether groups leave out tiles on the right that none of their rows sees. */
constexpr bool skips = ends_move;

/* Which of the job's tiles some row of the group does not see whole: those on the right, and with a window those on the
 * left. NOTE: kept in registers. A load from shared memory in the loop waits behind the products, some 400 cycles. */
ATTUNE_INLINE void find_edges(const job &j, consumer &c)
{
    int row = c.group * 64;
    int end = ends_move ? max(min(j.sees_end + row, j.keys), 0) : j.keys;
    c.blocks = j.blocks;
    c.right_edge = (j.key - end + 2 * BLOCK_N - 1) / BLOCK_N;
    if constexpr (skips) {
        int last_end = max(min(j.sees_end + row + 63, j.keys), 0);
        int hidden = j.key < last_end ? 0 : (j.key - last_end) / BLOCK_N + 1;
        c.first = max(j.row + row < j.rows ? min(hidden, c.blocks - 1) : c.blocks - 1, 0);
        c.narrow = last_end - (j.key - c.first * BLOCK_N) <= 2 * some_scores;
    }
    if constexpr (begins_move) {
        int first = max(j.sees_first + row + 63, 0);
        c.left_edge = j.key < first ? 0 : (j.key - first) / BLOCK_N + 1;
    }
}

/* Scores as the softmax wants them: capped, hidden where that is so. */
template <int count>
ATTUNE_INLINE void prepare(const attune_args &args, const job &j, const consumer &c, int i, scores &s)
{
    if constexpr (ATTUNE_HAS_SOFTCAP) {
        rows_tanh<count>(s, args.scale / args.softcap); /* the cap itself has joined the scale */
    }
    if (i < c.right_edge || (begins_move && i >= c.left_edge)) {
        hide<count>(j, c, j.key - i * BLOCK_N, s);
    }
}

/* ---- Values that nobody sees ---- */

/* Whether a tile can hold values that no row of the head sees and the copy engine did not replace by zeros. */
constexpr bool may_hold_anything =
    ATTUNE_HAS_VARLEN || ATTUNE_HAS_SEQUSED || ATTUNE_HAS_WINDOW || (ATTUNE_HAS_CAUSAL && ATTUNE_OFFSET_KIND != 0);

/* Their weight is 0, and 0 x NaN is NaN: they are overwritten by zeros. Every group does so for itself. */
ATTUNE_INLINE void clean_values(Shared &shared, const job &j, const consumer &c, held tile, int number)
{
    if constexpr (may_hold_anything) {
        int key = j.key - number * BLOCK_N;
        if (key >= j.clean_first && key + BLOCK_N <= j.clean_end) {
            return;
        }
        uint4 *values = reinterpret_cast<uint4 *>(shared.tile[tile.stage]);
        for (int i = c.thread; i < (int)(chunks_v * chunk_kv_bytes / 16); i += 128) {
            int at = key + i / 8 % BLOCK_N;
            if (at < j.clean_first || at >= j.clean_end) {
                values[i] = make_uint4(0, 0, 0, 0);
            }
        }
        ptx_fence_proxy_async_shared();
        sync_group<GROUPS>(c.group);
    }
}

/* ---- Storing O ---- */

/* O through the warp's rows of its job's queries, whose last product is done: the copy engine takes it from there. */
ATTUNE_INLINE void store_box(const attune_args &args, Shared &shared, const job &j, const consumer &c, int stage,
                             const outputs &o, const float (&normaliser)[2])
{
    int first = c.group * 64 + c.thread / 32 * 16;
    unsigned at = c.base + place_q + stage * tile_q_bytes + first * 128;
    rows_stage<chunk_q_bytes>(at, o, normaliser, c.thread % 32);
    ptx_fence_proxy_async_shared();
    __syncwarp();
    if (c.thread % 32 == 0) {
#pragma unroll
        for (int n = 0; n < chunks_v; ++n) {
            ptx_cp_async_bulk_tensor_4d_store(&args.map[3], at + n * chunk_q_bytes, n * 64, j.row + first, j.head,
                                              j.batch);
        }
        ptx_cp_async_bulk_commit_group();
    }
}

ATTUNE_INLINE void store(const attune_args &args, Shared &shared, const job &j, const consumer &c, int stage,
                         const outputs &o)
{
    int lane = c.thread % 32;
    float normaliser[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        int row = j.row + first_row(c) + r * 8;
        bool exists = row < j.rows;
        float sum = group_sum<4>(c.rows.sum[r]);
        normaliser[r] = online_normaliser(sum);
        if (args.tensor[ATTUNE_LSE].data != nullptr && lane % 4 == 0 && exists) {
            *row_of<float>(args.tensor[ATTUNE_LSE], j.batch, j.head, (attune_i64)j.first_q + row) =
                sum == 0 ? negative_infinity() : LN_2 * (c.scale * c.rows.maximum[r]) + logf(sum);
        }
        if constexpr (!boxed) {
            element *to = row_of<element>(args.tensor[ATTUNE_O], j.batch, j.head, (attune_i64)j.first_q + row);
            rows_store(to, exists, o, r, normaliser[r], lane);
        }
    }
    if constexpr (boxed) {
        store_box(args, shared, j, c, stage, o, normaliser);
    }
}

/* ---- A consumer's way through its jobs ---- */

/* The next job, once its queries are here. */
ATTUNE_INLINE const job &take_job(const Shared &shared, consumer &c)
{
    int number = c.number++;
    barrier_wait(c.base + place_full_q + number % Q_STAGES * 8, number / Q_STAGES % 2);
    return shared.jobs[number % JOBS];
}

/* The tiles before the group's first. NOTE: a group that holds none of the ring's stages may wait for a stage to be
 * filled again, one that holds some would wait for itself. */
ATTUNE_INLINE void pass_tiles(consumer &c)
{
    for (int i = 0; i < c.first; ++i) {
        let_pass(c);
        if (i > 0) {
            let_pass(c);
        }
        take_turn<turns_of_products || turns_of_softmax>(c.group);
        pass_turn<turns_of_products || turns_of_softmax, GROUPS>(c.group);
    }
}

/* Gives the scores of the group's first tile to the tensor cores; of no job, whatever lies there. */
ATTUNE_INLINE held begin_job(consumer &c, scores &s)
{
    c.tiles.declare_uniform<skips>();
    held keys = c.tiles.next();
    c.queries = ((c.base + place_q) >> 4) + queries_stage(c, 0) * (tile_q_bytes >> 4) + c.group * (64 * 128 >> 4);
    if (c.blocks > 0) {
        await_tile(c, keys);
    }
    multiply_keys(c, keys, s);
    return keys;
}

/* The scores of tile `i` are here: its keys are needed no more, nor are the queries after the last. */
ATTUNE_INLINE void leave_keys(const consumer &c, held keys, int i)
{
    leave_tile(c, keys);
    if constexpr (!boxed) {
        if (i + 1 == c.blocks && c.thread == 0) {
            ptx_mbarrier_arrive(c.base + place_empty_q + queries_stage(c, 0) * 8);
        }
    }
}

/* The outputs that went through the place of a job's queries are out. */
ATTUNE_INLINE void leave_outputs(const consumer &c, int stage)
{
    if constexpr (boxed) {
        if (c.thread % 32 == 0) {
            ptx_cp_async_bulk_wait_group_read<0>();
            ptx_mbarrier_arrive(c.base + place_empty_q + stage * 8);
        }
    }
}

/* The first tile: nothing to multiply yet. */
template <int count>
ATTUNE_INLINE void first_weights(const attune_args &args, const job &j, consumer &c, scores &s, weights &p)
{
    softening f;
    prepare<count>(args, j, c, c.first, s);
    take_turn<turns_of_softmax>(c.group);
    rows_raise<RESCALE, count>(c.rows, s, c.scale, f);
    rows_soften<0, count>(s, c.scale, f);
    rows_finish(c.rows, f);
    pass_turn<turns_of_softmax, GROUPS>(c.group);
    rows_pack<count>(s, p);
}

ATTUNE_INLINE void first_tile(const attune_args &args, const job &j, consumer &c, held keys, scores &s, weights &p)
{
    c.rows = {{negative_infinity(), negative_infinity()}, {0, 0}};
    await_scores<0>(s);
    leave_keys(c, keys, c.first);
    if (skips && c.narrow) {
        first_weights<some_scores>(args, j, c, s, p);
    } else {
        first_weights<all_scores>(args, j, c, s, p);
    }
    if (skips && c.first > 0) {
        let_pass(c);
    }
    c.tiles.declare_uniform<skips>();
}

/* Of a row's scores those that become weights before the wait for O: AHEAD quarters, or BY_ROW eighths of one row. */
constexpr int ahead_second = BLOCK_N / 4 * (BY_ROW > 0 ? (BY_ROW > 8 ? BY_ROW - 8 : 0) : AHEAD * 2) / 8 / 2 * 2;
constexpr int ahead_first = BLOCK_N / 4 * (BY_ROW > 0 ? (BY_ROW < 8 ? BY_ROW : 8) : AHEAD * 2) / 8 / 2 * 2;

/* Tile `i` of a job; the products of tile i - 1's values go with it, under its softmax. */
ATTUNE_INLINE void overlapped_tile(const attune_args &args, Shared &shared, const job &j, consumer &c, int i, scores &s,
                                   weights &p, outputs &o)
{
    softening f;
    held keys = c.tiles.next(), values = c.tiles.next();
    await_tile(c, keys);
    take_turn<turns_of_products>(c.group);
    multiply_keys(c, keys, s);
    await_tile(c, values);
    clean_values(shared, j, c, values, i - 1);
    multiply_values(c, values, p, o, i > c.first + 1);
    pass_turn<turns_of_products, GROUPS>(c.group);
    await_scores<1>(s);
    leave_keys(c, keys, i);
    prepare<all_scores>(args, j, c, i, s);
    /* NOTE: these values have long been here. But without a branch the compiler moves the second maximum before the
     * first exponential, and the wait for O, behind which all else shares the time of the slower, before the softmax.
     */
    row_raise<RESCALE, all_scores>(c.rows, s, c.scale, f, 0);
    if constexpr (BY_ROW > 0) {
        await_tile(c, values);
    }
    row_soften<0, ahead_first>(s, c.scale, f, 0);
    row_raise<RESCALE, all_scores>(c.rows, s, c.scale, f, 1);
    row_soften<0, ahead_second>(s, c.scale, f, 1);
    if constexpr (BY_ROW < 16) {
        await_tile(c, values);
    }
    await_outputs<0>(p, o);
    leave_tile(c, values);
    rows_rescale<RESCALE>(o, f.factor);
    row_soften<ahead_first, BLOCK_N / 4>(s, c.scale, f, 0);
    row_soften<ahead_second, BLOCK_N / 4>(s, c.scale, f, 1);
    rows_finish(c.rows, f);
    rows_pack<all_scores>(s, p);
}

/* The same, one after the other: other groups fill the tensor cores meanwhile. */
ATTUNE_INLINE void sequential_tile(const attune_args &args, Shared &shared, const job &j, consumer &c, int i, scores &s,
                                   weights &p, outputs &o)
{
    softening f;
    held keys = c.tiles.next(), values = c.tiles.next();
    await_tile(c, values);
    clean_values(shared, j, c, values, i - 1);
    multiply_values(c, values, p, o, i > c.first + 1);
    await_outputs<0>(p, o);
    leave_tile(c, values);
    await_tile(c, keys); /* asked for before the values, they may come after them */
    multiply_keys(c, keys, s);
    await_scores<0>(s);
    leave_keys(c, keys, i);
    prepare<all_scores>(args, j, c, i, s);
    take_turn<turns_of_softmax>(c.group);
    rows_raise<RESCALE, all_scores>(c.rows, s, c.scale, f);
    rows_soften<0, BLOCK_N / 2>(s, c.scale, f);
    rows_finish(c.rows, f);
    pass_turn<turns_of_softmax, GROUPS>(c.group);
    rows_pack<all_scores>(s, p);
    rows_rescale<RESCALE>(o, f.factor);
}

ATTUNE_INLINE held last_values(Shared &shared, const job &j, consumer &c, weights &p, outputs &o)
{
    held values = c.tiles.next();
    await_tile(c, values);
    clean_values(shared, j, c, values, c.blocks - 1);
    take_turn<turns_of_products>(c.group);
    multiply_values(c, values, p, o, c.blocks > c.first + 1);
    pass_turn<turns_of_products, GROUPS>(c.group);
    return values;
}

ATTUNE_INLINE void consume(const attune_args &args, Shared &shared, int group)
{
    consumer c = consumer_of(args, shared, group);
    scores s;
    weights p;
    outputs o;
    if (group == GROUPS - 1) {
        pass_turn<PINGPONG, GROUPS>(c.group);
    }
    const job *j = &take_job(shared, c);
    find_edges(*j, c);
    if (c.blocks == 0) {
        return; /* more blocks than jobs */
    }
    pass_tiles(c);
    held keys = begin_job(c, s);
    for (;;) {
        first_tile(args, *j, c, keys, s, p);
        if (c.number > 1) {
            leave_outputs(c, queries_stage(c, 1));
        }
#pragma unroll 1
        for (int i = c.first + 1; i < c.blocks; ++i) {
            if constexpr (OVERLAP) {
                overlapped_tile(args, shared, *j, c, i, s, p, o);
            } else {
                sequential_tile(args, shared, *j, c, i, s, p, o);
            }
        }
        held values = last_values(shared, *j, c, p, o);
        const job *next;
        if constexpr (early) {
            next = &take_job(shared, c);
            find_edges(*next, c);
            if (c.first > 0) {
                await_outputs<0>(p, o);
                leave_tile(c, values);
                pass_tiles(c);
            }
            keys = begin_job(c, s);
            await_outputs<1>(p, o);
        } else {
            await_outputs<0>(p, o);
        }
        if (!early || c.first == 0) {
            leave_tile(c, values);
        }
        store(args, shared, *j, c, queries_stage(c, early), o);
        if constexpr (!early) {
            next = &take_job(shared, c);
            find_edges(*next, c);
            pass_tiles(c);
            keys = begin_job(c, s);
        }
        if (c.blocks == 0) {
            break;
        }
        j = next;
    }
    await_scores<0>(s);
    if constexpr (boxed) {
        ptx_cp_async_bulk_wait_group<0>();
    }
}

/* The producer's group leaves its registers to the others. NOTE: each in its own branch from the beginning to the end
 * of what it does, or the compiler takes no notice. */
ATTUNE_INLINE void leave_registers()
{
    ptx_setmaxnreg_dec<producer_registers>();
}

ATTUNE_INLINE void take_registers()
{
    ptx_setmaxnreg_inc<consumer_registers>();
}

#ifndef UNIT /* of a test: without the whole, which takes longest to compile */
extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, 1) sm90_fwd_wgmma(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    if (threadIdx.x == 0) {
        init_barriers(shared);
    }
    __syncthreads();
    int group = __shfl_sync(0xffffffff, (int)threadIdx.x / 128, 0);
    if (group == 0) {
        leave_registers();
        if (threadIdx.x == 0) {
            produce(args, shared);
        } else if (by_counter && threadIdx.x == 32) {
            plan(args, shared);
        }
    } else {
        take_registers();
        consume(args, shared, group - 1);
    }
}
#endif
