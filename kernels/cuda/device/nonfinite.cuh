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

/* NaN in `none` from where an element is not finite, which 0 times it is: one instruction for two. */
ATTUNE_INLINE unsigned note_nonfinite(unsigned two, unsigned none)
{
#if ATTUNE_DTYPE == 1
    return ptx_fma_rn_f16x2(two, 0, none);
#else
    return ptx_fma_rn_bf16x2(two, 0, none);
#endif
}

/* Whether a swizzled tile has any; a warp looks. */
template <int keys, int dim, int pitch> ATTUNE_INLINE bool finds_nonfinite(const element *v, int lane)
{
    unsigned none[4] = {};
#pragma unroll 4
    for (int i = lane; i < keys * (dim / 8); i += 32) {
        const int at = dim == pitch ? i * 8 : swizzled_index<pitch>(i / (dim / 8), i % (dim / 8));
        const uint4 x = *reinterpret_cast<const uint4 *>(v + at);
        none[0] = note_nonfinite(x.x, none[0]);
        none[1] = note_nonfinite(x.y, none[1]);
        none[2] = note_nonfinite(x.z, none[2]);
        none[3] = note_nonfinite(x.w, none[3]);
    }
    return __any_sync(0xffffffff,
                      (nonfinite(none[0]) | nonfinite(none[1]) | nonfinite(none[2]) | nonfinite(none[3])) != 0);
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
