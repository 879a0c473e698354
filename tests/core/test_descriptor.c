/* A kernel whose descriptor is elsewhere is asked like any other, and whoever holds the line answers. */
#include "base/cm.h"
#include "core/config.h"
#include "core/descriptor.h"
#include "core/sample.h"

typedef struct line {
    int questions;
    bool can;
} line;

static bool answer(void *self, const char *why, attune_reason *reason)
{
    line *on = self;
    ++on->questions;
    return on->can || attune_refuse(reason, "%s", why);
}

static bool supports(void *self, const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)problem, (void)target;
    return answer(self, "not supported there", reason);
}

static bool fits(void *self, const attune_problem *problem, const attune_target *target, const attune_config *config,
                 attune_reason *reason)
{
    (void)problem, (void)target, (void)config;
    return answer(self, "does not fit there", reason);
}

static bool heuristic(void *self, const attune_problem *problem, const attune_target *target, int32_t index,
                      attune_config *config)
{
    (void)problem, (void)target;
    config->value[0] = 7;
    return answer(self, "", NULL) && index == 0;
}

static attune_status recipe(void *self, const attune_target *target, at_recipe *of)
{
    (void)target;
    of->resources.threads = 96;
    return answer(self, "", NULL) ? ATTUNE_OK : ATTUNE_INVALID_ARGUMENT;
}

static const at_descriptor_ops ops = {supports, fits, heuristic, recipe};

static at_described described(line *on)
{
    at_described made = {.kernel = sample_kernel(ATTUNE_TARGET_CUDA), .ops = &ops, .self = on};
    made.kernel.supports = NULL;
    made.kernel.valid = NULL;
    made.kernel.resources = NULL;
    made.kernel.heuristic = NULL;
    made.kernel.steps = NULL;
    return made;
}

static void every_question_goes_to_who_holds_the_line(void **state)
{
    (void)state;
    line on = {.can = true};
    const at_described elsewhere = described(&on);
    const attune_kernel own = sample_kernel(ATTUNE_TARGET_CUDA);
    const attune_target target = {
        .size = sizeof target, .kind = ATTUNE_TARGET_CUDA, .arch = 90, .smem_optin_bytes = 232448};
    attune_problem problem;
    attune_config config = {{0}};
    attune_reason reason = {""};
    at_recipe of;
    assert_ok(attune_problem_parse("b1,h8,s512,d64,fp16", &problem));
    assert_null(at_kernel_described(&own));
    assert_ptr_equal(at_kernel_described(&elsewhere.kernel), &elsewhere);
    assert_true(at_kernel_supports(&elsewhere.kernel, &problem, &target, &reason));
    assert_true(at_kernel_heuristic(&elsewhere.kernel, &problem, &target, 0, &config));
    assert_int_equal(config.value[0], 7);
    assert_false(at_kernel_heuristic(&elsewhere.kernel, &problem, &target, 1, &config));
    assert_ok(at_recipe_ask(&elsewhere.kernel, &problem, &target, &config, &of));
    assert_int_equal(of.resources.threads, 96);
    assert_int_equal(on.questions, 4);
    on.can = false;
    assert_false(at_kernel_supports(&elsewhere.kernel, &problem, &target, &reason));
    assert_string_equal(reason.text, "not supported there");
    at_config_at(&elsewhere.kernel, 0, &config);
    assert_false(at_kernel_fits(&elsewhere.kernel, &problem, &target, &config, &reason));
    assert_int_equal(at_recipe_ask(&elsewhere.kernel, &problem, &target, &config, &of), ATTUNE_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_question_goes_to_who_holds_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
