/* Rows of fp32 whose products are of parts of bf16: which a block has, their softmax, weights in parts, and O's way
 * out. Dims, BLOCK_M, BLOCK_N, chunks_v, scores, outputs, steps_pv, and the tiles of keys that a block visits at least,
 * FIRST_TILES, are the kernel's. */
#ifndef DEVICE_FP32_ROWS_CUH
#define DEVICE_FP32_ROWS_CUH

#include "device/bf16_parts.cuh"
#include "device/job.cuh"
#include "device/plain_row.cuh"
#include "device/rows.cuh"

/* Whether scores come one by one from score.cuh, in units of log2. */
enum {
    ONE_BY_ONE = ATTUNE_HAS_BIAS || ATTUNE_HAS_MASK || ATTUNE_HAS_ALIBI,
    SCALED_AT_ONCE = ONE_BY_ONE || ATTUNE_HAS_SOFTCAP
};

/* Beside queries, or keys, of less than that bits that the others have lost do not count. */
constexpr float large_enough = 0x1p60f;

/* The block's rows and its way through the keys. */
struct tile {
    sequence at;
    int batch, head, head_kv, first_row;
    int first_key, end_key; /* tiles begin at first_key, a multiple of BLOCK_N */
};

/* The block's tile; false where its sequence has none. One without keys visits FIRST_TILES, of zeros that nobody sees.
 */
ATTUNE_INLINE bool find(const attune_args &args, tile &t)
{
    const queue q = queue_of<BLOCK_M>(args);
    int row, number;
    find_tile(q, (int)ptx_mov_ctaid_x(), row, number);
    t.batch = row / (int)args.heads_q;
    t.head = row - t.batch * (int)args.heads_q;
    t.head_kv = t.head / (int)(args.heads_q / args.heads_kv);
    t.at = sequence_of(args, t.batch);
    t.first_row = number * BLOCK_M;
    if (t.first_row >= t.at.length_q) {
        return false;
    }
    const key_range any =
        keys_seen_by_any(args, t.at, t.first_row, min((attune_i64)t.first_row + BLOCK_M, t.at.length_q) - 1);
    t.first_key = any.first < any.end ? any.first / BLOCK_N * BLOCK_N : 0;
    t.end_key = any.first < any.end ? any.end : FIRST_TILES;
    return true;
}

/* Leaves word of what a thread saw of queries or keys. */
ATTUNE_INLINE void tell(unsigned &any_lost, bool lost, unsigned &any_large, bool large)
{
    if (lost) {
        any_lost = 1;
    }
    if (large) {
        any_large = 1;
    }
}

/* ---- Softmax ---- */

/* Products capped become scores, where they do at once. */
ATTUNE_INLINE void cap_scores(const attune_args &args, float (&s)[scores])
{
    if constexpr (ATTUNE_HAS_SOFTCAP && !ONE_BY_ONE) {
        const float factor = score_factor(args);
#pragma unroll
        for (int i = 0; i < scores; ++i) {
            s[i] = shape_score(args, s[i]) * factor;
        }
    }
}

/* Products become scores one by one, -inf where hidden; `row` is the lane's first. */
ATTUNE_INLINE void score_one_by_one(const attune_args &args, const tile &t, int row, int key, int lane,
                                    float (&s)[scores])
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const query_row q = query_row_of(args, t.at, t.batch, t.head, row + r * 8);
#pragma unroll
        for (int i = 0; i < scores / 2; ++i) {
            float &x = s[i / 2 * 4 + r * 2 + i % 2];
            x = visible_score(args, t.at, q, key + i / 2 * 8 + lane % 4 * 2 + i % 2, x);
        }
    }
}

/* Scores become weights. NOTE: the maximum is subtracted before scaling: the largest weight is exactly 1, and errors
 * are of the difference. */
template <class Rows> ATTUNE_INLINE void weigh(Rows &c, float (&s)[scores], float (&factor)[2])
{
    float subtract[2], sum[2][2] = {};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const float most = fmaxf(group_max<4>(row_maximum<scores>(s, r)), c.rows.maximum[r]);
        subtract[r] = subtrahend(most);
        factor[r] = ptx_ex2_approx_ftz_f32((c.rows.maximum[r] - subtract[r]) * c.scale);
        c.rows.maximum[r] = most;
    }
#pragma unroll
    for (int i = 0; i < scores; ++i) {
        s[i] = ptx_ex2_approx_ftz_f32((s[i] - subtract[i / 2 % 2]) * c.scale);
        sum[i / 2 % 2][i % 2] += s[i];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        c.rows.sum[r] = fmaf(c.rows.sum[r], factor[r], sum[r][0] + sum[r][1]);
    }
}

/* Weights as operands, in parts. */
typedef unsigned weights[PARTS][steps_pv][4];

ATTUNE_INLINE void split_weights(const float (&s)[scores], weights &p)
{
    unsigned lost = 0;
#pragma unroll
    for (int n = 0; n < steps_pv; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            unsigned parts[PARTS];
            split_two(s[n * 8 + i * 2], s[n * 8 + i * 2 + 1], parts, lost);
#pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                p[part][n][i] = parts[part];
            }
        }
    }
}

/* ---- Out ---- */

/* Row r of the lane's two; whether it has to be computed again. */
template <class Rows>
ATTUNE_INLINE bool store_row(const attune_args &args, const tile &t, const Rows &c, int r, int lane, bool values_lost)
{
    constexpr bool in_pairs = dim_v % 2 == 0 && ATTUNE_ALIGN % 8 == 0;
    const int row = c.row + r * 8;
    float sum = group_sum<4>(c.rows.sum[r]), maximum = c.scale * c.rows.maximum[r];
    const bool none = sum == 0;
    const float factor = online_take_sink(args, t.head, maximum, sum);
    const float normaliser = none ? 0 : factor * online_normaliser(sum);
    const bool exists = row < t.at.length_q;
    element *out = row_of<element>(args.tensor[ATTUNE_O], t.at.batch, t.head, t.at.first_q + row);
    float zero = sum * 0, largest = 0;
#pragma unroll
    for (int i = 0; i < chunks_v * outputs / 2; ++i) {
        const int column = i / 2 * 8 + lane % 4 * 2 + i % 2;
        float &o = const_cast<float &>(c.o[i * 2 / outputs][i / 2 * 4 % outputs + r * 2 + i % 2]);
        if (i / 2 * 8 < dim_v) {
            o *= normaliser;
            zero = fmaf(o, 0.0f, zero);
            largest = fmaxf(largest, fabsf(o));
            if (in_pairs ? i % 2 == 1 && exists && column <= dim_v - 1 : exists && column < dim_v) {
                if constexpr (in_pairs) {
                    const float before = c.o[i * 2 / outputs][i / 2 * 4 % outputs + r * 2];
                    *reinterpret_cast<float2 *>(out + column - 1) = make_float2(before, o);
                } else {
                    out[column] = o;
                }
            }
        }
    }
    if (wants_lse(args) && exists && lane % 4 == 0) {
        store_lse(args, t.at.batch, t.head, t.at.first_q + row, maximum, sum);
    }
    zero = group_sum<4>(zero);
    largest = group_max<4>(largest);
    return exists && (!(zero == 0) || (values_lost && !none && largest < 0x1p-100f));
}

/* What parts of bf16 do not hold of queries or keys counts where the others are large. */
template <class Seen> ATTUNE_INLINE bool scores_suffer(const Seen &shared)
{
    return (shared.queries_large != 0 && shared.keys_lost != 0) || (shared.queries_lost != 0 && shared.keys_large != 0);
}

/* Those of the warp's sixteen rows from `first` on whose lanes' bits are set, once more. */
ATTUNE_INLINE void attend_again(const attune_args &args, const tile &t, int first, int lane, const unsigned (&again)[2])
{
    if ((again[0] | again[1]) == 0) {
        return;
    }
#pragma unroll 1
    for (int i = 0; i < 16; ++i) {
        if ((i < 8 ? again[0] : again[1]) >> i % 8 * 4 & 1) {
            attend_plainly<dim_qk, dim_v>(args, t.at, t.batch, t.head, first + i, lane);
        }
    }
}

#endif
