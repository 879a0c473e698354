/* What a plan begins with on a device of which nothing is known: what is proven of its nearest relative. */
#include "base/cm.h"

#include "core/problem.h"
#include "library/fake.h"

const fake_rule fake_rules[] = {
    {.kernel = "usual", .cost_ns = 1000, .gain = 1, .dim_most = 256},
    {.kernel = "general", .cost_ns = 200000, .gain = 1, .dim_most = 256},
    {.kernel = NULL},
};

FAKE_KERNEL(usual, 0);
FAKE_KERNEL(general, ATTUNE_TRAIT_GENERAL);

static fake_device fake;
static attune_context *context;

static void know(at_row_kind kind, const char *problem_text, const char *target, const char *kernel)
{
    char class_text[AT_CLASS_TEXT_MAX];
    char verdict[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    attune_problem problem;
    assert_ok(attune_problem_parse(problem_text, &problem));
    at_problem_class(&problem, class_text);
    at_wisdom_row row = {kind, class_text, (char *)target, (char *)kernel, kind == AT_PROVEN ? verdict : NULL};
    assert_ok(at_wisdom_add(context->wisdom, &row));
}

static attune_status try_plan(const char *text, attune_effort effort, attune_plan **plan)
{
    attune_problem problem;
    attune_plan_options options;
    assert_ok(attune_problem_parse(text, &problem));
    attune_plan_options_init(&options);
    options.effort = effort;
    return attune_plan_create(context, &problem, &options, plan);
}

static void expect_plan(const char *text, const char *kernel)
{
    attune_plan *plan;
    assert_ok(try_plan(text, ATTUNE_ESTIMATE, &plan));
    assert_string_equal(attune_plan_kernel(plan), kernel);
    assert_string_equal(attune_plan_origin(plan), "heuristic");
    attune_plan_destroy(plan);
}

static void relatives_are_begun_with(void **state)
{
    static char here[] = "cuda/NVIDIA_X/90a,sm=132,driver=13000,compiler=13000";
    static const attune_kernel *const kernels[] = {&usual, &general, NULL};
    attune_plan *plan;
    (void)state;
    assert_ok(fake_context(&fake, kernels, &context));
    char *const was = context->target_text;
    context->target_text = here;
    know(AT_PROVEN, "b1,h1,s20,d64,fp32", "cuda/NVIDIA_Y/90a,sm=140,driver=13000,compiler=13000", "general:A=1");
    know(AT_PROVEN, "b1,h1,s20,d64,fp32", "cuda/NVIDIA_Z/90a,sm=130,driver=13000,compiler=13000", "general:A=3");
    know(AT_PROVEN, "b1,h1,s20,d64,fp32", "cuda/NVIDIA_W/100a,sm=132,driver=13000,compiler=13000", "general:A=4");
    know(AT_MEASURED, "b1,h1,s20,d64,fp32", "cuda/NVIDIA_V/90a,sm=132,driver=13000,compiler=13000", "general:A=4");
    know(AT_PROVEN, "b1,h1,s40,d64,fp32", "cuda/NVIDIA_W/100a,sm=132,driver=13000,compiler=13000", "general:A=4");
    know(AT_PROVEN, "b1,h1,s80,d64,fp32", "cuda/NVIDIA_W/90a,sm=78,driver=13000,compiler=13000", "general:A=4");
    assert_int_equal(try_plan("b1,h1,s20,d64,fp32", ATTUNE_WISDOM_ONLY, &plan), ATTUNE_NOT_FOUND);
    expect_plan("b1,h1,s20,d64,fp32", "general:A=3");
    expect_plan("b1,h1,s40,d64,fp32", "usual:A=2");
    expect_plan("b1,h1,s80,d64,fp32", "usual:A=2");
    context->target_text = was;
    attune_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(relatives_are_begun_with)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
