/* Stages of the wgmma kernel, one entry each, run by the kernel's own functions: what the copy engine brings, one tile of
 * each product, rings that wrap, a tile's softmax, a tile's way out. One block, sizes and threads those of the kernel;
 * results are floats at the workspace. */
#include "wgmma.cu"

ATTUNE_INLINE Shared &begin(const attune_args &args)
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
    return static_cast<float *>(args.workspace);
}

/* The only job: all of head 0. */
ATTUNE_INLINE job whole(const attune_args &args)
{
    job j = {};
    j.rows = (int)args.seqlen_q;
    j.keys = j.sees_end = j.clean_end = (int)args.seqlen_kv;
    j.blocks = (int)args.seqlen_kv / BLOCK_N;
    j.key = (j.blocks - 1) * BLOCK_N;
    return j;
}

ATTUNE_INLINE consumer unit_consumer(const attune_args &args)
{
    consumer c = {};
    c.group = (int)threadIdx.x / 128 - 1;
    c.thread = (int)threadIdx.x % 128;
    c.scale = LOG2_E * args.scale;
    return c;
}

/* Where sum `i` of a thread stands in its block's tile. */
ATTUNE_INLINE int sum_row(const consumer &c, int i)
{
    return c.group * 64 + c.thread / 32 * 16 + c.thread % 32 / 4 + i / 2 % 2 * 8;
}

ATTUNE_INLINE int sum_column(const consumer &c, int i)
{
    return i / 4 * 8 + c.thread % 4 * 2 + i % 2;
}

/* Scores of the first BLOCK_M queries with the last BLOCK_N keys, then these scores as weights of the values. */
extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, 1) unit_products(const __grid_constant__ attune_args args)
{
    Shared &shared = begin(args);
    job j = whole(args);
    if (threadIdx.x < 128) {
        if (threadIdx.x == 0) {
            producer p = {};
            produce_queries(args, shared, p, j);
            produce_keys(args, shared, p, j, j.key);
            produce_values(args, shared, p, j, j.key);
        }
        return;
    }
    consumer c = unit_consumer(args);
    scores s;
    weights p;
    outputs o = {};
    const job &taken = take_job(shared, c);
    begin_job(shared, taken, c, s);
    await_scores<0>(s);
    pack(s, p);
    barrier_wait(address(shared.full_v[0]), 0);
    multiply_values(shared, c, p, o, 0);
    await_outputs<0>(p, o);
    float *out = results(args);
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; ++i) {
        out[sum_row(c, i) * BLOCK_N + sum_column(c, i)] = s[i];
    }
    out += BLOCK_M * BLOCK_N;
#pragma unroll
    for (int i = 0; i < columns_v / 2; ++i) {
        out[sum_row(c, i) * columns_v + sum_column(c, i)] = o[i];
    }
}

/* The rings of K and V over all tiles, right to left: the consumers write out what they find. */
extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, 1) unit_ring(const __grid_constant__ attune_args args)
{
    Shared &shared = begin(args);
    job j = whole(args);
    if (threadIdx.x < 128) {
        if (threadIdx.x == 0) {
            producer p = {};
            for (int i = 0; i < j.blocks; ++i) {
                produce_keys(args, shared, p, j, j.key - i * BLOCK_N);
                produce_values(args, shared, p, j, j.key - i * BLOCK_N);
            }
        }
        return;
    }
    consumer c = unit_consumer(args);
    float *keys = results(args), *values = keys + args.seqlen_kv * dim_qk;
    for (int i = 0; i < j.blocks; ++i) {
        int first = j.key - i * BLOCK_N;
        barrier_wait(address(shared.full_k[c.k.stage]), c.k.parity);
        barrier_wait(address(shared.full_v[c.v.stage]), c.v.parity);
        const element *k = reinterpret_cast<const element *>(shared.k[c.k.stage]);
        const element *v = reinterpret_cast<const element *>(shared.v[c.v.stage]);
        for (int at = c.thread; at < BLOCK_N * dim_qk; at += 128) {
            int row = at / dim_qk, column = at % dim_qk;
            int place = (column / 64 * BLOCK_N + row) * 64 + ((column / 8 % 8) ^ (row % 8)) * 8 + column % 8;
            keys[(first + row) * dim_qk + column] = to_float(k[place]);
        }
        for (int at = c.thread; at < BLOCK_N * dim_v; at += 128) {
            int row = at / dim_v, column = at % dim_v;
            int place = (column / 64 * BLOCK_N + row) * 64 + ((column / 8 % 8) ^ (row % 8)) * 8 + column % 8;
            values[(first + row) * dim_v + column] = to_float(v[place]);
        }
        sync_group(c);
        release(c, shared.empty_k[c.k.stage]);
        release(c, shared.empty_v[c.v.stage]);
        c.k.step();
        c.v.step();
    }
}

/* Two tiles of scores, floats at LSE [2][BLOCK_M][BLOCK_N]: the weights of the second, and each row's maximum and sum. */
extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, 1) unit_softmax(const __grid_constant__ attune_args args)
{
    if (threadIdx.x < 128) {
        return;
    }
    consumer c = unit_consumer(args);
    scores s;
    float factor[2];
    float *out = results(args);
    c.maximum[0] = c.maximum[1] = negative_infinity();
    for (int tile = 0; tile < 2; ++tile) {
        const float *from = static_cast<const float *>(args.tensor[ATTUNE_LSE].data) + tile * BLOCK_M * BLOCK_N;
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; ++i) {
            s[i] = from[sum_row(c, i) * BLOCK_N + sum_column(c, i)];
        }
        soften(c, s, factor);
    }
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; ++i) {
        out[sum_row(c, i) * BLOCK_N + sum_column(c, i)] = s[i];
    }
    out += BLOCK_M * BLOCK_N;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float sum = group_sum<4>(c.sum[r]);
        if (c.thread % 4 == 0) {
            out[sum_row(c, 2 * r) * 2] = c.maximum[r];
            out[sum_row(c, 2 * r) * 2 + 1] = sum;
        }
    }
}

/* A tile's way out: sums row * 1000 + column over a denominator of 2 with maximum `row`. */
extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, 1) unit_store(const __grid_constant__ attune_args args)
{
    if (threadIdx.x < 128) {
        return;
    }
    consumer c = unit_consumer(args);
    job j = whole(args);
    outputs o;
#pragma unroll
    for (int i = 0; i < columns_v / 2; ++i) {
        o[i] = (float)(sum_row(c, i) % 4 * 256 + sum_column(c, i));
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        c.maximum[r] = (float)sum_row(c, 2 * r);
        c.sum[r] = c.thread % 4 == 0 ? 2.0f : 0.0f;
    }
    store(args, j, c, o);
}
