#include "library/course.h"

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

static bool is_output(int role)
{
    return role == ATTUNE_O || role == ATTUNE_LSE;
}

/* Sends a role's buffer to the device. Draws without gaps begin where their tensor does. */
static attune_status send(const course *track, int role)
{
    size_t bytes = track->inputs.buffer[role].bytes;
    if (track->buffer[role] == NULL || bytes == 0) {
        return ATTUNE_OK;
    }
    return track->device->ops->upload(track->device, track->buffer[role], track->inputs.call.tensor[role].data, bytes);
}

static attune_status place(course *track)
{
    const at_device_ops *ops = track->device->ops;
    track->call = track->inputs.call;
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        size_t bytes = track->inputs.buffer[role].bytes;
        if (track->inputs.call.tensor[role].data == NULL) {
            continue;
        }
        AT_FORWARD(ops->allocate(track->device, bytes == 0 ? 1 : bytes, &track->buffer[role]));
        track->call.tensor[role].data = track->buffer[role];
        AT_FORWARD(send(track, role));
    }
    return ATTUNE_OK;
}

static attune_status know_truth(course *track)
{
    at_truth_want want = {.wanted = 0};
    if (attune_problem_flops(&track->inputs.problem) > all_rows_flops) {
        attune_args args;
        at_call_args(&track->inputs.problem, &track->inputs.call, &args);
        int64_t tile = args.total_q * args.heads_q / SOME_ROWS;
        want = (at_truth_want){.wanted = SOME_ROWS, .tile = tile < TILE_MIN ? TILE_MIN : tile};
    }
    return at_truth_compute(track->pool, &track->inputs, &want, &track->truth);
}

attune_status at_course_open(attune_context *context, const attune_problem *problem, course *track)
{
    at_draw draw = normal_draw;
    draw.seed = attune_problem_hash(problem);
    memset(track, 0, sizeof *track);
    track->device = context->parts.device;
    track->pool = context->parts.pool;
    track->clock = context->parts.clock;
    AT_FORWARD(at_inputs_draw(problem, &draw, &track->inputs));
    attune_status status = place(track);
    if (status == ATTUNE_OK) {
        status = know_truth(track);
    }
    if (status != ATTUNE_OK) {
        at_course_close(track);
    }
    return status;
}

void at_course_close(course *track)
{
    const at_device_ops *ops = track->device->ops;
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        if (track->buffer[role] != NULL) {
            ops->release(track->device, track->buffer[role]);
        }
    }
    if (track->workspace != NULL) {
        ops->release(track->device, track->workspace);
    }
    at_truth_free(&track->truth);
    at_inputs_free(&track->inputs);
    memset(track, 0, sizeof *track);
}

attune_status at_course_reserve(course *track, size_t bytes)
{
    const at_device_ops *ops = track->device->ops;
    if (bytes <= track->call.workspace_bytes) {
        return ATTUNE_OK;
    }
    if (track->workspace != NULL) {
        ops->release(track->device, track->workspace);
    }
    track->workspace = NULL;
    track->call.workspace = NULL;
    track->call.workspace_bytes = 0;
    AT_FORWARD(ops->allocate(track->device, bytes, &track->workspace));
    track->call.workspace = track->workspace;
    track->call.workspace_bytes = bytes;
    return ATTUNE_OK;
}

attune_status at_course_run(const course *track, const attune_plan *plan)
{
    AT_FORWARD(attune_plan_execute(plan, &track->call));
    return track->device->ops->synchronise(track->device, NULL);
}

static attune_status fetch(course *track, int role)
{
    size_t bytes = track->inputs.buffer[role].bytes;
    if (track->buffer[role] == NULL || bytes == 0) {
        return ATTUNE_OK;
    }
    return track->device->ops->download(track->device, track->inputs.call.tensor[role].data, track->buffer[role],
                                        bytes);
}

/* Runs on poisoned outputs and judges what came out. */
static attune_status judge(course *track, const at_arm *arm, int64_t *ns)
{
    at_finding finding;
    at_inputs_poison(&track->inputs, normal_draw.poison);
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        if (is_output(role)) {
            AT_FORWARD(send(track, role));
        }
    }
    int64_t begin = track->clock.now_ns(track->clock.self);
    AT_FORWARD(arm->run(arm->self));
    if (arm->finish != NULL) {
        AT_FORWARD(arm->finish(arm->self));
    }
    *ns = track->clock.now_ns(track->clock.self) - begin;
    AT_FORWARD(fetch(track, ATTUNE_O));
    AT_FORWARD(fetch(track, ATTUNE_LSE));
    attune_status status = at_judge_case(&track->truth.one, &finding, NULL);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "%s", arm->name);
}

attune_status at_course_judge_arm(course *track, const at_arm *arm, uint32_t traits, int64_t *ns)
{
    track->truth.one.taints = (traits & ATTUNE_TRAIT_TAINTS) != 0;
    return judge(track, arm, ns);
}

/* A plan on the course's call. */
typedef struct runner {
    const course *track;
    const attune_plan *plan;
} runner;

static attune_status run_plan(void *self)
{
    const runner *one = self;
    return at_course_run(one->track, one->plan);
}

attune_status at_course_judge(course *track, const attune_plan *plan, int64_t *ns)
{
    runner one = {track, plan};
    at_arm arm = {.name = plan->kernel_text, .self = &one, .run = run_plan};
    return at_course_judge_arm(track, &arm, plan->loaded->kernel->traits, ns);
}
