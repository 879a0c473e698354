#include "base/cm.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "evolve/forest.h"

enum { ROWS = 400, COLUMNS = 3 };

/* A step in the first column, a slope in the second, nothing in the third. */
static double truth(const double *x)
{
    return (x[0] > 0.5 ? 2 : 0) + x[1];
}

static void draw(double *x, double *y, int rows, at_random *random)
{
    for (int i = 0; i < rows; ++i) {
        for (int c = 0; c < COLUMNS; ++c) {
            x[i * COLUMNS + c] = at_random_uniform(random);
        }
        y[i] = truth(&x[i * COLUMNS]);
    }
}

static void learns_what_rows_show(void **state)
{
    (void)state;
    static double x[ROWS * COLUMNS], y[ROWS], unseen[ROWS * COLUMNS], answer[ROWS];
    at_random random = at_random_seed(1, 0);
    at_forest_options options = {.trees = 40, .leaf = 1, .seed = 7};
    at_forest *forest;
    draw(x, y, ROWS, &random);
    draw(unseen, answer, ROWS, &random);
    assert_ok(at_forest_grow(x, y, ROWS, COLUMNS, &options, &forest));
    double error = 0;
    for (int i = 0; i < ROWS; ++i) {
        double wrong = at_forest_ask(forest, &unseen[i * COLUMNS], NULL) - answer[i];
        error += wrong * wrong / ROWS;
    }
    assert_true(sqrt(error) < 0.25); /* the answers' own deviation is 1.04 */
    at_forest_destroy(forest);
}

static void knows_less_where_it_saw_less(void **state)
{
    (void)state;
    double x[20], y[20];
    at_forest_options options = {.trees = 60, .leaf = 1, .seed = 7};
    at_forest *forest;
    for (int i = 0; i < 20; ++i) {
        x[i] = i < 19 ? 0.01 * i : 1; /* all but one at one end */
        y[i] = x[i] * 10;
    }
    assert_ok(at_forest_grow(x, y, 20, 1, &options, &forest));
    double known, unknown;
    (void)at_forest_ask(forest, &(double){0.05}, &known);
    (void)at_forest_ask(forest, &(double){0.6}, &unknown);
    assert_true(unknown > 3 * known);
    at_forest_destroy(forest);
}

static void equal_seeds_grow_alike(void **state)
{
    (void)state;
    static double x[ROWS * COLUMNS], y[ROWS];
    at_random random = at_random_seed(2, 0);
    double answer[3];
    draw(x, y, ROWS, &random);
    for (int run = 0; run < 3; ++run) {
        at_forest_options options = {.trees = 5, .leaf = 4, .seed = run == 2 ? 8 : 7};
        at_forest *forest;
        assert_ok(at_forest_grow(x, y, ROWS, COLUMNS, &options, &forest));
        answer[run] = at_forest_ask(forest, (double[]){0.4, 0.3, 0.2}, NULL);
        at_forest_destroy(forest);
    }
    assert_true(answer[0] == answer[1]);
    assert_true(answer[0] != answer[2]);
}

static void one_row_or_equal_rows_are_a_forest_too(void **state)
{
    (void)state;
    double x[] = {1, 1, 1, 1}, y[] = {3, 3, 5, 5};
    at_forest_options options = {.trees = 200, .leaf = 1, .seed = 1};
    at_forest *forest;
    double deviation;
    assert_ok(at_forest_grow(x, y, 1, 1, &options, &forest));
    assert_true(at_forest_ask(forest, x, &deviation) == 3);
    assert_true(deviation == 0);
    at_forest_destroy(forest);
    assert_ok(at_forest_grow(x, y, 4, 1, &options, &forest));
    assert_true(fabs(at_forest_ask(forest, x, &deviation) - 4) < 0.2);
    assert_true(deviation > 0.8 && deviation < 1.2);
    at_forest_destroy(forest);
}

static void refuses_what_is_no_table(void **state)
{
    (void)state;
    double one = 1;
    at_forest_options options = {.trees = 5, .leaf = 1}, none = {.trees = 0, .leaf = 1};
    at_forest *forest;
    assert_fails(at_forest_grow(&one, &one, 0, 1, &options, &forest), ATTUNE_INVALID_ARGUMENT, "0 rows");
    assert_fails(at_forest_grow(&one, &one, 1, 33, &options, &forest), ATTUNE_INVALID_ARGUMENT, "33 columns");
    assert_fails(at_forest_grow(&one, &one, 1, 1, &none, &forest), ATTUNE_INVALID_ARGUMENT, "0 trees");
    assert_null(forest);
    at_forest_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learns_what_rows_show),    cmocka_unit_test(knows_less_where_it_saw_less),
        cmocka_unit_test(equal_seeds_grow_alike),   cmocka_unit_test(one_row_or_equal_rows_are_a_forest_too),
        cmocka_unit_test(refuses_what_is_no_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
