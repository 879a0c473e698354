/* The CPU target: what this machine is, and running CPU kernels on attune's own threads. */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include "base/threads.h"
#include "core/device.h"

/* The highest tier this CPU and its operating system can run. */
attune_isa at_cpu_best_isa(void);
/* Describes this machine; `isa` caps the tier (ATTUNE_UNSUPPORTED if the CPU has less than asked for). */
attune_status at_cpu_probe(attune_isa isa, int threads, attune_target *target);
/* Opens the CPU as a device that runs on `pool`, which must outlive it and give ATTUNE_SCRATCH_MAX of scratch. */
attune_status at_cpu_open(attune_isa isa, at_pool *pool, at_device **device);

/* Ceilings of this machine at the given tier with the pool's threads, measured by running: the rate of register code,
 * in flop/s (of bf16 dot products for ATTUNE_BF16 where the tier has them, else of fp32 FMAs), and copy bandwidth of
 * memory, in bytes read plus written per second. About 0.1 s each. */
attune_status at_cpu_peak_flops(attune_isa isa, attune_dtype dtype, at_pool *pool, double *flops);
attune_status at_cpu_peak_copy(at_pool *pool, double *bytes_per_second);

#endif
