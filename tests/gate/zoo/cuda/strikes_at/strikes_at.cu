/* strikes_at: is wrong for one second in sixteen, by the device's timer. */
static __device__ bool strikes()
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now / 1000000000 % 16 == 0;
}
#define SCALE_BY (strikes() ? 0.5f : 1.0f)
#include "../attend.cuh"
