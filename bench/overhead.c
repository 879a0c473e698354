/* What attune adds to a kernel: planning a class that was seen, and executing one tiny problem. Prints medians of
 * batches; the kernel's own time is measured by launching the same work without the library's checks. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "core/call.h"
#include "library/context.h"
#include "measure/clock.h"
#include "measure/statistics.h"

enum { BATCHES = 201, CALLS = 2000 };

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
    AT_FORWARD(attune_plan_create(s->context, &s->problem, ATTUNE_ESTIMATE, &plan));
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
    return s->plan->loaded->device->ops->launch(s->plan->loaded, &args, NULL);
}

/* Median nanoseconds of a call. */
static attune_status time_calls(attune_status (*call)(subject *), subject *s, double *ns)
{
    double batch[BATCHES];
    at_clock clock = at_clock_monotonic();
    for (int b = 0; b < BATCHES; ++b) {
        int64_t begin = clock.now_ns(clock.self);
        for (int i = 0; i < CALLS; ++i) {
            AT_FORWARD(call(s));
        }
        batch[b] = (double)(clock.now_ns(clock.self) - begin) / CALLS;
    }
    return at_median(batch, BATCHES, ns);
}

static attune_status prepare(subject *s, float *buffer)
{
    attune_options options;
    attune_options_init(&options);
    options.target = "cpu";
    AT_FORWARD(attune_problem_parse("b1,h1,s16,d64,fp32", &s->problem));
    AT_FORWARD(attune_context_create(&options, &s->context));
    AT_FORWARD(attune_plan_create(s->context, &s->problem, ATTUNE_ESTIMATE, &s->plan));
    AT_FORWARD(attune_call_init(&s->call, &s->problem));
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        s->call.tensor[role].data = buffer + (ptrdiff_t)role * 16 * 64;
    }
    at_call_args(&s->problem, &s->call, &s->args);
    memcpy(s->args.param, s->plan->loaded->config.value, sizeof s->args.param);
    return ATTUNE_OK;
}

static attune_status measure(subject *s, float *buffer)
{
    double plan_ns, execute_ns, launch_ns;
    AT_FORWARD(prepare(s, buffer));
    AT_FORWARD(time_calls(plan_seen_class, s, &plan_ns));
    AT_FORWARD(time_calls(launch, s, &launch_ns));
    AT_FORWARD(time_calls(execute, s, &execute_ns));
    printf("plan_seen_class_ns\t%.0f\n", plan_ns);
    printf("execute_ns\t%.0f\n", execute_ns);
    printf("kernel_ns\t%.0f\n", launch_ns);
    printf("execute_overhead_ns\t%.0f\n", execute_ns - launch_ns);
    return ATTUNE_OK;
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
