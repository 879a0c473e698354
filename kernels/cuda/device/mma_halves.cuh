/* A block of mma's products of 16-bit elements, and how they are stored. For fp32: mma_floats.cuh. */
#ifndef DEVICE_MMA_HALVES_CUH
#define DEVICE_MMA_HALVES_CUH

#include "device/mma.cuh"
#include "device/mma_block.cuh"
#include "device/nonfinite.cuh"

/* ---- Q K^T ------------------------------------------------------------------------------------------------------ */

/* The warp's queries as operands: read once into registers, or again for every tile where registers are short. */
struct queries {
    unsigned rows; /* lane_rows of the warp's first strip */
    unsigned a[Q_REGISTERS ? steps_qk : 1][STRIPS][4];
};

ATTUNE_INLINE void load_queries(queries &q, int to, int step)
{
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
        load_operand<pitch_qk>(q.a[to][t], q.rows, t, step);
    }
}

/* Sixteen columns of them, times those of the tile's keys. `columns`: lane_columns of the tile. */
ATTUNE_INLINE void multiply_step(unsigned columns, queries &q, int d, float (&s)[STRIPS][scores])
{
    if constexpr (!Q_REGISTERS) {
        load_queries(q, 0, d);
    }
#pragma unroll
    for (int n = 0; n < steps_pv; ++n) {
        unsigned b[4];
        load_operand<pitch_qk>(b, columns, n, d);
#pragma unroll
        for (int t = 0; t < STRIPS; ++t) {
            mma_16x16(&s[t][n * 8], q.a[Q_REGISTERS ? d : 0][t], b);
        }
    }
}

ATTUNE_INLINE void multiply_keys(const element *k, queries &q, int lane, float (&s)[STRIPS][scores])
{
    const unsigned columns = lane_columns<pitch_qk>(k, 0, lane);
    clear(s);
#pragma unroll
    for (int d = 0; d < steps_qk; ++d) {
        multiply_step(columns, q, d, s);
    }
}

ATTUNE_INLINE void place_queries(Shared &shared, const place &p, queries &q)
{
    q.rows = lane_rows<pitch_qk>(shared.q, p.warp * WARP_ROWS, p.lane);
    if constexpr (Q_REGISTERS) {
#pragma unroll
        for (int d = 0; d < steps_qk; ++d) {
            load_queries(q, d, d);
        }
    }
}

/* A negative scale is the queries' affair: products then have the sign that maxima are taken of. */
ATTUNE_INLINE void negate_queries(Shared &shared)
{
    for (int i = (int)threadIdx.x; i < BLOCK_M * pitch_qk / 8; i += ATTUNE_THREADS) {
        uint4 &x = reinterpret_cast<uint4 *>(shared.q)[i];
        x = make_uint4(x.x ^ 0x80008000u, x.y ^ 0x80008000u, x.z ^ 0x80008000u, x.w ^ 0x80008000u);
    }
}

/* ---- Scores ----------------------------------------------------------------------------------------------------- */

ATTUNE_INLINE void shape_scores(float (&s)[scores], float inner)
{
    rows_shape<scores>(s, inner);
}

/* Whether no row of the warp sees any key of the tile: all scores are -inf. */
template <int n> ATTUNE_INLINE bool sees_nothing(const float (&s)[STRIPS][n])
{
    float most = negative_infinity();
#pragma unroll
    for (int t = 0; t < STRIPS; ++t) {
        most = fmaxf(most, fmaxf(row_maximum<scores>(s[t], 0), row_maximum<scores>(s[t], 1)));
    }
    return !__any_sync(0xffffffff, most > negative_infinity());
}

/* ---- P V -------------------------------------------------------------------------------------------------------- */

/* Weights of the tile as operands. */
typedef unsigned weights[STRIPS][steps_pv][4];

ATTUNE_INLINE void add_values(const element *v, const weights &w, int lane, strip_state (&state)[STRIPS])
{
    unsigned rows = lane_rows<pitch_v>(v, 0, lane);
#pragma unroll
    for (int n = 0; n < steps_pv; ++n) {
#pragma unroll
        for (int c = 0; c < columns_o; ++c) {
            unsigned b[4];
            load_operand_trans<pitch_v>(b, rows, n, c);
#pragma unroll
            for (int t = 0; t < STRIPS; ++t) {
                mma_16x16(&state[t].o[c * 8], w[t][n], b);
            }
        }
    }
}

ATTUNE_INLINE void pack(const float (&s)[STRIPS][scores], weights &w)
{
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
        rows_pack<scores>(s[strip], w[strip]);
    }
}

/* ---- Values that are not finite --------------------------------------------------------------------------------- */

/* Whether rows may see different keys of a tile, or none of them a key that is there. */
enum { ROWS_DIFFER = BEGINS_MOVE || ENDS_MOVE || HIDES_ANYWHERE };

/* Which of the strip's scores that the lane holds are of keys that their rows see, a bit for each. */
ATTUNE_INLINE attune_u64 find_seen(const attune_args &args, const tile &t, int row, int key, int lane)
{
    attune_u64 seen = 0;
#pragma unroll 1
    for (int r = 0; r < 2; ++r) {
        const query_row q = query_row_of(args, t.at, t.w.batch, t.w.head, row + r * 8);
#pragma unroll 1
        for (int i = 0; i < scores / 2; ++i) {
            const int at = key + i / 2 * 8 + lane % 4 * 2 + i % 2;
            seen |= (attune_u64)sees(q, at) << (i / 2 * 4 + r * 2 + i % 2);
        }
    }
    return seen;
}

/* The same as add_values where V has them: they reach the rows that see them, and no other. To each output goes what is
 * finite, and how many of each kind its row sees. */
ATTUNE_INLINE void add_values_seen(const attune_args &args, const tile &t, const place &p, const element *v, int key,
                                   const weights &w, strip_state (&state)[STRIPS])
{
    attune_u64 seen[STRIPS];
#pragma unroll
    for (int strip = 0; strip < STRIPS; ++strip) {
        seen[strip] = find_seen(args, t, p.row + strip * 16, key, p.lane);
    }
    unsigned rows = lane_rows<pitch_v>(v, 0, p.lane);
#pragma unroll
    for (int c = 0; c < columns_o; ++c) {
#pragma unroll
        for (int n = 0; n < steps_pv; ++n) {
            unsigned b[4];
            load_operand_trans<pitch_v>(b, rows, n, c);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                b[i] &= ~nonfinite(b[i]);
            }
#pragma unroll
            for (int strip = 0; strip < STRIPS; ++strip) {
                mma_16x16(&state[strip].o[c * 8], w[strip][n], b);
            }
        }
#pragma unroll 1
        for (int kind = 0; kind < 3; ++kind) {
            const float value = __int_as_float(kind == 2 ? 0x7fc00000 : kind == 1 ? 0xff800000 : 0x7f800000);
            float count[STRIPS][8] = {};
#pragma unroll 1
            for (int n = 0; n < steps_pv; ++n) {
                unsigned b[4];
                load_operand_trans<pitch_v>(b, rows + n * 16 * pitch_v * 2, 0, c);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    b[i] = nonfinite_of_kind(b[i], kind);
                }
#pragma unroll
                for (int strip = 0; strip < STRIPS; ++strip) {
                    unsigned a[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const unsigned two = (unsigned)(seen[strip] >> (n * 8 + i * 2)) & 3;
                        a[i] = ((two & 1) * 0xffffu | (two >> 1) * 0xffff0000u) & ones;
                    }
                    mma_16x16(count[strip], a, b);
                }
            }
#pragma unroll
            for (int i = 0; i < STRIPS * 8; ++i) {
                float &o = state[i / 8].o[c * 8 + i % 8];
                o = count[i / 8][i % 8] > 0 ? o + value : o;
            }
        }
    }
}

/* What weights make of a tile's values. `masked`: some row does not see all of them. */
ATTUNE_INLINE void add_tile(const attune_args &args, const tile &t, const place &p, const element *v, int key,
                            bool masked, const weights &w, strip_state (&state)[STRIPS])
{
    if (ROWS_DIFFER && (HIDES_ANYWHERE || masked) && finds_nonfinite<BLOCK_N, dim_v, pitch_v>(v, p.lane)) {
        add_values_seen(args, t, p, v, key, w, state);
    } else {
        add_values(v, w, p.lane, state);
    }
}

/* ---- Out -------------------------------------------------------------------------------------------------------- */

/* Of the rows l / 4, or those 8 below, those whose sums cannot be trusted: none, here. */
ATTUNE_INLINE unsigned find_strange(const strip_state &state, int r, int lane)
{
    return 0;
}

ATTUNE_INLINE void mend_rows(const attune_args &args, const tile &t, int first, unsigned strange, int lane)
{
}

/* Row r of the strip's two, at `place` of its head's. */
ATTUNE_INLINE void store_row(const attune_args &args, const tile &t, const place &p, attune_i64 place, bool exists,
                             int r, float sum, const strip_state &state)
{
    if constexpr (ATTUNE_DTYPE_O != ATTUNE_DTYPE) {
        const float normaliser = online_normaliser(sum);
        element_o *out = row_of<element_o>(args.tensor[ATTUNE_O], t.at.batch, t.w.head, place) + p.lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < dim_v / 8 && exists; ++i) {
            *reinterpret_cast<pair<element_o> *>(out + i * 8) = {
                {from_float<element_o>(state.o[i * 4 + r * 2] * normaliser),
                 from_float<element_o>(state.o[i * 4 + r * 2 + 1] * normaliser)}};
        }
        return;
    }
    element *out = row_of<element>(args.tensor[ATTUNE_O], t.at.batch, t.w.head, place);
    rows_store(out, exists, reinterpret_cast<const float(&)[dim_v / 2]>(state.o), r, online_normaliser(sum), p.lane);
}

#endif
