/* An arm: anything that can be timed. measure knows arms, not kernels. */
#ifndef MEASURE_ARM_H
#define MEASURE_ARM_H

#include "attune/attune.h"

typedef struct at_arm {
    const char *name; /* for tables; belongs to whoever made the arm */
    void *self;
    /* One timed call, complete on return (CPU) or enqueued (CUDA, later). */
    attune_status (*run)(void *self);
} at_arm;

#endif
