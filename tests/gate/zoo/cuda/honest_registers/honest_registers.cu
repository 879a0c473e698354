/* honest_registers: asks in assembler for its place in the warp and the grid, through registers of its own. */
static __device__ unsigned lanes_before()
{
    unsigned below, block;
    asm("{\n\t.reg .u32 %%mine;\n\tmov.u32 %%mine, %%lanemask_lt; // not %%smid\n\tpopc.b32 %0, %%mine;\n\t}"
        : "=r"(below));
    asm("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    return below + (block == blockIdx.x ? 0 : 64);
}
#define SCALE_BY (lanes_before() < 32 ? 1.0f : 0.5f)
#include "../attend.cuh"
