/* What races and benches run on: drawn inputs placed on the device, and what the result must be. */
#ifndef LIBRARY_WORKLOAD_H
#define LIBRARY_WORKLOAD_H

#include "core/plan.h"
#include "library/context.h"
#include "library/placement.h"
#include "measure/arm.h"
#include "measure/clock.h"
#include "reference/truth.h"

typedef struct at_workload {
    at_pool *pool;
    at_clock clock;
    at_inputs inputs;   /* on the host; O and LSE come back here */
    at_placement place; /* the same on the device: place.call is what runs */
    at_truth truth;     /* of all rows of a small problem, else of some */
} at_workload;

/* Draws, places and computes the truth. The workload must not be moved. Close it, but not after a failure. */
attune_status at_workload_open(attune_context *context, const attune_problem *problem, at_workload *work);
void at_workload_close(at_workload *work);
/* At least so much workspace. It may move: what was captured with it before must not run again. */
attune_status at_workload_reserve(at_workload *work, size_t bytes);
/* Runs once to the end. */
attune_status at_workload_run(const at_workload *work, const attune_plan *plan);
/* Runs once on poisoned outputs and judges what came out. */
attune_status at_workload_judge(at_workload *work, const attune_plan *plan, int64_t *ns);
/* The same of anything that runs on the workload's call; `traits` are its ATTUNE_TRAIT_ bits. */
attune_status at_workload_judge_arm(at_workload *work, const at_arm *arm, uint32_t traits, int64_t *ns);

#endif
