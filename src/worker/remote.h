/* A device in a worker process. Whoever holds an at_device can use it like any other: buffers lie in the worker, calls
 * run there, and a kernel that crashes or hangs takes the worker with it and nothing else. What can be run are the
 * arms that the worker opens by name: kernels, peers, and what a host language adds. */
#ifndef WORKER_REMOTE_H
#define WORKER_REMOTE_H

#include "core/plan.h"
#include "wire/channel.h"

typedef struct at_remote_options {
    const char *const *command; /* of the worker; ends with NULL */
    const char *target;         /* "cpu", "cuda", "cuda:1"; NULL: the worker chooses */
    const char *isa;            /* as attune_options has it; may be NULL */
    int threads;                /* 0: all */
    bool confined;              /* it will run a stranger's CPU kernel, and that alone */
    double patience_s;          /* for a launch, a copy, an allocation; 0: 10 s */
    double load_s;              /* for starting, opening and loading, which may compile; 0: 120 s */
} at_remote_options;

/* Starts a worker and opens its target. Close through the device's ops, which ends the worker. */
attune_status at_remote_open(const at_remote_options *options, at_device **device);
/* The same in two steps: a started worker makes itself ready (an interpreter loads what it needs) while its parent does
 * something else, and touches no device before it begins. Until then it can only be closed. */
attune_status at_remote_start(const at_remote_options *options, at_device **device);
attune_status at_remote_begin(at_device *device, const at_remote_options *options);
/* The line to the worker, for what is no device's business; belongs to the device. */
at_channel *at_remote_channel(const at_device *device);
/* Whether the worker is of no more use: it died, or its device reported an error, after which nothing that it says can
 * be believed (an illegal address poisons a CUDA context for good). */
bool at_remote_is_broken(const at_device *device);
/* What the worker says it is: {"protocol":1,"attune":"0.1.0",...}. Borrowed. */
const json_t *at_remote_greeting(const at_device *device);

/* Opens an arm for a problem. A stranger's kernel is none: the device's load takes its recipe. The plan is destroyed as
 * any other, before the device is closed; what it names stays with the device, so that asking again for the same
 * is cheap. */
attune_status at_remote_plan(at_device *device, const attune_problem *problem, const char *arm, attune_plan **plan);
/* The worker's number of a plan's arm; what it says of itself ("" for kernels); and its name as it says it. */
int64_t at_remote_arm(const attune_plan *plan);
const char *at_remote_account(const attune_plan *plan);

#endif
