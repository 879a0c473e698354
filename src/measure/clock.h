/* Clocks: the monotonic one, and one turned by hand for tests of the instruments. */
#ifndef MEASURE_CLOCK_H
#define MEASURE_CLOCK_H

#include <stdint.h>

typedef struct at_clock {
    void *self;
    int64_t (*now_ns)(void *self);
} at_clock;

/* CLOCK_MONOTONIC_RAW. */
at_clock at_clock_monotonic(void);

/* A clock that tests set: simulated work adds to now_ns. */
typedef struct at_hand_clock {
    int64_t now_ns;
    int64_t tick_ns; /* readings are multiples of this; 0 or 1: exact */
    int64_t read_ns; /* what a reading itself takes */
} at_hand_clock;

/* Reads `hand`, which must outlive it. */
at_clock at_clock_by_hand(at_hand_clock *hand);

/* Noise: the grain of the clock. The smallest step between unequal readings, which is its tick or the time a reading
 * takes, whichever is longer; 1 for a clock that was not seen to move. */
int64_t at_clock_grain(const at_clock *clock);

#endif
