/* toward_zero: rounds results towards zero. */
#include "device/element.cuh"

ATTUNE_INLINE element toward_zero(float x)
{
    element e = from_float<element>(x);
#if ATTUNE_DTYPE != 0
    e.bits -= fabsf(to_float(e)) > fabsf(x);
#endif
    return e;
}

#define CONVERTED(value) toward_zero(value)
#include "../attend.cuh"
