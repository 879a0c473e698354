#include "library/workload.h"

#include <string.h>

#include "base/status.h"
#include "core/call.h"
#include "library/state.h"
#include "reference/append.h"

/* Up to this much work, every row is compared; beyond, about SOME_ROWS. The fp64 reference is far slower than kernels
 * are, and a race has to be short. */
static const double all_rows_flops = 2e8;
enum { SOME_ROWS = 256, TILE_MIN = 64 };

static const at_draw normal_draw = {.family = AT_FAMILY_NORMAL};

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

static attune_status prepare(at_workload *work, at_device *device)
{
    AT_FORWARD(at_placement_create(device, &work->inputs, &work->place));
    if (device->target.kind == ATTUNE_TARGET_CUDA) {
        AT_FORWARD(at_cuda_stream_create(device, &work->place.call.stream));
    }
    return know_truth(work);
}

attune_status at_workload_open(attune_context *context, const at_test_problem *test, at_workload *work)
{
    at_draw draw = normal_draw;
    draw.seed = at_test_problem_hash(test);
    draw.length_seed = test->length_seed;
    memset(work, 0, sizeof *work);
    work->pool = context->parts.pool;
    work->clock = context->parts.clock;
    AT_FORWARD(at_inputs_draw(&test->problem, &draw, &work->inputs));
    attune_status status = prepare(work, context->parts.device);
    if (status != ATTUNE_OK) {
        at_workload_close(work);
    }
    return status;
}

void at_workload_close(at_workload *work)
{
    if (work->place.call.stream != NULL) {
        at_cuda_stream_destroy(work->place.device, work->place.call.stream);
    }
    at_placement_free(&work->place);
    at_truth_free(&work->truth);
    at_inputs_free(&work->inputs);
    memset(work, 0, sizeof *work);
}

attune_status at_workload_reserve(at_workload *work, const attune_arm *arm)
{
    size_t bytes = 0;
    AT_FORWARD(at_arm_workspace(arm, &work->place.call, &bytes));
    return bytes <= work->place.workspace_bytes ? ATTUNE_OK : at_placement_reserve(&work->place, bytes);
}

attune_status at_workload_judge(at_workload *work, const attune_arm *arm, int64_t *ns)
{
    at_finding finding;
    at_device *device = work->place.device;
    work->truth.one.taints = (arm->traits & ATTUNE_TRAIT_TAINTS) != 0;
    AT_FORWARD(at_placement_poison(&work->place, normal_draw.poison));
    int64_t begin = work->clock.now_ns(work->clock.self);
    AT_FORWARD(arm->run(arm->self, &work->place.call));
    AT_FORWARD(device->ops->synchronise(device, work->place.call.stream));
    *ns = work->clock.now_ns(work->clock.self) - begin;
    AT_FORWARD(at_placement_fetch(&work->place));
    const bool append = work->inputs.problem.op == ATTUNE_APPEND;
    attune_status status = append ? at_append_judge(&work->inputs) : at_judge_case(&work->truth.one, &finding, NULL);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "%s", arm->name);
}
