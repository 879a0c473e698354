/* A stranger's kernel in a worker: a recipe that arrived as a message, loaded on the worker's device. A CPU kernel's
 * object is loaded once for a worker, which is locked before and stays so (stranger/sandbox.h). */
#ifndef WORKER_CANDIDATE_H
#define WORKER_CANDIDATE_H

#include "base/digest.h"
#include "base/threads.h"
#include "core/plan.h"
#include "stranger/wire_kernel.h"
#include "worker/runner.h"

/* The code that a worker has loaded for CPU kernels; all zeros in a worker that is not locked. */
typedef struct at_candidate_code {
    bool begun;        /* at_candidate_begin */
    at_runner *runner; /* from whose thread all calls are made; NULL in a worker that is not locked */
    at_pool *pool;     /* whose threads it shares them with */
    attune_attend attend;
    unsigned char digest[AT_DIGEST_BYTES];
} at_candidate_code;

/* Before the worker has threads: it will run a stranger's CPU kernel. At the end at_candidate_end. */
attune_status at_candidate_begin(at_candidate_code *code);
void at_candidate_end(at_candidate_code *code);

typedef struct at_candidate {
    at_device *device;
    at_recipe_data *data;
    at_loaded *loaded;
} at_candidate;

/* Checks, compiles or loads, and binds a plan to the recipe's problem. Release, after the plan, with at_candidate_free.
 */
attune_status at_candidate_load(at_candidate_code *code, at_device *device, json_t *recipe, at_candidate *candidate,
                                attune_plan **plan);
void at_candidate_free(at_candidate *candidate);

#endif
