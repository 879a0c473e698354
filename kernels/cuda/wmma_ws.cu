/* wmma_ws: warp specialisation. One producer warp copies tiles of K and V into a ring of two swizzled buffers each,
 * by cp.async; CONSUMERS warps of STRIPS x 16 query rows multiply. They meet at barriers in shared memory: a tile is
 * full when its copies have landed, empty when every consumer has left it. Logits, P and O never leave registers.
 *
 * What it taught: with the layout of the fragments known, the way of S and P through shared memory, most of wmma's
 * time, is gone; a warp that only copies costs the others neither registers nor instructions.
 *
 * Declared: a non-finite value may reach rows of its tile that do not see it (0 x NaN). */
#include "device/mask.cuh"
#include "device/schedule.cuh"
#include "device/softmax.cuh"
#include "device/stage.cuh"
#include "device/swizzle.cuh"

constexpr int dim_qk = ATTUNE_HEAD_DIM_QK, dim_v = ATTUNE_HEAD_DIM_V;
constexpr int WARP_ROWS = STRIPS * 16;
constexpr int BLOCK_M = CONSUMERS * WARP_ROWS;
constexpr int STAGES = 2;
constexpr int pitch_qk = swizzled_pitch<dim_qk>, pitch_v = swizzled_pitch<dim_v>;
constexpr int steps_qk = dim_qk / 16, columns_s = BLOCK_N / 16, columns_o = dim_v / 16;

struct Shared {
    element q[BLOCK_M * (pitch_qk > pitch_v ? pitch_qk : pitch_v)];
    element k[STAGES][BLOCK_N * pitch_qk];
    element v[STAGES][BLOCK_N * pitch_v];
    unsigned long long full_q, full_k[STAGES], full_v[STAGES], empty_k[STAGES], empty_v[STAGES];
    unsigned long long spare[7]; /* to a multiple of 128 bytes */
};
static_assert(sizeof(Shared) == ATTUNE_SMEM_BYTES, "the descriptor predicts another amount of shared memory");
static_assert((CONSUMERS + 1) * 32 == ATTUNE_THREADS, "the descriptor predicts another number of threads");
static_assert(dim_qk % 16 == 0 && dim_v % 16 == 0 && BLOCK_N % 16 == 0, "whole fragments");

ATTUNE_INLINE void wait(const unsigned long long &barrier, unsigned parity)
{
    while (!ptx_mbarrier_test_wait_parity(ptx_cvta_shared(&barrier), parity)) {
    }
}

ATTUNE_INLINE void init_barriers(Shared &shared)
{
    ptx_mbarrier_init(ptx_cvta_shared(&shared.full_q), 32);
    for (int i = 0; i < STAGES; ++i) {
        ptx_mbarrier_init(ptx_cvta_shared(&shared.full_k[i]), 32);
        ptx_mbarrier_init(ptx_cvta_shared(&shared.full_v[i]), 32);
        ptx_mbarrier_init(ptx_cvta_shared(&shared.empty_k[i]), CONSUMERS);
        ptx_mbarrier_init(ptx_cvta_shared(&shared.empty_v[i]), CONSUMERS);
    }
}

/* The block's tile of queries and the tiles of keys it visits. */
struct journey {
    work w;
    sequence at;
    int first_row, end_row;
    int begin, end; /* keys; begin is a multiple of BLOCK_N */
};

/* ---- The producer ---- */

ATTUNE_INLINE void produce(const attune_args &args, const journey &j, Shared &shared, int lane)
{
    int head_kv = j.w.head / ((int)args.heads_q / (int)args.heads_kv);
    const element *q = row_of<element>(args.tensor[ATTUNE_Q], j.at.batch, j.w.head, j.at.first_q);
    const element *k = row_of<element>(args.tensor[ATTUNE_K], j.at.batch, head_kv, j.at.first_kv);
    const element *v = row_of<element>(args.tensor[ATTUNE_V], j.at.batch, head_kv, j.at.first_kv);
    attune_i64 stride_k = args.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_SEQ];
    attune_i64 stride_v = args.tensor[ATTUNE_V].stride[ATTUNE_STRIDE_SEQ];
    int kv_end = (int)j.at.length_kv;
    swizzled_copy<BLOCK_M, dim_qk, 32>(shared.q, q, args.tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_SEQ], j.first_row,
                                       j.end_row, lane);
    ptx_cp_async_mbarrier_arrive_noinc(ptx_cvta_shared(&shared.full_q));
    int stage = 0;
    unsigned parity = 1; /* a ring that nobody has filled is empty */
    for (int key = j.begin; key < j.end; key += BLOCK_N) {
        wait(shared.empty_k[stage], parity);
        swizzled_copy<BLOCK_N, dim_qk, 32>(shared.k[stage], k, stride_k, key, kv_end, lane);
        ptx_cp_async_mbarrier_arrive_noinc(ptx_cvta_shared(&shared.full_k[stage]));
        wait(shared.empty_v[stage], parity);
        swizzled_copy<BLOCK_N, dim_v, 32>(shared.v[stage], v, stride_v, key, kv_end, lane);
        ptx_cp_async_mbarrier_arrive_noinc(ptx_cvta_shared(&shared.full_v[stage]));
        stage ^= 1;
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
        load_operand<pitch_qk>(q.a[place][t], q.rows, t, d);
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

/* Logits in units of log2; -inf where hidden. */
ATTUNE_INLINE void mask_tile(const attune_args &args, const journey &j, int first_row, int key, bool masked, int lane,
                             logits &s)
{
    constexpr bool more = ATTUNE_HAS_BIAS || ATTUNE_HAS_MASK || ATTUNE_HAS_ALIBI || ATTUNE_HAS_SOFTCAP;
    if (!masked && !more) {
        float scale = args.scale * LOG2_E;
#pragma unroll
        for (int i = 0; i < STRIPS * columns_s * 8; ++i) {
            s[i / 8 / columns_s][i / 8 % columns_s][i % 8] *= scale;
        }
        return;
    }
#pragma unroll
    for (int r = 0; r < STRIPS * 2; ++r) {
        int query = first_row + lane / 4 + r * 8;
        bool exists = query < j.at.length_q;
        key_range sees = keys_seen(args, j.at, query);
        extras x = exists ? extras_of(args, j.w.batch, j.w.head, query) : extras{};
#pragma unroll
        for (int n = 0; n < columns_s; ++n) {
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                if (sum_row(i) == r % 2) {
                    int at_key = key + n * 16 + sum_column(i, lane);
                    bool seen = exists && at_key >= sees.first && at_key < sees.end;
                    float dot = s[r / 2][n][i];
                    s[r / 2][n][i] = seen ? logit(args, j.at, x, query, at_key, dot) : negative_infinity();
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
    for (int n = 0; n < columns_s; ++n) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            largest[sum_row(i)] = fmaxf(largest[sum_row(i)], s[n][i]);
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
            soft[sum_row(i)].sum += s[n][i];
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

ATTUNE_INLINE void weigh_values(const element *v, const logits &s, int lane, lane_state &state)
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
#pragma unroll
            for (int t = 0; t < STRIPS; ++t) {
                wmma_mma16(state.o[t][c], p[t], b);
            }
        }
    }
}

/* One strip of O through sixteen rows of Q's memory, so that it leaves 16 bytes at a time; and its LSE. */
ATTUNE_INLINE void store_strip(const attune_args &args, const journey &j, element *strip, int first_row, int lane,
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

ATTUNE_INLINE void consume(const attune_args &args, const journey &j, Shared &shared, int warp, int lane)
{
    constexpr int strip_pitch = pitch_qk > pitch_v ? pitch_qk : pitch_v;
    int first_row = j.first_row + warp * WARP_ROWS;
    int last_row = min(first_row + WARP_ROWS, j.end_row) - 1;
    key_range any_sees = {0, 0}, all_see = {0, 0};
    if (last_row >= first_row) {
        any_sees = keys_seen_by_rows(args, j.at, first_row, last_row);
        all_see = key_range{keys_seen(args, j.at, last_row).first, keys_seen(args, j.at, first_row).end};
    }
    queries q = {lane_rows<pitch_qk>(shared.q, warp * WARP_ROWS, lane), {}};
    wait(shared.full_q, 0);
    if constexpr (Q_REGISTERS) {
#pragma unroll
        for (int d = 0; d < steps_qk; ++d) {
            load_queries(q, d, d);
        }
    }
    lane_state state = {};
#pragma unroll
    for (int r = 0; r < STRIPS * 2; ++r) {
        state.soft[r / 2][r % 2] = online_start(args, j.w.head, lane % 4 == 0);
    }
    logits kept; /* from tile to tile where nothing computes them anew */
    if constexpr (!with_qk) {
        stand_in(kept);
    }
    if constexpr (!with_pv) {
        stand_in(state.o);
    }
    int stage = 0;
    unsigned parity = 0;
    for (int key = j.begin; key < j.end; key += BLOCK_N) {
        bool seen = key < any_sees.end && key + BLOCK_N > any_sees.first;
        bool masked = key < all_see.first || key + BLOCK_N > all_see.end;
        logits fresh;
        logits &s = with_qk ? fresh : kept;
        wait(shared.full_k[stage], parity);
        if (with_qk && seen) {
            logits_tile(shared.k[stage], q, lane, s);
        }
        __syncwarp();
        if (lane == 0) {
            ptx_mbarrier_arrive(ptx_cvta_shared(&shared.empty_k[stage]));
        }
        if constexpr (!with_softmax) {
            state.soft[0][0].sum += s[0][0][0];
        } else if (seen) {
            mask_tile(args, j, first_row, key, masked, lane, s);
#pragma unroll
            for (int t = 0; t < STRIPS; ++t) {
                softmax_strip(s[t], state.soft[t], state.o[t]);
            }
        }
        wait(shared.full_v[stage], parity);
        if (with_pv && seen) {
            weigh_values(shared.v[stage], s, lane, state);
        }
        __syncwarp();
        if (lane == 0) {
            ptx_mbarrier_arrive(ptx_cvta_shared(&shared.empty_v[stage]));
        }
        stage ^= 1;
        parity ^= stage == 0;
    }
    __syncwarp(); /* every lane has read its queries */
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
        store_strip(args, j, shared.q + (warp * WARP_ROWS + t * 16) * strip_pitch, first_row + t * 16, lane,
                    state.soft[t], state.o[t]);
    }
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, MIN_BLOCKS)
    fwd_wmma_ws(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(128) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    journey j;
    j.w = static_work<BLOCK_M>(args);
    j.at = sequence_of(args, j.w.batch);
    j.first_row = j.w.tile * BLOCK_M;
    if (j.first_row >= j.at.length_q) {
        return;
    }
    j.end_row = (int)min(j.at.length_q, (attune_i64)j.first_row + BLOCK_M);
    key_range range = keys_seen_by_rows(args, j.at, j.first_row, j.end_row - 1);
    j.begin = range.first / BLOCK_N * BLOCK_N;
    j.end = range.end;
    if (threadIdx.x == 0) {
        init_barriers(shared);
    }
    __syncthreads();
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    if (warp == CONSUMERS) {
        produce(args, j, shared, lane);
        ptx_cp_async_commit_group();
        ptx_cp_async_wait_group<0>(); /* a block must not end with copies in flight */
    } else {
        consume(args, j, shared, warp, lane);
    }
}
