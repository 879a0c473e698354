/* Statistics of samples. Nothing here drops a sample: what is far out stays in and the median bears it. */
#ifndef MEASURE_STATISTICS_H
#define MEASURE_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

#include "attune/attune.h"

/* An estimate and the interval it lies in with the confidence asked for. */
typedef struct at_interval {
    double middle, low, high;
} at_interval;

/* Resamples that a bootstrap takes unless there is a reason: the ends of a 95 % interval then move by about a fiftieth
 * of its width from seed to seed. */
#define AT_RESAMPLES 10000

/* Ascending, in place; NaN last. */
void at_sort(double *values, size_t count);
/* The p-quantile of ascending values, 0 <= p <= 1, linear between neighbours (Hyndman and Fan's type 7); NaN of none.
 */
double at_quantile(const double *sorted, size_t count, double p);
double at_mean(const double *values, size_t count); /* NaN of none */
/* The sample's standard deviation (divided by count - 1); NaN of fewer than two. */
double at_deviation(const double *values, size_t count);
/* The median of values in any order. */
attune_status at_median(const double *values, size_t count, double *median);

/* The median with its percentile bootstrap interval (Efron 1979), from the seed alone. One value gives an interval of
 * no width; none is ATTUNE_INVALID_ARGUMENT, as is a confidence outside (0, 1). */
attune_status at_bootstrap_median(const double *values, size_t count, double confidence, int resamples, uint64_t seed,
                                  at_interval *interval);
/* The difference of two medians, a's - b's, each resampled by itself: how the origin of this project asked for it. */
attune_status at_bootstrap_difference(const double *a, size_t a_count, const double *b, size_t b_count,
                                      double confidence, int resamples, uint64_t seed, at_interval *interval);
/* The ratio a / b of pairs measured close together (the geometric mean of a[i] / b[i]), with the percentile bootstrap
 * interval of the mean of their logarithms. All values must be > 0. */
attune_status at_bootstrap_ratio(const double *a, const double *b, size_t pairs, double confidence, int resamples,
                                 uint64_t seed, at_interval *interval);
/* The mean with Student's t interval: right for few, independent, roughly normal values such as means of processes,
 * where the bootstrap claims too much. Needs two. */
attune_status at_student_mean(const double *values, size_t count, double confidence, at_interval *interval);
/* The same of the logarithms of values > 0, brought back: the interval of a ratio from few ratios. */
attune_status at_student_ratio(const double *ratios, size_t count, double confidence, at_interval *interval);
/* The p-quantile of Student's t with this many degrees of freedom, p in (0, 1), degrees > 0. */
double at_student_quantile(double p, double degrees);
/* The probability that a value of that distribution is above t. */
double at_student_above(double t, double degrees);

#endif
