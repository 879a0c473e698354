/* 16-bit elements that are not finite, two in a register: found, taken out, and counted by kind. */
#ifndef DEVICE_NONFINITE_CUH
#define DEVICE_NONFINITE_CUH

#include "device/swizzle.cuh"

/* Of two elements: exponents, what carries out of one that is all ones, and 1. */
constexpr unsigned exponents = ATTUNE_DTYPE == 1 ? 0x7c007c00u : 0x7f807f80u,
                   carries = ATTUNE_DTYPE == 1 ? 0x04000400u : 0x00800080u,
                   ones = ATTUNE_DTYPE == 1 ? 0x3c003c00u : 0x3f803f80u;

/* All bits of those that are not finite. */
ATTUNE_INLINE unsigned nonfinite(unsigned two)
{
    return ((((two & exponents) + carries) & 0x80008000u) >> 15) * 0xffffu;
}

/* Whether a swizzled tile has any; a warp looks. */
template <int keys, int dim, int pitch> ATTUNE_INLINE bool finds_nonfinite(const element *v, int lane)
{
    unsigned found = 0;
#pragma unroll 2
    for (int i = lane; i < keys * (dim / 8); i += 32) {
        const uint4 x = *reinterpret_cast<const uint4 *>(v + swizzled_index<pitch>(i / (dim / 8), i % (dim / 8)));
        found |= ((x.x & exponents) + carries) | ((x.y & exponents) + carries) | ((x.z & exponents) + carries) |
                 ((x.w & exponents) + carries);
    }
    return __any_sync(0xffffffff, (found & 0x80008000u) != 0);
}

/* Of two elements, 1 where they are +inf, -inf or NaN, by `kind` 0 to 2, else 0. */
ATTUNE_INLINE unsigned nonfinite_of_kind(unsigned two, int kind)
{
    const unsigned fraction = two & ~(exponents | 0x80008000u);
    const unsigned has_fraction = (((fraction + 0x7fff7fffu) & 0x80008000u) >> 15) * 0xffffu;
    const unsigned is_negative = ((two & 0x80008000u) >> 15) * 0xffffu;
    const unsigned is = kind == 2 ? has_fraction : ~has_fraction & (kind == 1 ? is_negative : ~is_negative);
    return nonfinite(two) & is & ones;
}

#endif
