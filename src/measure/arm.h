/* An arm: anything that can be timed. measure knows arms, not kernels. */
#ifndef MEASURE_ARM_H
#define MEASURE_ARM_H

#include "attune/attune.h"

typedef struct at_arm {
    const char *name; /* for tables; belongs to whoever made the arm */
    void *self;
    /* One timed call, complete on return, or enqueued where there is a finish. */
    attune_status (*run)(void *self);
    /* Waits for all that was enqueued; called once at the end of each sample, inside the time. NULL: nothing to wait
     * for. */
    attune_status (*finish)(void *self);
} at_arm;

#endif
