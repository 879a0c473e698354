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

/* The type whose attune_dtype is this. */
template <int dtype> struct element_type;

template <> struct element_type<0> {
    using type = float;
};

template <> struct element_type<1> {
    using type = fp16;
};

template <> struct element_type<2> {
    using type = bf16;
};

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

/* The storage type of Q, and of K, V, O and BIAS where a problem gives them no other, which few kernels can. */
using element = element_type<ATTUNE_DTYPE>::type;
using element_k = element_type<ATTUNE_DTYPE_K>::type;
using element_v = element_type<ATTUNE_DTYPE_V>::type;
using element_o = element_type<ATTUNE_DTYPE_O>::type;
using element_bias = element_type<ATTUNE_DTYPE_BIAS>::type;

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
template <class T> struct alignas(4 * sizeof(T)) four {
    T e[4];
};
using element4 = four<element>;

/* Whether rows of `dim` elements can be read and written four at a time. */
template <int dim, class T = element> constexpr bool rows_of_four = dim % 4 == 0 && ATTUNE_ALIGN % (4 * sizeof(T)) == 0;

/* row[at] ... row[at + 3] as floats; zeros from `dim` on. `at` is a multiple of 4. */
template <int dim, class T> ATTUNE_INLINE float4 load_four(const T *row, int at)
{
    if constexpr (rows_of_four<dim, T>) {
        if (at >= dim) {
            return make_float4(0, 0, 0, 0);
        }
        four<T> x = *reinterpret_cast<const four<T> *>(row + at);
        return make_float4(to_float(x.e[0]), to_float(x.e[1]), to_float(x.e[2]), to_float(x.e[3]));
    } else {
        return make_float4(at < dim ? to_float(row[at]) : 0, at + 1 < dim ? to_float(row[at + 1]) : 0,
                           at + 2 < dim ? to_float(row[at + 2]) : 0, at + 3 < dim ? to_float(row[at + 3]) : 0);
    }
}

/* Writes the four values to row[at] ...; nothing from `dim` on. */
template <int dim, class T> ATTUNE_INLINE void store_four(T *row, int at, float4 x)
{
    const T e[4] = {from_float<T>(x.x), from_float<T>(x.y), from_float<T>(x.z), from_float<T>(x.w)};
    if constexpr (rows_of_four<dim, T>) {
        if (at < dim) {
            *reinterpret_cast<four<T> *>(row + at) = four<T>{{e[0], e[1], e[2], e[3]}};
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
