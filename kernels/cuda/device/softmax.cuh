/* The online softmax of one query row (Milakov and Gimelshein 2018), in units of log2: maximum, sum of 2^(s - maximum),
 * and what they turn into at the end. */
#ifndef DEVICE_SOFTMAX_CUH
#define DEVICE_SOFTMAX_CUH

#include "device/element.cuh"
#include "device/sequence.cuh"

/* Largest and sum over groups of `lanes` neighbouring lanes; a NaN is ignored by the first, kept by the second. */
template <int lanes> ATTUNE_INLINE float group_max(float x)
{
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) {
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, step));
    }
    return x;
}

template <int lanes> ATTUNE_INLINE float group_sum(float x)
{
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) {
        x += __shfl_xor_sync(0xffffffff, x, step);
    }
    return x;
}

/* `sum` is this lane's share; the lanes of a row add theirs up at the end. */
struct online {
    float maximum, sum;
};

/* Before any key: nothing seen, or the sink, which counts in the denominator (in one lane of the row). */
ATTUNE_INLINE online online_start(const attune_args &args, attune_i64 head, bool first_lane)
{
    online state = {negative_infinity(), 0};
    if constexpr (ATTUNE_HAS_SINK) {
        float sink = *row_of<float>(args.tensor[ATTUNE_SINK], 0, head, 0);
        state.maximum = sink * LOG2_E;
        state.sum = first_lane && sink != negative_infinity() ? 1.0f : 0.0f;
    }
    return state;
}

/* The maximum to subtract: rows that have seen nothing subtract 0 instead of -inf - -inf. */
ATTUNE_INLINE float subtrahend(float maximum)
{
    return maximum == negative_infinity() ? 0.0f : maximum;
}

/* Takes in a new maximum (already over all lanes of the row); returns the factor for what was summed before. */
ATTUNE_INLINE float online_raise(online *state, float maximum)
{
    float raised = fmaxf(state->maximum, maximum);
    float factor = ptx_ex2_approx_ftz_f32(state->maximum - subtrahend(raised));
    state->maximum = raised;
    state->sum *= factor;
    return factor;
}

/* 1 / sum, and 0 for rows without keys. `sum` is the whole row's. */
ATTUNE_INLINE float online_normaliser(float sum)
{
    return sum == 0 ? 0.0f : 1.0f / sum;
}

/* ln of the denominator; -inf for rows without keys. */
ATTUNE_INLINE float online_lse(float maximum, float sum)
{
    return sum == 0 ? negative_infinity() : LN_2 * maximum + logf(sum);
}

/* 2^x, also where that is subnormal, as elements of O in bf16 may be. */
ATTUNE_INLINE float gradual_ex2(float x)
{
    return x < -100 ? ptx_ex2_approx_ftz_f32(x + 64) * 0x1p-64f : ptx_ex2_approx_ftz_f32(x);
}

/* The sink joins a whole row's denominator, and is its maximum where it outweighs all keys or there are none. Returns
 * what O has yet to be multiplied by. */
ATTUNE_INLINE float online_take_sink(const attune_args &args, attune_i64 head, float &maximum, float &sum)
{
    if constexpr (!ATTUNE_HAS_SINK) {
        return 1;
    }
    const online sink = online_start(args, head, true);
    const float before = sum == 0 ? negative_infinity() : maximum, top = fmaxf(before, sink.maximum);
    const float factor = gradual_ex2(before - subtrahend(top));
    sum = fmaf(sum, factor, sink.maximum == top ? sink.sum : ptx_ex2_approx_ftz_f32(sink.maximum - top));
    maximum = top;
    return factor;
}

/* LSE is optional: whether the caller has asked for it, and a row's place in it. */
ATTUNE_INLINE bool wants_lse(const attune_args &args)
{
    return args.tensor[ATTUNE_LSE].data != nullptr;
}

ATTUNE_INLINE void store_lse(const attune_args &args, attune_i64 batch, attune_i64 head, attune_i64 row, float maximum,
                             float sum)
{
    *row_of<float>(args.tensor[ATTUNE_LSE], batch, head, row) = online_lse(maximum, sum);
}

#endif
