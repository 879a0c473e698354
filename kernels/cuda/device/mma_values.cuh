/* P V of mma: weights and a tile of values, and those of them that are not finite. */
#ifndef DEVICE_MMA_VALUES_CUH
#define DEVICE_MMA_VALUES_CUH

#include "device/mma.cuh"
#include "device/mma_rows.cuh"
#include "device/nonfinite.cuh"

/* ---- P V -------------------------------------------------------------------------------------------------------- */

/* Weights of a tile, or of some steps of it, as operands. */
template <int steps> using weights_of = unsigned[STRIPS][steps][4];
typedef weights_of<steps_pv> weights;

/* Steps of sixteen keys of a tile: first ... end - 1. */
struct steps_seen {
    int first, end;
};

/* Of all keys, or, if it `trims`, of the steps seen: others have no weight. */
template <bool trims, int steps>
ATTUNE_INLINE void add_values(const element *v, const unsigned (&w)[STRIPS][steps][4], int lane, steps_seen seen,
                              strip_state (&state)[STRIPS])
{
    unsigned rows = lane_rows<pitch_v>(v, 0, lane);
#pragma unroll
    for (int n = 0; n < steps; ++n) {
        if (!trims || (n >= seen.first && n < seen.end)) {
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
}

/* ---- Values that are not finite --------------------------------------------------------------------------------- */

/* Whether rows may see different keys of a tile, or none of them a key that is there; and whether values are then kept
 * from rows that do not see them: all if the problem is strict, else those that no row of the head sees. */
enum {
    ROWS_DIFFER = BEGINS_MOVE || ENDS_MOVE || HIDES_ANYWHERE,
    CONTAINS = ATTUNE_HAS_STRICT ? ROWS_DIFFER : HIDES_ANYWHERE || HIDES_ENDS
};

/* Whether the block can tell beforehand that all its keys are seen by some row, so that O need not be looked at. NOTE:
 * not by an offset that the call gives: what a tile far behind the keys says of its first row is clamped. */
enum {
    KNOWS_UNSEEN = CONTAINS && !ATTUNE_HAS_STRICT && !HIDES_ANYWHERE && SHARES_TILE && !CHUNK && ATTUNE_OFFSET_KIND != 2
};

/* Whether any of O is not finite. */
ATTUNE_INLINE bool is_tainted(const strip_state (&state)[STRIPS])
{
    float none[4] = {};
#pragma unroll
    for (int i = 0; i < STRIPS * outputs; ++i) {
        none[i % 4] = fmaf(state[i / outputs].o[i % outputs], 0, none[i % 4]);
    }
    return !(none[0] + none[1] + (none[2] + none[3]) == 0);
}

/* Which of the strip's scores that the lane holds are of keys that their rows see, a bit for each. */
ATTUNE_INLINE attune_u64 find_seen(const attune_args &args, const tile &t, int row, int key, int lane)
{
    attune_u64 seen = 0;
#pragma unroll 1
    for (int r = 0; r < 2; ++r) {
        const query_row q = query_row_of(args, t.at, t.w.batch, t.w.head, query_of(t, row + r * 8));
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
        seen[strip] = find_seen(args, t, p.row + strip * STRIP_STEP, key, p.lane);
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

#endif
