/* The instructions of kernels/cuda/device/ptx.cuh that plain code uses, as a CPU computes them. */
#ifndef DEVICE_PTX_CUH
#define DEVICE_PTX_CUH

#include "attune/args.h"

#define ATTUNE_INLINE static inline

ATTUNE_INLINE float ptx_ex2_approx_ftz_f32(float x)
{
    float y = exp2f(x);
    return fabsf(y) < 0x1p-126f ? 0 : y;
}

ATTUNE_INLINE float ptx_cvt_f32_f16(unsigned short x)
{
    return (float)same_bits<_Float16>(x);
}

ATTUNE_INLINE unsigned short ptx_cvt_rn_f16_f32(float x)
{
    return same_bits<unsigned short>((_Float16)x);
}

ATTUNE_INLINE unsigned short ptx_cvt_rn_bf16_f32(float x)
{
    unsigned bits = __float_as_uint(x);
    return x != x ? 0x7fff : (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

ATTUNE_INLINE unsigned ptx_cvt_rn_f16x2_f32(float high, float low)
{
    return (unsigned)ptx_cvt_rn_f16_f32(high) << 16 | ptx_cvt_rn_f16_f32(low);
}

ATTUNE_INLINE unsigned ptx_cvt_rn_bf16x2_f32(float high, float low)
{
    return (unsigned)ptx_cvt_rn_bf16_f32(high) << 16 | ptx_cvt_rn_bf16_f32(low);
}

/* Copies that nobody waits for are left to the device's tests. */
ATTUNE_INLINE unsigned ptx_cvta_shared(const void *generic)
{
    return generic == nullptr;
}

ATTUNE_INLINE void ptx_cp_async_cg_shared_global_16(unsigned, const void *, unsigned)
{
    __builtin_trap();
}

#endif
