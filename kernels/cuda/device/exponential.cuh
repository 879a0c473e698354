/* 2^x in two ways: by the special function unit, and by products where others wait for that unit.
 *
 * The unit gives 16 results a cycle and multiprocessor, products 128, so that a share of a tile's exponentials may be
 * better off there, as FlashAttention-4 and cuDNN have it on Blackwell. Which of a lane's elements these are is known
 * when the code is compiled, and between two of them are others: both units have work all the time. */
#ifndef DEVICE_EXPONENTIAL_CUH
#define DEVICE_EXPONENTIAL_CUH

#include "device/ptx.cuh"

/* 2^x by a polynomial of fourth degree, minimax with 2^0 = 1: relative error 3e-6. The third degree's 8.6e-5 would do
 * for weights, which are rounded to fp16, but not for LSE: where few keys have like scores, all weights share one
 * error. Below -126 it is 0, as with the unit, so that 2^-inf = 0; above 127 it is 2^127, far from anything small, NaN
 * for NaN.
 *
 * x + shift, rounded down, is the integer below x in the low bits, the exponent's bias added: 0 ... 254 after both
 * bounds, so that nothing else reaches the exponent and the sign. NOTE: 2^n is a factor and no sum of integers, which
 * would be an instruction less and turn NaN into a number. */
ATTUNE_INLINE float ex2_by_products(float x)
{
    constexpr float shift = 12582912.0f + 127; /* 1.5 2^23: numbers of this size are integers */
    x = ptx_min_nan_f32(ptx_max_nan_f32(x, -127.0f), 127.0f);
    float whole = __fadd_rd(x, shift);
    float part = x - (whole - shift); /* 0 ... 1 */
    float y = fmaf(fmaf(fmaf(fmaf(0.01342668f, part, 0.05224247f), part, 0.24128020f), part, 0.69304484f), part, 1.0f);
    return y * __uint_as_float(__float_as_uint(whole) << 23);
}

/* Whether element i of a lane's is one of the `share` of each sixteen: every (16 / share)th, in turns of the first and
 * of the second of the lane's two rows (rows.cuh), so that their sums have as much to wait for. */
template <int share> ATTUNE_INLINE constexpr bool is_by_products(int i)
{
    static_assert(share > 0 && 16 % share == 0 && share <= 4, "elements of both rows, apart from one another");
    return i % (16 / share) == 16 / share - 1 - i / (16 / share) % 2 * 2;
}

/* 2^x for element i. */
template <int share> ATTUNE_INLINE float exponential(float x, int i)
{
    if constexpr (share > 0) {
        return is_by_products<share>(i) ? ex2_by_products(x) : ptx_ex2_approx_ftz_f32(x);
    } else {
        return ptx_ex2_approx_ftz_f32(x);
    }
}

#endif
