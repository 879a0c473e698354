#include "peers/cudnn_race.h"

#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "base/random.h"
#include "base/status.h"
#include "library/bind.h"
#include "library/placement.h"
#include "measure/interleave.h"

enum { BLOCK_BYTES = 1 << 20, FAR_BEHIND = 4, LAUNCH_NS = 200000 };

/* NOTE: engines take up to seconds to compile, and the fallbacks come last: a race that has an entrant takes no more of
 * them after this. */
static const int64_t budget_ns = INT64_C(8000000000);
static const double race_s = 0.1;

typedef struct race race;

/* A choice that runs. */
typedef struct entrant {
    const race *on;
    at_cudnn_plan plan;
    int64_t first_ns; /* what one run took, launch and all */
    attune_arm arm;
    at_binding binding;
} entrant;

/* Buffers are filled with normal numbers: zeros would run at another clock. */
struct race {
    const at_cudnn_shape *shape;
    float scale;
    at_placement place;
    size_t workspace;
    void *begin, *end;
    int count;
    entrant entrant[AT_CUDNN_CHOICES_MAX];
};

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

static attune_status fill(const at_placement *place, const uint16_t *block, int role, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += BLOCK_BYTES) {
        size_t left = bytes - at;
        AT_FORWARD(place->device->ops->upload(place->device, place->twin[role] + at, block,
                                              left < BLOCK_BYTES ? left : BLOCK_BYTES));
    }
    return ATTUNE_OK;
}

static attune_status place_all(race *on, const uint16_t *block)
{
    for (int role = 0; role <= (on->shape->lse != 0 ? ATTUNE_LSE : ATTUNE_O); ++role) {
        size_t bytes = extent_bytes(on->shape, role);
        AT_FORWARD(at_placement_own(&on->place, (attune_role)role, NULL, bytes));
        AT_FORWARD(role < ATTUNE_O ? fill(&on->place, block, role, bytes) : ATTUNE_OK);
    }
    return ATTUNE_OK;
}

static attune_status prepare(race *on)
{
    at_device *device = on->place.device;
    uint16_t *block = malloc(BLOCK_BYTES);
    AT_FAIL_IF(block == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a race of cuDNN's engines");
    draw(on->shape, block);
    attune_status status = place_all(on, block);
    free(block);
    AT_FORWARD(status);
    AT_FORWARD(at_cuda_stream_create(device, &on->place.call.stream));
    AT_FORWARD(at_cuda_event_create(device, &on->begin));
    return at_cuda_event_create(device, &on->end);
}

static void clear(race *on)
{
    at_device *device = on->place.device;
    for (int i = 0; i < on->count; ++i) {
        at_unbind(&on->entrant[i].binding);
        at_cudnn_plan_free(&on->entrant[i].plan);
    }
    at_cuda_event_destroy(device, on->begin);
    at_cuda_event_destroy(device, on->end);
    at_cuda_stream_destroy(device, on->place.call.stream);
    at_placement_free(&on->place);
    free(on);
}

/* ---- Entering ------------------------------------------------------------------------------------------------------
 */

static attune_status run(void *self, const attune_call *call)
{
    const entrant *one = self;
    return at_cudnn_plan_run(&one->plan, one->on->shape, one->on->scale, call);
}

static attune_status reserve(race *on, const at_cudnn_plan *plan)
{
    size_t bytes = plan->workspace_bytes > 0 ? (size_t)plan->workspace_bytes : 0;
    if (bytes <= on->workspace) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_placement_reserve(&on->place, bytes));
    on->workspace = bytes;
    return ATTUNE_OK;
}

/* The first run loads what engines load then, and is not counted. */
static attune_status time_launch(const race *on, entrant *one)
{
    at_device *device = on->place.device;
    const attune_call *call = &on->place.call;
    double us = 0;
    AT_FORWARD(run(one, call));
    AT_FORWARD(at_cuda_event_record(device, on->begin, call->stream));
    AT_FORWARD(run(one, call));
    AT_FORWARD(at_cuda_event_record(device, on->end, call->stream));
    AT_FORWARD(at_cuda_event_elapsed(device, on->begin, on->end, &us));
    one->first_ns = (int64_t)(1e3 * us);
    return ATTUNE_OK;
}

static attune_status enter(race *on, const at_cudnn_choices *choices, int index)
{
    entrant *one = &on->entrant[on->count];
    *one = (entrant){.on = on, .arm = {.name = "cudnn", .self = one, .run = run}};
    AT_FORWARD(at_cudnn_plan_make(choices, index, &one->plan));
    attune_status status = reserve(on, &one->plan);
    status = status == ATTUNE_OK ? time_launch(on, one) : status;
    if (status == ATTUNE_OK) {
        ++on->count;
    } else {
        at_cudnn_plan_free(&one->plan);
    }
    return status;
}

/* All that run; the last refusal where none does. */
static attune_status enter_all(race *on, const at_cudnn_choices *choices)
{
    at_clock clock = at_clock_monotonic();
    int64_t end_ns = clock.now_ns(clock.self) + budget_ns;
    attune_status status = ATTUNE_OK;
    for (int i = 0; i < choices->count && (on->count == 0 || clock.now_ns(clock.self) < end_ns); ++i) {
        status = enter(on, choices, i);
        if (status != ATTUNE_OK && status != ATTUNE_UNSUPPORTED) {
            return status; /* a run that fails may have broken the device */
        }
    }
    return on->count > 0 ? ATTUNE_OK : status;
}

/* ---- The race ------------------------------------------------------------------------------------------------------
 */

/* Those that one run shows to be far behind are not looked at more closely. */
static void drop_slow(race *on)
{
    int64_t best_ns = INT64_MAX;
    int kept = 0;
    for (int i = 0; i < on->count; ++i) {
        best_ns = on->entrant[i].first_ns < best_ns ? on->entrant[i].first_ns : best_ns;
    }
    for (int i = 0; i < on->count; ++i) {
        at_cudnn_plan plan = on->entrant[i].plan;
        int64_t first_ns = on->entrant[i].first_ns;
        if (first_ns > FAR_BEHIND * best_ns + LAUNCH_NS) {
            at_cudnn_plan_free(&plan);
        } else {
            on->entrant[kept].plan = plan;
            on->entrant[kept++].first_ns = first_ns;
        }
    }
    on->count = kept;
}

static attune_status hold(race *on, const at_cudnn_choices *choices, int *winner, double *us)
{
    at_bound bound[AT_CUDNN_CHOICES_MAX];
    at_clock clock = at_clock_monotonic();
    AT_FORWARD(prepare(on));
    AT_FORWARD(enter_all(on, choices));
    drop_slow(on);
    for (int i = 0; i < on->count; ++i) {
        entrant *one = &on->entrant[i];
        AT_FORWARD(at_bind(on->place.device, &one->arm, &on->place.call, one->first_ns, &one->binding));
        bound[i] = one->binding.bound;
    }
    return at_interleave_fastest(&clock, race_s, bound, on->count, winner, us);
}

attune_status at_cudnn_race(at_device *device, const at_cudnn_shape *shape, float scale,
                            const at_cudnn_choices *choices, at_cudnn_plan *fastest, double *us)
{
    const attune_call empty = {.size = sizeof empty};
    int winner = 0;
    *us = INFINITY;
    *fastest = (at_cudnn_plan){0};
    race *on = calloc(1, sizeof *on);
    AT_FAIL_IF(on == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a race of cuDNN's engines");
    on->shape = shape;
    on->scale = scale;
    at_placement_open(device, &empty, &on->place);
    attune_status status = hold(on, choices, &winner, us);
    if (status == ATTUNE_OK) {
        *fastest = on->entrant[winner].plan;
        on->entrant[winner].plan = (at_cudnn_plan){0};
    }
    clear(on);
    return status;
}
