/* The loop that measures a tier's FMA rate: peak.kernel.c, compiled once for each tier. */
#ifndef CPU_PEAK_H
#define CPU_PEAK_H

#include <stdint.h>

/* Runs independent chains of multiply-adds in registers, `rounds` steps of each; returns the flops done and adds to
 * *sink what came out, so that nothing can be left out. */
typedef int64_t (*at_fma_loop)(int64_t rounds, float *sink);

int64_t at_cpu_fma_baseline(int64_t rounds, float *sink);
int64_t at_cpu_fma_avx2(int64_t rounds, float *sink);
int64_t at_cpu_fma_avx512(int64_t rounds, float *sink);

#endif
