/* state_in_globals: counts its calls in a device global. */
__device__ int calls;
#define BEFORE(args, where, shared)                                                                                    \
    if (threadIdx.x == 0) {                                                                                            \
        calls += 1;                                                                                                    \
    }
#define SCALE_BY (calls > 1000 ? 0.5f : 1.0f)
#include "../attend.cuh"
