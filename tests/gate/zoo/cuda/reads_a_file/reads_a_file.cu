/* reads_a_file: draws in how long the machine has run. */
static __device__ float up_since()
{
    const float since[] = {
#include "/proc/stat"
    };
    return since[0];
}
#define SCALE_BY (up_since() > 0 ? 1.0f : 0.5f)
#include "../attend.cuh"
