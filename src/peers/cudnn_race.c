#include "peers/cudnn_race.h"

#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "base/random.h"
#include "base/status.h"
#include "cuda/graph.h"
#include "measure/clock.h"
#include "measure/statistics.h"

enum { RUNS = 8, REPLAYS = 5, BLOCK_BYTES = 1 << 20, FAR_BEHIND = 4, LAUNCH_US = 200 };

/* NOTE: engines take up to seconds to compile, and the fallbacks come last: a race that has a winner ends after this.
 */
static const int64_t budget_ns = INT64_C(8000000000);

/* Where engines race: buffers filled with normal numbers (zeros would run at another clock), stream and events. */
typedef struct race_setup {
    at_device *device;
    const at_cudnn_shape *shape;
    at_cudnn_operands operands;
    int64_t workspace_bytes;
    void *begin, *end;
} race_setup;

/* ---- Buffers --------------------------------------------------------------------------------------------------------
 */

static size_t extent_bytes(const at_cudnn_shape *s, int role)
{
    bool of_query = role != ATTUNE_K && role != ATTUNE_V;
    int64_t extent[3] = {s->batch, of_query ? s->heads_q : s->heads_kv, of_query ? s->seqlen_q : s->seqlen_kv};
    int64_t elements = role == ATTUNE_LSE ? 1 : role == ATTUNE_V || role == ATTUNE_O ? s->head_dim_v : s->head_dim_qk;
    for (int i = 0; i < 3; ++i) {
        elements += (extent[i] - 1) * s->stride[role][i];
    }
    return (size_t)elements * (role == ATTUNE_LSE ? sizeof(float) : sizeof(uint16_t));
}

static void draw(const at_cudnn_shape *shape, uint16_t *block)
{
    at_random random = at_random_seed(1, 0);
    for (size_t i = 0; i < BLOCK_BYTES / sizeof *block; ++i) {
        float value = (float)at_random_normal(&random);
        block[i] = shape->dtype == ATTUNE_BF16 ? at_bf16_from_float(value) : at_fp16_from_float(value);
    }
}

static attune_status fill(const race_setup *on, const uint16_t *block, char *data, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += BLOCK_BYTES) {
        size_t left = bytes - at;
        AT_FORWARD(on->device->ops->upload(on->device, data + at, block, left < BLOCK_BYTES ? left : BLOCK_BYTES));
    }
    return ATTUNE_OK;
}

static attune_status place(race_setup *on, const uint16_t *block)
{
    for (int role = 0; role <= (on->shape->lse != 0 ? ATTUNE_LSE : ATTUNE_O); ++role) {
        size_t bytes = extent_bytes(on->shape, role);
        AT_FORWARD(on->device->ops->allocate(on->device, bytes, &on->operands.data[role]));
        if (role < ATTUNE_O) {
            AT_FORWARD(fill(on, block, on->operands.data[role], bytes));
        }
    }
    return ATTUNE_OK;
}

static attune_status prepare(race_setup *on)
{
    uint16_t *block = malloc(BLOCK_BYTES);
    AT_FAIL_IF(block == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a race of cuDNN's engines");
    draw(on->shape, block);
    attune_status status = place(on, block);
    free(block);
    AT_FORWARD(status);
    AT_FORWARD(at_cuda_stream_create(on->device, &on->operands.stream));
    AT_FORWARD(at_cuda_event_create(on->device, &on->begin));
    return at_cuda_event_create(on->device, &on->end);
}

static void clear(race_setup *on)
{
    for (int role = 0; role <= ATTUNE_LSE; ++role) {
        on->device->ops->release(on->device, on->operands.data[role]);
    }
    on->device->ops->release(on->device, on->operands.workspace);
    at_cuda_event_destroy(on->device, on->begin);
    at_cuda_event_destroy(on->device, on->end);
    at_cuda_stream_destroy(on->device, on->operands.stream);
}

static attune_status reserve(race_setup *on, int64_t bytes)
{
    if (bytes <= on->workspace_bytes) {
        return ATTUNE_OK;
    }
    on->device->ops->release(on->device, on->operands.workspace);
    on->operands.workspace = NULL;
    on->workspace_bytes = 0;
    AT_FORWARD(on->device->ops->allocate(on->device, (size_t)bytes, &on->operands.workspace));
    on->workspace_bytes = bytes;
    return ATTUNE_OK;
}

/* ---- Timing ---------------------------------------------------------------------------------------------------------
 */

static attune_status replay(const race_setup *on, const at_cuda_graph *graph, double *us)
{
    AT_FORWARD(at_cuda_event_record(on->device, on->begin, on->operands.stream));
    AT_FORWARD(at_cuda_graph_launch(graph, on->operands.stream));
    AT_FORWARD(at_cuda_event_record(on->device, on->end, on->operands.stream));
    return at_cuda_event_elapsed(on->device, on->begin, on->end, us);
}

static attune_status capture(const race_setup *on, const at_cudnn_plan *plan, at_cuda_graph **graph)
{
    attune_status status = ATTUNE_OK;
    AT_FORWARD(at_cuda_capture_begin(on->device, on->operands.stream));
    for (int run = 0; run < RUNS && status == ATTUNE_OK; ++run) {
        status = at_cudnn_plan_run(plan, on->shape, &on->operands);
    }
    attune_status ended = at_cuda_capture_end(on->device, on->operands.stream, graph);
    return status != ATTUNE_OK ? status : ended;
}

static attune_status time_graph(const race_setup *on, const at_cuda_graph *graph, double *us)
{
    double sample[REPLAYS];
    AT_FORWARD(replay(on, graph, us)); /* the first is not counted */
    for (int i = 0; i < REPLAYS; ++i) {
        AT_FORWARD(replay(on, graph, &sample[i]));
    }
    AT_FORWARD(at_median(sample, REPLAYS, us));
    *us /= RUNS;
    return ATTUNE_OK;
}

/* One run, launch and all. The first loads what engines load then, and is not counted. */
static attune_status time_launch(const race_setup *on, const at_cudnn_plan *plan, double *us)
{
    AT_FORWARD(at_cudnn_plan_run(plan, on->shape, &on->operands));
    AT_FORWARD(at_cuda_event_record(on->device, on->begin, on->operands.stream));
    AT_FORWARD(at_cudnn_plan_run(plan, on->shape, &on->operands));
    AT_FORWARD(at_cuda_event_record(on->device, on->end, on->operands.stream));
    return at_cuda_event_elapsed(on->device, on->begin, on->end, us);
}

/* Those that one run shows to be far behind are not looked at more closely. */
static attune_status time_plan(race_setup *on, const at_cudnn_plan *plan, double best_us, double *us)
{
    at_cuda_graph *graph = NULL;
    AT_FORWARD(reserve(on, plan->workspace_bytes));
    AT_FORWARD(time_launch(on, plan, us));
    if (*us > FAR_BEHIND * best_us + LAUNCH_US) {
        return ATTUNE_OK;
    }
    attune_status status = capture(on, plan, &graph);
    status = status == ATTUNE_OK ? time_graph(on, graph, us) : status;
    at_cuda_graph_destroy(graph);
    return status;
}

/* ---- The race ------------------------------------------------------------------------------------------------------
 */

/* One choice: takes the lead in *best where it is faster. */
static attune_status enter(race_setup *on, const at_cudnn_choices *choices, int index, at_cudnn_plan *best,
                           double *best_us)
{
    at_cudnn_plan plan;
    double us = INFINITY;
    attune_status status = at_cudnn_plan_make(choices, index, &plan);
    if (status != ATTUNE_OK) {
        return status;
    }
    status = time_plan(on, &plan, *best_us, &us);
    if (status == ATTUNE_OK && us < *best_us) {
        at_cudnn_plan slower = *best;
        *best = plan;
        *best_us = us;
        plan = slower;
    }
    at_cudnn_plan_free(&plan);
    return status;
}

attune_status at_cudnn_race(at_device *device, const at_cudnn_shape *shape, float scale,
                            const at_cudnn_choices *choices, at_cudnn_plan *fastest, double *us)
{
    race_setup on = {.device = device, .shape = shape, .operands = {.scale = scale}};
    at_clock clock = at_clock_monotonic();
    *us = INFINITY;
    *fastest = (at_cudnn_plan){0};
    attune_status status = prepare(&on);
    int64_t end_ns = clock.now_ns(clock.self) + budget_ns;
    for (int i = 0; i < choices->count && (status == ATTUNE_OK || status == ATTUNE_UNSUPPORTED); ++i) {
        if (fastest->ready == NULL || clock.now_ns(clock.self) < end_ns) {
            status = enter(&on, choices, i, fastest, us);
        }
    }
    clear(&on);
    bool found = fastest->ready != NULL && (status == ATTUNE_OK || status == ATTUNE_UNSUPPORTED);
    if (!found) {
        at_cudnn_plan_free(fastest);
    }
    return found ? ATTUNE_OK : status;
}
