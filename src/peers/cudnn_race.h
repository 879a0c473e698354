/* Which of cuDNN's choices for a graph is the fastest here: a short race, before anything is measured. */
#ifndef PEERS_CUDNN_RACE_H
#define PEERS_CUDNN_RACE_H

#include "core/device.h"
#include "peers/cudnn_plan.h"

/* Compiles every choice and times it on buffers of its own, replaying a graph of several runs, so that launches are not
 * what is timed. `device` is a CUDA device, the cuDNN handle of its context. *fastest is the plan with the least
 * median, *us the microseconds of a run; ATTUNE_UNSUPPORTED, with the last refusal, where every engine refuses. */
attune_status at_cudnn_race(at_device *device, const at_cudnn_shape *shape, float scale,
                            const at_cudnn_choices *choices, at_cudnn_plan *fastest, double *us);

#endif
