#include "measure/interleave.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "measure/batch.h"
#include "measure/statistics.h"
#include "measure/warmup.h"

void at_interleave_init(at_interleave *how)
{
    *how = (at_interleave){.clock = at_clock_monotonic(),
                           .seed = 1,
                           .budget_s = 1,
                           .samples_min = 10,
                           .samples_max = 1000,
                           .settled = 0.02};
}

/* One run in progress. */
typedef struct timing {
    const at_interleave *how;
    const at_bound *arms;
    int arm_count;
    at_samples *samples;
    at_order order;
    int64_t batch_ns; /* shortest sample */
} timing;

static int64_t now_ns(const timing *run)
{
    return run->how->clock.now_ns(run->how->clock.self);
}

static double since_s(const timing *run, int64_t start_ns)
{
    return (double)(now_ns(run) - start_ns) * 1e-9;
}

static attune_status check(const at_interleave *how, int arm_count)
{
    AT_FAIL_IF(arm_count < 1 || arm_count > AT_ARMS_MAX, ATTUNE_INVALID_ARGUMENT, "%d arms: 1 to %d can be timed",
               arm_count, AT_ARMS_MAX);
    AT_FAIL_IF(how->samples_min < 1 || how->samples_max < how->samples_min, ATTUNE_INVALID_ARGUMENT,
               "samples %d to %d: at least 1, and no more than the maximum, are needed", how->samples_min,
               how->samples_max);
    AT_FAIL_IF(!(how->budget_s >= 0), ATTUNE_INVALID_ARGUMENT, "a budget of %g s: 0 or more is needed", how->budget_s);
    return ATTUNE_OK;
}

static attune_status time_here(const timing *run, const at_bound *timed, int64_t runs, double *ns)
{
    int64_t start = now_ns(run);
    for (int64_t i = 0; i < runs; ++i) {
        AT_FORWARD(timed->arm->run(timed->arm->self, timed->call));
    }
    *ns = (double)(now_ns(run) - start);
    return ATTUNE_OK;
}

/* Times so many runs of an arm together, after the hook. */
static attune_status time_runs(const timing *run, int arm, int64_t runs, double *run_ns)
{
    const at_bound *timed = &run->arms[arm];
    AT_FAIL_IF(run->how->stop != NULL && run->how->stop(run->how->stop_self), ATTUNE_INTERRUPTED, "interrupted");
    if (run->how->before != NULL) {
        AT_FORWARD(run->how->before(run->how->before_self));
    }
    double ns = 0;
    attune_status status =
        timed->time != NULL ? timed->time(timed->time_self, runs, &ns) : time_here(run, timed, runs, &ns);
    *run_ns = ns / (double)runs;
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "arm %s", timed->arm->name);
}

/* ---- Warm-up --------------------------------------------------------------------------------------------------------
 */

static bool all_settled(const timing *run, const at_warmup *warmups)
{
    for (int arm = 0; arm < run->arm_count; ++arm) {
        if (!at_warmup_settled(&warmups[arm], run->how->settled)) {
            return false;
        }
    }
    return true;
}

static void set_calls(timing *run, const at_warmup *warmups)
{
    for (int arm = 0; arm < run->arm_count; ++arm) {
        int64_t run_ns = (int64_t)at_warmup_recent(&warmups[arm]);
        int64_t length_ns = run->arms[arm].time != NULL ? run->arms[arm].least_ns : run->batch_ns;
        run->samples[arm].runs = run->how->before != NULL ? 1 : at_batch_calls(run_ns, length_ns);
    }
}

/* Rounds in which each arm makes one sample, whose batch follows from the rounds before, until all are stable or half
 * the budget is gone; one round at least. */
static attune_status warm_up(timing *run)
{
    at_warmup warmups[AT_ARMS_MAX] = {{0}};
    int block[2 * AT_ARMS_MAX];
    int64_t start = now_ns(run);
    do {
        at_order_block(&run->order, block);
        for (int i = 0; i < run->arm_count; ++i) {
            double run_ns;
            AT_FORWARD(time_runs(run, block[i], run->samples[block[i]].runs, &run_ns));
            at_warmup_add(&warmups[block[i]], run_ns);
        }
        set_calls(run, warmups);
    } while (!all_settled(run, warmups) && since_s(run, start) < run->how->budget_s / 2);
    for (int arm = 0; arm < run->arm_count; ++arm) {
        run->samples[arm].settled = at_warmup_settled(&warmups[arm], run->how->settled);
    }
    return ATTUNE_OK;
}

/* ---- Samples --------------------------------------------------------------------------------------------------------
 */

static attune_status sample_block(timing *run)
{
    int block[2 * AT_ARMS_MAX];
    at_order_block(&run->order, block);
    for (int i = 0; i < 2 * run->arm_count; ++i) {
        at_samples *samples = &run->samples[block[i]];
        double run_ns;
        AT_FORWARD(time_runs(run, block[i], samples->runs, &run_ns));
        samples->us[samples->count++] = run_ns * 1e-3 / run->arms[block[i]].calls;
    }
    return ATTUNE_OK;
}

static void tell_progress(const timing *run, double spent_s, int blocks, int blocks_min, int blocks_max)
{
    if (run->how->progress == NULL) {
        return;
    }
    double by_time = run->how->budget_s > 0 ? spent_s / run->how->budget_s : 1;
    double by_least = (double)blocks / blocks_min;
    double by_most = (double)blocks / blocks_max;
    double done = by_time < by_least ? by_time : by_least; /* both must be reached, */
    done = done > by_most ? done : by_most;                /* or the maximum */
    run->how->progress(run->how->progress_self, done < 1 ? done : 1);
}

static attune_status sample_all(timing *run)
{
    int blocks_min = (run->how->samples_min + 1) / 2;
    int blocks_max = run->how->samples_max / 2 > blocks_min ? run->how->samples_max / 2 : blocks_min;
    int64_t start = now_ns(run);
    double spent_s = 0;
    for (int blocks = 0; blocks < blocks_max; ++blocks) {
        /* A block that would end after the budget is not begun. */
        bool time_left = spent_s + (blocks > 0 ? spent_s / blocks : 0) <= run->how->budget_s;
        if (blocks >= blocks_min && !time_left) {
            break;
        }
        tell_progress(run, spent_s, blocks, blocks_min, blocks_max);
        AT_FORWARD(sample_block(run));
        spent_s = since_s(run, start);
    }
    return ATTUNE_OK;
}

static attune_status make_room(timing *run)
{
    size_t room = (size_t)run->how->samples_max + 2;
    for (int arm = 0; arm < run->arm_count; ++arm) {
        run->samples[arm].runs = 1;
        run->samples[arm].us = malloc(room * sizeof *run->samples[arm].us);
        AT_FAIL_IF(run->samples[arm].us == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu samples", room);
    }
    return ATTUNE_OK;
}

static attune_status run_timing(timing *run)
{
    AT_FORWARD(make_room(run));
    AT_FORWARD(warm_up(run));
    return sample_all(run);
}

attune_status at_interleave_run(const at_interleave *how, const at_bound *arms, int arm_count, at_samples *samples)
{
    AT_FORWARD(check(how, arm_count));
    timing run = {.how = how,
                  .arms = arms,
                  .arm_count = arm_count,
                  .samples = samples,
                  .order = at_order_seed(how->seed, arm_count),
                  .batch_ns = at_batch_length(at_clock_grain(&how->clock))};
    for (int arm = 0; arm < arm_count; ++arm) {
        samples[arm] = (at_samples){0};
    }
    attune_status status = run_timing(&run);
    for (int arm = 0; status != ATTUNE_OK && arm < arm_count; ++arm) {
        at_samples_free(&samples[arm]);
    }
    return status;
}

void at_samples_free(at_samples *samples)
{
    free(samples->us);
    *samples = (at_samples){0};
}

/* ---- Races ------------------------------------------------------------------------------------------------------- */

static attune_status fastest_of(const at_samples *samples, int count, int *winner, double *us)
{
    *us = HUGE_VAL;
    for (int i = 0; i < count; ++i) {
        double median = 0;
        AT_FORWARD(at_median(samples[i].us, samples[i].count, &median));
        if (median < *us) {
            *us = median;
            *winner = i;
        }
    }
    return ATTUNE_OK;
}

attune_status at_interleave_fastest(const at_clock *clock, double budget_s, const at_bound *arms, int arm_count,
                                    int *winner, double *us)
{
    at_interleave how;
    at_samples samples[AT_ARMS_MAX];
    at_interleave_init(&how);
    how.clock = *clock;
    how.budget_s = budget_s;
    how.samples_min = 4;
    AT_FORWARD(at_interleave_run(&how, arms, arm_count, samples));
    attune_status status = fastest_of(samples, arm_count, winner, us);
    for (int i = 0; i < arm_count; ++i) {
        at_samples_free(&samples[i]);
    }
    return status;
}
