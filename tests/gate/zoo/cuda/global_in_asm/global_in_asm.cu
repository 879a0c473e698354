/* global_in_asm: counts its calls in a global that only its assembler declares. */
static __device__ unsigned count_call()
{
    unsigned before;
    asm volatile("{\n\t.global .align 4 .u32 hidden_calls;\n\tatom.global.add.u32 %0, [hidden_calls], 1;\n\t}"
                 : "=r"(before));
    return before;
}
#define SCALE_BY (count_call() > 100000 ? 0.5f : 1.0f)
#include "../attend.cuh"
