#include "measure/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/status.h"

/* ---- Order statistics -----------------------------------------------------------------------------------------------
 */

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    if (isnan(a) || isnan(b)) {
        return isnan(a) - isnan(b);
    }
    return (a > b) - (a < b);
}

void at_sort(double *values, size_t count)
{
    if (count > 1) {
        qsort(values, count, sizeof *values, ascending);
    }
}

double at_quantile(const double *sorted, size_t count, double p)
{
    if (count == 0) {
        return NAN;
    }
    double place = p * (double)(count - 1);
    size_t below = (size_t)place;
    if (below + 1 >= count) {
        return sorted[count - 1];
    }
    double share = place - (double)below;
    /* Not a + share * (b - a), which makes NaN of two equal infinities. */
    return share > 0 ? sorted[below] * (1 - share) + sorted[below + 1] * share : sorted[below];
}

double at_mean(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; ++i) {
        sum += values[i];
    }
    return count > 0 ? sum / (double)count : NAN;
}

double at_deviation(const double *values, size_t count)
{
    double mean = at_mean(values, count);
    double sum = 0;
    for (size_t i = 0; i < count; ++i) {
        sum += (values[i] - mean) * (values[i] - mean);
    }
    return count > 1 ? sqrt(sum / (double)(count - 1)) : NAN;
}

/* A malloced ascending copy. */
static attune_status sorted_copy(const double *values, size_t count, double **sorted)
{
    AT_FAIL_IF(count == 0, ATTUNE_INVALID_ARGUMENT, "statistics of 0 samples: at least 1 is needed");
    *sorted = malloc(count * sizeof **sorted);
    AT_FAIL_IF(*sorted == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to sort %zu samples", count);
    memcpy(*sorted, values, count * sizeof **sorted);
    at_sort(*sorted, count);
    return ATTUNE_OK;
}

attune_status at_median(const double *values, size_t count, double *median)
{
    double *sorted = NULL;
    AT_FORWARD(sorted_copy(values, count, &sorted));
    *median = at_quantile(sorted, count, 0.5);
    free(sorted);
    return ATTUNE_OK;
}

/* ---- Bootstrap ------------------------------------------------------------------------------------------------------
 */

static attune_status check_bootstrap(double confidence, int resamples)
{
    AT_FAIL_IF(!(confidence > 0 && confidence < 1), ATTUNE_INVALID_ARGUMENT,
               "confidence %g: a number between 0 and 1 is needed", confidence);
    AT_FAIL_IF(resamples < 1, ATTUNE_INVALID_ARGUMENT, "resamples %d: at least 1 is needed", resamples);
    return ATTUNE_OK;
}

/* The percentile interval of `statistics`, which it sorts. */
static void percentile_interval(double *statistics, int count, double confidence, at_interval *interval)
{
    at_sort(statistics, (size_t)count);
    interval->low = at_quantile(statistics, (size_t)count, (1 - confidence) / 2);
    interval->high = at_quantile(statistics, (size_t)count, (1 + confidence) / 2);
}

/* A gamma variate of shape >= 1 and scale 1 (Marsaglia and Tsang 2000). */
static double gamma_variate(double shape, at_random *random)
{
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = at_random_normal(random);
        double v = (1 + c * x) * (1 + c * x) * (1 + c * x);
        double u = 1 - at_random_uniform(random);
        if (v > 0 && log(u) < x * x / 2 + d - d * v + d * log(v)) {
            return d * v;
        }
    }
}

static double value_at(const double *sorted, size_t count, double u)
{
    size_t rank = (size_t)(u * (double)count);
    return sorted[rank < count ? rank : count - 1];
}

/* The median of one resample of sorted values, at a cost that does not depend on how many there are. A resample's ranks
 * are floor(count u) of `count` uniform u, and their order that of the u; so its k-th smallest value has the rank
 * of the k-th smallest u, which is a Beta(k, count - k + 1) variate. The next smallest u is that much further as the
 * smallest of count - k uniform shares of what is left. */
static double resampled_median(const double *sorted, size_t count, at_random *random)
{
    size_t k = (count + 1) / 2;
    double below = gamma_variate((double)k, random), above = gamma_variate((double)(count - k + 1), random);
    double u = below / (below + above);
    double lower = value_at(sorted, count, u);
    if (count % 2 == 1) {
        return lower;
    }
    double share = 1 - pow(1 - at_random_uniform(random), 1 / (double)(count - k));
    return (lower + value_at(sorted, count, u + (1 - u) * share)) / 2;
}

/* Medians of resamples; of a alone where b is NULL, else a's - b's. Values are sorted. */
static attune_status resample(const double *a, size_t a_count, const double *b, size_t b_count, double confidence,
                              int resamples, uint64_t seed, at_interval *interval)
{
    double *medians = calloc((size_t)resamples, sizeof *medians);
    AT_FAIL_IF(medians == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d resamples", resamples);
    at_random random = at_random_seed(seed, 0);
    for (int i = 0; i < resamples; ++i) {
        medians[i] = resampled_median(a, a_count, &random);
        medians[i] -= b != NULL ? resampled_median(b, b_count, &random) : 0;
    }
    interval->middle = at_quantile(a, a_count, 0.5) - (b != NULL ? at_quantile(b, b_count, 0.5) : 0);
    percentile_interval(medians, resamples, confidence, interval);
    free(medians);
    return ATTUNE_OK;
}

attune_status at_bootstrap_median(const double *values, size_t count, double confidence, int resamples, uint64_t seed,
                                  at_interval *interval)
{
    double *sorted = NULL;
    AT_FORWARD(check_bootstrap(confidence, resamples));
    AT_FORWARD(sorted_copy(values, count, &sorted));
    attune_status status = resample(sorted, count, NULL, 0, confidence, resamples, seed, interval);
    free(sorted);
    return status;
}

attune_status at_bootstrap_difference(const double *a, size_t a_count, const double *b, size_t b_count,
                                      double confidence, int resamples, uint64_t seed, at_interval *interval)
{
    double *sorted[2] = {NULL, NULL};
    AT_FORWARD(check_bootstrap(confidence, resamples));
    attune_status status = sorted_copy(a, a_count, &sorted[0]);
    status = status == ATTUNE_OK ? sorted_copy(b, b_count, &sorted[1]) : status;
    if (status == ATTUNE_OK) {
        status = resample(sorted[0], a_count, sorted[1], b_count, confidence, resamples, seed, interval);
    }
    free(sorted[0]);
    free(sorted[1]);
    return status;
}

/* A malloced array of log(a[i] / b[i]); b NULL means ones. */
static attune_status log_ratios(const double *a, const double *b, size_t count, double **logs)
{
    AT_FAIL_IF(count == 0, ATTUNE_INVALID_ARGUMENT, "a ratio of 0 pairs: at least 1 is needed");
    for (size_t i = 0; i < count; ++i) {
        double ratio = a[i] / (b != NULL ? b[i] : 1);
        AT_FAIL_IF(!(a[i] > 0) || !(ratio > 0) || !isfinite(ratio), ATTUNE_INVALID_ARGUMENT,
                   "pair %zu, %g and %g: both must be > 0 and finite", i, a[i], b != NULL ? b[i] : 1);
    }
    *logs = malloc(count * sizeof **logs);
    AT_FAIL_IF(*logs == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu ratios", count);
    for (size_t i = 0; i < count; ++i) {
        (*logs)[i] = log(a[i] / (b != NULL ? b[i] : 1));
    }
    return ATTUNE_OK;
}

static double resampled_mean(const double *values, size_t count, at_random *random)
{
    double sum = 0;
    for (size_t i = 0; i < count; ++i) {
        sum += values[at_random_below(random, count)];
    }
    return sum / (double)count;
}

static void exponential(at_interval *interval)
{
    interval->middle = exp(interval->middle);
    interval->low = exp(interval->low);
    interval->high = exp(interval->high);
}

attune_status at_bootstrap_ratio(const double *a, const double *b, size_t pairs, double confidence, int resamples,
                                 uint64_t seed, at_interval *interval)
{
    double *logs = NULL;
    AT_FORWARD(check_bootstrap(confidence, resamples));
    AT_FORWARD(log_ratios(a, b, pairs, &logs));
    double *means = malloc((size_t)resamples * sizeof *means);
    if (means == NULL) {
        free(logs);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for %d resamples", resamples);
    }
    at_random random = at_random_seed(seed, 0);
    for (int i = 0; i < resamples; ++i) {
        means[i] = resampled_mean(logs, pairs, &random);
    }
    interval->middle = at_mean(logs, pairs);
    percentile_interval(means, resamples, confidence, interval);
    exponential(interval);
    free(means);
    free(logs);
    return ATTUNE_OK;
}

/* ---- Student's t ----------------------------------------------------------------------------------------------------
 */

/* The continued fraction of the incomplete beta function (Lentz 1976), for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double fraction = d;
    for (int m = 1; m <= 500; ++m) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        double before = fraction;
        for (int half = 0; half < 2; ++half) {
            double term = half == 0 ? even : odd;
            d = 1 + term * d;
            c = 1 + term / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            fraction *= d * c;
        }
        if (fabs(fraction - before) < 1e-15 * fabs(fraction)) {
            break;
        }
    }
    return fraction;
}

/* The regularised incomplete beta function. */
static double beta_share(double a, double b, double x)
{
    if (x <= 0 || x >= 1) {
        return x <= 0 ? 0 : 1;
    }
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2)) {
        return front * beta_fraction(a, b, x) / a;
    }
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

/* The probability of a value above t >= 0. */
static double student_tail(double t, double degrees)
{
    return beta_share(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2;
}

double at_student_quantile(double p, double degrees)
{
    if (p < 0.5) {
        return -at_student_quantile(1 - p, degrees);
    }
    double low = 0, high = 1;
    while (student_tail(high, degrees) > 1 - p && high < 1e300) {
        high *= 2;
    }
    for (int i = 0; i < 200 && high - low > 1e-14 * high; ++i) {
        double middle = (low + high) / 2;
        if (student_tail(middle, degrees) > 1 - p) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return (low + high) / 2;
}

double at_student_above(double t, double degrees)
{
    return t >= 0 ? student_tail(t, degrees) : 1 - student_tail(-t, degrees);
}

attune_status at_student_mean(const double *values, size_t count, double confidence, at_interval *interval)
{
    AT_FORWARD(check_bootstrap(confidence, 1));
    AT_FAIL_IF(count < 2, ATTUNE_INVALID_ARGUMENT, "Student's interval of %zu values: at least 2 are needed", count);
    double half = at_student_quantile((1 + confidence) / 2, (double)(count - 1)) * at_deviation(values, count) /
                  sqrt((double)count);
    interval->middle = at_mean(values, count);
    interval->low = interval->middle - half;
    interval->high = interval->middle + half;
    return ATTUNE_OK;
}

attune_status at_student_ratio(const double *ratios, size_t count, double confidence, at_interval *interval)
{
    double *logs = NULL;
    AT_FORWARD(log_ratios(ratios, NULL, count, &logs));
    attune_status status = at_student_mean(logs, count, confidence, interval);
    free(logs);
    if (status == ATTUNE_OK) {
        exponential(interval);
    }
    return status;
}
