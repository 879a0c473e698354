/* mma_fp32: attention of fp32 on tensor cores from sm_80 on, six products of bf16 for one of fp32, or three where TF32
 * would do (bf16_parts.cuh).
 *
 * A block is WARPS x 16 query rows of one head, a strip a warp. All threads read a tile of BLOCK_N keys, or values, as
 * fp32 while the products of the tile before run, split it into parts and write these to swizzled tiles, which the
 * products read by ldmatrix; scores, weights and O stay in registers, weights are split there.
 *
 * Tensor cores cut sums off. So large products of three parts have sums of their own, of at most one tile of keys;
 * ordinary additions take them up, into O by way of one fused multiply-add.
 *
 * Whatever is not finite becomes NaN in its tile's sums, and values below 2^-110 lose bits. Rows that show signs of
 * either are computed once more, key by key (plain_row.cuh). */
#include "device/job.cuh"
#include "device/mma.cuh"
#include "device/rows.cuh"
#include "device/swizzle.cuh"

constexpr int dim_qk = ATTUNE_HEAD_DIM_QK, dim_v = ATTUNE_HEAD_DIM_V;
constexpr int BLOCK_M = WARPS * 16, pitch_qk = swizzled_pitch<dim_qk>, pitch_v = swizzled_pitch<dim_v>;
constexpr int steps_qk = (dim_qk + 15) / 16, steps_pv = BLOCK_N / 16, columns_o = (dim_v + 15) / 16;
constexpr int scores = BLOCK_N / 2, outputs = columns_o * 8; /* in a lane */
constexpr int chunks_v = 1;
enum { FIRST_TILES = 1 };

#include "device/fp32_rows.cuh"

constexpr unsigned q_part = BLOCK_M * pitch_qk * 2, k_part = BLOCK_N * pitch_qk * 2, v_part = BLOCK_N * pitch_v * 2;

struct alignas(128) Shared {
    unsigned char q[PARTS * q_part], k[PARTS * k_part], v[PARTS * v_part];
    uint4 edges[WARPS * 32];                       /* first and end of the keys that each of a lane's two rows sees */
    unsigned values_lost, keys_lost, queries_lost; /* some bits of some of them had no place */
    unsigned keys_large, queries_large;            /* some were above large_enough */
};
static_assert(sizeof(Shared) == ATTUNE_SMEM_BYTES, "the descriptor predicts another amount of shared memory");
static_assert(WARPS * 32 == ATTUNE_THREADS, "the descriptor predicts another number of threads");

/* ---- Splitting -------------------------------------------------------------------------------------------------- */

/* A thread's share of `rows` rows: four neighbouring columns each. */
template <int rows, int dim> struct share {
    static constexpr int quads = (dim + 15) / 16 * 4, count = (rows * quads + ATTUNE_THREADS - 1) / ATTUNE_THREADS;
    float4 x[count];
};

/* Rows first ... at `origin`; zeros in place of those that are not first_there ... end_there - 1. */
template <int rows, int dim>
ATTUNE_INLINE void load_share(share<rows, dim> &to, const element *origin, attune_i64 stride, int first,
                              int first_there, int end_there)
{
    constexpr int quads = share<rows, dim>::quads;
    const int thread = (int)ptx_mov_tid_x();
#pragma unroll
    for (int i = 0; i < share<rows, dim>::count; ++i) {
        const int at = thread + i * ATTUNE_THREADS, row = first + at / quads;
        to.x[i] = at < rows * quads && row >= first_there && row < end_there
                      ? load_four<dim>(origin + row * stride, at % quads * 4)
                      : make_float4(0, 0, 0, 0);
    }
}

/* Its parts to a tile in shared memory, each `part` bytes behind the one before. */
template <int rows, int dim>
ATTUNE_INLINE void store_share(const share<rows, dim> &from, const unsigned char *tile, unsigned part, unsigned &lost)
{
    constexpr int quads = share<rows, dim>::quads;
    const int thread = (int)ptx_mov_tid_x();
    const unsigned base = ptx_cvta_shared(tile);
#pragma unroll
    for (int i = 0; i < share<rows, dim>::count; ++i) {
        const int at = thread + i * ATTUNE_THREADS, quad = at % quads;
        if (at < rows * quads) {
            const unsigned to =
                base + (unsigned)(2 * swizzled_index<swizzled_pitch<dim>>(at / quads, quad / 2) + quad % 2 * 8);
            unsigned low[PARTS], high[PARTS];
            split_two(from.x[i].x, from.x[i].y, low, lost);
            split_two(from.x[i].z, from.x[i].w, high, lost);
#pragma unroll
            for (int p = 0; p < PARTS; ++p) {
                ptx_st_shared_v2_b32(to + (unsigned)p * part, low[p], high[p]);
            }
        }
    }
}

template <int rows, int dim> ATTUNE_INLINE float largest_of(const share<rows, dim> &share, float largest)
{
#pragma unroll
    for (const float4 &x : share.x) {
        largest = fmaxf(fmaxf(fmaxf(largest, fabsf(x.x)), fmaxf(fabsf(x.y), fabsf(x.z))), fabsf(x.w));
    }
    return largest;
}

/* ---- A warp ------------------------------------------------------------------------------------------------------ */

struct warp_rows {
    int row; /* the lane's first, in the sequence */
    float scale;
    row_pair rows;
    key_range any_sees, all_see;
    float o[chunks_v][outputs];
};

ATTUNE_INLINE warp_rows rows_of_warp(const attune_args &args, const tile &t, Shared &shared)
{
    warp_rows c = {};
    const int thread = (int)ptx_mov_tid_x();
    const int first = t.first_row + thread / 32 * 16, last = (int)min((attune_i64)first + 15, t.at.length_q - 1);
    c.row = first + thread % 32 / 4;
    c.scale = SCALED_AT_ONCE ? 1.0f : score_factor(args);
    c.rows = {{negative_infinity(), negative_infinity()}, {0, 0}};
    const key_range upper = keys_seen(args, t.at, c.row), lower = keys_seen(args, t.at, c.row + 8);
    shared.edges[thread] =
        make_uint4((unsigned)upper.first, (unsigned)upper.end, (unsigned)lower.first, (unsigned)lower.end);
    c.any_sees = last < first ? key_range{0, 0} : keys_seen_by_any(args, t.at, first, last);
    c.all_see = last < first ? key_range{0, 0} : keys_seen_by_all(args, t.at, first, last);
    return c;
}

/* Part of_a of A times part of_b of all operands of B. */
template <int of_a, int of_b, int parts, int count>
ATTUNE_INLINE void multiply_parts(const unsigned (&a)[parts][4], const unsigned (&b)[parts][count][4],
                                  float (&sums)[count * 8])
{
#pragma unroll
    for (int n = 0; n < count; ++n) {
        mma_16x16(&sums[n * 8], a[of_a], b[of_b][n]);
    }
}

/* The products, small ones first. Those of two parts share their sums: what these lose is far less than what is left
 * out. */
template <int count>
ATTUNE_INLINE void multiply_all(const unsigned (&a)[2][4], const unsigned (&b)[2][count][4], float (&large)[count * 8],
                                float (&)[count * 8])
{
    multiply_parts<0, 1>(a, b, large);
    multiply_parts<1, 0>(a, b, large);
    multiply_parts<0, 0>(a, b, large);
}

template <int count>
ATTUNE_INLINE void multiply_all(const unsigned (&a)[3][4], const unsigned (&b)[3][count][4], float (&large)[count * 8],
                                float (&small)[count * 8])
{
    multiply_parts<0, 2>(a, b, small);
    multiply_parts<2, 0>(a, b, small);
    multiply_parts<1, 1>(a, b, small);
    multiply_parts<0, 1>(a, b, small);
    multiply_parts<1, 0>(a, b, small);
    multiply_parts<0, 0>(a, b, large);
}

/* S of a tile. */
ATTUNE_INLINE void multiply_keys(const Shared &shared, float (&s)[scores])
{
    const int thread = (int)ptx_mov_tid_x(), lane = thread % 32;
    const element *q = reinterpret_cast<const element *>(shared.q), *k = reinterpret_cast<const element *>(shared.k);
    const unsigned rows = lane_rows<pitch_qk>(q, thread / 32 * 16, lane), columns = lane_columns<pitch_qk>(k, 0, lane);
    float small[scores] = {};
#pragma unroll
    for (int i = 0; i < scores; ++i) {
        s[i] = 0;
    }
#pragma unroll
    for (int d = 0; d < steps_qk; ++d) {
        unsigned a[PARTS][4], b[PARTS][steps_pv][4];
#pragma unroll
        for (int p = 0; p < PARTS; ++p) {
            load_operand<pitch_qk>(a[p], rows + (unsigned)p * q_part, 0, d);
#pragma unroll
            for (int n = 0; n < steps_pv; ++n) {
                load_operand<pitch_qk>(b[p][n], columns + (unsigned)p * k_part, n, d);
            }
        }
        multiply_all(a, b, s, small);
    }
    if constexpr (PARTS == 3) {
#pragma unroll
        for (int i = 0; i < scores; ++i) {
            s[i] += small[i];
        }
    }
}

/* Products become scores; -inf where hidden. NOTE: what takes registers, which the loop has not, is in shared memory or
 * worked out anew. */
ATTUNE_INLINE void finish_scores(const attune_args &args, const Shared &shared, const warp_rows &c, int key,
                                 float (&s)[scores])
{
    const int thread = (int)ptx_mov_tid_x();
    cap_scores(args, s);
    if constexpr (ONE_BY_ONE) {
        tile t;
        (void)find(args, t);
        score_one_by_one(args, t, c.row, key, thread % 32, s);
    } else if (needs_mask(c.all_see.first, c.all_see.end, key, BLOCK_N)) {
        const uint4 edges = shared.edges[thread];
        const int first[2] = {(int)edges.x - key, (int)edges.z - key},
                  end[2] = {(int)edges.y - key, (int)edges.w - key};
        rows_hide<BEGINS_MOVE, scores>(s, first, end, thread % 32);
    }
}

/* Sixteen columns of O take in a tile's values. */
ATTUNE_INLINE void add_column(unsigned rows, int column, const weights &p, const float (&factor)[2], warp_rows &c)
{
    float large[8] = {}, small[8] = {};
#pragma unroll
    for (int n = 0; n < steps_pv; ++n) {
        unsigned a[PARTS][4], b[PARTS][1][4];
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            load_operand_trans<pitch_v>(b[part][0], rows + (unsigned)part * v_part, n, column);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                a[part][i] = p[part][n][i];
            }
        }
        multiply_all(a, b, large, small);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        float &o = c.o[0][column * 8 + i];
        o = fmaf(o, factor[i / 2 % 2], PARTS == 2 ? large[i] : large[i] + small[i]);
    }
}

/* All of them. NOTE: a condition that always holds stands before every other one, or the compiler begins the next ones'
 * products while sums of the last are alive, and spills. */
ATTUNE_INLINE void add_values(const Shared &shared, const weights &p, const float (&factor)[2], warp_rows &c)
{
    const element *v = reinterpret_cast<const element *>(shared.v);
    const unsigned rows = lane_rows<pitch_v>(v, 0, (int)(ptx_mov_tid_x() % 32));
#pragma unroll
    for (int column = 0; column < columns_o; column += 2) {
        if (c.any_sees.end > 0) {
            add_column(rows, column, p, factor, c);
            if (column + 1 < columns_o) {
                add_column(rows, column + 1, p, factor, c);
            }
        }
    }
}

/* ---- The whole -------------------------------------------------------------------------------------------------- */

/* Tiles of keys and values travel into registers under products: values under Q K^T, the next keys under P V. */
ATTUNE_INLINE void visit(const attune_args &args, const tile &t, Shared &shared, warp_rows &c)
{
    const element *k = row_of<element>(args.tensor[ATTUNE_K], t.at.batch, t.head_kv, t.at.first_kv);
    const element *v = row_of<element>(args.tensor[ATTUNE_V], t.at.batch, t.head_kv, t.at.first_kv);
    const attune_i64 stride_k = args.tensor[ATTUNE_K].stride[ATTUNE_STRIDE_SEQ],
                     stride_v = args.tensor[ATTUNE_V].stride[ATTUNE_STRIDE_SEQ];
    const key_range there = keys_seen_by_any(args, t.at, 0, t.at.length_q - 1);
    unsigned keys_lost = 0, values_lost = 0;
    float largest = 0;
    share<BLOCK_N, dim_qk> keys;
    load_share(keys, k, stride_k, t.first_key, there.first, there.end);
#pragma unroll 1
    for (int key = t.first_key; key < t.end_key; key += BLOCK_N) {
        const bool hidden = hides_tile(c.any_sees.first, c.any_sees.end, key, BLOCK_N);
        float s[scores], factor[2];
        store_share(keys, shared.k, k_part, keys_lost);
        largest = largest_of(keys, largest);
        share<BLOCK_N, dim_v> values;
        load_share(values, v, stride_v, key, there.first, there.end);
        __syncthreads(); /* keys are there, and the values before are done with */
        if (!hidden) {
            multiply_keys(shared, s);
        }
        store_share(values, shared.v, v_part, values_lost);
        if (key + BLOCK_N < t.end_key) {
            load_share(keys, k, stride_k, key + BLOCK_N, there.first, there.end);
        }
        __syncthreads(); /* values are there, and the keys are done with */
        if (!hidden) {
            weights p;
            finish_scores(args, shared, c, key, s);
            weigh(c, s, factor);
            split_weights(s, p);
            add_values(shared, p, factor, c);
        }
    }
    tell(shared.keys_lost, has_lost(keys_lost), shared.keys_large, largest > large_enough);
    if (has_lost(values_lost)) {
        shared.values_lost = 1;
    }
}

ATTUNE_INLINE void store(const attune_args &args, const Shared &shared, warp_rows &c)
{
    tile t;
    (void)find(args, t);
    const bool all_again = scores_suffer(shared), values_lost = shared.values_lost != 0;
    const int lane = (int)(ptx_mov_tid_x() % 32);
    unsigned again[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const bool one = store_row(args, t, c, r, lane, values_lost);
        again[r] = __ballot_sync(0xffffffff, one || (all_again && c.row + r * 8 < t.at.length_q));
    }
    attend_again(args, t, c.row - lane / 4, lane, again);
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS, MIN_BLOCKS)
    fwd_mma_fp32(const __grid_constant__ attune_args args)
{
    extern __shared__ __align__(128) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    tile t;
    if (!find(args, t)) {
        return;
    }
    if (threadIdx.x == 0) {
        shared.values_lost = shared.keys_lost = shared.queries_lost = shared.keys_large = shared.queries_large = 0;
    }
    __syncthreads();
    unsigned lost = 0;
    {
        share<BLOCK_M, dim_qk> queries;
        load_share(queries, row_of<element>(args.tensor[ATTUNE_Q], t.at.batch, t.head, t.at.first_q),
                   args.tensor[ATTUNE_Q].stride[ATTUNE_STRIDE_SEQ], t.first_row, 0, (int)t.at.length_q);
        store_share(queries, shared.q, q_part, lost);
        tell(shared.queries_lost, has_lost(lost), shared.queries_large, largest_of(queries, 0) > large_enough);
    }
    warp_rows c = rows_of_warp(args, t, shared);
    visit(args, t, shared, c);
    __syncthreads(); /* what threads saw is known */
    store(args, shared, c);
}
