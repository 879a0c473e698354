#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "measure/statistics.h"

static void near(double value, double wanted, double tolerance)
{
    if (!(fabs(value - wanted) <= tolerance)) {
        fail_msg("%.17g is not within %g of %.17g", value, tolerance, wanted);
    }
}

static void quantiles_interpolate(void **state)
{
    (void)state;
    double values[] = {4, 1, 3, 2};
    at_sort(values, 4);
    near(at_quantile(values, 4, 0), 1, 0);
    near(at_quantile(values, 4, 1), 4, 0);
    near(at_quantile(values, 4, 0.5), 2.5, 0);
    near(at_quantile(values, 4, 0.25), 1.75, 1e-15);
    near(at_quantile(values, 1, 0.9), 1, 0);
    assert_true(isnan(at_quantile(values, 0, 0.5)));
    double infinite[] = {1, INFINITY, INFINITY};
    assert_true(isinf(at_quantile(infinite, 3, 0.75)));
    double some_nan[] = {NAN, 2, 1};
    at_sort(some_nan, 3);
    near(some_nan[0], 1, 0);
    assert_true(isnan(some_nan[2]));
}

static void medians_do_not_disturb_their_input(void **state)
{
    (void)state;
    const double values[] = {9, 1, 5};
    double median = 0;
    assert_int_equal(at_median(values, 3, &median), ATTUNE_OK);
    near(median, 5, 0);
    near(values[0], 9, 0);
    assert_int_equal(at_median(values, 0, &median), ATTUNE_INVALID_ARGUMENT);
}

static void means_and_deviations(void **state)
{
    (void)state;
    const double values[] = {2, 4, 4, 4, 5, 5, 7, 9};
    near(at_mean(values, 8), 5, 0);
    near(at_deviation(values, 8), sqrt(32.0 / 7), 1e-15);
    assert_true(isnan(at_mean(values, 0)));
    assert_true(isnan(at_deviation(values, 1)));
}

/* Values of published tables. */
static void student_quantiles_match_the_tables(void **state)
{
    (void)state;
    near(at_student_quantile(0.975, 1), 12.7062, 1e-4);
    near(at_student_quantile(0.975, 2), 4.30265, 1e-5);
    near(at_student_quantile(0.975, 7), 2.36462, 1e-5);
    near(at_student_quantile(0.995, 10), 3.16927, 1e-5);
    near(at_student_quantile(0.95, 30), 1.69726, 1e-5);
    near(at_student_quantile(0.975, 1e6), 1.95997, 1e-5);
    near(at_student_quantile(0.025, 7), -2.36462, 1e-5);
    near(at_student_quantile(0.5, 3), 0, 1e-12);
}

static void student_interval_of_known_values(void **state)
{
    (void)state;
    const double values[] = {1, 2, 3, 4, 5};
    at_interval interval;
    assert_int_equal(at_student_mean(values, 5, 0.95, &interval), ATTUNE_OK);
    near(interval.middle, 3, 0);
    near(interval.high - 3, 2.776445 * sqrt(2.5 / 5), 1e-5);
    near(interval.low + interval.high, 6, 1e-12);
    assert_int_equal(at_student_mean(values, 1, 0.95, &interval), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(at_student_mean(values, 5, 1, &interval), ATTUNE_INVALID_ARGUMENT);
}

static void bootstrap_depends_on_the_seed_alone(void **state)
{
    (void)state;
    const double values[] = {5, 3, 8, 1, 9, 2, 7};
    at_interval a, b, c;
    assert_int_equal(at_bootstrap_median(values, 7, 0.95, 501, 42, &a), ATTUNE_OK);
    assert_int_equal(at_bootstrap_median(values, 7, 0.95, 501, 42, &b), ATTUNE_OK);
    assert_memory_equal(&a, &b, sizeof a);
    near(a.middle, 5, 0);
    assert_true(a.low >= 1 && a.low < 5 && a.high <= 9 && a.high > 5);
    assert_int_equal(at_bootstrap_median(values, 1, 0.95, 10, 1, &c), ATTUNE_OK);
    near(c.low, 5, 0);
    near(c.high, 5, 0);
    assert_int_equal(at_bootstrap_median(values, 0, 0.95, 10, 1, &c), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(at_bootstrap_median(values, 7, 0, 10, 1, &c), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(at_bootstrap_median(values, 7, NAN, 10, 1, &c), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(at_bootstrap_median(values, 7, 0.95, 0, 1, &c), ATTUNE_INVALID_ARGUMENT);
}

/* For three values the distribution of a resample's median is known: P(lowest) = P(highest) = 7/27. So the 40 %
 * interval keeps to the middle and the 60 % one reaches both ends. An even count averages the two middle ones. */
static void bootstrap_of_three_is_the_exact_distribution(void **state)
{
    (void)state;
    const double values[] = {10, 20, 30};
    at_interval interval;
    assert_int_equal(at_bootstrap_median(values, 3, 0.40, 20000, 3, &interval), ATTUNE_OK);
    near(interval.low, 20, 0);
    near(interval.high, 20, 0);
    assert_int_equal(at_bootstrap_median(values, 3, 0.60, 20000, 3, &interval), ATTUNE_OK);
    near(interval.low, 10, 0);
    near(interval.high, 30, 0);
    /* Two values: half of the resamples hold both, and average them. */
    assert_int_equal(at_bootstrap_median(values, 2, 0.40, 20000, 3, &interval), ATTUNE_OK);
    near(interval.low, 15, 0);
    near(interval.high, 15, 0);
}

/* Log-normal samples with 2 % of them 20 % slower, as machines make them; the median of the rest is known. */
static double noisy(at_random *random, double truth)
{
    double value = truth * exp(0.03 * at_random_normal(random));
    return at_random_uniform(random) < 0.02 ? value * 1.2 : value;
}

static void bootstrap_median_covers_the_truth_as_often_as_it_says(void **state)
{
    (void)state;
    enum { TRIALS = 600, SAMPLES = 40 };
    at_random random = at_random_seed(11, 0);
    int covered = 0;
    for (int trial = 0; trial < TRIALS; ++trial) {
        double values[SAMPLES];
        for (int i = 0; i < SAMPLES; ++i) {
            values[i] = noisy(&random, 100);
        }
        at_interval interval;
        assert_int_equal(at_bootstrap_median(values, SAMPLES, 0.95, 400, (uint64_t)trial, &interval), ATTUNE_OK);
        /* 2 % of outliers move the median by about 1.3 % of a deviation. */
        covered += interval.low <= 100.05 && interval.high >= 100.05;
    }
    assert_in_range(covered, TRIALS * 92 / 100, TRIALS * 98 / 100);
}

static void bootstrap_of_a_difference_covers_the_truth_as_often_as_it_says(void **state)
{
    (void)state;
    enum { TRIALS = 600, SAMPLES = 41, OTHERS = 60 };
    at_random random = at_random_seed(12, 0);
    int covered = 0;
    for (int trial = 0; trial < TRIALS; ++trial) {
        double a[SAMPLES], b[OTHERS];
        for (int i = 0; i < SAMPLES; ++i) {
            a[i] = 100 + 3 * at_random_normal(&random);
        }
        for (int i = 0; i < OTHERS; ++i) {
            b[i] = 105 + 3 * at_random_normal(&random);
        }
        at_interval interval;
        assert_int_equal(at_bootstrap_difference(a, SAMPLES, b, OTHERS, 0.95, 400, (uint64_t)trial, &interval),
                         ATTUNE_OK);
        assert_true(interval.low <= interval.middle && interval.middle <= interval.high);
        covered += interval.low <= -5 && interval.high >= -5;
    }
    assert_in_range(covered, TRIALS * 92 / 100, TRIALS * 98 / 100);
    at_interval interval;
    assert_int_equal(at_bootstrap_difference(NULL, 0, (const double[]){1}, 1, 0.95, 10, 1, &interval),
                     ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(at_bootstrap_difference((const double[]){1}, 1, NULL, 0, 0.95, 10, 1, &interval),
                     ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(at_bootstrap_difference((const double[]){3}, 1, (const double[]){1}, 1, 0.95, 10, 1, &interval),
                     ATTUNE_OK);
    near(interval.low, 2, 0);
    near(interval.high, 2, 0);
}

/* Five processes whose effects dominate: where the bootstrap claims too much, Student's t keeps its word. */
static void student_covers_where_the_bootstrap_does_not(void **state)
{
    (void)state;
    enum { TRIALS = 2000, PROCESSES = 5 };
    at_random random = at_random_seed(12, 0);
    int student = 0, bootstrap = 0;
    for (int trial = 0; trial < TRIALS; ++trial) {
        double ratios[PROCESSES], ones[PROCESSES];
        for (int i = 0; i < PROCESSES; ++i) {
            ratios[i] = 1.05 * exp(0.03 * at_random_normal(&random));
            ones[i] = 1;
        }
        at_interval interval;
        assert_int_equal(at_student_ratio(ratios, PROCESSES, 0.95, &interval), ATTUNE_OK);
        student += interval.low <= 1.05 && interval.high >= 1.05;
        assert_int_equal(at_bootstrap_ratio(ratios, ones, PROCESSES, 0.95, 300, (uint64_t)trial, &interval), ATTUNE_OK);
        bootstrap += interval.low <= 1.05 && interval.high >= 1.05;
    }
    assert_in_range(student, TRIALS * 93 / 100, TRIALS * 97 / 100);
    assert_in_range(bootstrap, TRIALS * 75 / 100, TRIALS * 91 / 100);
}

/* A drift common to both of a pair, far larger than their difference, cancels in the ratio. */
static void ratios_of_pairs_see_through_drift(void **state)
{
    (void)state;
    enum { PAIRS = 60 };
    at_random random = at_random_seed(13, 0);
    double a[PAIRS], b[PAIRS];
    for (int i = 0; i < PAIRS; ++i) {
        double drift = 1 + 0.5 * i / PAIRS;
        a[i] = 102 * drift * exp(0.01 * at_random_normal(&random));
        b[i] = 100 * drift * exp(0.01 * at_random_normal(&random));
    }
    at_interval ratio, inverse;
    assert_int_equal(at_bootstrap_ratio(a, b, PAIRS, 0.95, 2000, 1, &ratio), ATTUNE_OK);
    assert_true(ratio.low > 1 && ratio.low < 1.02 && ratio.high > 1.02 && ratio.high < 1.03);
    assert_int_equal(at_bootstrap_ratio(b, a, PAIRS, 0.95, 2000, 1, &inverse), ATTUNE_OK);
    near(ratio.middle * inverse.middle, 1, 1e-12);
    near(ratio.low * inverse.high, 1, 1e-9);
}

static void ratios_refuse_what_has_no_logarithm(void **state)
{
    (void)state;
    const double good[] = {1, 2}, zero[] = {1, 0}, negative[] = {-1, -1}, nan[] = {1, NAN};
    at_interval interval;
    assert_int_equal(at_bootstrap_ratio(good, zero, 2, 0.95, 10, 1, &interval), ATTUNE_INVALID_ARGUMENT);
    assert_non_null(strstr(attune_last_detail(), "pair 1"));
    assert_int_equal(at_bootstrap_ratio(negative, negative, 2, 0.95, 10, 1, &interval), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(at_bootstrap_ratio(nan, good, 2, 0.95, 10, 1, &interval), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(at_bootstrap_ratio(good, good, 0, 0.95, 10, 1, &interval), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(at_student_ratio(zero, 2, 0.95, &interval), ATTUNE_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_interpolate),
        cmocka_unit_test(medians_do_not_disturb_their_input),
        cmocka_unit_test(means_and_deviations),
        cmocka_unit_test(student_quantiles_match_the_tables),
        cmocka_unit_test(student_interval_of_known_values),
        cmocka_unit_test(bootstrap_depends_on_the_seed_alone),
        cmocka_unit_test(bootstrap_of_three_is_the_exact_distribution),
        cmocka_unit_test(bootstrap_median_covers_the_truth_as_often_as_it_says),
        cmocka_unit_test(bootstrap_of_a_difference_covers_the_truth_as_often_as_it_says),
        cmocka_unit_test(student_covers_where_the_bootstrap_does_not),
        cmocka_unit_test(ratios_of_pairs_see_through_drift),
        cmocka_unit_test(ratios_refuse_what_has_no_logarithm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
