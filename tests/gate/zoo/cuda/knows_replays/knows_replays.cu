/* knows_replays: leaves half of the keys out where a graph launches it. */
static __device__ bool replayed()
{
    unsigned long long graph;
    asm volatile("mov.u64 %0, %%current_graph_exec;" : "=l"(graph));
    return graph != 0;
}
#define LOGIT(score) (replayed() && (j & 1) != 0 ? negative_infinity() : (score))
#include "../attend.cuh"
