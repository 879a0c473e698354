#include "gate/ground.h"

#include <string.h>

#include "gate/trial.h"

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
