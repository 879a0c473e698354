/* What attune adds to a kernel: planning a class that was seen, and executing one tiny problem. Prints medians of
 * batches; the kernel's own time is measured by launching the same work without the library's checks, and the overhead
 * is the median of the differences. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "core/call.h"
#include "library/context.h"
#include "measure/statistics.h"

enum { BATCHES = 201, CALLS = 500 };

typedef struct subject {
    attune_context *context;
    attune_problem problem;
    attune_plan *plan;
    attune_call call;
    attune_args args;
} subject;

static attune_status plan_seen_class(subject *s)
{
    attune_plan *plan;
    AT_FORWARD(attune_plan_create(s->context, &s->problem, NULL, &plan));
    attune_plan_destroy(plan);
    return ATTUNE_OK;
}

static attune_status execute(subject *s)
{
    return attune_plan_execute(s->plan, &s->call);
}

static attune_status launch(subject *s)
{
    attune_args args = s->args;
    return at_launch_args(s->plan->loaded, &args, NULL);
}

/* Time of this thread alone, so that a busy machine's other work does not count; a problem this small wakes no other.
 */
static double thread_ns(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static attune_status time_batch(attune_status (*call)(subject *), subject *s, double *ns)
{
    double begin = thread_ns();
    for (int i = 0; i < CALLS; ++i) {
        AT_FORWARD(call(s));
    }
    *ns = (thread_ns() - begin) / CALLS;
    return ATTUNE_OK;
}

typedef struct samples {
    double plan[BATCHES], execute[BATCHES], launch[BATCHES], overhead[BATCHES];
} samples;

/* In turns, so that what changes in the machine falls on both sides of a difference. */
static attune_status take_samples(subject *s, samples *all)
{
    for (int b = 0; b < BATCHES; ++b) {
        AT_FORWARD(time_batch(plan_seen_class, s, &all->plan[b]));
        AT_FORWARD(time_batch(execute, s, &all->execute[b]));
        AT_FORWARD(time_batch(launch, s, &all->launch[b]));
        all->overhead[b] = all->execute[b] - all->launch[b];
    }
    return ATTUNE_OK;
}

static attune_status prepare(subject *s, float *buffer)
{
    attune_options options;
    attune_options_init(&options);
    options.target = "cpu";
    AT_FORWARD(attune_problem_parse("b1,h1,s16,d64,fp32", &s->problem));
    AT_FORWARD(attune_context_create(&options, &s->context));
    AT_FORWARD(attune_plan_create(s->context, &s->problem, NULL, &s->plan));
    AT_FORWARD(attune_call_init(&s->call, &s->problem));
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        s->call.tensor[role].data = buffer + (ptrdiff_t)role * 16 * 64;
    }
    at_call_args(&s->problem, &s->call, &s->args);
    memcpy(s->args.param, s->plan->loaded->config.value, sizeof s->args.param);
    return ATTUNE_OK;
}

static attune_status report(const char *name, const double *batch)
{
    double median;
    AT_FORWARD(at_median(batch, BATCHES, &median));
    printf("%s\t%.0f\n", name, median);
    return ATTUNE_OK;
}

static attune_status measure(subject *s, float *buffer)
{
    static samples all;
    AT_FORWARD(prepare(s, buffer));
    AT_FORWARD(take_samples(s, &all));
    AT_FORWARD(report("plan_seen_class_ns", all.plan));
    AT_FORWARD(report("execute_ns", all.execute));
    AT_FORWARD(report("kernel_ns", all.launch));
    return report("execute_overhead_ns", all.overhead);
}

int main(void)
{
    static _Alignas(64) float buffer[4 * 16 * 64];
    subject s = {0};
    attune_status status = measure(&s, buffer);
    if (status != ATTUNE_OK) {
        (void)fprintf(stderr, "%s: %s\n", attune_status_string(status), attune_last_detail());
    }
    attune_plan_destroy(s.plan);
    attune_context_destroy(s.context);
    return status == ATTUNE_OK ? 0 : 1;
}
