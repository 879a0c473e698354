#include "peers/cudnn.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/call.h"
#include "core/problem.h"
#include "cuda/device.h"
#include "peers/cudnn_race.h"
#include "peers/plain.h"

enum { ALIGNMENT = 16, DIM_STEP = 8, DIM_MAX = 256, ARCH_LEAST = 80 };

/* ---- What it can do -------------------------------------------------------------------------------------------------
 */

static bool supports_dim(const char *field, int32_t dim, attune_reason *reason)
{
    return (dim % DIM_STEP == 0 && dim <= DIM_MAX) ||
           attune_refuse(reason, "%s %d: cuDNN takes multiples of %d up to %d", field, dim, DIM_STEP, DIM_MAX);
}

static bool supports_align(const attune_problem *problem, attune_reason *reason)
{
    return at_problem_align(problem) >= ALIGNMENT ||
           attune_refuse(reason, "align %d: cuDNN's tensors begin at multiples of %d bytes", at_problem_align(problem),
                         ALIGNMENT);
}

static bool supports_lengths(const attune_problem *problem, attune_reason *reason)
{
    bool bottom_right = attune_is_causal(problem) && problem->offset_kind == ATTUNE_OFFSET_BOTTOM_RIGHT;
    if (problem->seqlen_kv == 0) {
        return attune_refuse(reason, "seqlen_kv 0: cuDNN needs a key");
    }
    return !bottom_right || problem->seqlen_q <= problem->seqlen_kv ||
           attune_refuse(reason, "seqlen_q %lld: cuDNN's bottom-right mask takes at most seqlen_kv, %lld",
                         (long long)problem->seqlen_q, (long long)problem->seqlen_kv);
}

static bool supports_mask(const attune_problem *problem, attune_reason *reason)
{
    if (attune_is_windowed(problem)) {
        return attune_refuse(reason, "window %lld:%lld: this peer has causal masks only",
                             (long long)problem->window_left, (long long)problem->window_right);
    }
    return !attune_is_causal(problem) || problem->offset_kind != ATTUNE_OFFSET_NUMBER ||
           attune_refuse(reason, "offset %lld: cuDNN's masks are top-left or bottom-right", (long long)problem->offset);
}

bool at_cudnn_supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    if (target->kind != ATTUNE_TARGET_CUDA) {
        return attune_refuse(reason, "target: cuDNN runs on CUDA devices only");
    }
    if (target->arch < ARCH_LEAST) {
        return attune_refuse(reason, "arch %d: cuDNN's fused attention needs %d", target->arch, ARCH_LEAST);
    }
    if (problem->dtype != ATTUNE_FP16 && problem->dtype != ATTUNE_BF16) {
        return attune_refuse(reason, "dtype %s: cuDNN's fused attention takes fp16 and bf16",
                             at_dtype_name((int)problem->dtype));
    }
    return at_plain(problem, "this peer has no place for it", reason) &&
           supports_dim("head_dim_qk", problem->head_dim_qk, reason) &&
           supports_dim("head_dim_v", problem->head_dim_v, reason) && supports_align(problem, reason) &&
           supports_mask(problem, reason) && supports_lengths(problem, reason);
}

/* ---- Shapes ---------------------------------------------------------------------------------------------------------
 */

static int64_t mask_of(const attune_problem *problem, const attune_call *call)
{
    if (!attune_is_causal(problem)) {
        return AT_CUDNN_MASK_NONE;
    }
    if (problem->offset_kind == ATTUNE_OFFSET_TOP_LEFT) {
        return AT_CUDNN_MASK_TOP_LEFT;
    }
    /* The last row sees every key: alone it needs no mask, and cuDNN is faster without. */
    return call->seqlen_q == 1 ? AT_CUDNN_MASK_NONE : AT_CUDNN_MASK_BOTTOM_RIGHT;
}

/* A role's strides; where there is no second index, what they would be if there were. */
static void take_strides(const attune_call *call, int role, const int64_t extent[3], int64_t row, int64_t stride[3])
{
    int64_t least = row;
    for (int i = ATTUNE_STRIDE_SEQ; i >= 0; --i) {
        stride[i] = extent[i] > 1 ? call->tensor[role].stride[i] : least;
        least = stride[i] * extent[i] > least ? stride[i] * extent[i] : least;
    }
}

static void shape_fill(const attune_problem *problem, const attune_call *call, at_cudnn_shape *shape)
{
    memset(shape, 0, sizeof *shape);
    shape->dtype = (int64_t)problem->dtype;
    shape->batch = call->batch;
    shape->heads_q = call->heads_q;
    shape->heads_kv = call->heads_kv;
    shape->seqlen_q = call->seqlen_q;
    shape->seqlen_kv = call->seqlen_kv;
    shape->head_dim_qk = problem->head_dim_qk;
    shape->head_dim_v = problem->head_dim_v;
    shape->mask = mask_of(problem, call);
    shape->lse = call->tensor[ATTUNE_LSE].data != NULL;
    const int64_t of_query[3] = {call->batch, call->heads_q, call->seqlen_q};
    const int64_t of_keys[3] = {call->batch, call->heads_kv, call->seqlen_kv};
    take_strides(call, ATTUNE_Q, of_query, problem->head_dim_qk, shape->stride[ATTUNE_Q]);
    take_strides(call, ATTUNE_K, of_keys, problem->head_dim_qk, shape->stride[ATTUNE_K]);
    take_strides(call, ATTUNE_V, of_keys, problem->head_dim_v, shape->stride[ATTUNE_V]);
    take_strides(call, ATTUNE_O, of_query, problem->head_dim_v, shape->stride[ATTUNE_O]);
    if (shape->lse != 0) {
        take_strides(call, ATTUNE_LSE, of_query, 1, shape->stride[ATTUNE_LSE]);
    }
}

/* ---- Plans of shapes ------------------------------------------------------------------------------------------------
 */

/* One graph with the engine chosen for it. The plan rests on the choices, and they on the graph. */
typedef struct chosen {
    at_cudnn_shape form; /* the shape, with the mask as it is asked for */
    at_cudnn_graph graph;
    at_cudnn_choices choices;
    at_cudnn_plan plan;
    double us; /* a run, where it was raced */
} chosen;

/* One shape planned. */
typedef struct resident {
    at_cudnn_shape shape;
    chosen *by;
    int choices; /* of all graphs */
    struct resident *next;
} resident;

typedef struct peer {
    at_cuda_device *device;
    at_cudnn *cudnn;
    attune_problem problem;
    bool fastest;
    float scale;
    pthread_mutex_t lock; /* of the handle and of what is below */
    resident *residents;
    char account[160];
} peer;

static void chosen_free(chosen *one)
{
    if (one == NULL) {
        return;
    }
    at_cudnn_plan_free(&one->plan);
    at_cudnn_choices_free(&one->choices);
    at_cudnn_graph_free(&one->graph);
    free(one);
}

static void resident_free(resident *one)
{
    chosen_free(one->by);
    free(one);
}

/* The first choice that compiles: cuDNN offers engines that refuse a graph only then. */
static attune_status take_first(chosen *one)
{
    attune_status status = ATTUNE_UNSUPPORTED;
    for (int i = 0; i < one->choices.count && status == ATTUNE_UNSUPPORTED; ++i) {
        status = at_cudnn_plan_make(&one->choices, i, &one->plan);
    }
    return status;
}

static attune_status choose_engine(const peer *self, chosen *one)
{
    AT_FORWARD(at_cudnn_graph_build(self->cudnn, &one->form, &one->graph));
    AT_FORWARD(at_cudnn_choose(&one->graph, self->fastest, &one->choices));
    if (!self->fastest) {
        return take_first(one);
    }
    return at_cudnn_race(&self->device->base, &one->form, self->scale, &one->choices, &one->plan, &one->us);
}

/* Plans the shape with this mask; of several, the fastest stays. */
static attune_status try_mask(const peer *self, int64_t mask, resident *one)
{
    chosen *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a plan of cuDNN");
    made->form = one->shape;
    made->form.mask = mask;
    attune_status status = choose_engine(self, made);
    one->choices += made->choices.count;
    if (status == ATTUNE_OK && (one->by == NULL || made->us < one->by->us)) {
        chosen *slower = one->by;
        one->by = made;
        made = slower;
    }
    chosen_free(made);
    return status;
}

/* NOTE: with as many queries as keys both masks are the same, and which graph is faster depends on the shape. The
 * top-left one is what PyTorch asks for. */
static attune_status plan_shape(const peer *self, resident *one)
{
    const at_cudnn_shape *shape = &one->shape;
    if (shape->mask != AT_CUDNN_MASK_BOTTOM_RIGHT || shape->seqlen_q != shape->seqlen_kv) {
        return try_mask(self, shape->mask, one);
    }
    AT_FORWARD(try_mask(self, AT_CUDNN_MASK_TOP_LEFT, one));
    attune_status other = self->fastest ? try_mask(self, AT_CUDNN_MASK_BOTTOM_RIGHT, one) : ATTUNE_OK;
    return other == ATTUNE_UNSUPPORTED ? ATTUNE_OK : other;
}

/* The shape's plan; made where it is not there yet. With the lock held, in the device's context. */
static attune_status resident_get(peer *self, const at_cudnn_shape *shape, const resident **found)
{
    for (resident *one = self->residents; one != NULL; one = one->next) {
        if (memcmp(&one->shape, shape, sizeof *shape) == 0) {
            *found = one;
            return ATTUNE_OK;
        }
    }
    resident *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a plan of cuDNN");
    made->shape = *shape;
    attune_status status = plan_shape(self, made);
    if (status != ATTUNE_OK) {
        resident_free(made);
        return status;
    }
    made->next = self->residents;
    self->residents = made;
    *found = made;
    return ATTUNE_OK;
}

/* ---- The arm --------------------------------------------------------------------------------------------------
 */

static bool is_empty(const attune_call *call)
{
    return call->batch == 0 || call->seqlen_q == 0;
}

/* The sizes of the call, as a problem that cuDNN can be asked for. */
static attune_status check_sizes(const peer *self, const attune_call *call)
{
    attune_reason reason;
    attune_problem actual = self->problem;
    actual.seqlen_q = call->seqlen_q;
    actual.seqlen_kv = call->seqlen_kv;
    AT_FAIL_IF(!supports_lengths(&actual, &reason), ATTUNE_UNSUPPORTED, "cudnn: %s", reason.text);
    return ATTUNE_OK;
}

static attune_status find_plan(peer *self, const attune_call *call, const resident **found)
{
    at_cudnn_shape shape;
    AT_FORWARD(check_sizes(self, call));
    shape_fill(&self->problem, call, &shape);
    return resident_get(self, &shape, found);
}

static attune_status workspace_locked(peer *self, const attune_call *call, size_t *bytes)
{
    const resident *one;
    AT_FORWARD(find_plan(self, call, &one));
    *bytes = (size_t)one->by->plan.workspace_bytes;
    return ATTUNE_OK;
}

static attune_status workspace(void *of, const attune_call *call, size_t *bytes)
{
    peer *self = of;
    bool pushed = false;
    *bytes = 0;
    AT_FORWARD(at_call_check_sizes(&self->problem, call));
    if (is_empty(call)) {
        return ATTUNE_OK;
    }
    (void)pthread_mutex_lock(&self->lock);
    attune_status status = at_cuda_enter(self->device, &pushed);
    if (status == ATTUNE_OK) {
        status = workspace_locked(self, call, bytes);
        at_cuda_leave(self->device, pushed);
    }
    (void)pthread_mutex_unlock(&self->lock);
    return status;
}

static attune_status run_locked(peer *self, const attune_call *call)
{
    const resident *one;
    AT_FORWARD(find_plan(self, call, &one));
    const at_cudnn_plan *plan = &one->by->plan;
    AT_FAIL_IF((int64_t)call->workspace_bytes < plan->workspace_bytes, ATTUNE_WORKSPACE_TOO_SMALL,
               "cudnn: workspace_bytes %zu: this call takes %lld", call->workspace_bytes,
               (long long)plan->workspace_bytes);
    return at_cudnn_plan_run(plan, &one->by->form, self->scale, call);
}

static attune_status run(void *of, const attune_call *call)
{
    peer *self = of;
    bool pushed = false;
    AT_FORWARD(at_call_check(&self->problem, call));
    if (is_empty(call)) {
        return ATTUNE_OK;
    }
    (void)pthread_mutex_lock(&self->lock);
    attune_status status = at_cuda_enter(self->device, &pushed);
    if (status == ATTUNE_OK) {
        status = run_locked(self, call);
        at_cuda_leave(self->device, pushed);
    }
    (void)pthread_mutex_unlock(&self->lock);
    return status;
}

static void close_peer(void *of)
{
    peer *self = of;
    bool pushed = false;
    if (at_cuda_enter(self->device, &pushed) == ATTUNE_OK) {
        while (self->residents != NULL) {
            resident *next = self->residents->next;
            resident_free(self->residents);
            self->residents = next;
        }
        at_cudnn_close(self->cudnn);
        at_cuda_leave(self->device, pushed);
    }
    (void)pthread_mutex_destroy(&self->lock);
    free(self);
}

static attune_status start(peer *self)
{
    bool pushed = false;
    AT_FORWARD(at_cudnn_open(&self->cudnn));
    AT_FORWARD(at_cuda_enter(self->device, &pushed));
    attune_status status = at_cudnn_start(self->cudnn);
    at_cuda_leave(self->device, pushed);
    return status;
}

/* Plans the problem as it is, so that refusals come early and the account can name the engine. */
static attune_status plan_ahead(peer *self)
{
    attune_call call;
    size_t bytes;
    AT_FORWARD(attune_call_init(&call, &self->problem));
    AT_FORWARD(workspace(self, &call, &bytes));
    const resident *one = self->residents;
    int written = snprintf(self->account, sizeof self->account, "cuDNN %s", self->cudnn->version_text);
    if (one != NULL) {
        (void)snprintf(self->account + written, sizeof self->account - (size_t)written,
                       ", engine %lld, %s of %d choices, %lld bytes of workspace", (long long)one->by->plan.engine,
                       self->fastest ? "the fastest" : "the first", one->choices,
                       (long long)one->by->plan.workspace_bytes);
    }
    return ATTUNE_OK;
}

attune_status at_cudnn_arm(at_device *device, const attune_problem *problem, bool fastest, attune_arm *arm)
{
    attune_reason reason;
    *arm = (attune_arm){0};
    AT_FAIL_IF(!at_cudnn_supports(problem, &device->target, &reason), ATTUNE_UNSUPPORTED, "cudnn: %s", reason.text);
    peer *self = calloc(1, sizeof *self);
    AT_FAIL_IF(self == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for the cuDNN peer");
    (void)pthread_mutex_init(&self->lock, NULL); /* cannot fail with default attributes on Linux */
    self->device = at_cuda_of(device);
    self->problem = *problem;
    self->fastest = fastest;
    self->scale = at_problem_scale(problem);
    attune_status status = start(self);
    status = status == ATTUNE_OK ? plan_ahead(self) : status;
    if (status != ATTUNE_OK) {
        close_peer(self);
        return status;
    }
    *arm = (attune_arm){.name = fastest ? "cudnn:fastest" : "cudnn",
                        .account = self->account,
                        .traits = ATTUNE_TRAIT_BATCH_VARIANT | ATTUNE_TRAIT_TAINTS,
                        .self = self,
                        .workspace = workspace,
                        .run = run,
                        .close = close_peer};
    return ATTUNE_OK;
}
