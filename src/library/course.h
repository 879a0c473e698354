/* What a race is run on: drawn inputs in the device's memory, and what the result must be. */
#ifndef LIBRARY_COURSE_H
#define LIBRARY_COURSE_H

#include "core/plan.h"
#include "library/context.h"
#include "measure/arm.h"
#include "measure/clock.h"
#include "reference/truth.h"

typedef struct course {
    at_device *device;
    at_pool *pool;
    at_clock clock;
    at_inputs inputs; /* on the host; O and LSE come back here */
    attune_call call; /* the same in the device's memory */
    void *buffer[ATTUNE_ROLE_COUNT];
    void *workspace;
    at_truth truth; /* of all rows of a small problem, else of some */
} course;

attune_status at_course_open(attune_context *context, const attune_problem *problem, course *track);
void at_course_close(course *track);
/* Makes sure of this much workspace. */
attune_status at_course_reserve(course *track, size_t bytes);
/* Runs once to the end. */
attune_status at_course_run(const course *track, const attune_plan *plan);
/* Runs once on poisoned outputs and judges what came out. */
attune_status at_course_judge(course *track, const attune_plan *plan, int64_t *ns);
/* The same of anything that runs on the course's call; `traits` are its ATTUNE_TRAIT_ bits. */
attune_status at_course_judge_arm(course *track, const at_arm *arm, uint32_t traits, int64_t *ns);

#endif
