/* The loops that measure a tier's rates: peak.kernel.c and dots.kernel.c, compiled once for each of their tiers. */
#ifndef CPU_PEAK_H
#define CPU_PEAK_H

#include <stddef.h>
#include <stdint.h>

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Runs independent chains of multiply-adds, or of bf16 dot products, in registers, `rounds` steps of each; returns the
 * flops done and adds to *sink what came out, so that nothing can be left out. */
typedef int64_t (*at_peak_loop)(int64_t rounds, float *sink);

int64_t at_cpu_fma_baseline(int64_t rounds, float *sink);
int64_t at_cpu_fma_avx2(int64_t rounds, float *sink);
int64_t at_cpu_fma_avx512(int64_t rounds, float *sink);
int64_t at_cpu_dots_avx512_bf16(int64_t rounds, float *sink);
int64_t at_cpu_dots_amx(int64_t rounds, float *sink);

/* Reads memory, 64-byte aligned and whole 256-byte blocks of it, and returns what keeps that from being left out. */
typedef uint64_t (*at_read_loop)(const void *from, size_t bytes);

uint64_t at_cpu_read_baseline(const void *from, size_t bytes);
uint64_t at_cpu_read_avx2(const void *from, size_t bytes);
uint64_t at_cpu_read_avx512(const void *from, size_t bytes);

#endif
