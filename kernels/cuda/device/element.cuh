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

/* Whether x is neither infinite nor NaN. */
ATTUNE_INLINE bool is_finite(float x)
{
    return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u;
}

/* Two 16-bit elements in one register, `low` in bits 0 to 15. */
ATTUNE_INLINE unsigned pack_two(float low, float high)
{
#if ATTUNE_DTYPE == 1
    return ptx_cvt_rn_f16x2_f32(high, low);
#else
    return ptx_cvt_rn_bf16x2_f32(high, low);
#endif
}

/* ---- Four at a time ---- */

/* Four elements as they lie in memory. */
struct alignas(4 * sizeof(element)) element4 {
    element e[4];
};

/* Whether rows of `dim` elements can be read and written four at a time. */
template <int dim> constexpr bool rows_of_four = dim % 4 == 0 && ATTUNE_ALIGN % (4 * sizeof(element)) == 0;

/* row[at] ... row[at + 3] as floats; zeros from `dim` on. `at` is a multiple of 4. */
template <int dim> ATTUNE_INLINE float4 load_four(const element *row, int at)
{
    if constexpr (rows_of_four<dim>) {
        if (at >= dim) {
            return make_float4(0, 0, 0, 0);
        }
        element4 x = *reinterpret_cast<const element4 *>(row + at);
        return make_float4(to_float(x.e[0]), to_float(x.e[1]), to_float(x.e[2]), to_float(x.e[3]));
    } else {
        return make_float4(at < dim ? to_float(row[at]) : 0, at + 1 < dim ? to_float(row[at + 1]) : 0,
                           at + 2 < dim ? to_float(row[at + 2]) : 0, at + 3 < dim ? to_float(row[at + 3]) : 0);
    }
}

/* Writes the four values to row[at] ...; nothing from `dim` on. */
template <int dim> ATTUNE_INLINE void store_four(element *row, int at, float4 x)
{
    const element e[4] = {from_float<element>(x.x), from_float<element>(x.y), from_float<element>(x.z),
                          from_float<element>(x.w)};
    if constexpr (rows_of_four<dim>) {
        if (at < dim) {
            *reinterpret_cast<element4 *>(row + at) = element4{{e[0], e[1], e[2], e[3]}};
        }
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (at + i < dim) {
                row[at + i] = e[i];
            }
        }
    }
}

#endif
