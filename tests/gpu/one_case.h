/* One case of a suite, on the device: a named kernel's result against the reference. */
#ifndef TESTS_GPU_ONE_CASE_H
#define TESTS_GPU_ONE_CASE_H

#include "base/cm.h"
#include "core/problem.h"
#include "judge/suite.h"
#include "library/context.h"

enum { CASE_SEED = 1 };

typedef struct run {
    attune_context *context;
    const char *kernel;
} run;

static attune_status plan_named(void *self, const attune_problem *problem, attune_plan **plan)
{
    const run *on = self;
    return attune_plan_create(on->context, problem, WITH_KERNEL(on->kernel), plan);
}

/* Case `index` of the problem, one that is exactly the problem. `state`: open_device's. */
static void check_case(void **state, const char *kernel, const char *text, int64_t index)
{
    run on = {.context = *state, .kernel = kernel};
    at_test_problem problem;
    at_suite_result result;
    const at_suite suite = {.device = at_context_device(on.context),
                            .pool = at_context_pool(on.context),
                            .plan = plan_named,
                            .self = &on,
                            .seed = CASE_SEED,
                            .only = index,
                            .command = "attune check"};
    assert_ok(at_test_problem_parse(text, &problem));
    assert_ok(at_suite_run(&suite, &problem, &result));
    print_message("%-12s %-44s %s\n", kernel, text,
                  result.failures > 0   ? result.failure[0].what
                  : result.refusals > 0 ? result.refusal[0].why
                                        : "right");
    assert_int_equal(result.exact, 1);
    assert_true(at_suite_right(&result));
}

#endif
