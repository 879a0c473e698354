/* What races and benches run on: drawn inputs placed on the device, and what the result must be. */
#ifndef LIBRARY_WORKLOAD_H
#define LIBRARY_WORKLOAD_H

#include "core/problem.h"
#include "library/bind.h"
#include "library/context.h"
#include "library/placement.h"
#include "measure/clock.h"
#include "reference/truth.h"

typedef struct at_workload {
    at_pool *pool;
    at_clock clock;
    at_inputs inputs;   /* on the host; O and LSE come back here */
    at_placement place; /* the same on the device: place.call is what runs, on CUDA on a stream of its own */
    at_truth truth;     /* of all rows of a small problem, else of some */
} at_workload;

/* Draws, places and computes the truth. The workload must not be moved. Close it, but not after a failure. */
attune_status at_workload_open(attune_context *context, const at_test_problem *test, at_workload *work);
void at_workload_close(at_workload *work);
/* At least as much workspace as the arm takes. It may move: what was captured with it before must not run again. */
attune_status at_workload_reserve(at_workload *work, const attune_arm *arm);
/* Runs an arm once on poisoned outputs, and judges what came out; *ns is what
 * the run took. */
attune_status at_workload_judge(at_workload *work, const attune_arm *arm, int64_t *ns);

#endif
