#include "evolve/trial.h"

#include <math.h>
#include <string.h>

/* Shares of the best source's time: what is worth having, and how much more of it counts. */
static const double unit = 0.05, most = 2;

/* How much of a trial's outcome is known: a change that was measured with an error much larger than what is worth
 * having says nothing. */
static double sureness(const at_trial *trial)
{
    return trial->share * unit * unit / (unit * unit + trial->spread * trial->spread);
}

/* What was shown beyond the noise, in units. */
static double beyond_noise(double time, double spread)
{
    return fmin(fmax(time - spread, 0) / unit, most);
}

/* The mean of outcomes, one unit for sure before there are any. */
typedef struct average {
    double sum, count;
} average;

static void add(average *to, const at_trial *trial, double outcome)
{
    const double sure = sureness(trial);
    to->sum += sure * outcome;
    to->count += sure;
}

static double mean_of(const average *of)
{
    return (1 + of->sum) / (1 + of->count);
}

double at_trials_of_rule(const at_trials *trials, const char *rule)
{
    average of = {0, 0};
    for (int i = 0; i < trials->count; ++i) {
        const at_trial *one = &trials->trial[i];
        if (one->timed && strcmp(one->rule, rule) == 0) {
            add(&of, one, beyond_noise(one->saved, one->spread));
        }
    }
    return mean_of(&of);
}

/* Squared: most functions of a source are not where its time goes. */
double at_trials_of_place(const at_trials *trials, const char *place)
{
    average of = {0, 0};
    for (int i = 0; i < trials->count; ++i) {
        const at_trial *one = &trials->trial[i];
        if (one->timed && strcmp(one->place, place) == 0) {
            add(&of, one, beyond_noise(fabs(one->saved), one->spread));
        }
    }
    return mean_of(&of) * mean_of(&of);
}

double at_trials_of_both(const at_trials *trials, const char *rule, const char *place)
{
    average of = {0, 0};
    for (int i = 0; i < trials->count; ++i) {
        const at_trial *one = &trials->trial[i];
        if (strcmp(one->rule, rule) == 0 && strcmp(one->place, place) == 0) {
            add(&of, one, one->timed ? beyond_noise(one->saved, one->spread) : 0);
        }
    }
    return mean_of(&of);
}
