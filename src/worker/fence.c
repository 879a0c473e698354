/* A call on memory of its own: each buffer lies between pages that are not there, its last byte before the second of
 * them, and what is no output cannot be written. Whoever reads behind a tensor, or borrows one of the inputs and puts
 * back what was there, ends the worker, or its device's context, as he would end the program of somebody whose tensor
 * ends with a page, or whose other threads read the same keys. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "core/call.h"
#include "cuda/fenced.h"
#include "cuda/graph.h"
#include "worker/worker_ops.h"

enum { COPIED_MOST = 1 << 30 /* bytes of a call; larger ones run as they are */ };

/* One buffer: [pages that are not there][its own][pages that are not there], of which there are four times as many. */
typedef struct fenced {
    unsigned char *pages; /* a CPU's */
    size_t bytes;         /* of all pages */
    at_cuda_fenced on_device;
    void *data;
} fenced;

typedef struct fence {
    at_device *device;
    const attune_problem *problem;
    const attune_call *call;
    at_spans spans;
    fenced of[ATTUNE_ROLE_COUNT];
} fence;

static bool is_present(const fence *on, int role)
{
    return on->call->tensor[role].data != NULL && (on->spans.present >> role & 1u) != 0 && on->spans.bytes[role] > 0;
}

static bool is_on_device(const fence *on)
{
    return on->device->target.kind == ATTUNE_TARGET_CUDA;
}

/* What callers promise of Q, K, V and O; of others that their elements, of 16 bytes at most, are aligned. */
static size_t align_of(const attune_problem *problem)
{
    const size_t promised = problem->align > 0 ? (size_t)problem->align : 16;
    return promised > 16 ? promised : 16;
}

static attune_status copy_between_pages(const fence *on, int role, fenced *made)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)on->spans.bytes[role];
    const size_t inside = (bytes + page - 1) / page * page, beside = 4 * inside;
    void *pages = mmap(NULL, inside + 2 * beside, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    AT_FAIL_IF(pages == MAP_FAILED, ATTUNE_OUT_OF_MEMORY, "no memory for %zu bytes between pages", bytes);
    made->pages = pages;
    made->bytes = inside + 2 * beside;
    AT_FAIL_IF(mprotect(made->pages + beside, inside, PROT_READ | PROT_WRITE) != 0, ATTUNE_OUT_OF_MEMORY,
               "no memory for %zu bytes between pages", bytes);
    made->data = made->pages + beside + (inside - bytes) / align_of(on->problem) * align_of(on->problem);
    memcpy(made->data, on->call->tensor[role].data, bytes);
    AT_FAIL_IF(!at_buffer_is_written(on->problem, role) && mprotect(made->pages + beside, inside, PROT_READ) != 0,
               ATTUNE_OUT_OF_MEMORY, "%zu bytes cannot be made read-only", bytes);
    return ATTUNE_OK;
}

static attune_status copy_on_device(const fence *on, int role, fenced *made)
{
    const size_t bytes = (size_t)on->spans.bytes[role];
    AT_FORWARD(at_cuda_fenced_make(on->device, bytes, align_of(on->problem), &made->on_device));
    made->data = made->on_device.data;
    return at_cuda_copy(on->device, made->data, on->call->tensor[role].data, bytes, on->call->stream);
}

/* Once all that was enqueued is there: a copy that is under way could not be written either. */
static attune_status lock_on_device(const fence *on)
{
    AT_FORWARD(on->device->ops->synchronise(on->device, on->call->stream));
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        const at_cuda_fenced *made = &on->of[role].on_device;
        attune_status status = made->data == NULL || at_buffer_is_written(on->problem, role)
                                   ? ATTUNE_OK
                                   : at_cuda_fenced_lock(on->device, made);
        AT_FORWARD(status == ATTUNE_UNSUPPORTED ? ATTUNE_OK : status);
    }
    return ATTUNE_OK;
}

static attune_status copy_all_in(fence *on, attune_call *call)
{
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        if (is_present(on, role)) {
            AT_FORWARD(is_on_device(on) ? copy_on_device(on, role, &on->of[role])
                                        : copy_between_pages(on, role, &on->of[role]));
            call->tensor[role].data = on->of[role].data;
        }
    }
    return is_on_device(on) ? lock_on_device(on) : ATTUNE_OK;
}

static attune_status copy_out(const fence *on, int role)
{
    const size_t bytes = (size_t)on->spans.bytes[role];
    if (is_on_device(on)) {
        return at_cuda_copy(on->device, on->call->tensor[role].data, on->of[role].data, bytes, on->call->stream);
    }
    memcpy(on->call->tensor[role].data, on->of[role].data, bytes);
    return ATTUNE_OK;
}

static attune_status copy_all_out(const fence *on)
{
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        if (on->of[role].data != NULL && at_buffer_is_written(on->problem, role)) {
            AT_FORWARD(copy_out(on, role));
        }
    }
    return is_on_device(on) ? on->device->ops->synchronise(on->device, on->call->stream) : ATTUNE_OK;
}

static void free_all(fence *on)
{
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        if (on->of[role].pages != NULL) {
            (void)munmap(on->of[role].pages, on->of[role].bytes);
        }
        if (is_on_device(on)) {
            at_cuda_fenced_free(on->device, &on->of[role].on_device);
        }
    }
}

static bool is_small(const fence *on)
{
    int64_t sum = 0;
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        sum += is_present(on, role) ? on->spans.bytes[role] : 0;
    }
    return sum <= COPIED_MOST;
}

attune_status at_fence_run(at_device *device, const attune_problem *problem, const attune_call *call,
                           at_fence_work work, void *context)
{
    fence on = {.device = device, .problem = problem, .call = call};
    attune_call moved = *call;
    AT_FORWARD(at_call_check_spans(problem, call, &on.spans));
    if (!is_small(&on)) {
        return work(context, call);
    }
    attune_status status = copy_all_in(&on, &moved);
    if (status == ATTUNE_UNSUPPORTED || status == ATTUNE_OUT_OF_MEMORY) {
        free_all(&on);
        return work(context, call);
    }
    status = status == ATTUNE_OK ? work(context, &moved) : status;
    status = status == ATTUNE_OK ? copy_all_out(&on) : status;
    free_all(&on);
    return status;
}

static attune_status fence_next(at_worker *worker, const json_t *request, json_t *answer)
{
    (void)request;
    (void)answer;
    worker->fences = true;
    return ATTUNE_OK;
}

const at_worker_op at_worker_fence_ops[] = {{"fence", true, fence_next}, {NULL, false, NULL}};
