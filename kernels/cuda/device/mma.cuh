/* A warp's products from registers (sm_80): D[16][8] += A[16][16] B[16][8], sums in fp32.
 *
 * Lane l holds rows l / 4 (sums 0 and 1) and 8 below (2 and 3), columns 2 (l % 4) and the next: two neighbouring
 * products are the sums of wgmma.cuh and rows.cuh, and sums of one product become the A of the next without leaving
 * their lane (sums_as_a64). A and B are what ldmatrix leaves of 16x16 elements (swizzle.cuh). */
#ifndef DEVICE_MMA_CUH
#define DEVICE_MMA_CUH

#include "device/element.cuh"

#if ATTUNE_DTYPE == 1
#define MMA_TYPES "f32.f16.f16.f32"
#else
#define MMA_TYPES "f32.bf16.bf16.f32"
#endif

/* c += a b. */
ATTUNE_INLINE void ptx_mma_m16n8k16(float *c, const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col." MMA_TYPES
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Sixteen columns: c[8] += a b, b of two products as ldmatrix leaves it. */
ATTUNE_INLINE void mma_16x16(float *c, const unsigned (&a)[4], const unsigned (&b)[4])
{
    const unsigned left[2] = {b[0], b[1]}, right[2] = {b[2], b[3]};
    ptx_mma_m16n8k16(c, a, left);
    ptx_mma_m16n8k16(c + 4, a, right);
}

#endif
