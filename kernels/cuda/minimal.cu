/* minimal: the first right kernel, and the base of the ladder's figures. One warp computes one query row: its lanes
 * share the head dimension, every key costs a warp-wide sum, nothing is tiled and nothing is reused but by the caches.
 */
#include "device/score.cuh"
#include "device/stage.cuh"

constexpr int WARP = 32;
constexpr int SHARE_QK = (ATTUNE_HEAD_DIM_QK + WARP - 1) / WARP; /* elements of a lane: lane, lane + 32, ... */
constexpr int SHARE_V = (ATTUNE_HEAD_DIM_V + WARP - 1) / WARP;

static_assert(ATTUNE_THREADS == WARP * ROWS, "a warp for each of the block's rows");
static_assert(ATTUNE_SMEM_BYTES == 0, "no shared memory is used");

ATTUNE_INLINE float warp_sum(float value)
{
#pragma unroll
    for (int mask = WARP / 2; mask > 0; mask /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, mask);
    }
    return value;
}

template <int DIM, int SHARE> ATTUNE_INLINE void load_row(float (&lane_part)[SHARE], const element *row)
{
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < SHARE; ++i) {
        const int column = lane + i * WARP;
        if constexpr (!with_loading) {
            lane_part[i] = (float)((int)(size_t)row + column); /* the address: another number for every row */
            continue;
        }
        lane_part[i] = column < DIM ? to_float(row[column]) : 0.0f;
    }
}

/* A row's softmax under way: O so far, and what it is to be divided by. */
struct running {
    float out[SHARE_V];
    float top; /* log2(e) * the largest score so far */
    float sum;
};

/* With a stage left out: a number between 0 and 2 that needs every element, for one instruction or two a key. */
template <int SHARE> ATTUNE_INLINE float use_of(const float (&lane_part)[SHARE])
{
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < SHARE; ++i) {
        bits ^= __float_as_uint(lane_part[i]);
    }
    return __uint_as_float(bits & 0x3fffffffu);
}

/* Adds one key of score `score`. NOTE: `top` is rounded once and used for all keys, so its rounding cancels. */
ATTUNE_INLINE void add_key(running &state, float score, const element *value_row)
{
    if (score == negative_infinity()) {
        return; /* hidden, exactly as by a mask */
    }
    const float top = with_softmax ? fmaxf(state.top, score * LOG2_E) : 0.0f;
    const float kept = !with_softmax || state.top == top ? 1.0f : ptx_ex2_approx_ftz_f32(state.top - top);
    const float weight = with_softmax ? ptx_ex2_approx_ftz_f32(fmaf(score, LOG2_E, -top)) : score;
    float value[SHARE_V];
    load_row<ATTUNE_HEAD_DIM_V>(value, value_row);
    if constexpr (!with_pv) {
        state.sum += use_of(value);
    }
#pragma unroll
    for (int i = 0; i < SHARE_V; ++i) {
        state.out[i] = with_pv ? fmaf(weight, value[i], state.out[i] * kept) : state.out[i] * kept;
    }
    state.sum = fmaf(state.sum, kept, weight);
    state.top = top;
}

ATTUNE_INLINE void store_row(const attune_args &args, const running &state, attune_i64 batch, attune_i64 head,
                             attune_i64 row)
{
    const int lane = threadIdx.x % WARP;
    element *out = row_of<element>(args.tensor[ATTUNE_O], batch, head, row);
    /* A row that saw no key has sum 0 and is 0; NaN is not 0 and stays. */
    const float divisor = state.sum == 0.0f ? 1.0f : state.sum;
#pragma unroll
    for (int i = 0; i < SHARE_V; ++i) {
        const int column = lane + i * WARP;
        if (column < ATTUNE_HEAD_DIM_V) {
            out[column] = from_float<element>(state.out[i] / divisor);
        }
    }
    if (lane == 0 && args.tensor[ATTUNE_LSE].data != nullptr) {
        *row_of<float>(args.tensor[ATTUNE_LSE], batch, head, row) =
            state.sum == 0.0f ? negative_infinity() : fmaf(state.top, LN_2, logf(state.sum));
    }
}

extern "C" __global__ void __launch_bounds__(ATTUNE_THREADS) fwd_minimal(const __grid_constant__ attune_args args)
{
    const attune_i64 blocks = (args.seqlen_q + ROWS - 1) / ROWS;
    const attune_i64 row = blockIdx.x % blocks * ROWS + threadIdx.x / WARP;
    const attune_i64 head = blockIdx.x / blocks % args.heads_q;
    const attune_i64 batch = blockIdx.x / blocks / args.heads_q;
    const attune_i64 head_kv = head / (args.heads_q / args.heads_kv);
    if (row >= args.seqlen_q) {
        return; /* whole warps only: there is no barrier below */
    }
    const sequence at = sequence_of(args, batch);
    const query_row seen = query_row_of(args, at, batch, head, row);

    float query[SHARE_QK];
    load_row<ATTUNE_HEAD_DIM_QK>(query, row_of<element>(args.tensor[ATTUNE_Q], batch, head, row));
    running state = {{}, negative_infinity(), 0.0f};
    if constexpr (!with_pv) {
        stand_in(state.out);
    }
    for (attune_i64 j = seen.keys.first; j < seen.keys.end; ++j) {
        float key[SHARE_QK];
        load_row<ATTUNE_HEAD_DIM_QK>(key, row_of<element>(args.tensor[ATTUNE_K], batch, head_kv, j));
        float dot = 0.0f;
#pragma unroll
        for (int i = 0; i < SHARE_QK; ++i) {
            dot = fmaf(query[i], key[i], dot);
        }
        dot = with_qk ? warp_sum(dot) : use_of(key);
        const float score = apply_score<PLAIN>(args, at, seen, (int)j, dot);
        add_key(state, score, row_of<element>(args.tensor[ATTUNE_V], batch, head_kv, j));
    }
    store_row(args, state, batch, head, row);
}
