/* A block of mma's products of fp32, three of TF32 for each (tf32.cuh), and how they are stored. For 16-bit elements:
 * mma_halves.cuh.
 *
 * The second product takes keys and columns in an order of its own. Weights are operands as they come out of the first:
 * element l % 4 is of the lane's first key of eight, the one 4 further on of its second, and values are read by the
 * same rows. Of sixteen columns lane l / 4 = g reads 2 g and the next at once, one for each of two operands; so of
 * their sums a lane holds the neighbouring columns 4 (l % 4) ... + 3: of both operands' sums number 4 j + i belongs to
 * column 4 (l % 4) + i % 2 * 2 + j. */
#ifndef DEVICE_MMA_FLOATS_CUH
#define DEVICE_MMA_FLOATS_CUH

#include "device/mma_block.cuh"
#include "device/tf32.cuh"

/* ---- Q K^T ------------------------------------------------------------------------------------------------------ */

/* NOTE: registers are short; what is worked out of a lane's number anew for every tile is kept in none. */
ATTUNE_INLINE int lane_anew()
{
    return (int)ptx_mov_tid_x() % 32;
}

/* The warp's queries: where they lie, and its operands of them, anew for every tile. */
struct queries {
    unsigned first, rows;
};

ATTUNE_INLINE void place_queries(Shared &shared, const place &p, queries &q)
{
    q.first = ptx_cvta_shared(shared.q);
}

/* Sixteen columns of them, times those of the tile's keys. `columns`: lane_columns of the tile. */
ATTUNE_INLINE void multiply_step(unsigned columns, const queries &q, int d, float (&s)[STRIPS][scores])
{
    tf32_pair<4> a[STRIPS][2];
#pragma unroll
    for (int i = 0; i < STRIPS * 2; ++i) {
        unsigned x[4];
        load_operand<pitch_qk>(x, q.rows, i / 2, d * 2 + i % 2);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            tf32_split(x[e], a[i / 2][i % 2].big[e], a[i / 2][i % 2].small[e]);
        }
    }
#pragma unroll
    for (int n = 0; n < steps_pv; ++n) {
        tf32_pair<2> b[2][2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            unsigned x[4]; /* of two operands */
            load_operand<pitch_qk>(x, columns, n, d * 2 + k);
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                tf32_split(x[e], b[e / 2][k].big[e % 2], b[e / 2][k].small[e % 2]);
            }
        }
        float sum[STRIPS][2][4];
        tf32_multiply<STRIPS, 2>(sum, a, b);
#pragma unroll
        for (int i = 0; i < STRIPS * 8; ++i) {
            s[i / 8][n * 8 + i % 8] += sum[i / 8][i / 4 % 2][i % 4];
        }
    }
}

/* lane_rows, from the tile's first byte. */
ATTUNE_INLINE unsigned operand_bytes(int row, int lane)
{
    return (unsigned)((row + lane % 16) * pitch_qk * 2 + ((lane & 7) ^ lane / 16) * 16);
}

ATTUNE_INLINE void multiply_keys(const element *k, queries &q, int lane, float (&s)[STRIPS][scores])
{
    const int warp = (int)ptx_mov_tid_x() / 32 % WARPS; /* of the split */
    const unsigned columns = lane_columns<pitch_qk>(k, 0, lane_anew());
    q.rows = q.first + operand_bytes(warp * WARP_ROWS, lane_anew());
    clear(s);
#pragma unroll 1
    for (int d = 0; d < steps_qk; ++d) {
        multiply_step(columns, q, d, s);
    }
}

/* A negative scale is the queries' affair: products then have the sign that maxima are taken of. */
ATTUNE_INLINE void negate_queries(Shared &shared)
{
    for (int i = (int)threadIdx.x; i < BLOCK_M * pitch_qk / 8; i += ATTUNE_THREADS) {
        uint4 &x = reinterpret_cast<uint4 *>(shared.q)[i];
        x = make_uint4(x.x ^ 0x80000000u, x.y ^ 0x80000000u, x.z ^ 0x80000000u, x.w ^ 0x80000000u);
    }
}

/* ---- Scores ----------------------------------------------------------------------------------------------------- */

/* As rows_shape, to fp32's last bits. */
ATTUNE_INLINE void shape_scores(float (&s)[scores], float inner)
{
    if constexpr (ATTUNE_HAS_SOFTCAP) {
#pragma unroll
        for (int i = 0; i < scores; ++i) {
            s[i] = tanhf(s[i] * inner);
        }
    }
}

/* Whether no row of the warp sees any key of the tile: all scores are -inf. */
template <int n> ATTUNE_INLINE bool sees_nothing(const float (&s)[STRIPS][n])
{
    bool sees = false;
#pragma unroll
    for (int i = 0; i < STRIPS * n; ++i) {
        sees |= s[i / n][i % n] != negative_infinity();
    }
    return !__any_sync(0xffffffff, sees);
}

/* ---- P V -------------------------------------------------------------------------------------------------------- */

/* Weights of the tile are operands as they are. */
typedef float weights[STRIPS][scores];

ATTUNE_INLINE void pack(const float (&s)[STRIPS][scores], weights &w)
{
#pragma unroll
    for (int i = 0; i < STRIPS * scores; ++i) {
        w[i / scores][i % scores] = s[i / scores][i % scores];
    }
}

/* Which of a lane's four scores of eight keys register `i` of the operand is. */
ATTUNE_INLINE constexpr int score_of_register(int i)
{
    return i % 2 * 2 + i / 2;
}

/* Where a lane reads values of its two keys of eight: bytes of the tile. */
struct value_rows {
    const unsigned char *tile;
    int at[2];
};

ATTUNE_INLINE value_rows value_rows_of(const element *v, int lane)
{
    value_rows rows = {reinterpret_cast<const unsigned char *>(v), {0, 0}};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = lane % 4 * 2 + i;
        rows.at[i] = row * pitch_v * 2 + (lane / 8 ^ row) * 16 + lane / 4 % 2 * 8;
    }
    return rows;
}

/* Two columns of sixteen of the lane's key `which` of eight. */
ATTUNE_INLINE uint2 values_of(const value_rows &rows, int which, int eight, int c)
{
    return *reinterpret_cast<const uint2 *>(rows.tile + (rows.at[which] ^ c % 2 * 64) + eight * 8 * pitch_v * 2 +
                                            c / 2 * 128);
}

/* The lane's values of sixteen keys and columns as operands. */
ATTUNE_INLINE void load_values(const value_rows &rows, int n, int c, tf32_pair<2> (&b)[2][2])
{
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int k = i / 2, which = i % 2;
        const uint2 two = values_of(rows, which, n * 2 + k, c);
        const unsigned x[2] = {two.x, two.y};
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            tf32_split(x[j], b[j][k].big[which], b[j][k].small[which]);
        }
    }
}

/* NOTE: a question whose answer the compiler does not know keeps it from reading all values of a tile ahead, for which
 * there are no registers. */
enum { COLUMNS_TOGETHER = STRIPS == 1 ? 4 : 2 };

/* What the weights of sixteen keys make of COLUMNS_TOGETHER x 16 columns from 16 `first` on. */
ATTUNE_INLINE void add_columns(const value_rows &rows, const tf32_pair<4> (&a)[STRIPS][2], int n, int first,
                               strip_state (&state)[STRIPS])
{
#pragma unroll
    for (int c = first; c < first + COLUMNS_TOGETHER && c < columns_o; ++c) {
        tf32_pair<2> b[2][2];
        float sum[STRIPS][2][4];
        load_values(rows, n, c, b);
        tf32_multiply<STRIPS, 2>(sum, a, b);
#pragma unroll
        for (int i = 0; i < STRIPS * 8; ++i) {
            state[i / 8].o[c * 8 + i % 8] += sum[i / 8][i / 4 % 2][i % 4];
        }
    }
}

ATTUNE_INLINE void add_values(const attune_args &args, const element *v, const weights &w, strip_state (&state)[STRIPS])
{
    const value_rows rows = value_rows_of(v, lane_anew());
#pragma unroll
    for (int n = 0; n < steps_pv; ++n) {
        tf32_pair<4> a[STRIPS][2];
#pragma unroll
        for (int i = 0; i < STRIPS * 8; ++i) {
            const int t = i / 8, k = i / 4 % 2, e = i % 4;
            tf32_split(__float_as_uint(w[t][(n * 2 + k) * 4 + score_of_register(e)]), a[t][k].big[e], a[t][k].small[e]);
        }
#pragma unroll
        for (int c = 0; c < columns_o; c += COLUMNS_TOGETHER) {
            if (c * 16 < args.head_dim_v) {
                add_columns(rows, a, n, c, state);
            }
        }
    }
}

ATTUNE_INLINE void add_tile(const attune_args &args, const tile &t, const place &p, const element *v, int key,
                            bool masked, const weights &w, strip_state (&state)[STRIPS])
{
    add_values(args, v, w, state);
}

/* ---- Rows that are not finite -----------------------------------------------------------------------------------
 *
 * NOTE: parts of an infinity are an infinity and a NaN, so that whatever a warp multiplies that is not finite shows as
 * NaN in its sums, be it a key's or a value's, seen or hidden. Looking for it once, at the end, costs nothing; such
 * rows are worked out again without tensor cores. */

ATTUNE_INLINE float multiply_row(const element *q, const element *k)
{
    float sum = 0;
#pragma unroll 4
    for (int d = 0; d < dim_qk; ++d) {
        sum = fmaf(q[d], k[d], sum);
    }
    return sum;
}

/* Of a row in one warp: every lane its keys, then every lane its columns. */
struct plain_row {
    query_row q;
    kv_rows<element> k, v;
    online soft;
    float o[(dim_v + 31) / 32];
};

/* The 32 keys from `key` on. A weight that is too small counts all the same: for an infinity. */
ATTUNE_INLINE void take_keys(const attune_args &args, const tile &t, int key, int lane, plain_row &row)
{
    constexpr float least = 1e-37f;
    const bool seen = sees(row.q, key + lane);
    float s = negative_infinity();
    if (seen) {
        const element *q = row_of<element>(args.tensor[ATTUNE_Q], t.at.batch, t.w.head, t.at.first_q + row.q.row);
        s = apply_score(args, t.at, row.q, key + lane, multiply_row(q, kv_row(args, row.k, key + lane)));
    }
    const float factor = fmaxf(online_raise(&row.soft, group_max<32>(s)), least);
    const float weight = s == negative_infinity() ? 0 : ptx_ex2_approx_ftz_f32(s - subtrahend(row.soft.maximum));
    row.soft.sum += weight;
#pragma unroll
    for (int c = 0; c < (dim_v + 31) / 32; ++c) {
        row.o[c] *= factor;
    }
    const unsigned all = __ballot_sync(0xffffffff, seen);
#pragma unroll 1
    for (int j = 0; j < 32; ++j) {
        const float own = __shfl_sync(0xffffffff, s == negative_infinity() ? 0 : fmaxf(weight, least), j);
        if (all >> j & 1) {
            const element *v = kv_row(args, row.v, key + j);
#pragma unroll
            for (int c = 0; c < (dim_v + 31) / 32; ++c) {
                row.o[c] = c * 32 + lane < dim_v ? fmaf(own, v[c * 32 + lane], row.o[c]) : 0;
            }
        }
    }
}

ATTUNE_INLINE void attend_row(const attune_args &args, const tile &t, int index, int lane)
{
    plain_row row = {query_row_of(args, t.at, t.w.batch, t.w.head, index)};
    const key_range keys = row.q.keys;
    row.k = kv_rows_of<ATTUNE_K, element>(args, t.at, t.w.batch, kv_head(args, t.w.head), keys.first, keys.end);
    row.v = kv_rows_of<ATTUNE_V, element>(args, t.at, t.w.batch, kv_head(args, t.w.head), keys.first, keys.end);
    row.soft = online_start(args, t.w.head, lane == 0);
#pragma unroll 1
    for (int key = keys.first; key < keys.end; key += 32) {
        take_keys(args, t, key, lane, row);
    }
    const float sum = group_sum<32>(row.soft.sum), normaliser = online_normaliser(sum);
    const attune_i64 place = t.at.first_q + index;
    element_o *out = row_of<element_o>(args.tensor[ATTUNE_O], t.at.batch, t.w.head, place);
#pragma unroll
    for (int c = 0; c < (dim_v + 31) / 32; ++c) {
        if (c * 32 + lane < dim_v) {
            out[c * 32 + lane] = from_float<element_o>(sum == 0 ? 0 : row.o[c] * normaliser);
        }
    }
    if (wants_lse(args) && lane == 0) {
        store_lse(args, t.at.batch, t.w.head, place, row.soft.maximum, sum);
    }
}

/* ---- Out -------------------------------------------------------------------------------------------------------- */

/* The first of the lane's four columns of sixteen. */
ATTUNE_INLINE int column_of(int c, int lane)
{
    return c * 16 + lane % 4 * 4;
}

/* Of the rows l / 4, or those 8 below, those with sums that are not finite, a bit for each. */
ATTUNE_INLINE unsigned find_strange(const strip_state &state, int r, int lane)
{
    bool finite = is_finite(state.rows.sum[r]);
#pragma unroll
    for (int i = 0; i < outputs; ++i) {
        if (i / 2 % 2 == r) {
            finite &= is_finite(state.o[i]) || column_of(i / 8, lane) >= dim_v;
        }
    }
    unsigned rows = __ballot_sync(0xffffffff, !finite); /* four bits a row */
    rows |= rows >> 1;
    rows = (rows | rows >> 2) & 0x11111111u;
    rows = (rows | rows >> 3) & 0x03030303u;
    rows = (rows | rows >> 6) & 0x000f000fu;
    return (rows | rows >> 12) & 0xff;
}

/* Works out again the rows whose bits are set, of the warp's from `first` on. */
ATTUNE_INLINE void mend_rows(const attune_args &args, const tile &t, int first, unsigned strange, int lane)
{
#pragma unroll 1
    for (int i = 0; strange != 0 && first + i < t.at.length_q; ++i, strange >>= 1) {
        if ((strange & 1) != 0) {
            attend_row(args, t, first + i, lane);
        }
    }
}

/* Row r of the strip's two, at `place` of its head's. */
ATTUNE_INLINE void store_row(const attune_args &args, const tile &t, const place &p, attune_i64 place, bool exists,
                             int r, float sum, const strip_state &state)
{
    const float normaliser = online_normaliser(sum);
    element_o *out = row_of<element_o>(args.tensor[ATTUNE_O], t.at.batch, t.w.head, place);
#pragma unroll
    for (int c = 0; c < columns_o; ++c) {
        const float *o = state.o + c * 8 + r * 2;
        if (exists) {
            store_four<dim_v>(out, column_of(c, p.lane),
                              make_float4(o[0] * normaliser, o[4] * normaliser, o[1] * normaliser, o[5] * normaliser));
        }
    }
}

#endif
