/* What cutlass's descriptor and its image, which is built ahead for all problems, have to agree on. */
#ifndef KERNELS_CUDA_CUTLASS_H
#define KERNELS_CUDA_CUTLASS_H

enum {
    AT_CUTLASS_THREADS = 128, /* four warps, of every entry */
    AT_CUTLASS_TILE = 64,     /* rows and columns of a block's tile of D */
    AT_CUTLASS_TENSOR_K = 32, /* depth of a step on tensor cores, and without them */
    AT_CUTLASS_SIMT_K = 8,
    AT_CUTLASS_STAGES = 3, /* tiles of operands in shared memory, on tensor cores; two without them */
    AT_CUTLASS_ROUND = 8   /* a row of S is a multiple of this many floats */
};

/* Shared memory of the largest entry, in bytes: both operands of every stage; without tensor cores they lie k by k, 16
 * bytes between. */
#define AT_CUTLASS_SMEM(tensor, element_bytes)                                                                         \
    ((tensor) ? AT_CUTLASS_STAGES * 2 * AT_CUTLASS_TILE * AT_CUTLASS_TENSOR_K * (int)(element_bytes)                   \
              : 2 * 2 * AT_CUTLASS_SIMT_K * (AT_CUTLASS_TILE * (int)(element_bytes) + 16))

#endif
