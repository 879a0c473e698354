/* The ops that every worker has; for worker.c and its tests. */
#ifndef WORKER_WORKER_OPS_H
#define WORKER_WORKER_OPS_H

#include "worker/worker.h"

extern const at_worker_op at_worker_device_ops[]; /* hello, quit, open, memory */
extern const at_worker_op at_worker_arm_ops[];    /* load, build, workspace, run, drop */

extern const at_worker_op at_worker_filling_ops[]; /* poison_scratch */
extern const at_worker_op at_worker_delay_ops[];   /* delay */
extern const at_worker_op at_worker_fence_ops[];   /* fence */

/* The arm runs its own code again. */
void at_worker_undelay(at_worker *worker, at_worker_arm *arm);
void at_worker_close_arms(at_worker *worker);
/* Enqueues on the stream, of a CUDA device, what leaves a pattern in all that this kernel could read without having
 * written it: the pattern that "poison_scratch" asked for since the last time, else a drawn one. */
attune_status at_worker_fill(at_worker *worker, const at_loaded *loaded, void *stream);
typedef attune_status (*at_fence_work)(void *context, const attune_call *call);
/* Does `work` with a call whose buffers are copies between pages that are not there, of which only outputs can be
 * written, and copies those back. A call of more than a gigabyte is left as it is, and so is one where there is
 * no such memory. */
attune_status at_fence_run(at_device *device, const attune_problem *problem, const attune_call *call,
                           at_fence_work work, void *context);
void at_worker_close_filling(at_worker *worker);

#endif
