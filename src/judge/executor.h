/* The parent's side of timing: an at_executor (measure/session.h) whose arms run in worker processes. On a CPU the
 * parent's own clock times them. */
#ifndef JUDGE_EXECUTOR_H
#define JUDGE_EXECUTOR_H

#include "base/random.h"
#include "library/placement.h"
#include "measure/session.h"
#include "worker/remote.h"
#include "worker/transform.h"

/* One problem's arms in workers. */
typedef struct at_timed {
    /* Filled in by whoever starts a session. */
    attune_problem problem;
    at_inputs *inputs;      /* of the problem, on the host: the base that transforms are made from */
    const char *const *arm; /* names as a worker opens them, in the session's order; the first must run calls into the
                               call's own O, as kernels do */
    int arm_count;
    /* The worker of process number `process`, the same as long as the number is; the caller's to close. */
    attune_status (*worker)(void *self, int process, at_device **device);
    /* Opens an arm in the worker; NULL: at_remote_plan with its name. */
    attune_status (*plan)(void *self, int arm, at_device *device, attune_plan **plan);
    /* Whether the first arm's result on the base, which now lies in inputs, is right. NULL: it is known to be. */
    attune_status (*judge)(void *self, at_inputs *inputs);
    void *self;
    bool confined;           /* the worker may not read a clock: it is given what a call takes */
    double stage_s, block_s; /* patience; 0: 120 s and 60 s */
    /* The executor's own. */
    at_device *device;
    int process;
    attune_plan *opened[AT_SESSION_ARMS_MAX];
    at_placement place;
    double call_us; /* of a confined's */
    int calls[AT_SESSION_ARMS_MAX];
    size_t *output_at[AT_SESSION_ARMS_MAX]; /* CPU: of each call's output in the arena; NULL: it is not there */
    at_transform_map transformed;           /* CPU: of the host's inputs */
    void *copy;                             /* of one timed output */
    void *fresh[ATTUNE_O];                  /* that call's Q, K and V */
    at_pool *pool;                          /* to look at it */
    at_random random;                       /* which */
} at_timed;

/* Seconds of the parent's clock, for those who may have none of their own. */
double at_timed_seconds(void);

/* `timed` must outlive it; at_timed_close afterwards, before its worker is closed. */
at_executor at_timed_executor(at_timed *timed);
/* Gives back what the executor holds in the worker. NULL is fine. */
void at_timed_close(at_timed *timed);

#endif
