/* Stages of the wgmma kernel, one entry each, run by the kernel's own functions: what the copy engine brings over rings
 * that wrap, one tile of each product, a tile's softmax, a tile's way out. One block, sizes and threads those of the
 * kernel; results are floats at LSE, but for the way out, which writes O and LSE themselves. Only the entry that UNIT
 * names is compiled, which takes a fifth of the time of all and the kernel. */
#include "wgmma.cu"

ATTUNE_INLINE Shared &begin(const attune_args &)
{
    extern __shared__ __align__(1024) unsigned char unit_memory[];
    Shared &shared = *reinterpret_cast<Shared *>(unit_memory);
    if (threadIdx.x == 0) {
        init_barriers(shared);
    }
    __syncthreads();
    return shared;
}

ATTUNE_INLINE float *results(const attune_args &args)
{
    return static_cast<float *>(args.tensor[ATTUNE_LSE].data);
}

/* The only job: the first rows of head 0, with all its keys. */
ATTUNE_INLINE void whole(const attune_args &args, Shared &shared)
{
    job j = {};
    j.rows = (int)args.seqlen_q;
    j.keys = j.sees_end = j.clean_end = (int)args.seqlen_kv;
    j.blocks = (int)args.seqlen_kv / BLOCK_N;
    j.key = (j.blocks - 1) * BLOCK_N;
    shared.jobs[0] = j;
}

/* Where element i of a thread's sums is in its block's tile. */
ATTUNE_INLINE int row_of_sum(const consumer &c, int i)
{
    return first_row(c) + i / 2 % 2 * 8;
}

ATTUNE_INLINE int column_of_sum(const consumer &c, int i)
{
    return i / 4 * 8 + c.thread % 4 * 2 + i % 2;
}

#if UNIT == 0
/* Scores of the first BLOCK_M queries with the last BLOCK_N keys, then these scores as weights of the values. */
extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, 1) unit_products(const __grid_constant__ attune_args args)
{
    Shared &shared = begin(args);
    if (threadIdx.x < 128) {
        leave_registers();
        if (threadIdx.x == 0) {
            producer p = {};
            whole(args, shared);
            const job &j = shared.jobs[0];
            for (int part = 0; part < Q_PARTS; ++part) {
                produce_queries(args, shared, p, j, part);
            }
            produce_tile<ATTUNE_K>(args, shared, p, j, j.key);
            produce_tile<ATTUNE_V>(args, shared, p, j, j.key);
        }
        return;
    }
    take_registers();
    consumer c = consumer_of(args, shared, (int)threadIdx.x / 128 - 1);
    scores s;
    weights p;
    outputs o = {};
    const current_job j = take_job(shared, c);
    find_edges(j.here, c);
    (void)begin_job(args, j.here, c, s);
    await_scores<0>(s);
    rows_pack<all_scores>(s, p);
    held values = c.tiles.next();
    await_tile(c, values);
    multiply_values(c, values, p, o, 0);
    await_outputs<0>(p, o);
    float *out = results(args);
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; ++i) {
        out[row_of_sum(c, i) * BLOCK_N + column_of_sum(c, i)] = s[i];
    }
    out += BLOCK_M * BLOCK_N;
#pragma unroll
    for (int i = 0; i < columns_v / 2; ++i) {
        out[row_of_sum(c, i) * columns_v + column_of_sum(c, i)] = o[i];
    }
}
#endif

/* Element (row, column) of a stage. */
ATTUNE_INLINE float staged(const unsigned char *stage, int row, int column)
{
    int place = (column / 64 * BLOCK_N + row) * 64 + ((column / 8 % 8) ^ (row % 8)) * 8 + column % 8;
    return to_float(reinterpret_cast<const element *>(stage)[place]);
}

#if UNIT == 1
/* The ring over all tiles, right to left: the first group writes out what it finds. */
extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, 1) unit_ring(const __grid_constant__ attune_args args)
{
    Shared &shared = begin(args);
    int blocks = (int)args.seqlen_kv / BLOCK_N;
    if (threadIdx.x < 128) {
        if (threadIdx.x == 0) {
            producer p = {};
            whole(args, shared);
            for (int i = blocks - 1; i >= 0; --i) {
                produce_tile<ATTUNE_K>(args, shared, p, shared.jobs[0], i * BLOCK_N);
                produce_tile<ATTUNE_V>(args, shared, p, shared.jobs[0], i * BLOCK_N);
            }
        }
        return;
    }
    consumer c = consumer_of(args, shared, (int)threadIdx.x / 128 - 1);
    float *keys = results(args);
    float *values = keys + args.seqlen_kv * dim_qk;
    for (int first = (blocks - 1) * BLOCK_N; first >= 0; first -= BLOCK_N) {
        held k = c.tiles.next(), v = c.tiles.next();
        await_tile(c, k);
        await_tile(c, v);
        for (int at = c.thread; c.group == 0 && at < BLOCK_N * dim_qk; at += 128) {
            keys[first * dim_qk + at] = staged(shared.tile[k.stage], at / dim_qk, at % dim_qk);
        }
        for (int at = c.thread; c.group == 0 && at < BLOCK_N * dim_v; at += 128) {
            values[first * dim_v + at] = staged(shared.tile[v.stage], at / dim_v, at % dim_v);
        }
        sync_group<GROUPS>(c.group);
        leave_tile(c, k);
        leave_tile(c, v);
    }
}
#endif

#if UNIT == 2
/* A tile of scores becomes weights: the first by its maximum, others as the kernel does. */
ATTUNE_INLINE void softmax_tile(consumer &c, scores &s, bool first)
{
    if constexpr (static_max) {
        float factor[2], sum[2][2] = {};
        if (first) {
            static_max_raise<all_scores>(c.rows, s, c.scale, factor);
        }
        static_max_exponentiate<0, all_scores>(c.rows, s, c.scale, sum);
        if (!static_max_holds(sum)) {
            static_max_lower(c.rows, s, sum, factor);
        }
        static_max_finish(c.rows, sum);
    } else {
        softmax_step f;
        rows_raise<0, all_scores>(c.rows, s, c.scale, f);
        rows_exponentiate<0, all_scores>(s, c.scale, f);
        rows_finish(c.rows, f);
    }
}

/* Two tiles of scores, floats at K and V, [64 GROUPS][BLOCK_N]: the weights of the second, then of each row its maximum
 * and sum. */
extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, 1) unit_softmax(const __grid_constant__ attune_args args)
{
    Shared &shared = begin(args);
    if (threadIdx.x < 128) {
        return;
    }
    consumer c = consumer_of(args, shared, (int)threadIdx.x / 128 - 1);
    scores s;
    float *out = results(args);
    c.rows = no_keys();
    for (int tile = 0; tile < 2; ++tile) {
        const float *from = static_cast<const float *>(args.tensor[tile == 0 ? ATTUNE_K : ATTUNE_V].data);
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) {
            s[i] = from[row_of_sum(c, i) * BLOCK_N + column_of_sum(c, i)];
        }
        softmax_tile(c, s, tile == 0);
    }
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; ++i) {
        out[row_of_sum(c, i) * BLOCK_N + column_of_sum(c, i)] = s[i];
    }
    out += BLOCK_M * BLOCK_N;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float sum = group_sum<4>(c.rows.sum[r]);
        if (c.thread % 4 == 0) {
            out[row_of_sum(c, 2 * r) * 2] = c.rows.maximum[r];
            out[row_of_sum(c, 2 * r) * 2 + 1] = sum;
        }
    }
}
#endif

#if UNIT == 3
/* A tile's way out: sums row % 4 * 256 + column over a denominator of 2, with maximum `row`. */
extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, 1) unit_store(const __grid_constant__ attune_args args)
{
    Shared &shared = begin(args);
    if (threadIdx.x == 0) {
        whole(args, shared);
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        return;
    }
    consumer c = consumer_of(args, shared, (int)threadIdx.x / 128 - 1);
    outputs o;
#pragma unroll
    for (int i = 0; i < columns_v / 2; ++i) {
        o[i] = (float)(row_of_sum(c, i) % 4 * 256 + column_of_sum(c, i));
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        c.rows.maximum[r] = (float)row_of_sum(c, 2 * r) * (static_max ? c.scale : 1);
        c.rows.sum[r] = c.thread % 4 == 0 ? 2.0f : 0.0f;
    }
    float normaliser[2];
    close_rows(args, shared.jobs[0], c, normaliser);
    store(args, shared.jobs[0], c, 0, o, normaliser);
    if constexpr (boxed) {
        ptx_cp_async_bulk_wait_group<0>();
    }
}
#endif

#if UNIT == 4
/* Scores of the first BLOCK_M queries with the last BLOCK_N keys, from memory and warp by warp. */
extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, 1) unit_rescore(const __grid_constant__ attune_args args)
{
    Shared &shared = begin(args);
    if (threadIdx.x == 0) {
        whole(args, shared);
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        return;
    }
    consumer c = consumer_of(args, shared, (int)threadIdx.x / 128 - 1);
    scores s;
    find_edges(shared.jobs[0], c);
    rescore(args, shared.jobs[0], c, 0, s);
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; ++i) {
        results(args)[row_of_sum(c, i) * BLOCK_N + column_of_sum(c, i)] = s[i];
    }
}
#endif

#if UNIT == 5
/* What a thread's two rows have come to, four numbers each: reference, sum, O, the last tile that takes its maximum. */
ATTUNE_INLINE void write_rows(const consumer &c, const outputs &o, float *out)
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float mean = 0;
#pragma unroll
        for (int i = 0; i < columns_v / 2; ++i) {
            mean += i / 2 % 2 == r ? o[i] / (columns_v / 4) : 0;
        }
        float4 row =
            make_float4(c.rows.maximum[r], group_sum<4>(c.rows.sum[r]), group_sum<4>(mean), (float)c.exact_until);
        if (c.thread % 4 == 0) {
            reinterpret_cast<float4 *>(out)[row_of_sum(c, 2 * r)] = row;
        }
    }
}

/* Weights as the next product takes them. */
ATTUNE_INLINE void write_weights(const consumer &c, const weights &p, float *out)
{
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; ++i) {
        element x = {(unsigned short)(p[i / 8][i % 8 / 2] >> i % 2 * 16)};
        out[row_of_sum(c, i) * BLOCK_N + column_of_sum(c, i)] = to_float(x);
    }
}

/* The softmax of a job, tile by tile from the right, by a static maximum; of each tile its weights and its rows.
 * Scores come from memory. Before a tile each element of O is what its row's lane has summed so far, so that after it O
 * is the sum of the tiles before. */
extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, 1)
    unit_static_max(const __grid_constant__ attune_args args)
{
    Shared &shared = begin(args);
    if (threadIdx.x == 0) {
        job_of<BLOCK_M, BLOCK_N>(args, 0, 0, 0, shared.jobs[0]);
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        leave_registers();
        return;
    }
    take_registers();
    consumer c = consumer_of(args, shared, (int)threadIdx.x / 128 - 1);
    const job &j = shared.jobs[0];
    scores s;
    weights p;
    outputs o;
    find_edges(j, c);
    c.rows = no_keys();
    float *out = results(args);
#pragma unroll 1
    for (int i = c.first; i < c.blocks; ++i) {
        rescore(args, j, c, i, s);
#pragma unroll
        for (int k = 0; k < columns_v / 2; ++k) {
            o[k] = c.rows.sum[k / 2 % 2];
        }
        if (i == c.sharp) {
            static_max_end(c.rows);
        }
        if (i >= c.sharp) {
            softmax_of_sharp_job(c, held{}, s, p, o);
        } else if (i > c.first) {
            softmax_by_static_max(args, j, c, i, held{}, s, p, o);
        } else if (skips && c.narrow) {
            first_weights<some_scores>(args, j, c, s, p);
            predict_growth(j, c);
        } else {
            first_weights<all_scores>(args, j, c, s, p);
            predict_growth(j, c);
        }
        write_weights(c, p, out);
        write_rows(c, o, out + BLOCK_M * BLOCK_N);
        out += BLOCK_M * (BLOCK_N + 4);
    }
}
#endif

#if UNIT == 6
/* Which keys the last tile of queries sees: 1 and 0, [rows of the tile][all keys]. */
extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, 1) unit_sight(const __grid_constant__ attune_args args)
{
    Shared &shared = begin(args);
    float *out = results(args);
    if (threadIdx.x == 0) {
        job_of<BLOCK_M, BLOCK_N>(args, 0, 0, ((int)args.seqlen_q - 1) / BLOCK_M, shared.jobs[0]);
    }
    for (int i = (int)threadIdx.x; i < BLOCK_M * (int)args.seqlen_kv; i += ATTUNE_THREADS) {
        out[i] = 0;
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        return;
    }
    consumer c = consumer_of(args, shared, (int)threadIdx.x / 128 - 1);
    const job &j = shared.jobs[0];
    find_edges(j, c);
    for (int i = c.first; i < c.blocks; ++i) {
        bool half = skips && c.narrow && i == c.first;
        scores s;
#pragma unroll
        for (int k = 0; k < BLOCK_N / 2; ++k) {
            s[k] = 1;
        }
        prepare<all_scores>(args, j, c, i, true, s);
#pragma unroll
        for (int k = 0; k < BLOCK_N / 2; ++k) {
            int key = j.key - WALK(c.begins, c.blocks, i) * BLOCK_N + column_of_sum(c, k);
            if (key < (int)args.seqlen_kv && s[k] == 1 && !(half && k >= some_scores)) {
                out[row_of_sum(c, k) * (int)args.seqlen_kv + key] = 1;
            }
        }
    }
}
#endif
