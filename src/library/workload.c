#include "library/workload.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/call.h"
#include "library/state.h"

/* Up to this much work, every row is compared; beyond, about SOME_ROWS. The fp64 reference is far slower than kernels
 * are, and a race has to be short. */
static const double all_rows_flops = 2e8;
enum { SOME_ROWS = 256, TILE_MIN = 64 };

static const at_draw normal_draw = {.family = AT_FAMILY_NORMAL, .poison = 0xff};

static attune_status know_truth(at_workload *work)
{
    at_truth_want want = {.wanted = 0};
    if (attune_problem_flops(&work->inputs.problem) > all_rows_flops) {
        attune_args args;
        at_call_args(&work->inputs.problem, &work->inputs.call, &args);
        int64_t tile = args.total_q * args.heads_q / SOME_ROWS;
        want = (at_truth_want){.wanted = SOME_ROWS, .tile = tile < TILE_MIN ? TILE_MIN : tile};
    }
    return at_truth_compute(work->pool, &work->inputs, &want, &work->truth);
}

attune_status at_workload_open(attune_context *context, const attune_problem *problem, at_workload *work)
{
    at_draw draw = normal_draw;
    draw.seed = attune_problem_hash(problem);
    memset(work, 0, sizeof *work);
    work->pool = context->parts.pool;
    work->clock = context->parts.clock;
    AT_FORWARD(at_inputs_draw(problem, &draw, &work->inputs));
    attune_status status = at_placement_create(context->parts.device, &work->inputs, &work->place);
    if (status == ATTUNE_OK) {
        status = know_truth(work);
    }
    if (status != ATTUNE_OK) {
        at_workload_close(work);
    }
    return status;
}

void at_workload_close(at_workload *work)
{
    at_placement_free(&work->place);
    at_truth_free(&work->truth);
    at_inputs_free(&work->inputs);
    memset(work, 0, sizeof *work);
}

attune_status at_workload_reserve(at_workload *work, size_t bytes)
{
    return bytes <= work->place.workspace_bytes ? ATTUNE_OK : at_placement_reserve(&work->place, bytes);
}

attune_status at_workload_run(const at_workload *work, const attune_plan *plan)
{
    AT_FORWARD(attune_plan_execute(plan, &work->place.call));
    return work->place.device->ops->synchronise(work->place.device, NULL);
}

/* Runs on poisoned outputs and judges what came out. */
static attune_status judge(at_workload *work, const at_arm *arm, int64_t *ns)
{
    at_finding finding;
    AT_FORWARD(at_placement_poison(&work->place, normal_draw.poison));
    int64_t begin = work->clock.now_ns(work->clock.self);
    AT_FORWARD(arm->run(arm->self));
    if (arm->finish != NULL) {
        AT_FORWARD(arm->finish(arm->self));
    }
    *ns = work->clock.now_ns(work->clock.self) - begin;
    AT_FORWARD(at_placement_fetch(&work->place));
    attune_status status = at_judge_case(&work->truth.one, &finding, NULL);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "%s", arm->name);
}

attune_status at_workload_judge_arm(at_workload *work, const at_arm *arm, uint32_t traits, int64_t *ns)
{
    work->truth.one.taints = (traits & ATTUNE_TRAIT_TAINTS) != 0;
    return judge(work, arm, ns);
}

/* A plan on the workload's call. */
typedef struct runner {
    const at_workload *work;
    const attune_plan *plan;
} runner;

static attune_status run_plan(void *self)
{
    const runner *one = self;
    return at_workload_run(one->work, one->plan);
}

attune_status at_workload_judge(at_workload *work, const attune_plan *plan, int64_t *ns)
{
    runner one = {work, plan};
    at_arm arm = {.name = plan->kernel_text, .self = &one, .run = run_plan};
    return at_workload_judge_arm(work, &arm, plan->loaded->kernel->traits, ns);
}
