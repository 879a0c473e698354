#include "judge/timed_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "judge/trial.h"
#include "measure/clock.h"

void at_timed_case_prefetch(const at_test_problem *test, uint64_t seed, bool acc16, at_prefetch *wanted)
{
    const attune_problem *problem = &test->problem;
    const at_suite suite = {.device = NULL};
    bool mixed = at_family_applies(AT_FAMILY_MIXED, problem);
    *wanted = (at_prefetch){.problem = *problem, .judged = true, .want = at_trial_rows(&suite, problem)};
    wanted->draw = (at_draw){.seed = seed ^ at_test_problem_hash(test),
                             .length_seed = test->length_seed,
                             .family = mixed ? AT_FAMILY_MIXED : AT_FAMILY_NORMAL,
                             .poison = at_poison_draw(seed)};
    wanted->want.acc16 = acc16;
}

attune_status at_timed_case_draw(const at_test_problem *test, uint64_t seed, bool acc16, at_pool *pool,
                                 at_case_cache *cache, at_timed_case *timed_case)
{
    at_prefetch wanted;
    at_timed_case_prefetch(test, seed, acc16, &wanted);
    wanted.draw.pool = pool;
    memset(timed_case, 0, sizeof *timed_case);
    timed_case->cache = cache;
    AT_FORWARD(at_case_cache_inputs(cache, &test->problem, &wanted.draw, &timed_case->inputs));
    return at_case_cache_truth(cache, pool, &timed_case->inputs, &wanted.want, &timed_case->truth);
}

attune_status at_timed_case_least(const at_test_problem *test, uint64_t seed, at_least *least)
{
    at_prefetch wanted;
    at_timed_case_prefetch(test, seed, false, &wanted);
    return at_least_count(&test->problem, &wanted.draw, least);
}

void at_timed_case_free(at_timed_case *timed_case)
{
    at_truth_free(&timed_case->truth);
    at_case_cache_return(timed_case->cache, &timed_case->inputs, true);
}

attune_status at_timed_case_judge(const at_timed_case *timed_case)
{
    at_finding finding;
    return at_judge_case(&timed_case->truth.one, &finding, NULL);
}

attune_status at_timed_case_run(const at_timed_case *timed_case, at_placement *place, const attune_plan *plan,
                                double *us)
{
    at_clock clock = at_clock_monotonic();
    AT_FORWARD(at_placement_fit(place, plan, &place->call));
    AT_FORWARD(at_placement_poison(place, timed_case->inputs.draw.poison));
    int64_t began = clock.now_ns(clock.self);
    AT_FORWARD(attune_plan_execute(plan, &place->call));
    AT_FORWARD(place->device->ops->synchronise(place->device, NULL));
    *us = 1e-3 * (double)(clock.now_ns(clock.self) - began);
    AT_FORWARD(at_placement_fetch(place));
    return at_timed_case_judge(timed_case);
}

attune_status at_timed_case_run_off(const at_timed_case *timed_case, at_placement *place, const attune_plan *plan,
                                    double query_scale, double *us)
{
    const at_buffer *queries = &timed_case->inputs.buffer[ATTUNE_Q];
    unsigned char *drawn = malloc(queries->total);
    AT_FAIL_IF(drawn == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to keep %zu bytes of queries", queries->total);
    memcpy(drawn, queries->base, queries->total);
    attune_status status = at_placement_scale(place, ATTUNE_Q, query_scale);
    status = status == ATTUNE_OK ? at_timed_case_run(timed_case, place, plan, us) : status;
    memcpy(queries->base, drawn, queries->total);
    free(drawn);
    if (status == ATTUNE_OK) {
        return at_placement_send_input(place, ATTUNE_Q);
    }
    char why[512];
    (void)snprintf(why, sizeof why, "%s", attune_last_detail());
    AT_FORWARD(status == ATTUNE_WRONG_RESULT ? at_placement_send_input(place, ATTUNE_Q) : ATTUNE_OK);
    return at_fail(status, "%s", why);
}
