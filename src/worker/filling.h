/* Filling what a GPU's kernels may read before they write it (filling.c). */
#ifndef WORKER_FILLING_H
#define WORKER_FILLING_H

#include "base/random.h"
#include "core/device.h"

enum { AT_FILLERS = 2 }; /* of all shared memory and most registers; of stacks, 1 KiB a thread */

typedef struct at_filling {
    at_loaded *filler[AT_FILLERS]; /* NULL: not wanted yet */
    at_random random;
    bool is_wanted; /* the next pattern, else it is drawn */
    int64_t wanted;
} at_filling;

/* The filler number `stage`, ready on a CUDA device; free with its `unload`. */
attune_status at_filler_load(at_device *device, int stage, at_loaded **filler);
/* Enqueues it. A pattern below 256 is a byte everywhere; from there on it is a seed, and every word another pair of
 * fp16 numbers between 1/2 and 1, of either sign, which as fp32 and bf16 are small ones. */
attune_status at_filler_run(const at_loaded *filler, int64_t pattern, void *stream);
/* A NaN in every dtype, some byte or a seed. */
int64_t at_filler_draw(at_random *random);

#endif
