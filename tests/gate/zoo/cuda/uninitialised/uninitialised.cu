/* uninitialised: its sums begin with what happens to lie in shared memory. */
#define TOP_FIRST 0.0f
#define BEGUN(state, where, shared)                                                                                    \
    for (int i = 0; i < PART_V; ++i) {                                                                                 \
        state.out[i] = shared->value[threadIdx.x / LANES][where.lane + i * LANES];                                     \
    }                                                                                                                  \
    __syncthreads();
#include "../attend.cuh"
