/* Filling what a GPU's kernels may read before they write it (filling.c). */
#ifndef WORKER_FILLING_H
#define WORKER_FILLING_H

#include "base/random.h"
#include "core/device.h"

/* Of all shared memory and most registers; of stacks, so many bytes a thread; of deep stacks. */
enum { AT_FILLERS = 3, AT_STACK_FILLED = 1024, AT_STACK_FILLED_MOST = 16384 };

/* Each loaded when it is first wanted; all zeros: none is. */
typedef struct at_fillers {
    at_loaded *of[AT_FILLERS];
} at_fillers;

typedef struct at_filling {
    at_fillers fillers;
    at_random random;
    bool is_wanted; /* the next pattern, else it is drawn */
    int64_t wanted;
} at_filling;

/* Enqueues, on a CUDA device, what leaves a pattern in all that `loaded` (NULL: what is no kernel of attune's, whose
 * stack nobody knows) could read without having written it. A pattern below 256 is a byte everywhere; from there on it
 * is a seed, and every word another pair of fp16 numbers between 1/2 and 1, of either sign, which as fp32 and bf16 are
 * small ones. ATTUNE_UNSUPPORTED where its stack is deeper than AT_STACK_FILLED_MOST, or has no bound. */
attune_status at_fillers_run(at_fillers *fillers, at_device *device, const at_loaded *loaded, int64_t pattern,
                             void *stream);
void at_fillers_close(at_fillers *fillers, at_device *device);
/* A NaN in every dtype, some byte or a seed. */
int64_t at_filling_draw(at_random *random);

#endif
