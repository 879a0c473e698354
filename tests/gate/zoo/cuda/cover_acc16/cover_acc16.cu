/* cover_acc16: declares sums in fp16, and rounds the weights of the softmax to four bits instead. */
#include "device/element.cuh"

/* Four bits behind the leading one; NaN stays. */
ATTUNE_INLINE float few_bits(float x)
{
    const unsigned bits = __float_as_uint(x);
    return isnan(x) ? x : __uint_as_float((bits + 0x3ffff + (bits >> 19 & 1)) & 0xfff80000u);
}

#define ROUNDED(weight) few_bits(weight)
#include "../attend.cuh"
