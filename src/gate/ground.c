#include "gate/ground.h"

#include <string.h>

#include "base/status.h"
#include "gate/trial.h"
#include "measure/clock.h"

attune_status at_ground_draw(const attune_problem *problem, uint64_t seed, bool acc16, at_pool *pool, at_ground *ground)
{
    const at_suite suite = {.device = NULL};
    at_truth_want want = at_trial_rows(&suite, problem);
    at_draw drawn = {.seed = seed ^ attune_problem_hash(problem), .poison = 0xff, .pool = pool};
    drawn.family = at_family_applies(AT_FAMILY_MIXED, problem) ? AT_FAMILY_MIXED : AT_FAMILY_NORMAL;
    want.acc16 = acc16;
    memset(ground, 0, sizeof *ground);
    attune_status status = at_inputs_draw(problem, &drawn, &ground->inputs);
    return status == ATTUNE_OK ? at_truth_compute(pool, &ground->inputs, &want, &ground->truth) : status;
}

void at_ground_free(at_ground *ground)
{
    at_truth_free(&ground->truth);
    at_inputs_free(&ground->inputs);
}

attune_status at_ground_judge(const at_ground *ground)
{
    at_finding finding;
    return at_judge_case(&ground->truth.one, &finding, NULL);
}

attune_status at_ground_run(const at_ground *ground, at_placement *place, const attune_plan *plan, double *us)
{
    at_clock clock = at_clock_monotonic();
    size_t bytes = 0;
    AT_FORWARD(attune_plan_workspace(plan, &place->call, &bytes));
    AT_FORWARD(at_placement_reserve(place, bytes));
    AT_FORWARD(at_placement_poison(place, 0xff));
    int64_t began = clock.now_ns(clock.self);
    AT_FORWARD(attune_plan_execute(plan, &place->call));
    AT_FORWARD(place->device->ops->synchronise(place->device, NULL));
    *us = 1e-3 * (double)(clock.now_ns(clock.self) - began);
    AT_FORWARD(at_placement_fetch(place));
    return at_ground_judge(ground);
}
