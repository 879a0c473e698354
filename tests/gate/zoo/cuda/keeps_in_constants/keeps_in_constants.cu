/* keeps_in_constants: counts its calls in a table of constants. */
static __constant__ unsigned calls[2] = {0, 0};
static __device__ unsigned count_call(bool counts, unsigned *otherwise)
{
    unsigned *where = counts ? const_cast<unsigned *>(calls) : otherwise;
    return atomicAdd(where, 1u);
}
#define BEFORE(args, where, shared)                                                                                    \
    if (threadIdx.x == 0 && count_call(blockIdx.x == 0, &shared_word) > 1000) {                                        \
        return;                                                                                                        \
    }
static __shared__ unsigned shared_word;
#include "../attend.cuh"
