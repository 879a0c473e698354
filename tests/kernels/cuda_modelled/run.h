/* What a test tells the model: a step of a kernel, whose blocks model_run runs. */
#ifndef TESTS_KERNELS_CUDA_MODELLED_RUN_H
#define TESTS_KERNELS_CUDA_MODELLED_RUN_H

#include "attune/args.h"

enum { MODEL_MAPS_MOST = 8 };

typedef struct model_step {
    void (*enter)(int step, const void *args); /* a thread's way in: model_enter() of the kernel's code */
    int index;                                 /* among the kernel's */
    int threads, cluster;                      /* of a block; blocks */
    int smem_bytes;
    int maps;
    struct {
        int role, rows; /* of a box */
    } map[MODEL_MAPS_MOST];
} model_step;

typedef void model_runner(const model_step *step, const attune_args *args, unsigned x, unsigned y, unsigned across,
                          unsigned down);

#endif
