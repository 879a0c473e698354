/* wgmma: attention forward for sm_90a. docs/hopper.md draws it.
 *
 * A block stays for many tiles of queries (jobs). One producer thread has the copy engine fill rings of Q, K and V
 * tiles; GROUPS warp groups of 64 query rows each multiply by wgmma. Scores, weights and O never leave registers. The
 * next tile's scores are multiplied while the softmax of this one runs, past a job's end too where Q_STAGES is 2; with
 * PINGPONG the groups take turns in giving work to the tensor cores. With RESCALE 0 O follows each tile's maximum,
 * with 15 and 16 only first tiles and those of sharp jobs have theirs taken (static_max.cuh).
 * Declared: a non-finite value may reach rows of its tile that do not see it (0 x NaN), but in strict problems. */
#include "device/row_again.cuh"
#include "device/wgmma_producer.cuh"
#include "device/wgmma_softmax.cuh"

#ifndef ATTUNE_MAP_O /* no map: nothing is stored by one */
#define ATTUNE_MAP_O 3
#endif

/* ---- Values that nobody sees ---- */

/* Whether a tile can hold values that no row of the head sees and the copy engine did not replace by zeros. */
constexpr bool may_hold_anything = ATTUNE_HAS_VARLEN || ATTUNE_HAS_SEQUSED || HIDES_ENDS;

/* Their weight is 0, and 0 x NaN is NaN: they are overwritten by zeros. Every group does so for itself. */
ATTUNE_INLINE void clean_values(Shared &shared, const job &j, const consumer &c, held tile, int i)
{
    if constexpr (may_hold_anything) {
        int key = j.key - WALK(c.begins, c.blocks, i) * BLOCK_N;
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

/* Rows of the tile behind a packed sequence's last are the next sequence's queries, which would have a say in what the
 * warps decide about their static maxima: zeros in their place. Every group does so for itself. */
ATTUNE_INLINE void clean_queries(Shared &shared, const job &j, const consumer &c, int number)
{
    if constexpr (ATTUNE_HAS_VARLEN && static_max) {
        int count = j.rows - j.row - c.group * 64;
        if (j.blocks == 0 || count >= 64) {
            return;
        }
        unsigned char *queries = shared.q[number % Q_STAGES] + c.group * (64 * 128);
        for (int i = c.thread; i < chunks_qk * 64 * 8; i += 128) {
            if (i / 8 % 64 >= count) {
                *reinterpret_cast<uint4 *>(queries + i / 512 * chunk_q_bytes + i % 512 * 16) = make_uint4(0, 0, 0, 0);
            }
        }
        ptx_fence_proxy_async_shared();
        sync_group<GROUPS>(c.group);
    }
}

/* ---- Storing O ---- */

/* With a sink or ALiBi, before a row is closed: its reference in units of log2, with all that scores have in common (of
 * a position far from all keys); and the sink in the denominator, whose reference it becomes where it outweighs all
 * keys or there are none. Returns the factor that O has yet to take. */
ATTUNE_INLINE float take_sink(const attune_args &args, const job &j, const consumer &c, float &reference, float &sum)
{
    reference = static_max ? reference : c.scale * reference;
#if ATTUNE_HAS_ALIBI
    reference -= c.slope * c.scale * further_away(args, j);
#endif
    return online_take_sink(args, j.head, reference, sum);
}

/* What the rows' sums come to: 1 / sum, 0 for a row that saw no key, and LSE where it is wanted. NOTE: while the job's
 * last product runs; behind it all this would be waited for. */
ATTUNE_INLINE void close_rows(const attune_args &args, const job &j, const consumer &c, float (&normaliser)[2])
{
    enum { IN_LOG2_NOW = static_max || ATTUNE_HAS_SINK || ATTUNE_HAS_ALIBI };
    float sum[2] = {group_sum<4>(c.rows.sum[0]), group_sum<4>(c.rows.sum[1])};
    float reference[2] = {c.rows.maximum[0], c.rows.maximum[1]};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        if constexpr (ATTUNE_HAS_SINK || ATTUNE_HAS_ALIBI) {
            bool none = sum[r] == 0;
            float factor = take_sink(args, j, c, reference[r], sum[r]);
            normaliser[r] = none ? 0.0f : ptx_rcp_approx_ftz_f32(sum[r]) * factor;
        } else {
            normaliser[r] = sum[r] == 0 ? 0.0f : ptx_rcp_approx_ftz_f32(sum[r]);
        }
    }
    if (args.tensor[ATTUNE_LSE].data != nullptr && c.thread % 4 == 0) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            int row = j.row + first_row(c) + r * 8;
            if (row < j.rows) {
                *row_of<float>(args.tensor[ATTUNE_LSE], j.batch, j.head, (attune_i64)j.first_q + row) =
                    online_lse(IN_LOG2_NOW ? reference[r] : c.scale * reference[r], sum[r]);
            }
        }
    }
}

/* O through shared memory, where the group's rows begin at `at` and their next 64 columns `chunk_bytes` further on: the
 * copy engine takes it from there. */
template <unsigned chunk_bytes>
ATTUNE_INLINE void store_boxes(const attune_args &args, const job &j, const consumer &c, unsigned at, const outputs &o,
                               const float (&normaliser)[2])
{
    int first = c.thread / 32 * 16;
    at += first * 128;
    rows_stage<chunk_bytes>(at, o, normaliser, c.thread % 32);
    ptx_fence_proxy_async_shared();
    __syncwarp();
    if (c.thread % 32 == 0) {
#pragma unroll
        for (int n = 0; n < chunks_v; ++n) {
            tma_store<(FEW_HEADS > 0)>(&args.map[ATTUNE_MAP_O], at + n * chunk_bytes, n * 64,
                                       j.row + c.group * 64 + first, j.head, j.batch);
        }
        ptx_cp_async_bulk_commit_group();
    }
}

/* Through a tile that came before the job's last values, once no group needs it any more. */
ATTUNE_INLINE void store_by_tile(const attune_args &args, const job &j, const consumer &c, const outputs &o,
                                 const float (&normaliser)[2])
{
    int stage = c.tiles.stage - 3 + c.group;
    bool round_before = stage < 0;
    held tile = {round_before ? stage + STAGES : stage, c.tiles.parity ^ round_before};
    barrier_wait(c.base + smem_empty + tile.stage * 8, tile.parity);
    store_boxes<64 * 128>(args, j, c, c.base + smem_tile + tile.stage * tile_bytes, o, normaliser);
}

/* O row by row, as many bytes at a time as a lane can have of one. */
ATTUNE_INLINE void store_rows(const attune_args &args, const job &j, const consumer &c, const outputs &o,
                              const float (&normaliser)[2])
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        int row = j.row + first_row(c) + r * 8;
        element *to = row_of<element>(args.tensor[ATTUNE_O], j.batch, j.head, (attune_i64)j.first_q + row);
        rows_store(to, row < j.rows, o, r, normaliser[r], c.thread % 32);
    }
}

ATTUNE_INLINE void store(const attune_args &args, const job &j, const consumer &c, int stage, const outputs &o,
                         const float (&normaliser)[2])
{
    if constexpr (boxed_by_queries) {
        unsigned queries = c.base + smem_q + stage * tile_q_bytes + c.group * (64 * 128);
        store_boxes<chunk_q_bytes>(args, j, c, queries, o, normaliser);
    } else if constexpr (boxed_by_tiles) {
        store_by_tile(args, j, c, o, normaliser);
    } else {
        store_rows(args, j, c, o, normaliser);
    }
}

/* ---- Rows of strict problems ---- */

/* Whether a non-finite value can reach rows that must not see it: 0 x NaN is NaN, rows of a tile see different keys. */
enum { CONTAINS = (ATTUNE_HAS_STRICT && (ENDS_MOVE || BEGINS_MOVE)) || PAIRED };

#if ATTUNE_HAS_STRICT || PAIRED
/* Keeps in mind that some element of O is not finite. */
ATTUNE_INLINE void look_for_nonfinite(consumer &c, const outputs &o)
{
    if constexpr (CONTAINS) {
        float none[4] = {};
#pragma unroll
        for (int i = 0; i < columns_v / 2; ++i) {
            none[i % 4] = fmaf(o[i], 0.0f, none[i % 4]);
        }
        c.again = c.again || __any_sync(0xffffffff, !(none[0] + none[1] + (none[2] + none[3]) == 0));
    }
}

/* The warp's rows of a tile again, those that are not finite. */
ATTUNE_INLINE void mend_tile(const attune_args &args, const consumer &c, const sequence &at, int batch, int head,
                             int first)
{
    const int lane = c.thread % 32;
#pragma unroll 1
    for (int row = first; row < min((attune_i64)first + 16, at.length_q); ++row) {
        element *out = row_of<element>(args.tensor[ATTUNE_O], at.batch, head, at.first_q + row);
        bool finite = true;
#pragma unroll 1
        for (int i = lane; i < dim_v; i += 32) {
            finite = finite && is_finite(to_float(out[i]));
        }
        if (!__all_sync(0xffffffff, finite)) {
            row_again<dim_qk, dim_v>(args, at, batch, head, row, out, lane);
        }
    }
}

/* The warp's rows of all the block's jobs. NOTE: behind the jobs, since between them the next one's products run. */
ATTUNE_INLINE void mend(const attune_args &args, const consumer &c)
{
    const queue q = queue_of<BLOCK_M>(args);
#pragma unroll 1
    for (int turn = 0; turn * (int)gridDim.x < q.count; ++turn) {
        int number = job_number<CAUSAL>(turn), head, tile;
        if (number < q.count) {
            find_tile(q, number, head, tile);
            int batch = head / (int)args.heads_q;
            mend_tile(args, c, sequence_of(args, batch), batch, head - batch * (int)args.heads_q,
                      tile * BLOCK_M + c.group * 64 + c.thread / 32 * 16);
        }
    }
}
#endif

/* ---- A consumer's way through its jobs ---- */

/* The job at hand: where it is in shared memory, and its copy. */
struct current_job {
    const job *there;
    job here;
};

/* NOTE: a load from shared memory waits behind products, some 400 cycles, so the copy stays in registers; three groups
 * have none to spare. */
ATTUNE_INLINE const job &job_of(const current_job &e)
{
    return GROUPS == 2 && early ? e.here : *e.there;
}

/* The next job, once its queries are here. */
ATTUNE_INLINE current_job take_job(Shared &shared, consumer &c)
{
    int number = c.number++;
    barrier_wait(c.base + smem_full_q + (number % Q_STAGES * Q_PARTS + queries_part(c)) * 8, number / Q_STAGES % 2);
    const job &there = shared.jobs[number % JOBS];
    clean_queries(shared, there, c, number);
    return {&there, there};
}

/* The tiles before the group's first. NOTE: a group that holds none of the ring's stages may wait for a stage to be
 * filled again, one that holds some would wait for itself. */
ATTUNE_INLINE void skip_tiles(consumer &c)
{
    for (int i = 0; i < c.first; ++i) {
        await_pairs(c);
        leave_pairs(c);
        skip_tile(c);
        if (i > 0) {
            skip_tile(c);
        }
        await_order<PINGPONG>(c.group);
        pass_order<PINGPONG, GROUPS>(c.group);
    }
}

/* Gives the scores of the group's first tile to the tensor cores; of no job, whatever lies there. */
ATTUNE_INLINE held begin_job(const attune_args &args, const job &j, consumer &c, scores &s)
{
    c.tiles.declare_uniform<skips>();
    held keys = c.tiles.next();
    /* NOTE: by a shuffle, or the sum stays from job to job, in memory where registers are few */
    int group = irregular ? __shfl_sync(0xffffffff, c.group, 0) : c.group;
    c.queries = operand_at(c.base + smem_q) + queries_stage(c, 0) * (tile_q_bytes >> 4) + group * (64 * 128 >> 4);
    if (c.blocks > 0) {
        begin_scores(args, j, c, c.first, s);
        await_tile(c, keys);
    }
    multiply_keys(c, keys, s);
    return keys;
}

/* The scores of tile `i` are here: its keys are needed no more, nor are the queries after the last. */
ATTUNE_INLINE void leave_keys(const consumer &c, held keys, int i)
{
    leave_tile(c, keys);
    if constexpr (!boxed_by_queries) {
        if (i + 1 == c.blocks && c.thread == 0) {
            ptx_mbarrier_arrive(c.base + smem_empty_q + (queries_stage(c, 0) * Q_PARTS + queries_part(c)) * 8);
        }
    }
}

/* The warp's outputs have left the place they went through: that of queries, or a tile. */
ATTUNE_INLINE void leave_outputs(const consumer &c, int stage)
{
    if constexpr (boxed) {
        if (c.thread % 32 == 0) {
            ptx_cp_async_bulk_wait_group_read<0>();
            ptx_mbarrier_arrive(c.base + (boxed_by_tiles ? smem_stored : smem_empty_q + stage * 8));
        }
    }
}

ATTUNE_INLINE void first_tile(const attune_args &args, const job &j, consumer &c, held keys, scores &s, weights &p)
{
    c.rows = no_keys();
    take_pairs(c);
    await_scores<0>(s);
    leave_keys(c, keys, c.first);
    leave_pairs(c);
    if (skips && c.narrow) {
        first_weights<some_scores>(args, j, c, s, p);
    } else {
        first_weights<all_scores>(args, j, c, s, p);
    }
    if (skips && c.first > 0) {
        skip_tile(c);
    }
    c.tiles.declare_uniform<skips>();
}

/* What is left to do after the first tile. NOTE: where places of queries change, under the products of the second: in
 * front of them it would be waited for. At head dim 256, where they do not, there are no registers for that. */
ATTUNE_INLINE void finish_first_tile(const job &j, consumer &c)
{
    if constexpr (static_max) {
        predict_growth(j, c);
    }
    if constexpr (early) {
        if (c.number > 1) {
            leave_outputs(c, queries_stage(c, 1));
        }
    }
}

/* Tile `i` of a job; the products of tile i - 1's values go with it, under its softmax. */
template <bool sharp>
ATTUNE_INLINE void run_tile(const attune_args &args, Shared &shared, const job &j, consumer &c, int i, scores &s,
                            weights &p, outputs &o)
{
    held keys = c.tiles.next(), values = c.tiles.next();
    begin_scores(args, j, c, i, s);
    if constexpr (PAIRS_AHEAD) {
        take_pairs(c);
    }
    await_tile(c, keys);
    await_order<PINGPONG>(c.group);
    multiply_keys(c, keys, s);
    if (early && !sharp && i == c.first + 1) {
        finish_first_tile(j, c);
    }
    await_tile(c, values);
    clean_values(shared, j, c, values, i - 1);
    multiply_values(c, values, p, o, i > c.first + 1);
    pass_order<PINGPONG, GROUPS>(c.group);
    if constexpr (!PAIRS_AHEAD) {
        take_pairs(c);
    }
    await_scores<1>(s);
    leave_keys(c, keys, i);
    leave_pairs(c);
    if constexpr (!CURVED || sharp) {
        prepare<all_scores>(args, j, c, i, (CURVED || BIAS_LATE) && (sharp || i <= c.exact_until), s);
    }
    if constexpr (sharp) {
        softmax_of_sharp_job(c, values, s, p, o);
    } else if constexpr (CURVED) {
#if ATTUNE_HAS_SOFTCAP
        softmax_on_curve(args, j, c, i, values, s, p, o);
#endif
    } else if constexpr (static_max) {
        softmax_by_static_max(args, j, c, i, values, s, p, o);
    } else {
        softmax_by_maximum(c, values, s, p, o);
    }
}

ATTUNE_INLINE held last_values(Shared &shared, const job &j, consumer &c, weights &p, outputs &o)
{
    held values = c.tiles.next();
    await_tile(c, values);
    clean_values(shared, j, c, values, c.blocks - 1);
    await_order<PINGPONG>(c.group);
    multiply_values(c, values, p, o, c.blocks > c.first + 1);
    pass_order<PINGPONG, GROUPS>(c.group);
    return values;
}

/* A job's tiles, whose first scores have been given out; the last one's values are left to be multiplied. */
ATTUNE_INLINE void run_tiles(const attune_args &args, Shared &shared, const job &j, consumer &c, held keys, scores &s,
                             weights &p, outputs &o)
{
    first_tile(args, j, c, keys, s, p);
    if (!early || c.first + 1 == c.blocks) {
        finish_first_tile(j, c);
    }
    declare_uniform(c);
    int i = c.first + 1;
#pragma unroll 1
    for (; i < c.sharp; ++i) {
        run_tile<false>(args, shared, j, c, i, s, p, o);
    }
    if (sharp_apart && i < c.blocks) {
        static_max_end(c.rows);
#pragma unroll 1
        for (; i < c.blocks; ++i) {
            run_tile<true>(args, shared, j, c, i, s, p, o);
        }
    }
}

/* The next job before O of this one is stored: the scores of its first tile come behind the last values. */
ATTUNE_INLINE held begin_early(const attune_args &args, const job &next, consumer &c, held values, scores &s,
                               weights &p, outputs &o)
{
    find_edges(next, c);
    if (c.first > 0) {
        await_outputs<0>(p, o);
        leave_tile(c, values);
        skip_tiles(c);
    }
    held keys = begin_job(args, next, c, s);
    await_outputs<1>(p, o);
    return keys;
}

ATTUNE_INLINE void consume(const attune_args &args, Shared &shared, int group)
{
    consumer c = consumer_of(args, shared, group);
    scores s;
    weights p;
    outputs o;
    if (group == GROUPS - 1) {
        pass_order<PINGPONG, GROUPS>(c.group);
    }
    current_job j = take_job(shared, c);
    find_edges(j.here, c);
    if (c.blocks == 0) {
        return; /* more blocks than jobs */
    }
    skip_tiles(c);
    held keys = begin_job(args, j.here, c, s);
    for (;;) {
        run_tiles(args, shared, job_of(j), c, keys, s, p, o);
        current_job next;
        if constexpr (early) {
            next = take_job(shared, c); /* before the products that its loads would wait behind */
        }
        held values = last_values(shared, job_of(j), c, p, o);
        float normaliser[2];
        close_rows(args, job_of(j), c, normaliser);
        if constexpr (early) {
            keys = begin_early(args, next.here, c, values, s, p, o);
        } else {
            await_outputs<0>(p, o);
        }
        if (!early || c.first == 0) {
            leave_tile(c, values);
        }
#if ATTUNE_HAS_STRICT || PAIRED
        look_for_nonfinite(c, o);
#endif
        store(args, job_of(j), c, queries_stage(c, early), o, normaliser);
        if constexpr (!early) {
            next = take_job(shared, c);
            leave_outputs(c, 0);
            find_edges(next.here, c);
            skip_tiles(c);
            keys = begin_job(args, next.here, c, s);
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
#if ATTUNE_HAS_STRICT || PAIRED
    if (CONTAINS && c.again) {
        __syncwarp();
        mend(args, c);
    }
#endif
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
        } else if (by_length && args.batch <= PACKED_SEQUENCES && threadIdx.x / 32 == 1) {
            plan_packed(args, shared);
        } else if (by_counter && threadIdx.x == 32) {
            plan(args, shared);
        }
#if PLACED
        if (threadIdx.x >= 32) {
            produce_pairs(args, shared);
        }
#endif
    } else {
        take_registers();
        consume(args, shared, group - 1);
    }
}
#endif
