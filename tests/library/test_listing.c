/* Which kernels there are, and why one is not for a problem. */
#include "base/cm.h"

#include "library/fake.h"

const fake_rule fake_rules[] = {
    {.kernel = "named_only", .cost_ns = 1000, .gain = 1, .dim_most = 256},
    {.kernel = "tainting", .cost_ns = 1000, .gain = 1, .dim_most = 64},
    {.kernel = "general", .cost_ns = 1000, .gain = 1, .dim_most = 256},
    {.kernel = "broken", .cost_ns = 1000, .gain = 1, .dim_most = 256, .broken = true},
    {.kernel = NULL},
};

FAKE_KERNEL(named_only, ATTUNE_TRAIT_NAMED_ONLY);
FAKE_KERNEL(tainting, ATTUNE_TRAIT_TAINTS);
FAKE_KERNEL(general, ATTUNE_TRAIT_GENERAL);
FAKE_KERNEL(broken, 0);

static void says_why_not(void **state)
{
    char why[240];
    static const attune_kernel *const kernels[] = {&named_only, &tainting, &general, NULL};
    fake_device fake;
    attune_context *context = NULL;
    attune_problem large;
    (void)state;
    assert_ok(fake_context(&fake, kernels, &context));
    assert_ok(attune_problem_parse("b1,h1,s20,d65,fp32", &large));
    assert_ok(attune_why_not(context, &large, "general", why, sizeof why));
    assert_string_equal(why, "");
    assert_ok(attune_why_not(context, &large, "tainting", why, sizeof why));
    assert_string_equal(why, "head_dim_qk 65: at most 64");
    assert_ok(attune_why_not(context, &large, "named_only", why, sizeof why));
    assert_non_null(strstr(why, "asked for by name"));
    assert_ok(attune_why_not(context, &large, "tainting", why, 12));
    assert_string_equal(why, "head_dim_qk");
    assert_fails(attune_why_not(context, &large, "nobody", why, sizeof why), ATTUNE_NOT_FOUND, "nobody");
    assert_fails(attune_why_not(context, &large, NULL, why, sizeof why), ATTUNE_INVALID_ARGUMENT, "kernel is NULL");
    assert_fails(attune_why_not(context, &large, "general", why, 0), ATTUNE_INVALID_ARGUMENT, "bytes is 0");
    attune_context_destroy(context);
}

/* A candidate until it is tried. */
static void says_what_failed(void **state)
{
    char why[512];
    static const attune_kernel *const kernels[] = {&broken, &general, NULL};
    fake_device fake;
    attune_context *context = NULL;
    attune_problem problem;
    attune_plan *plan;
    (void)state;
    assert_ok(fake_context(&fake, kernels, &context));
    assert_ok(attune_problem_parse("b1,h1,s20,d64,fp32", &problem));
    assert_ok(attune_why_not(context, &problem, "broken", why, sizeof why));
    assert_string_equal(why, "");
    assert_ok(attune_plan_create(context, &problem, NULL, &plan));
    assert_int_equal(attune_plan_traits(plan), ATTUNE_TRAIT_GENERAL);
    assert_ok(attune_why_not(context, &problem, "broken", why, sizeof why));
    assert_string_equal(why, "it failed: the fake compiler refused broken");
    attune_plan_destroy(plan);
    attune_context_destroy(context);
}

static void lists_kernels(void **state)
{
    (void)state;
    int fallbacks[2] = {0, 0};
    bool tiled = false;
    const int32_t count = attune_kernel_count();
    assert_true(count > 2);
    for (int32_t i = 0; i < count; ++i) {
        assert_true(strlen(attune_kernel_name(i)) > 0 && strlen(attune_kernel_summary(i)) > 0);
        fallbacks[attune_kernel_target(i)] += (attune_kernel_traits(i) & ATTUNE_TRAIT_GENERAL) != 0;
        tiled =
            tiled || (strcmp(attune_kernel_name(i), "cpu_tiled") == 0 && attune_kernel_target(i) == ATTUNE_TARGET_CPU);
    }
    assert_true(tiled && fallbacks[ATTUNE_TARGET_CPU] == 1 && fallbacks[ATTUNE_TARGET_CUDA] == 1);
    assert_null(attune_kernel_name(count));
    assert_null(attune_kernel_summary(-1));
    assert_int_equal(attune_kernel_target(count), -1);
    assert_int_equal(attune_kernel_traits(count), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_why_not),
        cmocka_unit_test(says_what_failed),
        cmocka_unit_test(lists_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
