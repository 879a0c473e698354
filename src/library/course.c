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

static attune_status choose_rows(course *track, uint64_t seed)
{
    const attune_args *args = &track->args;
    if (attune_problem_flops(&track->inputs.problem) <= all_rows_flops) {
        return at_rows_all(args, &track->rows);
    }
    int64_t tile = args->total_q * args->heads_q / SOME_ROWS;
    return at_rows_some(args, SOME_ROWS, tile < TILE_MIN ? TILE_MIN : tile, seed, &track->rows);
}

/* The reference and the naive computation of `args` into a block of four arrays. */
static attune_status compute(at_pool *pool, const attune_args *args, const at_rows *rows, double *truth, at_case *one)
{
    size_t count = (size_t)rows->count;
    size_t outputs = count * (size_t)args->head_dim_v;
    double *lse = truth + outputs;
    double *o_naive = lse + count;
    double *lse_naive = o_naive + outputs;
    AT_FORWARD(at_reference_run(pool, args, rows, truth, lse));
    AT_FORWARD(at_naive_run(pool, args, rows, 0, o_naive, lse_naive));
    *one = (at_case){.args = args,
                     .rows = rows,
                     .o_reference = truth,
                     .lse_reference = lse,
                     .o_naive = o_naive,
                     .lse_naive = lse_naive,
                     .standard_normal = true};
    return ATTUNE_OK;
}

static attune_status truth_alloc(const at_rows *rows, const attune_args *args, double **truth)
{
    size_t count = 2 * (size_t)rows->count * ((size_t)args->head_dim_v + 1);
    *truth = malloc((count + 1) * sizeof **truth);
    AT_FAIL_IF(*truth == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu reference values", count);
    return ATTUNE_OK;
}

/* The naive error of another draw of the same problem. */
static attune_status redraw(course *track, uint64_t seed)
{
    at_draw draw = normal_draw;
    at_inputs inputs;
    attune_args args;
    double *truth = NULL;
    at_case one;
    at_rows rows = {0, NULL};
    draw.seed = seed;
    AT_FORWARD(at_inputs_draw(&track->inputs.problem, &draw, &inputs));
    at_call_args(&inputs.problem, &inputs.call, &args);
    attune_status status = at_rows_all(&args, &rows);
    if (status == ATTUNE_OK) {
        status = truth_alloc(&rows, &args, &truth);
    }
    if (status == ATTUNE_OK) {
        status = compute(track->pool, &args, &rows, truth, &one);
    }
    if (status == ATTUNE_OK) {
        at_judge_naive(&one, &track->judged);
    }
    free(truth);
    at_rows_free(&rows);
    at_inputs_free(&inputs);
    return status;
}

/* What rounding the scores may do to a case that is too small for its naive error to tell. */
static attune_status allow_noise(course *track)
{
    size_t outputs = (size_t)(track->rows.count * track->args.head_dim_v);
    size_t count = outputs + (size_t)track->rows.count;
    double *noise = malloc((count + 1) * sizeof *noise);
    AT_FAIL_IF(noise == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu values of noise", count);
    const at_case *one = &track->judged;
    at_noise_run(track->pool, &track->args, &track->rows, one->o_reference, one->lse_reference, noise, noise + outputs);
    at_judge_noise(&track->judged, noise, noise + outputs);
    free(noise);
    return ATTUNE_OK;
}

static attune_status know_truth(course *track, uint64_t seed)
{
    AT_FORWARD(choose_rows(track, seed));
    AT_FORWARD(truth_alloc(&track->rows, &track->args, &track->truth));
    AT_FORWARD(compute(track->pool, &track->args, &track->rows, track->truth, &track->judged));
    int64_t outputs = track->rows.count * track->args.head_dim_v;
    for (uint64_t i = 1; outputs < AT_SMALL_CASE && i <= AT_REDRAWS; ++i) {
        AT_FORWARD(redraw(track, seed + i));
    }
    return outputs < AT_NOISE_CASE ? allow_noise(track) : ATTUNE_OK;
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
    at_call_args(problem, &track->inputs.call, &track->args);
    attune_status status = place(track);
    if (status == ATTUNE_OK) {
        status = know_truth(track, draw.seed);
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
    free(track->truth);
    at_rows_free(&track->rows);
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
    attune_status status = at_judge_case(&track->judged, &finding, NULL);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "%s", arm->name);
}

attune_status at_course_judge_arm(course *track, const at_arm *arm, uint32_t traits, int64_t *ns)
{
    track->judged.taints = (traits & ATTUNE_TRAIT_TAINTS) != 0;
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
