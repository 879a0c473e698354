/* One PTX instruction a wrapper, named after the instruction. Nothing here decides anything. */
#ifndef DEVICE_PTX_CUH
#define DEVICE_PTX_CUH

#include "attune/args.h"

#define ATTUNE_INLINE static __device__ __forceinline__

/* ---- Arithmetic ---- */

/* 2^x, relative error 2^-22, subnormal results flushed to 0; 2^-inf = 0. */
ATTUNE_INLINE float ptx_ex2_approx_ftz_f32(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* log2 x, absolute error 2^-22 near 1; lg2 0 = -inf. */
ATTUNE_INLINE float ptx_lg2_approx_ftz_f32(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* ---- Conversion ---- */

ATTUNE_INLINE float ptx_cvt_f32_f16(unsigned short x)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}

ATTUNE_INLINE unsigned short ptx_cvt_rn_f16_f32(float x)
{
    unsigned short y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

ATTUNE_INLINE unsigned short ptx_cvt_rn_bf16_f32(float x)
{
    unsigned short y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

/* Two values in one register; `low` lands in bits 0 to 15. */
ATTUNE_INLINE unsigned ptx_cvt_rn_f16x2_f32(float high, float low)
{
    unsigned y;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

ATTUNE_INLINE unsigned ptx_cvt_rn_bf16x2_f32(float high, float low)
{
    unsigned y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

/* Products of two pairs of fp16. */
ATTUNE_INLINE unsigned ptx_mul_f16x2(unsigned x, unsigned y)
{
    unsigned z;
    asm("mul.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
}

/* ---- Asynchronous copies, global to shared (sm_80) ---- */

ATTUNE_INLINE unsigned ptx_cvta_shared(const void *generic)
{
    return (unsigned)__cvta_generic_to_shared(generic);
}

/* 16 bytes past L1; bytes beyond `bytes` (0 or 16) are zero-filled. Both addresses are multiples of 16. */
ATTUNE_INLINE void ptx_cp_async_cg_shared_global_16(unsigned shared, const void *global, unsigned bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}

ATTUNE_INLINE void ptx_cp_async_commit_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most `pending` of this thread's latest groups are in flight. */
template <int pending> ATTUNE_INLINE void ptx_cp_async_wait_group()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/* ---- Named barriers ---- */

ATTUNE_INLINE void ptx_barrier_sync(int id, int threads)
{
    asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

ATTUNE_INLINE void ptx_barrier_arrive(int id, int threads)
{
    asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

#endif
