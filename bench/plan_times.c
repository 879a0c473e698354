/* What planning costs: with an empty cache, with a full one in a fresh context, and for a class already seen. Prints
 * TSV: kernel, problem, cold_ms, warm_ms, seen_us. plan_times TARGET KERNEL PROBLEM [KERNEL PROBLEM...] */
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "measure/clock.h"
#include "measure/statistics.h"

enum { SEEN = 2001 };

typedef struct planning {
    const char *target, *kernel, *cache;
    attune_problem problem;
} planning;

static attune_status open_context(const planning *p, attune_context **context)
{
    attune_options options;
    attune_options_init(&options);
    options.target = p->target;
    options.kernel = p->kernel;
    options.cache = p->cache;
    return attune_context_create(&options, context);
}

/* Plans once and destroys the plan; nanoseconds of both. */
static attune_status plan_once(attune_context *context, const attune_problem *problem, double *ns)
{
    at_clock clock = at_clock_monotonic();
    attune_plan *plan = NULL;
    int64_t begin = clock.now_ns(clock.self);
    AT_FORWARD(attune_plan_create(context, problem, NULL, &plan));
    attune_plan_destroy(plan);
    *ns = (double)(clock.now_ns(clock.self) - begin);
    return ATTUNE_OK;
}

/* The first plan of a fresh context, and with `seen` the median of as many more. */
static attune_status time_context(const planning *p, double *first, double *seen)
{
    attune_context *context = NULL;
    AT_FORWARD(open_context(p, &context));
    attune_status status = plan_once(context, &p->problem, first);
    if (status == ATTUNE_OK && seen != NULL) {
        double ns[SEEN];
        for (int i = 0; i < SEEN && status == ATTUNE_OK; ++i) {
            status = plan_once(context, &p->problem, &ns[i]);
        }
        status = status == ATTUNE_OK ? at_median(ns, SEEN, seen) : status;
    }
    attune_context_destroy(context);
    return status;
}

static attune_status time_kernel(planning *p, const char *text)
{
    char cache[] = "/tmp/attune-plans-XXXXXX";
    double cold, warm, seen;
    AT_FORWARD(attune_problem_parse(text, &p->problem));
    AT_FAIL_IF(mkdtemp(cache) == NULL, ATTUNE_IO_ERROR, "no temporary directory %s", cache);
    p->cache = cache;
    AT_FORWARD(time_context(p, &cold, NULL));
    AT_FORWARD(time_context(p, &warm, &seen));
    printf("%s\t%s\t%.1f\t%.2f\t%.2f\n", p->kernel, text, cold * 1e-6, warm * 1e-6, seen * 1e-3);
    return ATTUNE_OK;
}

int main(int count, char **argument)
{
    if (count < 4 || count % 2 != 0) {
        fprintf(stderr, "usage: plan_times TARGET KERNEL PROBLEM [KERNEL PROBLEM...]\n");
        return 2;
    }
    printf("kernel\tproblem\tcold_ms\twarm_ms\tseen_us\n");
    for (int i = 2; i + 1 < count; i += 2) {
        planning p = {.target = argument[1], .kernel = argument[i]};
        if (time_kernel(&p, argument[i + 1]) != ATTUNE_OK) {
            fprintf(stderr, "plan_times: %s: %s\n", argument[i], attune_last_detail());
            return 3;
        }
    }
    return 0;
}
