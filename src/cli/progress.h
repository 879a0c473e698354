/* A progress bar for what takes over a second, on a terminal; on anything else, silence. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdio.h>

#include "measure/clock.h"

typedef struct at_progress {
    FILE *out; /* NULL: silent */
    char label[64];
    at_clock clock;
    int64_t start_ns, last_ns;
    bool shown;
} at_progress;

/* A bar on `out` if that is a terminal. The label is copied; a clock other than the monotonic one is for tests. */
void at_progress_start(at_progress *progress, FILE *out, const char *label);
/* The same on anything, with any clock, for tests. */
void at_progress_start_on(at_progress *progress, FILE *out, const char *label, at_clock clock);
/* Changes what is written before the bar. */
void at_progress_label(at_progress *progress, const char *label);
/* Shows how much is done, 0 ... 1. Cheap: redraws at most ten times a second, nothing in the first one. */
void at_progress_update(at_progress *progress, double done);
/* Shows it at once: what follows takes a while in which nothing is printed. */
void at_progress_show(at_progress *progress, double done);
/* Wipes the bar. Also before anything else is written on the terminal. */
void at_progress_end(at_progress *progress);

#endif
