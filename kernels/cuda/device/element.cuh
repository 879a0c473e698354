/* Elements: the storage types as types, converted one by one. */
#ifndef DEVICE_ELEMENT_CUH
#define DEVICE_ELEMENT_CUH

#include "device/ptx.cuh"

struct fp16 {
    unsigned short bits;
};

struct bf16 {
    unsigned short bits;
};

ATTUNE_INLINE float to_float(float value)
{
    return value;
}

ATTUNE_INLINE float to_float(fp16 value)
{
    return ptx_cvt_f32_f16(value.bits);
}

/* A bf16 is the upper half of an fp32, so this is a shift. */
ATTUNE_INLINE float to_float(bf16 value)
{
    return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}

template <class T> __device__ T from_float(float value);

template <> __device__ __forceinline__ float from_float<float>(float value)
{
    return value;
}

template <> __device__ __forceinline__ fp16 from_float<fp16>(float value)
{
    return {ptx_cvt_rn_f16_f32(value)};
}

template <> __device__ __forceinline__ bf16 from_float<bf16>(float value)
{
    return {ptx_cvt_rn_bf16_f32(value)};
}

/* The storage type of Q, K, V, O and BIAS. */
#if ATTUNE_DTYPE == 0
using element = float;
#elif ATTUNE_DTYPE == 1
using element = fp16;
#elif ATTUNE_DTYPE == 2
using element = bf16;
#else
#error "ATTUNE_DTYPE: fp32 (0), fp16 (1) or bf16 (2)"
#endif

constexpr float LOG2_E = 1.4426950408889634f;
constexpr float LN_2 = 0.6931471805599453f;

ATTUNE_INLINE float negative_infinity()
{
    return __int_as_float(0xff800000);
}

#endif
