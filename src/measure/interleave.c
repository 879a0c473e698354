#include "measure/interleave.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "measure/batch.h"
#include "measure/blocks.h"
#include "measure/statistics.h"

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
    int blocks_min, blocks_max;
    int64_t batch_ns; /* shortest sample */
    at_blocks blocks;
} timing;

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

attune_status at_bound_time(const at_bound *bound, const at_clock *clock, int64_t runs, double *ns)
{
    if (bound->time != NULL) {
        return bound->time(bound->time_self, runs, ns);
    }
    int64_t start = clock->now_ns(clock->self);
    for (int64_t i = 0; i < runs; ++i) {
        AT_FORWARD(bound->arm->run(bound->arm->self, bound->call));
    }
    *ns = (double)(clock->now_ns(clock->self) - start);
    return ATTUNE_OK;
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

/* One sample of an arm, after the hook: microseconds of a run. */
static attune_status take_sample(const timing *run, int arm, double *us)
{
    const at_interleave *how = run->how;
    int64_t runs = run->samples[arm].runs;
    double ns = 0;
    AT_FAIL_IF(how->stop != NULL && how->stop(how->stop_self), ATTUNE_INTERRUPTED, "interrupted");
    AT_FORWARD(how->before != NULL ? how->before(how->before_self) : ATTUNE_OK);
    attune_status status = at_bound_time(&run->arms[arm], &how->clock, runs, &ns);
    *us = 1e-3 * ns / (double)runs;
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "arm %s", run->arms[arm].arm->name);
}

static attune_status take_block(void *self, const int *order, int count, double (*us)[2])
{
    int seen[AT_ARMS_MAX] = {0};
    for (int i = 0; i < count; ++i) {
        AT_FORWARD(take_sample(self, order[i], &us[order[i]][seen[order[i]]++]));
    }
    return ATTUNE_OK;
}

static attune_status keep_block(void *self, double (*us)[2])
{
    const timing *run = self;
    for (int arm = 0; arm < run->arm_count; ++arm) {
        at_samples *samples = &run->samples[arm];
        for (int i = 0; i < 2; ++i) {
            samples->us[samples->count++] = us[arm][i] / run->arms[arm].calls;
        }
    }
    return ATTUNE_OK;
}

/* An arm's batch follows from the blocks before. The warm-up ends when all are stable or half the budget is gone. */
static bool is_warm(void *self, int blocks, double spent_s)
{
    timing *run = self;
    bool settled = at_blocks_settled(&run->blocks);
    (void)blocks;
    for (int arm = 0; arm < run->arm_count; ++arm) {
        int64_t run_ns = (int64_t)at_warmup_recent(&run->blocks.warmup[arm]);
        int64_t length_ns = run->arms[arm].time != NULL ? run->arms[arm].least_ns : run->batch_ns;
        run->samples[arm].runs = run->how->before != NULL ? 1 : at_batch_calls(run_ns, length_ns);
        run->samples[arm].settled = at_warmup_settled(&run->blocks.warmup[arm], run->how->settled);
    }
    return settled || spent_s >= run->how->budget_s / 2;
}

static void report_progress(const timing *run, double spent_s, int blocks)
{
    if (run->how->progress == NULL) {
        return;
    }
    double by_time = run->how->budget_s > 0 ? spent_s / run->how->budget_s : 1;
    double by_least = (double)blocks / run->blocks_min;
    double by_most = (double)blocks / run->blocks_max;
    double done = by_time < by_least ? by_time : by_least; /* both must be reached, */
    done = done > by_most ? done : by_most;                /* or the maximum */
    run->how->progress(run->how->progress_self, done < 1 ? done : 1);
}

/* A block that would end after the budget is not begun. */
static bool wants_more(void *self, int blocks, double spent_s)
{
    const timing *run = self;
    bool time_left = spent_s + (blocks > 0 ? spent_s / blocks : 0) <= run->how->budget_s;
    bool more = blocks < run->blocks_max && (blocks < run->blocks_min || time_left);
    if (more) {
        report_progress(run, spent_s, blocks);
    }
    return more;
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

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
    AT_FORWARD(at_blocks_warm_up(&run->blocks, NULL));
    return at_blocks_sample(&run->blocks);
}

attune_status at_interleave_run(const at_interleave *how, const at_bound *arms, int arm_count, at_samples *samples)
{
    AT_FORWARD(check(how, arm_count));
    timing run = {.how = how, .arms = arms, .arm_count = arm_count, .samples = samples};
    run.blocks_min = (how->samples_min + 1) / 2;
    run.blocks_max = how->samples_max / 2 > run.blocks_min ? how->samples_max / 2 : run.blocks_min;
    run.batch_ns = at_batch_length(at_clock_grain(&how->clock));
    run.blocks = (at_blocks){.self = &run,
                             .clock = how->clock,
                             .order = at_order_seed(how->seed, arm_count),
                             .settled = how->settled,
                             .take = take_block,
                             .warm = is_warm,
                             .more = wants_more,
                             .keep = keep_block};
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
