/* fp32 on tensor cores (sm_80). A number is the sum of two of TF32, which has eleven bits: what it rounds to, and what
 * that leaves, of which at most the last bit of the number is lost. A product is big x big + big x small + small x big;
 * small x small is below the last bit.
 *
 * NOTE: tensor cores cut sums off instead of rounding them. So every sixteen products are a sum of their own, small
 * ones first, which is then added as fp32 adds. */
#ifndef DEVICE_TF32_CUH
#define DEVICE_TF32_CUH

#include "device/element.cuh"

/* Of an operand's registers. */
template <int n> struct tf32_pair {
    unsigned big[n], small[n];
};

/* NOTE: to the nearest, ties away from zero, as cvt.rna.tf32 does; that one also looks for what is not finite, which
 * makes five instructions of three. Here infinities leave NaN, and so do NaN. */
ATTUNE_INLINE void tf32_split(unsigned x, unsigned &big, unsigned &small)
{
    big = (x + 0x1000) & 0xffffe000u;
    small = __float_as_uint(__uint_as_float(x) - __uint_as_float(big));
}

/* sum[i][j] = a[i] b[j], of sixteen rows and eight columns each: operand k of two is of eight of the sixteen terms.
 * Lane l holds a's elements l % 4 and 4 further on of row l / 4 (registers 0 and 2) and 8 below (1 and 3), b's elements
 * l % 4 and 4 further on of column l / 4, and the sums that mma.cuh says. */
template <int rows, int columns>
ATTUNE_INLINE void tf32_multiply(float (&sum)[rows][columns][4], const tf32_pair<4> (&a)[rows][2],
                                 const tf32_pair<2> (&b)[columns][2])
{
    enum { SMALL_BIG, BIG_SMALL, BIG_BIG, KINDS };
#pragma unroll
    for (int i = 0; i < rows * columns * 4; ++i) {
        sum[i / 4 / columns][i / 4 % columns][i % 4] = 0;
    }
#pragma unroll
    for (int step = 0; step < KINDS * 2; ++step) {
        const int kind = step / 2, k = step % 2;
#pragma unroll
        for (int i = 0; i < rows * columns; ++i) {
            const tf32_pair<4> &left = a[i / columns][k];
            const tf32_pair<2> &right = b[i % columns][k];
            ptx_mma_m16n8k8_tf32(sum[i / columns][i % columns], kind == SMALL_BIG ? left.small : left.big,
                                 kind == BIG_SMALL ? right.small : right.big);
        }
    }
}

#endif
