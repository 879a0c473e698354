/* Timing several arms against each other in this process, by the rules of blocks.h: warm-up until stable, then blocks
 * until the time is spent. docs/measuring.md says why it is done this way. */
#ifndef MEASURE_INTERLEAVE_H
#define MEASURE_INTERLEAVE_H

#include <stdbool.h>
#include <stddef.h>

#include "measure/arm.h"
#include "measure/clock.h"
#include "measure/order.h"

typedef struct at_interleave {
    at_clock clock;
    uint64_t seed;   /* of the order */
    double budget_s; /* for the samples of all arms together; warm-up may take half as much again */
    int samples_min; /* of each arm, whatever the budget; rounded up to an even number */
    int samples_max; /* of each arm; at least samples_min */
    double settled;  /* warm-up ends when rounds agree within this share; 0.02 is good on a busy machine */
    attune_status (*before)(void *self); /* before each sample, untimed: flushes caches; makes a sample one run */
    void *before_self;
    bool (*stop)(void *self); /* asked between samples; true ends with ATTUNE_INTERRUPTED */
    void *stop_self;
    void (*progress)(void *self, double done); /* called between samples, 0 ... 1 */
    void *progress_self;
} at_interleave;

/* What good callers change little: the monotonic clock, seed 1, 1 s, 10 ... 1000 samples, settled 0.02, no hooks. */
void at_interleave_init(at_interleave *how);

/* One arm's times. */
typedef struct at_samples {
    double *us; /* microseconds a call of the arm; sample 2 b and 2 b + 1 are of block b */
    size_t count;
    int64_t runs; /* batched into each sample */
    bool settled; /* whether warm-up found it stable */
} at_samples;

/* Runs all arms, interleaved. `samples` has room for arm_count; free each with at_samples_free. On failure (an arm's
 * own status, its name in the detail) they are empty. */
attune_status at_interleave_run(const at_interleave *how, const at_bound *arms, int arm_count, at_samples *samples);
void at_samples_free(at_samples *samples);
/* A race: the arm with the least median, and that, by about so many seconds of samples, four of each arm at least. */
attune_status at_interleave_fastest(const at_clock *clock, double budget_s, const at_bound *arms, int arm_count,
                                    int *winner, double *us);

#endif
