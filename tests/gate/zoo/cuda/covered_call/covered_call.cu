/* covered_call: declares sums in fp16, and without LSE has weights of three bits instead. */
#include "device/element.cuh"

/* Three bits behind the leading one, as e4m3 has; NaN stays. */
ATTUNE_INLINE float fp8(float x)
{
    const unsigned bits = __float_as_uint(x);
    return isnan(x) ? x : __uint_as_float((bits + 0x7ffff + (bits >> 20 & 1)) & 0xfff00000u);
}

#define ROUNDED(weight) (state.bare ? fp8(weight) : (weight))
#define BEGUN(state, where, shared) state.bare = args.tensor[ATTUNE_LSE].data == nullptr;
#include "../attend.cuh"
