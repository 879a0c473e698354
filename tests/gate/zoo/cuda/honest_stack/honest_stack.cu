/* honest_stack: keeps a table on its stack, and reads only what it wrote. */
static __device__ float from_stack(int which)
{
    volatile float table[8];
    for (int i = 0; i < 8; ++i) {
        table[i] = i == which ? 1.0f : 0.5f;
    }
    return table[which];
}
#define SCALE_BY from_stack(threadIdx.x % 8)
#include "../attend.cuh"
