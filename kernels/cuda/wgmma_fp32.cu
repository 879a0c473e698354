/* wgmma_fp32: attention of fp32 on Hopper's tensor cores (sm_90a), six products of bf16 for one of fp32, or three where
 * TF32 would do (bf16_parts.cuh).
 *
 * A block is GROUPS warp groups of 64 query rows, and a group of copying threads: they read K and V as fp32, split them
 * into parts and write these to a ring of units, 64 columns of BLOCK_N keys or values in parts, swizzled as the
 * products read them. Weights are split in registers.
 *
 * Tensor cores cut sums off. So large products of three parts have sums of their own, of at most one tile of keys;
 * ordinary additions take them up, into O by way of one fused multiply-add. Groups take turns in their softmaxes, under
 * which the other group's products run.
 *
 * Whatever is not finite becomes NaN in its tile's sums, and values below 2^-110 lose bits. Rows that show signs of
 * either are computed once more, key by key (plain_row.cuh): no taint, and no bit less. */
#include "device/fp32_units.cuh"

/* ---- Consuming -------------------------------------------------------------------------------------------------- */

struct consumer {
    int group, thread, row; /* row: the lane's first, in the sequence */
    unsigned base;
    float scale;
    ring<STAGES> units;
    row_pair rows;
    key_range any_sees, all_see; /* of the group's rows */
    float o[chunks_v][outputs];
};

/* The group's queries, in parts. */
ATTUNE_INLINE void load_queries(const attune_args &args, Shared &shared, const tile &t, const consumer &c)
{
    const element *q = row_of<element>(args.tensor[ATTUNE_Q], t.at.batch, t.head, t.at.first_q);
    unsigned lost = 0;
    float largest = 0;
#pragma unroll 1
    for (int chunk = 0; chunk < chunks_qk; ++chunk) {
        share<64> share;
        load_share<64, dim_qk>(share, q, args.tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_SEQ], t.first_row + c.group * 64, 0,
                               (int)t.at.length_q, chunk, c.thread);
        store_share(share, c.base + c.group * group_q_bytes + chunk * chunk_q_bytes, part_q_bytes, c.thread, lost);
        largest = largest_of(share, largest);
    }
    tell(shared.queries_lost, has_lost(lost), shared.queries_large, largest > large_enough);
    ptx_fence_proxy_async_shared();
    sync_group<GROUPS>(c.group);
}

ATTUNE_INLINE consumer consumer_of(const attune_args &args, Shared &shared, const tile &t, int group)
{
    consumer c = {};
    c.group = group;
    c.thread = (int)threadIdx.x % 128;
    c.row = t.first_row + group * 64 + c.thread / 32 * 16 + c.thread % 32 / 4;
    c.base = ptx_cvta_shared(&shared);
    c.scale = SCALED_AT_ONCE ? 1.0f : score_factor(args);
    c.rows = {{negative_infinity(), negative_infinity()}, {0, 0}};
    if constexpr (ROWS_DIFFER) {
        const key_range upper = keys_seen(args, t.at, c.row), lower = keys_seen(args, t.at, c.row + 8);
        shared.edges[group * 128 + c.thread] =
            make_uint4((unsigned)upper.first, (unsigned)upper.end, (unsigned)lower.first, (unsigned)lower.end);
    }
    const int first = t.first_row + group * 64, last = (int)min((attune_i64)first + 63, t.at.length_q - 1);
    c.any_sees = last < first ? key_range{0, 0} : keys_seen_by_any(args, t.at, first, last);
    c.all_see = last < first ? key_range{0, 0} : keys_seen_by_all(args, t.at, first, last);
    return c;
}

ATTUNE_INLINE void await_unit(const consumer &c, held unit)
{
    barrier_wait(c.base + smem_full + unit.stage * 8, unit.parity);
}

/* NOTE: one thread for four warps: products are of the whole group, so what it has waited for is done. */
ATTUNE_INLINE void leave_unit(const consumer &c, held unit)
{
    if (c.thread == 0) {
        ptx_mbarrier_arrive(c.base + smem_empty + unit.stage * 8);
    }
}

/* Units of a tile that no row of the group sees. NOTE: not before they are here, and all four warps have seen it. */
ATTUNE_INLINE void skip_units(consumer &c)
{
#pragma unroll 1
    for (int i = 0; i < chunks_qk + chunks_v; ++i) {
        const held unit = c.units.next();
        await_unit(c, unit);
        sync_group<GROUPS>(c.group);
        leave_unit(c, unit);
    }
}

/* NOTE: by a shuffle, so that the compiler sees that descriptors are the same in all lanes. */
ATTUNE_INLINE unsigned unit_place(const consumer &c, held unit)
{
    return __shfl_sync(0xffffffff, (c.base + smem_unit) / 16 + (unsigned)unit.stage * (unit_bytes / 16), 0);
}

/* Part `of_q` of the queries' columns times `rows` rows of a unit of keys, from part `of_k` on. */
template <int of_q, int of_k, int rows>
ATTUNE_INLINE void multiply_keys_part(attune_u64 q, attune_u64 k, int steps, bool first, float (&s)[rows / 2])
{
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (i < steps) {
            wgmma_shape<rows>::template ss<0>(s, q + (of_q * part_q_bytes + i * 32) / 16,
                                              k + (of_k * part_bytes + i * 32) / 16, i > 0 || !first);
        }
    }
}

/* Small products have sums of their own only beside those of three parts. */
template <int n> ATTUNE_INLINE void fence_small(float (&small)[n])
{
    if constexpr (PARTS == 3) {
        register_fence(small);
    }
}

/* Sums of small products of three parts; two parts have none. NOTE: two parts of a unit are one operand of twice as
 * many rows, for which the queries are read once: the queries' first part times the keys' second and third, their
 * second times the first and second, so that sums of one magnitude lie in one place. */
typedef float small_scores[PARTS == 2 ? 1 : 2 * scores];

template <int count>
ATTUNE_INLINE void multiply_small_keys(attune_u64 q, attune_u64 k, int steps, bool first, float (&small)[count])
{
    multiply_keys_part<0, 1, 2 * count>(q, k, steps, first, small);
    multiply_keys_part<1, 0, 2 * count>(q, k, steps, false, small);
}

/* The products of 64 columns. The third part times the first, or the smaller ones of two parts, go before the largest,
 * into their sums. */
ATTUNE_INLINE void multiply_keys_chunk(attune_u64 q, attune_u64 k, int steps, bool first, small_scores &small,
                                       float (&s)[scores])
{
    ptx_wgmma_fence();
    if constexpr (PARTS == 2) {
        multiply_keys_part<0, 1, BLOCK_N>(q, k, steps, first, s);
        multiply_keys_part<1, 0, BLOCK_N>(q, k, steps, false, s);
    } else {
        multiply_small_keys(q, k, steps, first, small);
        multiply_keys_part<2, 0, BLOCK_N>(q, k, steps, first, s);
    }
    multiply_keys_part<0, 0, BLOCK_N>(q, k, steps, false, s);
    ptx_wgmma_commit_group();
}

/* S of a tile. */
ATTUNE_INLINE void multiply_keys(consumer &c, float (&s)[scores])
{
    small_scores small;
    held units[chunks_qk];
    register_fence(s);
    fence_small(small);
#pragma unroll
    for (int chunk = 0; chunk < chunks_qk; ++chunk) {
        units[chunk] = c.units.next();
        await_unit(c, units[chunk]);
        const attune_u64 k = wgmma_descriptor(unit_place(c, units[chunk]));
        const attune_u64 q = wgmma_descriptor((c.base + c.group * group_q_bytes + chunk * chunk_q_bytes) / 16);
        const int steps = steps_qk - chunk * 4 < 4 ? steps_qk - chunk * 4 : 4;
        multiply_keys_chunk(q, k, steps, chunk == 0, small, s);
        if (chunk > 0) {
            ptx_wgmma_wait_group<1>();
            leave_unit(c, units[chunk - 1]);
        }
    }
    ptx_wgmma_wait_group<0>();
    register_fence(s);
    fence_small(small);
    leave_unit(c, units[chunks_qk - 1]);
    if constexpr (PARTS == 3) {
#pragma unroll
        for (int i = 0; i < scores; ++i) {
            s[i] += small[i] + small[scores + i];
        }
    }
}

/* Products become scores; -inf where hidden. NOTE: what takes registers, which the loop has not, is in shared memory or
 * worked out anew. */
ATTUNE_INLINE void finish_scores(const attune_args &args, const Shared &shared, const consumer &c, int key,
                                 float (&s)[scores])
{
    const int lane = c.thread % 32;
    cap_scores(args, s);
    if (!ONE_BY_ONE && !needs_mask(c.all_see.first, c.all_see.end, key, BLOCK_N)) {
        return;
    }
    if constexpr (ONE_BY_ONE) {
        tile t;
        (void)find(args, t);
        score_one_by_one(args, t, c.row, key, lane, s);
    } else {
        int first[2] = {c.all_see.first - key, c.all_see.first - key},
            end[2] = {c.all_see.end - key, c.all_see.end - key};
        if constexpr (ROWS_DIFFER) {
            const uint4 edges = shared.edges[c.group * 128 + c.thread];
            first[0] = (int)edges.x - key, end[0] = (int)edges.y - key;
            first[1] = (int)edges.z - key, end[1] = (int)edges.w - key;
        }
        rows_hide<BEGINS_MOVE, scores>(s, first, end, lane);
    }
}

/* Part `of_p` of the weights times part `of_v` of values. */
template <int of_p, int of_v, int n>
ATTUNE_INLINE void multiply_values(const weights &p, attune_u64 v, bool first, float (&o)[n / 2])
{
#pragma unroll
    for (int i = 0; i < steps_pv; ++i) {
        wgmma_shape<n>::template rs<1>(o, p[of_p][i], v + (of_v * part_bytes + i * 2048) / 16, i > 0 || !first);
    }
}

/* O of 64 columns, `chunk` x 64 and on, takes in a tile's values. */
template <int chunk> ATTUNE_INLINE void add_values(consumer &c, weights &p, const float (&factor)[2])
{
    if constexpr (chunk < chunks_v) {
        constexpr int left = dim_v - chunk * COLUMNS, n = left >= COLUMNS ? COLUMNS : (left + 7) / 8 * 8;
        float large[n / 2], small[n / 2];
        const held unit = c.units.next();
        await_unit(c, unit);
        const attune_u64 v = wgmma_descriptor(unit_place(c, unit) + (part_bytes >> 4 << 16));
        register_fence(large);
        fence_small(small);
        ptx_wgmma_fence();
        if constexpr (PARTS == 2) {
            multiply_values<0, 1, n>(p, v, true, large);
            multiply_values<1, 0, n>(p, v, false, large);
        } else {
            multiply_values<0, 2, n>(p, v, true, small);
            multiply_values<2, 0, n>(p, v, false, small);
            multiply_values<1, 1, n>(p, v, false, small);
            multiply_values<0, 1, n>(p, v, false, small);
            multiply_values<1, 0, n>(p, v, false, small);
        }
        multiply_values<0, 0, n>(p, v, PARTS == 3, large);
        ptx_wgmma_commit_group();
        ptx_wgmma_wait_group<0>();
        register_fence(large);
        fence_small(small);
#pragma unroll
        for (int i = 0; i < PARTS * steps_pv; ++i) {
            register_fence(p[i / steps_pv][i % steps_pv]);
        }
        leave_unit(c, unit);
#pragma unroll
        for (int i = 0; i < n / 2; ++i) {
            c.o[chunk][i] = fmaf(c.o[chunk][i], factor[i / 2 % 2], PARTS == 2 ? large[i] : large[i] + small[i]);
        }
        add_values<chunk + 1>(c, p, factor);
    }
}

/* ---- Out -------------------------------------------------------------------------------------------------------- */

/* NOTE: the tile is worked out anew: it takes registers, which the loop has not. */
ATTUNE_INLINE void store(const attune_args &args, const consumer &c, Shared &shared)
{
    tile t;
    (void)find(args, t);
    if constexpr (AHEAD) {
        read_words(args, shared, t, c.group, c.thread);
    }
    const bool all_again = scores_suffer(shared), values_lost = shared.values_lost != 0;
    const int lane = c.thread % 32, first = c.row - lane / 4;
    unsigned again[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const bool one = store_row(args, t, c, r, lane, values_lost);
        again[r] = __ballot_sync(0xffffffff, one || (all_again && c.row + r * 8 < t.at.length_q));
    }
    attend_again(args, t, first, lane, again);
}

ATTUNE_INLINE void consume(const attune_args &args, Shared &shared, int group)
{
    tile t;
    if (!find(args, t)) {
        return;
    }
    consumer c = consumer_of(args, shared, t, group);
    load_queries(args, shared, t, c);
    if (group == GROUPS - 1) {
        pass_order<PINGPONG, GROUPS>(group);
    }
#pragma unroll 1
    for (int key = t.first_key; key < t.end_key; key += BLOCK_N) {
        if (hides_tile(c.any_sees.first, c.any_sees.end, key, BLOCK_N)) {
            skip_units(c);
            await_order<PINGPONG>(group);
            pass_order<PINGPONG, GROUPS>(group);
            continue;
        }
        float s[scores], factor[2];
        weights p;
        multiply_keys(c, s);
        await_order<PINGPONG>(group);
        finish_scores(args, shared, c, key, s);
        weigh(c, s, factor);
        split_weights(s, p);
        pass_order<PINGPONG, GROUPS>(group);
        add_values<0>(c, p, factor);
    }
    if (group == 0) {
        await_order<PINGPONG>(group); /* the last group's, so that nobody is behind */
    }
    store(args, c, shared);
}

/* ---- The whole -------------------------------------------------------------------------------------------------- */

ATTUNE_INLINE void init(Shared &shared)
{
    for (int i = 0; i < STAGES; ++i) {
        ptx_mbarrier_init(ptx_cvta_shared(&shared.full[i]), AHEAD ? 1 : 4);
        ptx_mbarrier_init(ptx_cvta_shared(&shared.empty[i]), GROUPS);
    }
    shared.values_lost = shared.keys_lost = shared.queries_lost = shared.keys_large = shared.queries_large = 0;
    ptx_fence_mbarrier_init();
}

/* NOTE: each role's branch begins with its share of registers, or the compiler takes no notice. */
extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, 1)
    sm90_fwd_wgmma_fp32(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    if (threadIdx.x == 0) {
        init(shared);
    }
    __syncthreads();
    const int group = __shfl_sync(0xffffffff, (int)threadIdx.x / 128, 0);
    if (group == 0) {
        if constexpr (GROUPS == 2) {
            ptx_setmaxnreg_dec<producer_registers>();
        }
        if constexpr (AHEAD) {
            bring(args, shared);
        } else {
            produce(args, shared);
        }
    } else {
        if constexpr (GROUPS == 2) {
            ptx_setmaxnreg_inc<consumer_registers>();
        }
        consume(args, shared, group - 1);
    }
}
