/* resource_lie: predicts less shared memory than its code has. */
__shared__ float more[256];
#define BEFORE(args, where, shared) more[threadIdx.x] = 0;
#define BEGUN(state, where, shared) state.sum = more[threadIdx.x ^ 1];
#include "../attend.cuh"
