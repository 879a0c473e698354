#include "measure/clock.h"

#include <stddef.h>
#include <time.h>

static int64_t monotonic_now(void *self)
{
    (void)self;
    struct timespec now;
    /* NOTE: not CLOCK_MONOTONIC, whose rate a time daemon may slew by up to 500 ppm while a run lasts. */
    (void)clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

at_clock at_clock_monotonic(void)
{
    at_clock clock = {NULL, monotonic_now};
    return clock;
}
