#include "base/half.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint16_t at_fp16_from_float(float value)
{
    uint32_t bits = bits_of(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u); /* quiet NaN */
    }
    if (magnitude >= 0x477ff000u) {
        return (uint16_t)(sign | 0x7c00u); /* rounds to 65536 or more, infinity included */
    }
    if (magnitude < 0x38800000u) {
        /* Subnormal or zero: adding 0.5 leaves the value in the low bits, in units of 2^-24, rounded to even by the
         * addition itself. */
        return (uint16_t)(sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u));
    }
    uint32_t odd = magnitude >> 13 & 1u;
    return (uint16_t)(sign | ((magnitude + 0xfffu + odd - 0x38000000u) >> 13));
}

float at_fp16_to_float(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) {
        return float_of(sign | 0x7f800000u | magnitude << 13);
    }
    if (magnitude < 0x0400u) {
        float value = (float)magnitude * 0x1p-24f;
        return sign ? -value : value;
    }
    return float_of(sign | ((magnitude << 13) + 0x38000000u));
}

uint16_t at_bf16_from_float(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(bits >> 16 | 0x40u); /* keep it a NaN whatever the low bits held */
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float at_bf16_to_float(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

/* ---- Many at once ------------------------------------------------------------------------------------------------ */

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) static int64_t widen_eights(const uint16_t *bits, int64_t count, float *to)
{
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(bits + i))));
    }
    return i;
}
#endif

void at_fp16_to_floats(const uint16_t *bits, int64_t count, float *to)
{
    int64_t i = 0;
#if defined(__x86_64__)
    /* NOTE: clang 14 cannot ask for F16C; whatever has AVX2 has it. */
    i = __builtin_cpu_supports("avx2") ? widen_eights(bits, count, to) : 0;
#endif
    for (; i < count; ++i) {
        to[i] = at_fp16_to_float(bits[i]);
    }
}

/* Widened to the upper halves of words, eight at a time. */
void at_bf16_to_floats(const uint16_t *bits, int64_t count, float *to)
{
    typedef uint16_t halves __attribute__((vector_size(16)));
    typedef uint32_t words __attribute__((vector_size(32)));
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        halves eight;
        memcpy(&eight, bits + i, sizeof eight);
        const words wide = __builtin_convertvector(eight, words) << 16;
        memcpy(to + i, &wide, sizeof wide);
    }
    for (; i < count; ++i) {
        to[i] = at_bf16_to_float(bits[i]);
    }
}
