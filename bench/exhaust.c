/* What replays of searches are fed with: every config of a CPU kernel on one problem, into a ledger.
 *
 *     ATTUNE_THREADS=1 build/bench/exhaust KERNEL PROBLEM LEDGER
 *
 * `attune evolve --exhaustive` takes about a second a config, as it proves what it times and starts fresh processes;
 * over a thousand configs that a replay wants, this takes about ten. All configs run in this process, on the same
 * buffers. Each is judged once. Then they are timed in rounds, a block of two pairs a round beside the champion, which
 * is the heuristic's first; what disturbs the machine for a while hits two pairs of many configs, not many of one. The
 * fastest are timed once more, longer: who is judged as the optimum should not be so by luck. Samples are short (a
 * sixth of a millisecond), so that the two of a pair see the same machine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cpu/source.h"
#include "evolve/ledger.h"
#include "library/state.h"
#include "library/workload.h"
#include "measure/arm.h"
#include "measure/order.h"
#include "measure/statistics.h"

enum { ROUNDS = 6, TOP = 100, TOP_ROUNDS = 15 };

#define SAMPLE_US 160.0

typedef struct bench {
    attune_context *context;
    const attune_kernel *kernel;
    at_test_problem test;
    at_space *space;
    at_workload work;
    at_clock clock;
    int64_t began_ns;
    attune_arm *arm; /* [space->count]; all zeros: one that was refused */
    int calls;       /* of a sample */
    at_order order;  /* of champion and candidate in a block */
    at_ledger *ledger;
    at_event_measurement *measured; /* [space->count], of the rounds under way */
    double *ratio;                  /* [space->count], medians of the first rounds */
} bench;

/* ---- Timing ------------------------------------------------------------------------------------------------------ */

/* A sample, to the nanosecond: microseconds of a call. */
static attune_status sample(bench *on, int candidate, double *us)
{
    const at_bound bound = {.arm = &on->arm[candidate], .call = &on->work.place.call, .calls = 1};
    double ns = 0;
    AT_FORWARD(at_bound_time(&bound, &on->clock, on->calls, &ns));
    *us = round(ns / on->calls) / 1000;
    return ATTUNE_OK;
}

/* A block of the champion and a candidate: two pairs. */
static attune_status add_block(bench *on, int candidate)
{
    const int arm[2] = {on->space->order[0], candidate};
    at_event_measurement *to = &on->measured[candidate];
    double *us[2] = {&to->champion_us[to->pairs], &to->us[to->pairs]};
    int order[2 * AT_ARMS_MAX];
    at_order_block(&on->order, order);
    for (int i = 0; i < 4; ++i) {
        AT_FORWARD(sample(on, arm[order[i]], us[order[i]]++));
    }
    to->pairs += 2;
    return ATTUNE_OK;
}

static attune_status run_rounds(bench *on, const int *candidate, int count, int rounds)
{
    for (int i = 0; i < count; ++i) {
        on->measured[candidate[i]].pairs = 0;
    }
    for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < count; ++i) {
            AT_FORWARD(add_block(on, candidate[i]));
        }
    }
    return ATTUNE_OK;
}

/* ---- The ledger -------------------------------------------------------------------------------------------------- */

static attune_status add_event(bench *on, at_event *event)
{
    event->at_s = round((double)(on->clock.now_ns(on->clock.self) - on->began_ns) / 1e6) / 1e3;
    return at_ledger_append(on->ledger, event);
}

static attune_status write_rounds(bench *on, const int *candidate, int count, int round)
{
    for (int i = 0; i < count; ++i) {
        at_event event = {.kind = AT_EVENT_MEASUREMENT, .as.measurement = on->measured[candidate[i]]};
        event.as.measurement.round = round;
        at_space_print(on->space, candidate[i], event.as.measurement.config);
        at_space_print(on->space, on->space->order[0], event.as.measurement.champion);
        AT_FORWARD(add_event(on, &event));
    }
    return ATTUNE_OK;
}

static attune_status begin_ledger(bench *on, const char *path)
{
    at_event event = {.kind = AT_EVENT_START};
    at_event_start *start = &event.as.start;
    *start = (at_event_start){.strategy = "exhaustive", .budget = "all"};
    (void)snprintf(start->attune, sizeof start->attune, "%s", attune_version_string());
    (void)snprintf(start->kernel, sizeof start->kernel, "%s", on->kernel->name);
    (void)snprintf(start->target, sizeof start->target, "%s", attune_context_target(on->context));
    (void)snprintf(start->policy, sizeof start->policy,
                   "bench/exhaust: %d pairs of samples of %.0f us each in blocks, the fastest %d then %d more",
                   2 * ROUNDS, SAMPLE_US, TOP, 2 * TOP_ROUNDS);
    AT_FORWARD(at_cpu_source_digest(on->kernel->name, start->source));
    AT_FORWARD(at_test_problem_print(&on->test, start->problem, sizeof start->problem));
    AT_FORWARD(at_ledger_create(path, &event, &on->ledger));
    event = (at_event){.kind = AT_EVENT_SPACE, .as.space = on->space};
    return add_event(on, &event);
}

/* ---- Configs ----------------------------------------------------------------------------------------------------- */

static attune_status refuse(bench *on, int candidate)
{
    at_event event = {.kind = AT_EVENT_REFUSAL, .as.refusal.refused = AT_REFUSED_WRONG};
    at_space_print(on->space, candidate, event.as.refusal.config);
    (void)snprintf(event.as.refusal.why, sizeof event.as.refusal.why, "%s", attune_last_detail());
    at_arm_close(&on->arm[candidate]);
    return add_event(on, &event);
}

static attune_status load(bench *on, int candidate)
{
    attune_config config;
    const at_loaded *loaded;
    attune_plan *plan;
    int64_t ns;
    at_space_config(on->space, candidate, &config);
    AT_FORWARD(at_residents_get(on->context, &on->test.problem, on->kernel, &config, true, &loaded));
    AT_FORWARD(at_plan_bind(&on->test.problem, loaded, AT_ORIGIN_NAMED, &plan));
    at_arm_of_plan(plan, &on->arm[candidate]);
    AT_FORWARD(at_workload_reserve(&on->work, &on->arm[candidate]));
    attune_status status = at_workload_judge(&on->work, &on->arm[candidate], &ns);
    return status == ATTUNE_WRONG_RESULT ? refuse(on, candidate) : status;
}

/* Sizes samples by the champion, warm. */
static attune_status size_samples(bench *on)
{
    double us = 0;
    AT_FAIL_IF(on->space->order_count == 0 || on->arm[on->space->order[0]].run == NULL, ATTUNE_UNSUPPORTED,
               "the heuristic's first config does not run");
    on->calls = 16;
    for (int i = 0; i < 3; ++i) {
        AT_FORWARD(sample(on, on->space->order[0], &us));
    }
    on->calls = us < SAMPLE_US ? (int)ceil(SAMPLE_US / us) : 1;
    return ATTUNE_OK;
}

/* ---- The bench --------------------------------------------------------------------------------------------------- */

static int by_ratio(const void *a, const void *b, void *self)
{
    const bench *on = self;
    double difference = on->ratio[*(const int *)a] - on->ratio[*(const int *)b];
    return difference < 0 ? -1 : difference > 0;
}

static attune_status find_ratios(bench *on, const int *candidate, int count)
{
    for (int i = 0; i < count; ++i) {
        const at_event_measurement *of = &on->measured[candidate[i]];
        double ratio[2 * ROUNDS];
        for (int p = 0; p < of->pairs; ++p) {
            ratio[p] = of->us[p] / of->champion_us[p];
        }
        AT_FORWARD(at_median(ratio, (size_t)of->pairs, &on->ratio[candidate[i]]));
    }
    return ATTUNE_OK;
}

/* `order` has room for all. */
static attune_status measure(bench *on, int *order)
{
    int count = 0;
    for (int candidate = 0; candidate < on->space->count; ++candidate) {
        AT_FORWARD(load(on, candidate));
        if (on->arm[candidate].run != NULL) {
            order[count++] = candidate;
        }
    }
    AT_FORWARD(size_samples(on));
    AT_FORWARD(run_rounds(on, order, count, ROUNDS));
    AT_FORWARD(write_rounds(on, order, count, 0));
    AT_FORWARD(find_ratios(on, order, count));
    qsort_r(order, (size_t)count, sizeof *order, by_ratio, on);
    count = count < TOP ? count : TOP;
    AT_FORWARD(run_rounds(on, order, count, TOP_ROUNDS));
    return write_rounds(on, order, count, 1);
}

static attune_status open_all(bench *on, const char *kernel, const char *problem)
{
    attune_options options;
    attune_options_init(&options);
    options.target = "cpu";
    on->clock = at_clock_monotonic();
    on->order = at_order_seed(1, 2);
    on->began_ns = on->clock.now_ns(on->clock.self);
    AT_FORWARD(at_test_problem_parse(problem, &on->test));
    AT_FORWARD(attune_context_create(&options, &on->context));
    on->kernel = at_kernels_find(on->context->parts.kernels, kernel);
    AT_FAIL_IF(on->kernel == NULL, ATTUNE_NOT_FOUND, "there is no kernel \"%s\"", kernel);
    AT_FORWARD(at_space_open(on->kernel, &on->test.problem, &on->context->parts.device->target, "", &on->space));
    size_t count = (size_t)on->space->count;
    on->arm = calloc(count, sizeof *on->arm);
    on->measured = calloc(count, sizeof *on->measured);
    on->ratio = calloc(count, sizeof *on->ratio);
    AT_FAIL_IF(on->arm == NULL || on->measured == NULL || on->ratio == NULL, ATTUNE_OUT_OF_MEMORY,
               "no memory for %zu configs", count);
    return at_workload_open(on->context, &on->test, &on->work);
}

/* The process ends with it: nothing is freed. */
static attune_status run(bench *on, const char *kernel, const char *problem, const char *path)
{
    AT_FORWARD(open_all(on, kernel, problem));
    AT_FORWARD(begin_ledger(on, path));
    int *order = calloc((size_t)on->space->count, sizeof *order);
    AT_FAIL_IF(order == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for an order");
    attune_status status = measure(on, order);
    free(order);
    AT_FORWARD(status);
    at_event end = {.kind = AT_EVENT_END, .as.end = {.outcome = "exhausted", .measured = on->space->count}};
    return add_event(on, &end);
}

int main(int argc, char **argv)
{
    static bench on;
    if (argc != 4) {
        (void)fprintf(stderr, "usage: exhaust KERNEL PROBLEM LEDGER\n");
        return 2;
    }
    if (run(&on, argv[1], argv[2], argv[3]) != ATTUNE_OK) {
        (void)fprintf(stderr, "exhaust: %s\n", attune_last_detail());
        return 1;
    }
    (void)printf("%s: %d configs over %d live parameters, %d calls a sample\n", argv[2], on.space->count,
                 at_space_live(on.space), on.calls);
    return 0;
}
