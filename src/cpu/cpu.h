/* The CPU target: what this machine is, and running CPU kernels on attune's own threads. */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include "base/memory.h"
#include "base/threads.h"
#include "core/device.h"

/* The highest tier this CPU and its operating system can run. */
attune_isa at_cpu_best_isa(void);
/* Describes this machine; `isa` caps the tier (ATTUNE_UNSUPPORTED if the CPU has less than asked for). */
attune_status at_cpu_probe(attune_isa isa, int threads, attune_target *target);
/* Opens the CPU as a device that runs on `pool`, which must outlive it and give ATTUNE_SCRATCH_MAX of scratch. */
attune_status at_cpu_open(attune_isa isa, at_pool *pool, at_device **device);
/* Has the next launch on it judged, too (cpu/guard.h), by what the seed draws: a launch that leaves something behind
 * fails with ATTUNE_WRONG_RESULT. `keeps`: its scratch is as the one before left it. `backwards`: the last of its items
 * come first, as they may. The pool's scratch must be
 * AT_SCRATCH_GUARD larger than ATTUNE_SCRATCH_MAX. */
void at_cpu_guard_next(at_device *device, uint64_t seed, bool keeps, bool backwards);
/* The same with buffers from another allocator. */
attune_status at_cpu_open_with(attune_isa isa, at_pool *pool, const at_memory *memory, at_device **device);

/* A gauge: a ceiling of this machine at the given tier with the pool's threads, as something that is run, so that it
 * can be interleaved with what it is a ceiling for. A run takes some milliseconds. */
typedef struct at_gauge at_gauge;

/* Register code: of bf16 dot products for ATTUNE_BF16 where the tier has them, else of fp32 FMAs. Its work is flops. */
attune_status at_gauge_flops(attune_isa isa, attune_dtype dtype, at_pool *pool, at_gauge **gauge);
/* Reading memory that no cache holds. Its work is bytes. */
attune_status at_gauge_read(attune_isa isa, at_pool *pool, at_gauge **gauge);
/* What a run does, in flops or bytes. */
double at_gauge_work(const at_gauge *gauge);
/* Runs it once; `self` is the gauge. Always ATTUNE_OK. */
attune_status at_gauge_run(void *self);
/* The best rate of a few runs, a second. */
double at_gauge_best(at_gauge *gauge);
void at_gauge_close(at_gauge *gauge);

#endif
