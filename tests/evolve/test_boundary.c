#include "evolve/landscape.h"

static at_space *made;
static at_boundary *learned;

static int setup(void **state)
{
    (void)state;
    made = landscape_open();
    return at_boundary_create(made, 1, &learned);
}

static int teardown(void **state)
{
    (void)state;
    at_boundary_destroy(learned);
    at_space_close(made);
    return 0;
}

/* Learns so many candidates, drawn by chance. */
static void learn(int count)
{
    at_random random = at_random_seed(3, 0);
    for (int i = 0; i < count; ++i) {
        int candidate = (int)at_random_below(&random, (uint64_t)made->count);
        at_boundary_learn(learned, candidate, landscape_refused(made, candidate));
    }
}

static void fears_nothing_before_a_refusal(void **state)
{
    (void)state;
    at_boundary_learn(learned, 3, false);
    for (int candidate = 0; candidate < made->count; ++candidate) {
        assert_true(at_boundary_chance(learned, candidate) == 0);
    }
}

static void knows_what_was_measured(void **state)
{
    (void)state;
    at_boundary_learn(learned, 3, false);
    at_boundary_learn(learned, 4, true);
    assert_true(at_boundary_chance(learned, 3) == 0);
    assert_true(at_boundary_chance(learned, 4) == 1);
    at_boundary_learn(learned, 4, false); /* taken back */
    assert_true(at_boundary_chance(learned, 4) == 0);
    assert_true(at_boundary_chance(learned, 5) == 0);
}

static void one_refusal_is_not_the_end_of_the_world(void **state)
{
    (void)state;
    at_boundary_learn(learned, 3, true);
    for (int candidate = 0; candidate < made->count; ++candidate) {
        double chance = at_boundary_chance(learned, candidate);
        assert_true(chance >= 0 && chance <= 1);
    }
    for (int candidate = 100; candidate < 110; ++candidate) {
        at_boundary_learn(learned, candidate, false);
    }
    assert_true(at_boundary_chance(learned, 111) < 0.5);
}

/* After 60 of 650, most of the others are told apart. */
static void finds_the_region(void **state)
{
    (void)state;
    learn(60);
    int right = 0;
    for (int candidate = 0; candidate < made->count; ++candidate) {
        right += (at_boundary_chance(learned, candidate) >= 0.5) == landscape_refused(made, candidate);
    }
    if (right < made->count * 9 / 10) {
        fail_msg("only %d of %d are told apart", right, made->count);
    }
}

static void a_space_of_one_has_no_boundaries(void **state)
{
    (void)state;
    at_boundary *boundary;
    at_space one = *made;
    one.count = 1;
    one.param_count = 0;
    assert_ok(at_boundary_create(&one, 1, &boundary));
    assert_true(at_boundary_chance(boundary, 0) == 0);
    at_boundary_learn(boundary, 0, true);
    assert_true(at_boundary_chance(boundary, 0) == 1);
    at_boundary_destroy(boundary);
    at_boundary_destroy(NULL);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(fears_nothing_before_a_refusal),          CASE(knows_what_was_measured),
        CASE(one_refusal_is_not_the_end_of_the_world), CASE(finds_the_region),
        CASE(a_space_of_one_has_no_boundaries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
