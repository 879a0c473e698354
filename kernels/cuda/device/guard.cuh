/* Numerical guards around the online softmax, and a count of what they caught. Compiled in by kernels that define
 * ATTUNE_GUARDED before including anything; nothing otherwise. */
#ifndef DEVICE_GUARD_CUH
#define DEVICE_GUARD_CUH

#include "device/element.cuh"

#ifndef ATTUNE_GUARDED
#define ATTUNE_GUARDED 0
#endif

/* This thread's catches. The kernel adds them up in the first three words of the workspace, in this order. */
struct guards {
    unsigned exponents;    /* arguments of exp whose value is below the normal range */
    unsigned logits;       /* visible logits that are NaN or +inf; they follow the specification all the same */
    unsigned denominators; /* rows whose denominator was 0 */
};

/* 2^-126 is the smallest normal number: below it exp leaves the normal range, and ex2.ftz gives 0. Such arguments are
 * clamped to the first whole one that gives 0: a clamp to anything larger would add 2^-126 a key to rows whose whole
 * sum is smaller than that, as a row with a dominating sink has. -inf is a hidden key and NaN a visible fault; both
 * pass. */
ATTUNE_INLINE float guard_exponent(guards &caught, float x)
{
    if constexpr (ATTUNE_GUARDED) {
        if (x < -126.0f && x > negative_infinity()) {
            ++caught.exponents;
            return fmaxf(x, -127.0f);
        }
    }
    return x;
}

ATTUNE_INLINE void guard_logit(guards &caught, float s)
{
    if constexpr (ATTUNE_GUARDED) {
        caught.logits += !is_finite(s) && s != negative_infinity();
    }
}

/* The epsilon is far below half an ulp of any denominator that has seen its row's maximum, which adds 1. */
ATTUNE_INLINE float guard_denominator(guards &caught, float sum, bool counts)
{
    if constexpr (ATTUNE_GUARDED) {
        caught.denominators += counts && sum == 0;
        return sum + 1e-30f;
    }
    return sum;
}

ATTUNE_INLINE void guard_report(const attune_args &args, const guards &caught)
{
    if constexpr (ATTUNE_GUARDED) {
        const unsigned count[3] = {caught.exponents, caught.logits, caught.denominators};
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            if (count[i] != 0) {
                atomicAdd(static_cast<unsigned *>(args.workspace) + i, count[i]);
            }
        }
    }
}

#endif
