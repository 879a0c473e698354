/* What a dot product q k becomes before the softmax: scale, softcap, ALiBi, bias. This is the one place that knows; a
 * score of the caller's own will be one more line here.
 *
 * Scores are in units of log2 (the softmax is of powers of two), but for a kernel that wants them plain. */
#ifndef DEVICE_SCORE_CUH
#define DEVICE_SCORE_CUH

#include "device/visibility.cuh"

/* Units of scores. */
enum { IN_LOG2, PLAIN };

/* Whether a score is its dot product times score_factor, wherever the key is. */
enum { SCORES_ARE_SCALED = !(ATTUNE_HAS_SOFTCAP || ATTUNE_HAS_ALIBI || ATTUNE_HAS_BIAS) };

/* A score is shape_score(dot) x score_factor, and what the key's place adds. Kernels that hold tiles of scores in
 * registers multiply by the factor where they subtract the maximum. */
template <int unit = IN_LOG2> ATTUNE_INLINE float score_factor(const attune_args &args)
{
    constexpr float of_unit = unit == IN_LOG2 ? LOG2_E : 1.0f;
    return (ATTUNE_HAS_SOFTCAP ? args.softcap : args.scale) * of_unit;
}

ATTUNE_INLINE float shape_score(const attune_args &args, float dot)
{
    if constexpr (ATTUNE_HAS_SOFTCAP) {
        return tanhf(dot * args.scale / args.softcap);
    }
    return dot;
}

/* The same by the special function unit, where scores are many: tanh x = 1 - 2 / (e^2x + 1). `inner` is
 * score_inner(args), which is worked out once. */
ATTUNE_INLINE float score_inner(const attune_args &args)
{
    return ATTUNE_HAS_SOFTCAP ? args.scale / args.softcap : 1.0f;
}

ATTUNE_INLINE float shape_score_fast(float dot, float inner)
{
    if constexpr (ATTUNE_HAS_SOFTCAP) {
        return 1.0f - __fdividef(2.0f, ptx_ex2_approx_ftz_f32(dot * (2 * LOG2_E * inner)) + 1.0f);
    }
    return dot;
}

/* The score of a key that the row sees. */
template <int unit = IN_LOG2>
ATTUNE_INLINE float apply_score(const attune_args &args, const sequence &at, const query_row &q, int key, float dot)
{
    constexpr float of_unit = unit == IN_LOG2 ? LOG2_E : 1.0f;
    float score = shape_score(args, dot) * score_factor<unit>(args);
    if constexpr (ATTUNE_HAS_ALIBI) {
        attune_i64 distance = (attune_i64)q.row + at.offset - key;
        score -= of_unit * q.slope * (float)(distance < 0 ? -distance : distance);
    }
    if constexpr (ATTUNE_HAS_BIAS) {
        score = fmaf(of_unit, to_float(q.bias[key]), score);
    }
    return score;
}

/* The same of any key: -inf where the row does not see it. */
ATTUNE_INLINE float visible_score(const attune_args &args, const sequence &at, const query_row &q, int key, float dot)
{
    return sees(q, key) ? apply_score(args, at, q, key, dot) : negative_infinity();
}

#endif
