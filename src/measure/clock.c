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

static int64_t hand_now(void *self)
{
    at_hand_clock *hand = self;
    hand->now_ns += hand->read_ns;
    return hand->tick_ns > 1 ? hand->now_ns - hand->now_ns % hand->tick_ns : hand->now_ns;
}

at_clock at_clock_by_hand(at_hand_clock *hand)
{
    at_clock clock = {hand, hand_now};
    return clock;
}

int64_t at_clock_grain(const at_clock *clock)
{
    enum { READINGS = 100000, STEPS = 100 }; /* a clock of 1 ms grain read in 25 ns still steps twice */
    int64_t grain = INT64_MAX;
    int64_t last = clock->now_ns(clock->self);
    for (int reading = 0, steps = 0; reading < READINGS && steps < STEPS; ++reading) {
        int64_t now = clock->now_ns(clock->self);
        if (now > last) {
            grain = now - last < grain ? now - last : grain;
            ++steps;
        }
        last = now;
    }
    return grain == INT64_MAX ? 1 : grain;
}
