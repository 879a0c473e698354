/* wmma_ws: warp specialisation. PRODUCERS warps copy tiles of K and V into a ring of swizzled buffers by cp.async;
 * warps of STRIPS x 16 query rows multiply. They meet at barriers in shared memory: a tile is full when its copies have
 * landed, empty when everyone who needs it has left it. Logits, P and O never leave registers.
 *
 * CONSUMERS warps cover the block's rows; SPLITS times as many share its keys, every SPLITS-th tile each, and the first
 * of them merges the others' O at the end. That is for problems with fewer rows than the device has warps for.
 *
 * What it taught: with the layout of the fragments known, the way of S and P through shared memory, most of wmma's
 * time, is gone. Then operands are what is waited for: an operand of K or V read for one strip of sixteen rows takes
 * as long to leave shared memory as its product takes, so a warp needs two strips. A warp that only copies costs the
 * others neither registers nor instructions.
 *
 * Declared: a non-finite value may reach rows of its tile that do not see it (0 x NaN). Where a mask, bias,
 * window or offset can hide a key from all rows of a warp, the warp reads its value as zeros. */
#include "device/schedule.cuh"
#include "device/score.cuh"
#include "device/softmax.cuh"
#include "device/stage.cuh"
#include "device/swizzle.cuh"

constexpr int dim_qk = ATTUNE_HEAD_DIM_QK, dim_v = ATTUNE_HEAD_DIM_V;
constexpr int WARP_ROWS = STRIPS * 16;
constexpr int BLOCK_M = CONSUMERS * WARP_ROWS;
constexpr int STAGES = 2 * SPLITS;
constexpr int pitch_qk = swizzled_pitch<dim_qk>, pitch_v = swizzled_pitch<dim_v>;
constexpr int pitch_q = pitch_qk > pitch_v ? pitch_qk : pitch_v; /* O leaves through its rows' part of Q's memory */
constexpr int steps_qk = dim_qk / 16, columns_s = BLOCK_N / 16, columns_o = dim_v / 16;

constexpr int consumer_warps = CONSUMERS * SPLITS;
constexpr int barriers = 1 + 4 * STAGES;

struct Shared {
    element q[BLOCK_M * pitch_q];
    element k[STAGES][BLOCK_N * pitch_qk];
    element v[STAGES][BLOCK_N * pitch_v];
    unsigned long long full_q, full_k[STAGES], full_v[STAGES], empty_k[STAGES], empty_v[STAGES];
    unsigned long long spare[(barriers + 15) / 16 * 16 - barriers]; /* to a multiple of 128 bytes */
};
static_assert(sizeof(Shared) == ATTUNE_SMEM_BYTES, "the descriptor predicts another amount of shared memory");
static_assert((consumer_warps + PRODUCERS) * 32 == ATTUNE_THREADS, "the descriptor predicts another number of threads");
static_assert(dim_qk % 16 == 0 && dim_v % 16 == 0 && BLOCK_N % 16 == 0, "whole fragments");

ATTUNE_INLINE void wait(const unsigned long long &barrier, unsigned parity)
{
    while (!ptx_mbarrier_test_wait_parity(ptx_cvta_shared(&barrier), parity)) {
    }
}

ATTUNE_INLINE void init_barriers(Shared &shared)
{
    ptx_mbarrier_init(ptx_cvta_shared(&shared.full_q), PRODUCERS * 32);
    for (int i = 0; i < STAGES; ++i) {
        ptx_mbarrier_init(ptx_cvta_shared(&shared.full_k[i]), PRODUCERS * 32);
        ptx_mbarrier_init(ptx_cvta_shared(&shared.full_v[i]), PRODUCERS * 32);
        ptx_mbarrier_init(ptx_cvta_shared(&shared.empty_k[i]), CONSUMERS);
        ptx_mbarrier_init(ptx_cvta_shared(&shared.empty_v[i]), CONSUMERS);
    }
}

/* The block's tile of queries and the tiles of keys it visits. */
struct query_tile {
    work w;
    sequence at;
    int first_row, end_row;
    int begin, end; /* keys; begin is a multiple of BLOCK_N */
};

/* ---- The producers ---- */

ATTUNE_INLINE void produce(const attune_args &args, const query_tile &j, Shared &shared, int thread)
{
    int head_kv = kv_head(args, j.w.head);
    const element *q = row_of<element>(args.tensor[ATTUNE_Q], j.at.batch, j.w.head, j.at.first_q);
    const element *k = row_of<element>(args.tensor[ATTUNE_K], j.at.batch, head_kv, j.at.first_kv);
    const element *v = row_of<element>(args.tensor[ATTUNE_V], j.at.batch, head_kv, j.at.first_kv);
    attune_i64 stride_k = args.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_SEQ];
    attune_i64 stride_v = args.tensor[ATTUNE_V].stride[ATTUNE_STRIDE_SEQ];
    int kv_end = (int)j.at.length_kv;
    constexpr int threads = PRODUCERS * 32;
    swizzled_copy<BLOCK_M, dim_qk, threads, pitch_q>(shared.q, q, args.tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_SEQ],
                                                     j.first_row, j.end_row, thread);
    ptx_cp_async_mbarrier_arrive_noinc(ptx_cvta_shared(&shared.full_q));
    int stage = 0;
    unsigned parity = 1; /* a ring that nobody has filled is empty */
    for (int key = j.begin; key < j.end; key += BLOCK_N) {
        wait(shared.empty_k[stage], parity);
        swizzled_copy<BLOCK_N, dim_qk, threads>(shared.k[stage], k, stride_k, key, kv_end, thread);
        ptx_cp_async_mbarrier_arrive_noinc(ptx_cvta_shared(&shared.full_k[stage]));
        wait(shared.empty_v[stage], parity);
        swizzled_copy<BLOCK_N, dim_v, threads>(shared.v[stage], v, stride_v, key, kv_end, thread);
        ptx_cp_async_mbarrier_arrive_noinc(ptx_cvta_shared(&shared.full_v[stage]));
        stage = (stage + 1) % STAGES;
        parity ^= stage == 0;
    }
}

/* ---- The consumers ---- */

/* A lane's share: of each strip of sixteen rows, rows `lane / 4` and 8 below. */
struct lane_state {
    online soft[STRIPS][2];
    float o[STRIPS][columns_o][8];
};
typedef float logits[STRIPS][columns_s][8];

/* The warp's queries as operands: read once into registers, or again for every tile where registers are short. */
struct queries {
    unsigned rows; /* lane_rows of the warp's first strip */
    unsigned a[Q_REGISTERS ? steps_qk : 1][STRIPS][4];
};

ATTUNE_INLINE void load_queries(queries &q, int place, int d)
{
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
        load_operand<pitch_q>(q.a[place][t], q.rows, t, d);
    }
}

/* NOTE: an operand of K or V is read once for all strips. A 16x16x16 product takes the tensor cores about as long as
 * its B operand takes to leave shared memory, so with one strip the products wait for the reads. */
ATTUNE_INLINE void logits_tile(const element *k, queries &q, int lane, logits &s)
{
    unsigned columns = lane_columns<pitch_qk>(k, 0, lane);
#pragma unroll
    for (int i = 0; i < STRIPS * columns_s * 8; ++i) {
        s[i / 8 / columns_s][i / 8 % columns_s][i % 8] = 0;
    }
#pragma unroll
    for (int d = 0; d < steps_qk; ++d) {
        if constexpr (!Q_REGISTERS) {
            load_queries(q, 0, d);
        }
#pragma unroll
        for (int n = 0; n < columns_s; ++n) {
            unsigned b[4];
            load_operand<pitch_qk>(b, columns, n, d);
#pragma unroll
            for (int t = 0; t < STRIPS; ++t) {
                wmma_mma16(s[t][n], q.a[Q_REGISTERS ? d : 0][t], b);
            }
        }
    }
}

/* Which of the lane's two rows, and which column of a 16-wide product, sum i belongs to. */
ATTUNE_INLINE constexpr int sum_row(int i)
{
    return i / 2 % 2;
}

ATTUNE_INLINE int sum_column(int i, int lane)
{
    return i / 4 * 8 + lane % 4 * 2 + i % 2;
}

/* A lane's columns of a tile of logits are its rows as B operands of P V: of each sixteen four, neighbours in pairs. A
 * bit for each: whether any row of the warp sees the key. */
struct key_marks {
    unsigned bits;
};
enum { hides = HIDES_ANYWHERE || HIDES_ENDS };
static_assert(columns_s * 4 <= 32, "a bit for each of a lane's keys");

ATTUNE_INLINE void mark(key_marks &marks, int n, int i, bool seen)
{
    marks.bits |= (unsigned)seen << (n * 4 + i / 4 * 2 + i % 2);
}

/* Over the lanes that hold the same columns. */
ATTUNE_INLINE void join_marks(key_marks &marks)
{
#pragma unroll
    for (int step = 4; step < 32; step *= 2) {
        marks.bits |= __shfl_xor_sync(0xffffffff, marks.bits, step);
    }
}

/* Zeros for values of keys that no row of the warp sees, in operand B of the n-th sixteen keys. */
ATTUNE_INLINE void clean_operand(unsigned (&b)[4], const key_marks &marks, int n)
{
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        unsigned pair = marks.bits >> (n * 4 + i % 2 * 2);
        b[i] &= (pair & 1 ? 0xffffu : 0u) | (pair & 2 ? 0xffff0000u : 0u);
    }
}

/* Logits in units of log2; -inf where hidden. Marks, if keys may be hidden from all, those seen. */
ATTUNE_INLINE void mask_tile(const attune_args &args, const query_tile &j, int first_row, int key, bool masked,
                             int lane, logits &s, key_marks &marks)
{
    if (!masked && SCORES_ARE_SCALED && !HIDES_ANYWHERE) {
        float scale = score_factor(args);
#pragma unroll
        for (int i = 0; i < STRIPS * columns_s * 8; ++i) {
            s[i / 8 / columns_s][i / 8 % columns_s][i % 8] *= scale;
        }
        marks.bits = ~0u;
        return;
    }
#pragma unroll
    for (int r = 0; r < STRIPS * 2; ++r) {
        query_row query = query_row_of(args, j.at, j.w.batch, j.w.head, first_row + lane / 4 + r * 8);
#pragma unroll
        for (int n = 0; n < columns_s; ++n) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                if (sum_row(i) == r % 2) {
                    int at_key = key + n * 16 + sum_column(i, lane);
                    s[r / 2][n][i] = visible_score(args, j.at, query, at_key, s[r / 2][n][i]);
                    if constexpr (hides) {
                        mark(marks, n, i, sees(query, at_key));
                    }
                }
            }
        }
    }
}

/* The online softmax of one strip: logits become P; O is rescaled where a maximum has grown. */
ATTUNE_INLINE void softmax_strip(float (&s)[columns_s][8], online (&soft)[2], float (&o)[columns_o][8])
{
    float largest[2] = {negative_infinity(), negative_infinity()};
#pragma unroll
    for (int n = 0; n < columns_s; ++n) { /* by fours: in one chain each number waits for the one before */
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float *x = &s[n][2 * r];
            largest[r] = fmaxf(largest[r], fmaxf(fmaxf(x[0], x[1]), fmaxf(x[4], x[5])));
        }
    }
    float factor[2], subtract[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        factor[r] = online_raise(&soft[r], group_max<4>(largest[r]));
        subtract[r] = subtrahend(soft[r].maximum);
    }
#pragma unroll
    for (int n = 0; n < columns_s; ++n) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            s[n][i] = ptx_ex2_approx_ftz_f32(s[n][i] - subtract[sum_row(i)]);
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float *x = &s[n][2 * r];
            soft[r].sum += (x[0] + x[1]) + (x[4] + x[5]);
        }
    }
    if (__any_sync(0xffffffff, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
        for (int n = 0; n < columns_o; ++n) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                o[n][i] *= factor[sum_row(i)];
            }
        }
    }
}

ATTUNE_INLINE void weigh_values(const element *v, const logits &s, const key_marks &marks, int lane, lane_state &state)
{
    unsigned rows = lane_rows<pitch_v>(v, 0, lane);
#pragma unroll
    for (int n = 0; n < columns_s; ++n) {
        unsigned p[STRIPS][4];
#pragma unroll
        for (int t = 0; t < STRIPS; ++t) {
            sums_as_a16(p[t], s[t][n]);
        }
#pragma unroll
        for (int c = 0; c < columns_o; ++c) {
            unsigned b[4];
            load_operand_trans<pitch_v>(b, rows, n, c);
            if constexpr (hides && with_softmax) {
                clean_operand(b, marks, n);
            }
#pragma unroll
            for (int t = 0; t < STRIPS; ++t) {
                wmma_mma16(state.o[t][c], p[t], b);
            }
        }
    }
}

/* One strip of O through sixteen rows of Q's memory, so that it leaves 16 bytes at a time; and its LSE. */
ATTUNE_INLINE void store_strip(const attune_args &args, const query_tile &j, element *strip, int first_row, int lane,
                               const online (&soft)[2], const float (&o)[columns_o][8])
{
    float normaliser[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        int query = first_row + lane / 4 + r * 8;
        float sum = group_sum<4>(soft[r].sum);
        normaliser[r] = online_normaliser(sum);
        if (args.tensor[ATTUNE_LSE].data != nullptr && lane % 4 == 0 && query < j.at.length_q) {
            *row_of<float>(args.tensor[ATTUNE_LSE], j.at.batch, j.w.head, j.at.first_q + query) =
                online_lse(soft[r].maximum, sum);
        }
    }
#pragma unroll
    for (int c = 0; c < columns_o; ++c) {
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
            float f = normaliser[sum_row(i)];
            int row = lane / 4 + sum_row(i) * 8, column = c * 16 + sum_column(i, lane);
            element *to = strip + swizzled_index<pitch_v>(row, column / 8) + column % 8;
            *reinterpret_cast<unsigned *>(to) = pack_two(o[c][i] * f, o[c][i + 1] * f);
        }
    }
    __syncwarp();
    constexpr int parts = dim_v / 8;
    for (int i = lane; i < 16 * parts; i += 32) {
        int row = i / parts, part = i % parts;
        if (first_row + row < j.at.length_q) {
            element *out = row_of<element>(args.tensor[ATTUNE_O], j.at.batch, j.w.head, j.at.first_q + first_row + row);
            *reinterpret_cast<uint4 *>(out + part * 8) =
                *reinterpret_cast<const uint4 *>(strip + swizzled_index<pitch_v>(row, part));
        }
    }
}

/* A consumer's place: which rows of the block, which share of the keys. */
struct consumer {
    int group, split, lane;
    int first_row; /* in the sequence */
};

/* The loop over the warp's tiles. */
ATTUNE_INLINE void visit_tiles(const attune_args &args, const query_tile &j, Shared &shared, const consumer &c,
                               lane_state &state)
{
    int last_row = min(c.first_row + WARP_ROWS, j.end_row) - 1;
    key_range any_sees = {0, 0}, all_see = {0, 0};
    if (last_row >= c.first_row) {
        any_sees = keys_seen_by_any(args, j.at, c.first_row, last_row);
        all_see = keys_seen_by_all(args, j.at, c.first_row, last_row);
    }
    queries q = {lane_rows<pitch_q>(shared.q, c.group * WARP_ROWS, c.lane), {}};
    wait(shared.full_q, 0);
    if constexpr (Q_REGISTERS) {
#pragma unroll
        for (int d = 0; d < steps_qk; ++d) {
            load_queries(q, d, d);
        }
    }
    logits kept; /* from tile to tile where nothing computes them anew */
    if constexpr (!with_qk) {
        stand_in(kept);
    }
    if constexpr (!with_pv) {
        stand_in(state.o);
    }
    int stage = c.split;
    unsigned parity = 0;
    for (int key = j.begin + c.split * BLOCK_N; key < j.end; key += SPLITS * BLOCK_N) {
        bool seen = !hides_tile(any_sees.first, any_sees.end, key, BLOCK_N);
        bool masked = needs_mask(all_see.first, all_see.end, key, BLOCK_N);
        logits fresh;
        logits &s = with_qk ? fresh : kept;
        wait(shared.full_k[stage], parity);
        if (with_qk && seen) {
            logits_tile(shared.k[stage], q, c.lane, s);
        }
        __syncwarp();
        if (c.lane == 0) {
            ptx_mbarrier_arrive(ptx_cvta_shared(&shared.empty_k[stage]));
        }
        key_marks marks = {};
        if constexpr (!with_softmax) {
            state.soft[0][0].sum += s[0][0][0];
        } else if (seen) {
            mask_tile(args, j, c.first_row, key, masked, c.lane, s, marks);
            if constexpr (hides) {
                join_marks(marks);
            }
#pragma unroll
            for (int t = 0; t < STRIPS; ++t) {
                softmax_strip(s[t], state.soft[t], state.o[t]);
            }
        }
        wait(shared.full_v[stage], parity);
        if (with_pv && seen) {
            weigh_values(shared.v[stage], s, marks, c.lane, state);
        }
        __syncwarp();
        if (c.lane == 0) {
            ptx_mbarrier_arrive(ptx_cvta_shared(&shared.empty_v[stage]));
        }
        stage = (stage + SPLITS) % STAGES;
        parity ^= stage == c.split;
    }
}

/* What a split hands over: O and the softmax's state as the lanes hold them, which all splits do alike. */
constexpr int partial_floats = STRIPS * (columns_o * 8 + 4); /* floats of a lane */
static_assert((SPLITS - 1) * CONSUMERS * 32 * partial_floats * sizeof(float) <= sizeof(Shared::k) + sizeof(Shared::v),
              "what the splits hand over fits into the ring");

/* Float i of this lane's of a split's group: lanes are neighbours, so that nobody waits for a bank. */
ATTUNE_INLINE float &partial_float(Shared &shared, int split, const consumer &c, int i)
{
    float *ring = reinterpret_cast<float *>(&shared.k[0][0]);
    return ring[(((split - 1) * CONSUMERS + c.group) * partial_floats + i) * 32 + c.lane];
}

ATTUNE_INLINE void store_partials(Shared &shared, const consumer &c, const lane_state &state)
{
    int i = 0;
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            partial_float(shared, c.split, c, i++) = state.soft[t][r].maximum;
            partial_float(shared, c.split, c, i++) = state.soft[t][r].sum;
        }
#pragma unroll
        for (int n = 0; n < columns_o * 8; ++n) {
            partial_float(shared, c.split, c, i++) = state.o[t][n / 8][n % 8];
        }
    }
}

/* Takes in what another split has partial_floats over. */
ATTUNE_INLINE void merge(Shared &shared, const consumer &c, int split, lane_state &state)
{
    int i = 0;
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
        float own[2], other[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float maximum = partial_float(shared, split, c, i++), sum = partial_float(shared, split, c, i++);
            own[r] = online_raise(&state.soft[t][r], maximum);
            other[r] = ptx_ex2_approx_ftz_f32(maximum - subtrahend(state.soft[t][r].maximum));
            state.soft[t][r].sum += sum * other[r];
        }
#pragma unroll
        for (int n = 0; n < columns_o * 8; ++n) {
            float o = partial_float(shared, split, c, i++);
            state.o[t][n / 8][n % 8] = state.o[t][n / 8][n % 8] * own[sum_row(n % 8)] + o * other[sum_row(n % 8)];
        }
    }
}

ATTUNE_INLINE void consume(const attune_args &args, const query_tile &j, Shared &shared, int warp, int lane)
{
    consumer c = {warp % CONSUMERS, warp / CONSUMERS, lane, j.first_row + warp % CONSUMERS * WARP_ROWS};
    lane_state state = {};
#pragma unroll
    for (int r = 0; r < STRIPS * 2; ++r) {
        /* The sink counts once: in the first split. */
        online start = online_start(args, j.w.head, lane % 4 == 0 && c.split == 0);
        state.soft[r / 2][r % 2] = start;
    }
    visit_tiles(args, j, shared, c, state);
    if constexpr (SPLITS > 1) {
        constexpr int threads = consumer_warps * 32;
        ptx_barrier_sync(1, threads); /* nobody reads the ring any more */
        if (c.split > 0) {
            store_partials(shared, c, state);
        }
        ptx_barrier_sync(1, threads);
        if (c.split > 0) {
            return;
        }
#pragma unroll 1
        for (int split = 1; split < SPLITS; ++split) {
            merge(shared, c, split, state);
        }
    }
    __syncwarp(); /* every lane has read its queries */
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
        store_strip(args, j, shared.q + (c.group * WARP_ROWS + t * 16) * pitch_q, c.first_row + t * 16, lane,
                    state.soft[t], state.o[t]);
    }
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, MIN_BLOCKS)
    fwd_wmma_ws(const __grid_constant__ attune_args args)
{
    follow_launch();
    extern __shared__ __align__(128) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    query_tile j;
    j.w = static_work<BLOCK_M>(args);
    j.at = sequence_of(args, j.w.batch);
    j.first_row = j.w.tile * BLOCK_M;
    if (j.first_row >= j.at.length_q) {
        return;
    }
    j.end_row = (int)min(j.at.length_q, (attune_i64)j.first_row + BLOCK_M);
    key_range range = keys_seen_by_any(args, j.at, j.first_row, j.end_row - 1);
    j.begin = range.first / BLOCK_N * BLOCK_N;
    j.end = range.end;
    if (threadIdx.x == 0) {
        init_barriers(shared);
    }
    __syncthreads();
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    if (warp >= consumer_warps) {
        produce(args, j, shared, (int)threadIdx.x - consumer_warps * 32);
        ptx_cp_async_commit_group();
        ptx_cp_async_wait_group<0>(); /* a block must not end with copies in flight */
    } else {
        consume(args, j, shared, warp, lane);
    }
}
