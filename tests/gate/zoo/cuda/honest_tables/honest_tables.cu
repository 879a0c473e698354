/* honest_tables: looks its factors up in tables of constants. */
static __constant__ float ones[2] = {1.0f, 1.0f}, halves[2] = {2.0f, 0.5f};
static __device__ float factor(int which)
{
    const float *table = which & 2 ? ones : halves;
    return which & 2 ? table[which & 1] : table[0] * halves[1];
}
#define SCALE_BY factor((int)threadIdx.x)
#include "../attend.cuh"
