/* What changes of before say of rules and functions. */
#include "base/cm.h"

#include "evolve/trial.h"

static const at_trial list[] = {
    {"jam", "hot", true, 0.20, 0.01, 1},     {"jam", "cold", true, 0.002, 0.005, 1},
    {"jam", "cold", true, -0.001, 0.005, 1}, {"unroll", "hot", true, -0.30, 0.01, 1},
    {"unroll", "other", false, 0, 0, 1},     {"swap", "vague", true, 0.10, 2.0, 1},
};
static const at_trials all = {list, sizeof list / sizeof *list};

/* Time that was saved in a function, or lost, is spent there. */
static void functions_that_move_are_hot(void **state)
{
    (void)state;
    assert_true(at_trials_of_place(&all, "hot") > 1);
    assert_true(at_trials_of_place(&all, "cold") < 0.3);
    assert_float_equal(at_trials_of_place(&all, "unknown"), 1, 1e-9);
    assert_float_equal(at_trials_of_place(&all, "other"), 1, 1e-9); /* it was not timed */
}

/* A rule is to have saved some, not to have made a difference. */
static void rules_that_saved_are_better(void **state)
{
    (void)state;
    assert_true(at_trials_of_rule(&all, "jam") > at_trials_of_rule(&all, "unroll"));
    assert_true(at_trials_of_rule(&all, "unroll") < 1);
    assert_true(at_trials_of_both(&all, "jam", "hot") > 1);
    assert_true(at_trials_of_both(&all, "unroll", "other") < 1); /* refused, or the same code */
    assert_float_equal(at_trials_of_both(&all, "jam", "other"), 1, 1e-9);
}

/* What was measured beside a much slower source says little of today's. */
static void noise_says_nothing(void **state)
{
    (void)state;
    assert_float_equal(at_trials_of_place(&all, "vague"), 1, 0.01);
    assert_float_equal(at_trials_of_rule(&all, "swap"), 1, 0.01);
}

/* Of two changes at once each may have been it. */
static void changes_together_count_by_half(void **state)
{
    (void)state;
    const at_trial one = {"jam", "f", true, 0, 0, 1}, half = {"jam", "f", true, 0, 0, 0.5};
    const at_trials whole = {&one, 1}, shared = {&half, 1};
    assert_true(at_trials_of_rule(&whole, "jam") < at_trials_of_rule(&shared, "jam"));
    assert_true(at_trials_of_rule(&shared, "jam") < 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_that_move_are_hot),
        cmocka_unit_test(rules_that_saved_are_better),
        cmocka_unit_test(noise_says_nothing),
        cmocka_unit_test(changes_together_count_by_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
