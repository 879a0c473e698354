/* An fp32 as parts of bf16, and what some of their products make of two of them.
 *
 * Three parts are cut off, not rounded: eight bits, the next eight and the last eight, all with the number's sign, so
 * that they add up to it exactly, in every order and cut off as tensor cores add, and no part overflows. Of nine
 * products the three smallest, 2^-24 of the whole and less, are left out.
 *
 * Where the problem has TF32 do, two parts: eight bits, and what is left, rounded to eight. Of four products the
 * smallest is left out, 2^-14 of the whole at most, where TF32 rounds each number to eleven bits.
 *
 * Below 2^-110 the last of three parts is below the least that bf16 holds: `lost` tells, of two parts sooner than need
 * be. Parts of an infinity are an infinity and NaN, so that whatever is not finite shows as NaN in sums. */
#ifndef DEVICE_BF16_PARTS_CUH
#define DEVICE_BF16_PARTS_CUH

#include "device/ptx.cuh"

enum { PARTS = ATTUNE_HAS_TF32 ? 2 : 3 };
constexpr unsigned UPPER_HALF = 0xffff0000u;

/* What is left of x without its upper sixteen bits. */
ATTUNE_INLINE float without_upper(float x)
{
    return x - __uint_as_float(__float_as_uint(x) & UPPER_HALF);
}

/* Upper halves of two, the first one's below. */
ATTUNE_INLINE unsigned upper_halves(float low, float high)
{
    return __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
}

/* The parts of two numbers, largest first; of `lost` bits are set among the lower sixteen where bits have no place. */
ATTUNE_INLINE void split_two(float low, float high, unsigned (&parts)[PARTS], unsigned &lost)
{
    const float low_rest = without_upper(low), high_rest = without_upper(high);
    const float low_last = without_upper(low_rest), high_last = without_upper(high_rest);
    parts[0] = upper_halves(low, high);
    if constexpr (PARTS == 2) {
        parts[1] = ptx_cvt_rn_bf16x2_f32(high_rest, low_rest);
    } else {
        parts[1] = upper_halves(low_rest, high_rest);
        parts[2] = upper_halves(low_last, high_last);
    }
    lost |= __float_as_uint(low_last) | __float_as_uint(high_last);
}

ATTUNE_INLINE bool has_lost(unsigned lost)
{
    return (lost & ~UPPER_HALF) != 0;
}

#endif
