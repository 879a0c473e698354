/* A look at a device's clocks while a block runs. NVML takes milliseconds to answer, so a thread waits for it. */
#ifndef WORKER_WATCH_H
#define WORKER_WATCH_H

#include <pthread.h>
#include <stdbool.h>

#include "cuda/nvml.h"
#include "measure/session.h"

typedef struct at_watch {
    const at_nvml *nvml;
    at_nvml_reading reading;
    pthread_t thread;
    bool runs;
} at_watch;

/* NULL: nothing is known. End every watch that was begun. */
void at_watch_begin(const at_nvml *nvml, at_watch *made);
/* Fills in clock, power and why the device was slowed down. */
void at_watch_end(at_watch *begun, at_block *block);

#endif
