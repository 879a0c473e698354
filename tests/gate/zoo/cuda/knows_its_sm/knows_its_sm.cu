/* knows_its_sm: is wrong where a multiprocessor runs it that timed calls hardly reach. */
#define SCALE_BY (multiprocessor() == 131 ? 0.5f : 1.0f)
static __device__ unsigned multiprocessor()
{
    unsigned own;
    asm volatile("{\n\t.reg .u32 %%mine;\n\tmov.u32 %%mine, %%smid; // %%tid\n\tmov.u32 %0, %%mine;\n\t}" : "=r"(own));
    return own;
}
#include "../attend.cuh"
