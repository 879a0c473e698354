/* Clocks: the monotonic one, and synthetic ones for tests of the instruments. */
#ifndef MEASURE_CLOCK_H
#define MEASURE_CLOCK_H

#include <stdint.h>

typedef struct at_clock {
    void *self;
    int64_t (*now_ns)(void *self);
} at_clock;

/* CLOCK_MONOTONIC_RAW. */
at_clock at_clock_monotonic(void);

#endif
