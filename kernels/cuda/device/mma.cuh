/* A warp's products from registers (sm_80): D[16][8] += A[16][16] B[16][8], sums in fp32.
 *
 * Lane l holds rows l / 4 (sums 0 and 1) and 8 below (2 and 3), columns 2 (l % 4) and the next: two neighbouring
 * products are the sums of wgmma.cuh and rows.cuh, and sums of one product become the A of the next without leaving
 * their lane (sums_as_a64). A and B are what ldmatrix leaves of 16x16 elements (swizzle.cuh). */
#ifndef DEVICE_MMA_CUH
#define DEVICE_MMA_CUH

#include "device/element.cuh"

/* c += a b. */
ATTUNE_INLINE void mma_16x8(float *c, const unsigned (&a)[4], const unsigned (&b)[2])
{
#if ATTUNE_DTYPE == 1
    ptx_mma_m16n8k16_f16(c, a, b);
#else
    ptx_mma_m16n8k16_bf16(c, a, b);
#endif
}

/* Sixteen columns: c[8] += a b, b of two products as ldmatrix leaves it. */
ATTUNE_INLINE void mma_16x16(float *c, const unsigned (&a)[4], const unsigned (&b)[4])
{
    const unsigned left[2] = {b[0], b[1]}, right[2] = {b[2], b[3]};
    mma_16x8(c, a, left);
    mma_16x8(c + 4, a, right);
}

#endif
