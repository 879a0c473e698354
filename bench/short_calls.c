/* What a call costs by a plan that was made for longer ones, beside a plan of exactly its lengths:
 *
 *     short_calls [PROBLEM [CALLS]]      without: b1,h8,hkv2,sq512,skv4096,d64,fp32,causal, and 24
 *
 * Draws lengths below the problem's, times both plans in turns, and prints of each draw the ratio of medians and what
 * ran; 1.05 is what docs/calling.md aims at. On a CPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/status.h"
#include "measure/clock.h"
#include "measure/statistics.h"
#include "reference/inputs.h"

enum { TURNS = 31, KERNEL_TEXT = 512 };

typedef struct subject {
    attune_context *context; /* of the exact plans, so that none answers for another */
    attune_plan *long_plan;
    at_inputs inputs;
} subject;

/* Between 1 and most, small ones as likely as large ones. */
static int64_t draw_length(at_random *random, int64_t most)
{
    int64_t limit = most;
    for (uint64_t halvings = at_random_below(random, 10); halvings > 0 && limit > 1; --halvings) {
        limit /= 2;
    }
    return 1 + (int64_t)at_random_below(random, (uint64_t)limit);
}

static attune_status time_once(const attune_plan *plan, const attune_call *call, double *us)
{
    const at_clock clock = at_clock_monotonic();
    AT_FORWARD(attune_plan_execute(plan, call)); /* its own threads, caches and predictions */
    const int64_t begin = clock.now_ns(clock.self);
    AT_FORWARD(attune_plan_execute(plan, call));
    *us = (double)(clock.now_ns(clock.self) - begin) / 1000;
    return ATTUNE_OK;
}

static attune_status compare(subject *on, const attune_plan *exact)
{
    double by_long[TURNS], by_exact[TURNS], long_us, exact_us;
    char kernel[KERNEL_TEXT], problem[ATTUNE_PROBLEM_TEXT_MAX];
    for (int turn = 0; turn < TURNS; ++turn) {
        AT_FORWARD(time_once(on->long_plan, &on->inputs.call, &by_long[turn]));
        AT_FORWARD(time_once(exact, &on->inputs.call, &by_exact[turn]));
    }
    AT_FORWARD(attune_problem_print(&on->inputs.problem, problem, sizeof problem));
    AT_FORWARD(attune_plan_kernel_for(on->long_plan, &on->inputs.call, kernel, sizeof kernel));
    AT_FORWARD(at_median(by_long, TURNS, &long_us));
    AT_FORWARD(at_median(by_exact, TURNS, &exact_us));
    (void)printf("%.3f  %9.1f us  %s\n    %s\n", long_us / exact_us, exact_us, problem, kernel);
    if (strcmp(kernel, attune_plan_kernel(exact)) != 0) {
        (void)printf("    %s by itself\n", attune_plan_kernel(exact));
    }
    return ATTUNE_OK;
}

static attune_status compare_at(subject *on, const attune_problem *problem)
{
    const at_draw draw = {.seed = 1};
    attune_plan *exact = NULL;
    size_t own = 0;
    AT_FORWARD(at_inputs_draw(problem, &draw, &on->inputs));
    attune_status status = attune_plan_create(on->context, problem, NULL, &exact);
    status = status ? status : attune_plan_workspace(on->long_plan, NULL, &on->inputs.call.workspace_bytes);
    status = status ? status : attune_plan_workspace(exact, NULL, &own);
    if (own > on->inputs.call.workspace_bytes) {
        on->inputs.call.workspace_bytes = own;
    }
    on->inputs.call.workspace = aligned_alloc(256, (on->inputs.call.workspace_bytes / 256 + 1) * 256);
    status = status ? status : compare(on, exact);
    free(on->inputs.call.workspace);
    attune_plan_destroy(exact);
    at_inputs_free(&on->inputs);
    return status;
}

static attune_status open_context(attune_context **context)
{
    attune_options options;
    attune_options_init(&options);
    options.target = "cpu";
    return attune_context_create(&options, context);
}

int main(int argc, char **argv)
{
    subject on = {NULL};
    attune_context *context = NULL;
    attune_problem problem;
    at_random random = at_random_seed(1, 0);
    attune_status status =
        attune_problem_parse(argc > 1 ? argv[1] : "b1,h8,hkv2,sq512,skv4096,d64,fp32,causal", &problem);
    status = status ? status : open_context(&context);
    status = status ? status : attune_plan_create(context, &problem, NULL, &on.long_plan);
    for (long left = argc > 2 ? strtol(argv[2], NULL, 10) : 24; !status && left > 0; --left) {
        attune_problem shorter = problem;
        shorter.seqlen_q = draw_length(&random, problem.seqlen_q);
        shorter.seqlen_kv = draw_length(&random, problem.seqlen_kv);
        status = open_context(&on.context);
        status = status ? status : compare_at(&on, &shorter);
        attune_context_destroy(on.context);
    }
    attune_plan_destroy(on.long_plan);
    attune_context_destroy(context);
    if (status) {
        (void)printf("%s\n", attune_last_detail());
    }
    return status != ATTUNE_OK;
}
