/* Noise: the grain of the clock. A call of 2 us read by a clock that steps in 25 ns is known to a hundredth at best.
 * Cure: a sample is a batch of calls that together last at least 2000 grains, and at least a tenth of a millisecond, so
 * that an interrupt of a few microseconds is a small part of it. */
#ifndef MEASURE_BATCH_H
#define MEASURE_BATCH_H

#include <stdint.h>

/* The shortest sample to take with a clock of this grain. */
int64_t at_batch_length(int64_t grain_ns);
/* How many calls of `call_ns` make a sample of at least `length_ns`: 1 ... 1,000,000. */
int64_t at_batch_calls(int64_t call_ns, int64_t length_ns);

#endif
