/* How many problems are begun together is what the time left suffices for. */
#include <math.h>

#include "base/cm.h"

#include "gate/batch.h"

static void test_first_batch_is_by_guess_and_never_empty(void **state)
{
    (void)state;
    const at_batch_pace none = {0};
    assert_int_equal(at_batch_size(&none, 10, 1e6), 10);
    assert_int_equal(at_batch_size(&none, 10, 386), 6); /* 15 s of starts, 60 s each */
    assert_int_equal(at_batch_size(&none, 10, 130), 1);
    assert_int_equal(at_batch_size(&none, 10, -5), 1);
}

static void test_later_batches_are_what_fits(void **state)
{
    (void)state;
    at_batch_pace pace = {0};
    at_batch_note(&pace, 10, 115); /* 10 s each, a tenth more is granted */
    assert_int_equal(at_batch_size(&pace, 10, 1000), 10);
    assert_int_equal(at_batch_size(&pace, 10, 125.1), 10);
    assert_int_equal(at_batch_size(&pace, 10, 124.9), 9);
    assert_int_equal(at_batch_size(&pace, 10, 26.1), 1);
    assert_int_equal(at_batch_size(&pace, 10, 25.9), 0); /* what would be cut is not begun */
    assert_int_equal(at_batch_size(&pace, 10, -1), 0);
    assert_int_equal(at_batch_size(&pace, 3, 1000), 3);
}

static void test_slowest_batch_counts(void **state)
{
    (void)state;
    at_batch_pace pace = {0};
    at_batch_note(&pace, 10, 115);
    at_batch_note(&pace, 2, 55); /* 20 s each */
    at_batch_note(&pace, 10, 100);
    assert_int_equal(pace.problems, 2);
    assert_int_equal(at_batch_size(&pace, 10, 15 + 22 * 3 + 1), 3);
}

static void test_batches_that_take_next_to_nothing_fit_many_times(void **state)
{
    (void)state;
    at_batch_pace pace = {0};
    at_batch_note(&pace, 4, 0.4);
    assert_int_equal(at_batch_size(&pace, 10, 100), 10);
    assert_int_equal(at_batch_size(&pace, 10, 0.1), 0);
    at_batch_pace instant = {0};
    at_batch_note(&instant, 1, 0);
    assert_int_equal(at_batch_size(&instant, 10, 1), 10);
}

static void test_judging_ends_while_there_is_time_for_timing(void **state)
{
    const at_batch_pace none = {0};
    at_batch_pace timing = {0};
    (void)state;
    assert_true(at_batch_goes_on(&none, 1, 1, 10, INFINITY));
    assert_true(at_batch_goes_on(&none, 1, 1, 60, 66 + 15 + 120 + 0.1)); /* the next one, starts, two that are timed */
    assert_false(at_batch_goes_on(&none, 1, 1, 60, 66 + 15 + 120 - 0.1));
    assert_false(at_batch_goes_on(&none, 1, 2, 60, 66 + 15 + 120 + 0.1)); /* of two candidates each is timed */
    assert_true(at_batch_goes_on(&none, 3, 1, 90, 33 + 15 + 240 + 0.1));
    assert_false(at_batch_goes_on(&none, 3, 1, 90, -5));
    at_batch_note(&timing, 1, 115); /* 110 s each */
    assert_true(at_batch_goes_on(&timing, 1, 2, 60, 66 + 15 + 220 + 0.1));
    assert_false(at_batch_goes_on(&timing, 1, 2, 60, 66 + 15 + 220 - 0.1));
}

static void test_as_many_are_timed_as_fit(void **state)
{
    (void)state;
    at_batch_pace timing = {0};
    assert_int_equal(at_batch_timed(&timing, 8, 1, INFINITY), 8);
    assert_int_equal(at_batch_timed(&timing, 8, 1, 15 + 5 * 60 + 1), 5);
    assert_int_equal(at_batch_timed(&timing, 8, 2, 15 + 5 * 60 + 1), 2);
    assert_int_equal(at_batch_timed(&timing, 8, 1, -5), 1); /* one at least */
    at_batch_note(&timing, 1, 115);                         /* 110 s each, with a tenth more */
    assert_int_equal(at_batch_timed(&timing, 7, 1, INFINITY), 7);
    assert_int_equal(at_batch_timed(&timing, 7, 1, 15 + 2 * 110 + 1), 2);
    assert_int_equal(at_batch_timed(&timing, 7, 1, 100), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_batch_is_by_guess_and_never_empty),
        cmocka_unit_test(test_later_batches_are_what_fits),
        cmocka_unit_test(test_slowest_batch_counts),
        cmocka_unit_test(test_batches_that_take_next_to_nothing_fit_many_times),
        cmocka_unit_test(test_judging_ends_while_there_is_time_for_timing),
        cmocka_unit_test(test_as_many_are_timed_as_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
