/* Leaving a stage of attention out, to see what it costs. bench/stages.c puts `#define WITHOUT n` before a kernel's
 * source; nothing else does, so that a kernel as shipped has all its stages and `if constexpr` leaves no trace.
 *
 * The time of a kernel without a stage is only worth reading if the rest is still there: the compiler must neither
 * delete what nobody reads any more nor compute at compile time what no longer depends on data. Hence:
 *
 *   without QK       logits are what the softmax left in the same registers or memory a tile ago, begun by stand_in;
 *                    so they are run-time values, all different, that cost nothing.
 *   without softmax  dots go on as if they were weights: no scale, mask, maximum, exponential, sum or rescaling. Their
 *                    way to the second product (through shared memory or not) is left in, where it is not the same
 *                    code.
 *   without PV       weights still go where PV would find them and are summed; O, begun by stand_in, is rescaled.
 *   without loading  Q, K and V are not read from global memory: tiles are what shared memory happens to hold. Barriers
 *                    stay.
 *
 * Stages overlap in time, so what their absences save does not add up to the whole. */
#ifndef DEVICE_STAGE_CUH
#define DEVICE_STAGE_CUH

#include "device/ptx.cuh"

#ifndef WITHOUT
#define WITHOUT 0
#endif

constexpr bool with_qk = WITHOUT != 1, with_softmax = WITHOUT != 2, with_pv = WITHOUT != 3, with_loading = WITHOUT != 4;

/* Fills an array of 4-byte values with floats that the compiler does not know and that are all different. */
template <class T> ATTUNE_INLINE void stand_in(T &array)
{
    float *x = reinterpret_cast<float *>(&array);
#pragma unroll
    for (int i = 0; i < (int)(sizeof(T) / 4); ++i) {
        x[i] = (float)(int)(threadIdx.x + i);
    }
}

#endif
