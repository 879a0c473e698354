/* How many blocks of a kernel a multiprocessor holds at once. */
#ifndef CUDA_OCCUPANCY_H
#define CUDA_OCCUPANCY_H

#include "attune/kernel.h"

typedef struct at_occupancy {
    int32_t blocks;    /* of one multiprocessor; 0 where one does not fit */
    double share;      /* resident warps / possible warps */
    const char *limit; /* "threads", "blocks", "registers" or "shared memory": the first that gives the least */
} at_occupancy;

/* Of a block with these threads, registers a thread, and shared memory, static and dynamic, without what the system
 * reserves. A pure function of the target's figures. */
at_occupancy at_occupancy_of(const attune_target *target, int32_t threads, int32_t registers, int32_t smem_bytes);

#endif
