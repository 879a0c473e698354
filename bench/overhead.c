/* What attune adds to a kernel: planning a class that was seen, and executing one tiny problem. Prints medians of
 * samples; the kernel's own time is measured by launching the same work without the library's checks, and the overhead
 * is the median of the differences. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "core/call.h"
#include "library/context.h"
#include "measure/interleave.h"
#include "measure/statistics.h"

enum { SAMPLES = 202, ARMS = 3 };

typedef struct subject {
    attune_context *context;
    attune_problem problem;
    attune_plan *plan;
    attune_call call;
    attune_args args;
} subject;

static attune_status plan_seen_class(void *self, const attune_call *call)
{
    subject *s = self;
    (void)call;
    attune_plan *plan;
    AT_FORWARD(attune_plan_create(s->context, &s->problem, NULL, &plan));
    attune_plan_destroy(plan);
    return ATTUNE_OK;
}

static attune_status execute(void *self, const attune_call *call)
{
    const subject *s = self;
    return attune_plan_execute(s->plan, call);
}

static attune_status launch(void *self, const attune_call *call)
{
    const subject *s = self;
    (void)call;
    attune_args args = s->args;
    return at_launch_args(s->plan->loaded, &args, NULL);
}

/* Time of this thread alone, so that a busy machine's other work does not count; a problem this small wakes no other.
 */
static int64_t thread_ns(void *self)
{
    struct timespec now = {0};
    (void)self;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
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

static attune_status report(const char *name, const double *us)
{
    double median;
    AT_FORWARD(at_median(us, SAMPLES, &median));
    printf("%s\t%.0f\n", name, 1e3 * median);
    return ATTUNE_OK;
}

static attune_status report_all(const at_samples samples[ARMS])
{
    double overhead[SAMPLES];
    for (int i = 0; i < SAMPLES; ++i) {
        overhead[i] = samples[1].us[i] - samples[2].us[i];
    }
    AT_FORWARD(report("plan_seen_class_ns", samples[0].us));
    AT_FORWARD(report("execute_ns", samples[1].us));
    AT_FORWARD(report("kernel_ns", samples[2].us));
    return report("execute_overhead_ns", overhead);
}

static attune_status measure(subject *s, float *buffer)
{
    const attune_arm arm[ARMS] = {{.name = "plan", .self = s, .run = plan_seen_class},
                                  {.name = "execute", .self = s, .run = execute},
                                  {.name = "launch", .self = s, .run = launch}};
    at_bound bound[ARMS];
    at_samples samples[ARMS];
    at_interleave how;
    AT_FORWARD(prepare(s, buffer));
    for (int i = 0; i < ARMS; ++i) {
        bound[i] = (at_bound){.arm = &arm[i], .call = &s->call, .calls = 1};
    }
    at_interleave_init(&how);
    how.clock = (at_clock){.now_ns = thread_ns};
    how.samples_min = how.samples_max = SAMPLES;
    AT_FORWARD(at_interleave_run(&how, bound, ARMS, samples));
    attune_status status = report_all(samples);
    for (int i = 0; i < ARMS; ++i) {
        at_samples_free(&samples[i]);
    }
    return status;
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
