/* The wgmma kernel's producer: one thread that has the copy engine bring the tiles of the block's jobs, which it works
 * out itself, or by counter a planner. */
#ifndef DEVICE_WGMMA_PRODUCER_CUH
#define DEVICE_WGMMA_PRODUCER_CUH

#include "device/tma.cuh"
#include "device/wgmma_block.cuh"

struct producer {
    ring<Q_STAGES> q;
    ring<STAGES> tiles;
    int number; /* of the job */
};

/* Fills a stage with `chunks` boxes, one every `chunk_bytes`. A sequence without keys has none to bring: zeros, so that
 * no NaN lies there. */
template <int chunks, unsigned chunk_bytes, unsigned box_bytes = chunk_bytes>
ATTUNE_INLINE void fill(unsigned char *stage, const attune_tensor_map *map, const unsigned long long &full, bool exists,
                        attune_u64 policy, int row, int head, int batch)
{
    if (!exists) {
        for (unsigned i = 0; i < chunks * chunk_bytes; i += 16) {
            *reinterpret_cast<uint4 *>(stage + i) = make_uint4(0, 0, 0, 0);
        }
        ptx_fence_proxy_async_shared();
        ptx_mbarrier_arrive(address(full));
        return;
    }
    ptx_mbarrier_arrive_expect_tx(address(full), chunks * box_bytes);
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
        tma_load(ptx_cvta_shared(stage) + c * chunk_bytes, map, address(full), policy, c * 64, row, head, batch);
    }
}

/* The tile of keys or values that begins with `key`. */
template <int role>
ATTUNE_INLINE void produce_tile(const attune_args &args, Shared &shared, producer &p, const job &j, int key)
{
    constexpr int chunks = role == ATTUNE_K ? chunks_qk : chunks_v;
    int stage = p.tiles.stage;
    barrier_wait(address(shared.empty[stage]), p.tiles.parity ^ 1);
    fill<chunks, chunk_kv_bytes>(shared.tile[stage], &args.map[role], shared.full[stage], j.keys > 0, L2_EVICT_LAST,
                                 j.first_kv + key, j.head_kv, j.batch);
    p.tiles.step();
}

/* The queries of a job, or one group's of them. */
ATTUNE_INLINE void produce_queries(const attune_args &args, Shared &shared, producer &p, const job &j, int part)
{
    constexpr int rows = BLOCK_M / Q_PARTS;
    int at = p.q.stage * Q_PARTS + part;
    barrier_wait(address(shared.empty_q[at]), p.q.parity ^ 1);
    if (j.blocks == 0) {
        ptx_mbarrier_arrive(address(shared.full_q[at]));
        return;
    }
    fill<chunks_qk, chunk_q_bytes, rows * 128>(shared.q[p.q.stage] + part * (rows * 128), &args.map[ATTUNE_MAP_Q],
                                               shared.full_q[at], true, L2_EVICT_FIRST, j.first_q + j.row + part * rows,
                                               j.head, j.batch);
}

/* The first values of a job, or what comes behind them, fall on a place through which O of the job before leaves. */
ATTUNE_INLINE void await_stored(Shared &shared, const producer &p)
{
    if (boxed_by_tiles && p.number > 1) {
        barrier_wait(address(shared.stored), p.number % 2);
    }
}

/* Values come one tile behind keys, as they are needed; so do the other groups' queries behind the first keys. */
ATTUNE_INLINE void produce_job(const attune_args &args, Shared &shared, producer &p, const job &j)
{
    int begins = walk_begins<BLOCK_M, BLOCK_N>(j);
    produce_queries(args, shared, p, j, 0);
    if (j.blocks > 0) {
        produce_tile<ATTUNE_K>(args, shared, p, j, j.key - WALK(begins, j.blocks, 0) * BLOCK_N);
    }
#pragma unroll
    for (int part = 1; part < Q_PARTS; ++part) {
        produce_queries(args, shared, p, j, part);
    }
    if (j.blocks == 0) {
        return;
    }
    p.q.step();
    ++p.number;
    for (int i = 1; i < j.blocks; ++i) {
        produce_tile<ATTUNE_K>(args, shared, p, j, j.key - WALK(begins, j.blocks, i) * BLOCK_N);
        if (i == 1) {
            await_stored(shared, p);
        }
        produce_tile<ATTUNE_V>(args, shared, p, j, j.key - WALK(begins, j.blocks, i - 1) * BLOCK_N);
    }
    if (j.blocks == 1) {
        await_stored(shared, p);
    }
    produce_tile<ATTUNE_V>(args, shared, p, j, j.key - WALK(begins, j.blocks, j.blocks - 1) * BLOCK_N);
}

/* The number of the job after this one, by counter. */
ATTUNE_INLINE int next_number(const attune_args &args)
{
    return atomicAdd(static_cast<int *>(args.workspace), 1) + (int)gridDim.x;
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
        number = by_counter ? next_number(args) : job_number<CAUSAL>(turn);
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

/* The same for packed sequences, of which a warp finds the tiles. NOTE: planned a job further ahead, blocks get less
 * equal shares: up to 4 % slower. */
ATTUNE_INLINE void plan_packed(const attune_args &args, Shared &shared)
{
    const int lane = (int)threadIdx.x % 32;
    packed_queue q = packed_queue_of<BLOCK_M>(args, lane);
    int count = 0, number = (int)blockIdx.x;
    for (; reach(args, q, number, lane); ++count) {
        job_at<BLOCK_M, BLOCK_N>(args, q, number, lane, shared.jobs[count % JOBS]);
        if (lane == 0) {
            ptx_mbarrier_arrive(address(shared.planned));
            barrier_wait(address(shared.taken), count % 2);
            number = next_number(args);
        }
        number = __shfl_sync(0xffffffff, number, 0);
    }
    if (lane == 0) {
        shared.jobs[count % JOBS].blocks = 0;
        ptx_mbarrier_arrive(address(shared.planned));
    }
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

#endif
