/* Windows over long sequences, on the device: without a left bound, and with one beyond all keys, where bounds and the
 * numbers of keys far to the right leave an int together. Every kernel's result against the reference. */
#include "base/cm.h"
#include "core/problem.h"
#include "gate/suite.h"
#include "library/context.h"
#include "on_device.h"

typedef struct run {
    attune_context *context;
    const char *kernel;
} run;

static attune_status plan_named(void *self, const attune_problem *problem, attune_plan **plan)
{
    const run *on = self;
    return at_plan_named(on->context, problem, on->kernel, plan);
}

/* Exactly the problem, on standard normals. */
static void check(void **state, const char *kernel, const char *text)
{
    run on = {.context = *state, .kernel = kernel};
    attune_problem problem;
    at_suite_result result;
    const at_suite suite = {.device = at_context_device(on.context),
                            .pool = at_context_pool(on.context),
                            .plan = plan_named,
                            .self = &on,
                            .seed = 1,
                            .only = 0,
                            .command = "attune check"};
    assert_ok(attune_problem_parse(text, &problem));
    assert_ok(at_suite_run(&suite, &problem, &result));
    print_message("%-12s %-44s %s\n", kernel, text,
                  result.failures > 0   ? result.failure[0].what
                  : result.refusals > 0 ? result.refusal[0].why
                                        : "right");
    assert_int_equal(result.exact, 1);
    assert_true(at_suite_right(&result));
}

static void wgmma_sees_what_it_should(void **state)
{
    static const char *const problems[] = {
        "b1,h2,s2048,d64,fp16,window=-1:20",         "b1,h1,s2048,d128,bf16,causal,window=-1:40",
        "b1,h1,s2100,d128,fp16,window=2147483647:5", "b1,h1,s2048,d64,bf16,window=3000:-1",
        "b1,h1,s2048,d256,bf16,window=-1:20",
    };
    const at_device *device = at_context_device(*state);
    for (size_t i = 0; device->target.arch == 90 && i < sizeof problems / sizeof *problems; ++i) {
        check(state, "wgmma", problems[i]);
    }
}

static void so_do_others(void **state)
{
    static const char *const kernels[] = {"tiled", "pipelined", "wmma", "wmma_ws"};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; ++i) {
        check(state, kernels[i], "b1,h1,s2048,d64,fp16,window=-1:20");
        check(state, kernels[i], "b1,h1,s2048,d64,fp16,causal,window=2147483647:0");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wgmma_sees_what_it_should),
        cmocka_unit_test(so_do_others),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
