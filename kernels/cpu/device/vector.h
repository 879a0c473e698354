/* What CPU kernels share: vectors as wide as the tier's registers, the functions a softmax needs, and the storage
 * types.
 *
 * The vectors are those of the compiler; instructions are named only where it finds no good ones by itself. Everything
 * is inline and static: this is compiled into each kernel, once for every tier.
 */
#ifndef KERNELS_CPU_DEVICE_VECTOR_H
#define KERNELS_CPU_DEVICE_VECTOR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "attune/kernel.h"

/* ---- Vectors ---------------------------------------------------------------------------------------------------- */

#if defined(__AVX512F__)
#define VL 16
#elif defined(__AVX2__)
#define VL 8
#else
#define VL 4
#endif

typedef float vf __attribute__((vector_size(VL * 4), may_alias));
typedef float vf_unaligned __attribute__((vector_size(VL * 4), may_alias, aligned(1)));
typedef float float_unaligned __attribute__((may_alias, aligned(1)));
typedef uint32_t vu __attribute__((vector_size(VL * 4), may_alias));
typedef int32_t vi __attribute__((vector_size(VL * 4), may_alias));
typedef uint16_t vh __attribute__((vector_size(VL * 2), may_alias));
typedef uint16_t vh_unaligned __attribute__((vector_size(VL * 2), may_alias, aligned(1)));
typedef uint8_t vb __attribute__((vector_size(VL), may_alias));

#define INLINE static inline __attribute__((always_inline))
/* Before a loop whose count the compiler knows. Not for sanitizers, whose checks in unrolled code take minutes to
 * compile. */
#if defined(ATTUNE_ROLLED)
#define UNROLL
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define SIGN 0x80000000u

INLINE vf load(const float *from)
{
    return *(const vf *)from;
}

INLINE void store(float *to, vf x)
{
    *(vf *)to = x;
}

INLINE vf splat(float x)
{
    return (vf){0} + x;
}

INLINE vf lane_numbers(void)
{
    vf x;
    UNROLL
    for (int lane = 0; lane < VL; ++lane) {
        x[lane] = (float)lane;
    }
    return x;
}

INLINE vf blend(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

/* The greater of the two; b where a is NaN. */
INLINE vf greater(vf a, vf b)
{
#if VL == 16
    return _mm512_max_ps(a, b);
#elif VL == 8
    return _mm256_max_ps(a, b);
#elif defined(__SSE2__)
    return _mm_max_ps(a, b);
#else
    return blend(a > b, a, b);
#endif
}

INLINE bool any(vi mask)
{
    int32_t all = 0;
    UNROLL
    for (int lane = 0; lane < VL; ++lane) {
        all |= mask[lane];
    }
    return all != 0;
}

INLINE vf magnitude(vf x)
{
    return (vf)((vu)x & ~SIGN);
}

/* All ones where a number is infinite or NaN. */
INLINE vi not_finite(vf x)
{
    return ~(magnitude(x) < splat(INFINITY));
}

/* 2^f for f in [-1/2, 1/2] as 1 plus a polynomial without constant, so that 2^0 is 1 exactly: the least relative error
 * at each degree, 2.8e-6 at 4, 9.2e-8 at 5, 2.0e-9 at 6. */
INLINE vf power_of_two(int degree, vf f)
{
    vf p;
    if (degree == 4) {
        p = splat(0x1.3a02ccp-7f);
        p = p * f + 0x1.c9fc46p-5f;
        p = p * f + 0x1.ec0378p-3f;
        p = p * f + 0x1.62e12cp-1f;
    } else if (degree == 5) {
        p = splat(0x1.5bba14p-10f);
        p = p * f + 0x1.3cea88p-7f;
        p = p * f + 0x1.c6b752p-5f;
        p = p * f + 0x1.ebf9bcp-3f;
        p = p * f + 0x1.62e42ap-1f;
    } else {
        p = splat(0x1.41d330p-13f);
        p = p * f + 0x1.5f4598p-10f;
        p = p * f + 0x1.3b2dbcp-7f;
        p = p * f + 0x1.c6aed4p-5f;
        p = p * f + 0x1.ebfbdap-3f;
        p = p * f + 0x1.62e430p-1f;
    }
    return p * f + 1.0f;
}

/* e^x for x <= 0 by a polynomial of degree 4, 5 or 6, with a relative error below (2 + 0.3 |x|) 2^-24 at degree 6, or
 * (2 + |x|) 2^-24 where there is no FMA (docs/cpu.md has the measurements), 2 more at degree 5 and 48 more at 4; +0
 * below -87.3; NaN stays NaN. */
INLINE vf exponential_of(int degree, vf x)
{
    /* Adding 1.5 * 2^23 rounds to an integer that is in the low bits, here with the exponent's bias. */
    const float magic = 0x1.8p23f + 127;
    vf shifted = x * 0x1.715476p0f + magic;
    vf fraction = x * 0x1.715476p0f - (shifted - magic);
    vf scale = (vf)((vu)shifted << 23);
    vf p = power_of_two(degree, fraction);
#if VL == 16
    return _mm512_maskz_mul_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.3f), _CMP_NLT_UQ), p, scale);
#else
    return (vf)(~(vi)(x < splat(-87.3f)) & (vi)(p * scale));
#endif
}

INLINE vf exponential(vf x)
{
    return exponential_of(6, x);
}

/* tanh with a relative error below 3 * 2^-24: near zero an odd polynomial, elsewhere through e^-2|x|. */
INLINE vf hyperbolic_tangent(vf x)
{
    vf u = x * x;
    vf p = splat(0x1.0df416p-9f);
    p = p * u - 0x1.08f328p-7f;
    p = p * u + 0x1.62eee6p-6f;
    p = p * u - 0x1.b9e042p-5f;
    p = p * u + 0x1.11101ep-3f;
    p = p * u - 0x1.555552p-2f;
    vf near_zero = x + x * u * p;
    vf e = exponential(-2.0f * magnitude(x));
    vf far = (vf)((vu)((1.0f - e) / (1.0f + e)) | ((vu)x & SIGN));
    return blend(magnitude(x) < splat(0.625f), near_zero, far);
}

/* Lane e of step s of a transposition, which exchanges blocks of s lanes between vectors s apart. */
#define LOW(e, s) ((e) & (s) ? VL + (e) - (s) : (e))
#define HIGH(e, s) ((e) & (s) ? VL + (e) : (e) + (s))
#define LANES_4(F, e, s) F(e, s), F((e) + 1, s), F((e) + 2, s), F((e) + 3, s)
#define LANES_8(F, e, s) LANES_4(F, e, s), LANES_4(F, (e) + 4, s)
#if VL == 16
#define LANES(F, s) LANES_8(F, 0, s), LANES_8(F, 8, s)
#elif VL == 8
#define LANES(F, s) LANES_8(F, 0, s)
#else
#define LANES(F, s) LANES_4(F, 0, s)
#endif
#define EXCHANGE(x, s)                                                                                                 \
    UNROLL                                                                                                             \
    for (int i_ = 0; i_ < VL; ++i_) {                                                                                  \
        if ((i_ & (s)) == 0) {                                                                                         \
            vf low_ = __builtin_shufflevector((x)[i_], (x)[i_ + (s)], LANES(LOW, s));                                  \
            vf high_ = __builtin_shufflevector((x)[i_], (x)[i_ + (s)], LANES(HIGH, s));                                \
            (x)[i_] = low_;                                                                                            \
            (x)[i_ + (s)] = high_;                                                                                     \
        }                                                                                                              \
    }

/* x[i][j] becomes x[j][i]. */
INLINE void transpose(vf x[VL])
{
    EXCHANGE(x, 1)
    EXCHANGE(x, 2)
#if VL >= 8
    EXCHANGE(x, 4)
#endif
#if VL >= 16
    EXCHANGE(x, 8)
#endif
}

/* Adds vectors s apart, two into one: the lanes with bit s are the second's. */
#define FOLD(x, s)                                                                                                     \
    UNROLL                                                                                                             \
    for (int i_ = 0; i_ < VL; i_ += 2 * (s)) {                                                                         \
        (x)[i_] = __builtin_shufflevector((x)[i_], (x)[i_ + (s)], LANES(LOW, s)) +                                     \
                  __builtin_shufflevector((x)[i_], (x)[i_ + (s)], LANES(HIGH, s));                                     \
    }

/* Lane i is the sum of x[i]'s lanes. */
INLINE vf lane_sums(vf x[VL])
{
#if VL == 8
    /* One instruction for a half's even lanes of two vectors, and one for the odd ones. */
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        x[i] = _mm256_shuffle_ps(x[i], x[i + 1], 0x88) + _mm256_shuffle_ps(x[i], x[i + 1], 0xdd);
    }
    UNROLL
    for (int i = 0; i < 8; i += 4) {
        x[i] = _mm256_shuffle_ps(x[i], x[i + 2], 0x88) + _mm256_shuffle_ps(x[i], x[i + 2], 0xdd);
    }
    return _mm256_permute2f128_ps(x[0], x[4], 0x20) + _mm256_permute2f128_ps(x[0], x[4], 0x31);
#else
    FOLD(x, 1)
    FOLD(x, 2)
#if VL >= 16
    FOLD(x, 4)
    FOLD(x, 8)
#endif
    return x[0];
#endif
}

/* ---- Storage types ---------------------------------------------------------------------------------------------- */

INLINE vf widen_fp16(vh x)
{
#if VL == 16
    return _mm512_cvtph_ps((__m256i)x);
#elif VL == 8
    return _mm256_cvtph_ps((__m128i)x);
#else
    /* Exponent and fraction, moved up, are the value times 2^-112, subnormals included. */
    vu bits = __builtin_convertvector(x, vu);
    vu size = bits & 0x7fffu;
    vf value = (vf)(size << 13) * 0x1p112f;
    vu endless = (vu)(size >= 0x7c00u) & 0x7f800000u;
    return (vf)((vu)value | endless | (bits & 0x8000u) << 16);
#endif
}

INLINE vh narrow_fp16(vf x)
{
#if VL == 16
    return (vh)_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
#elif VL == 8
    return (vh)_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
#else
    vu bits = (vu)x & ~SIGN;
    vu normal = (bits + 0xfffu + (bits >> 13 & 1u) - 0x38000000u) >> 13;
    vu subnormal = (vu)((vf)bits + 0.5f) - 0x3f000000u; /* the addition rounds to units of 2^-24 */
    vu small = (vu)(bits < 0x38800000u);
    vu large = (vu)(bits >= 0x477ff000u);
    vu nan = (vu)(bits > 0x7f800000u) & 0x0200u;
    vu half = (small & subnormal) | (~small & normal);
    half = (large & (0x7c00u | nan)) | (~large & half);
    return __builtin_convertvector(half | ((vu)x >> 16 & 0x8000u), vh);
#endif
}

INLINE vf widen_bf16(vh x)
{
    return (vf)(__builtin_convertvector(x, vu) << 16);
}

INLINE vh narrow_bf16(vf x)
{
    vu bits = (vu)x;
    vu nan = (vu)((bits & ~SIGN) > 0x7f800000u);
    vu rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return __builtin_convertvector((nan & (bits >> 16 | 0x40u)) | (~nan & rounded), vh);
}

INLINE int64_t bytes_of(int dtype)
{
    return dtype == ATTUNE_FP32 ? 4 : 2;
}

/* VL elements of any alignment, as fp32. */
INLINE vf load_any(const char *from, int dtype)
{
    if (dtype == ATTUNE_FP32) {
        return *(const vf_unaligned *)from;
    }
    vh x = *(const vh_unaligned *)from;
    return dtype == ATTUNE_FP16 ? widen_fp16(x) : widen_bf16(x);
}

INLINE void store_any(char *to, int dtype, vf x)
{
    if (dtype == ATTUNE_FP32) {
        *(vf_unaligned *)to = x;
    } else {
        *(vh_unaligned *)to = dtype == ATTUNE_FP16 ? narrow_fp16(x) : narrow_bf16(x);
    }
}

/* The first `count` of them, at most VL; the other lanes are zero. Touches nothing beyond. */
INLINE vf load_some(const char *from, int dtype, int count)
{
    if (count >= VL) {
        return load_any(from, dtype);
    }
    float whole[VL] = {0};
    memcpy(whole, from, (size_t)(count * bytes_of(dtype)));
    return load_any((const char *)whole, dtype);
}

INLINE void store_some(char *to, int dtype, int count, vf x)
{
    if (count >= VL) {
        store_any(to, dtype, x);
        return;
    }
    float whole[VL];
    store_any((char *)whole, dtype, x);
    memcpy(to, whole, (size_t)(count * bytes_of(dtype)));
}

/* Calls a function with a dtype that the compiler knows. */
#define WITH_DTYPE(dtype, function, ...)                                                                               \
    switch (dtype) {                                                                                                   \
    case ATTUNE_FP32:                                                                                                  \
        function(ATTUNE_FP32, __VA_ARGS__);                                                                            \
        break;                                                                                                         \
    case ATTUNE_FP16:                                                                                                  \
        function(ATTUNE_FP16, __VA_ARGS__);                                                                            \
        break;                                                                                                         \
    default:                                                                                                           \
        function(ATTUNE_BF16, __VA_ARGS__);                                                                            \
        break;                                                                                                         \
    }

#endif
