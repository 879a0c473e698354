/* A call on memory of its own: each buffer lies between pages that are not there, its last byte before the second of
 * them, and what is no output cannot be written. Whoever reads behind a tensor, or borrows one of the inputs and puts
 * back what was there, ends the worker, as he would end the program of somebody whose tensor ends with a page, or whose
 * other threads read the same keys. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "core/call.h"
#include "worker/worker_ops.h"

enum { COPIED_MOST = 1 << 30 /* bytes of a call; larger ones run as they are */ };

/* One buffer: [page that is not there][its pages][page that is not there]. */
typedef struct fenced {
    unsigned char *pages;
    size_t bytes; /* of all pages */
    unsigned char *data;
} fenced;

typedef struct fence {
    const attune_problem *problem;
    const attune_call *call;
    at_spans spans;
    fenced of[ATTUNE_ROLE_COUNT];
} fence;

static bool is_present(const fence *on, int role)
{
    return on->call->tensor[role].data != NULL && (on->spans.present >> role & 1u) != 0 && on->spans.bytes[role] > 0;
}

/* What callers promise of Q, K, V and O; of others that their elements, of 16 bytes at most, are aligned. */
static size_t align_of(const attune_problem *problem)
{
    const size_t promised = problem->align > 0 ? (size_t)problem->align : 16;
    return promised > 16 ? promised : 16;
}

static attune_status copy_in(fence *on, int role)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)on->spans.bytes[role];
    const size_t inside = (bytes + page - 1) / page * page;
    fenced *made = &on->of[role];
    void *pages = mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    AT_FAIL_IF(pages == MAP_FAILED, ATTUNE_OUT_OF_MEMORY, "no memory for %zu bytes between pages", bytes);
    made->pages = pages;
    made->bytes = inside + 2 * page;
    AT_FAIL_IF(mprotect(made->pages + page, inside, PROT_READ | PROT_WRITE) != 0, ATTUNE_OUT_OF_MEMORY,
               "no memory for %zu bytes between pages", bytes);
    made->data = made->pages + page + (inside - bytes) / align_of(on->problem) * align_of(on->problem);
    memcpy(made->data, on->call->tensor[role].data, bytes);
    AT_FAIL_IF(!at_buffer_is_written(on->problem, role) && mprotect(made->pages + page, inside, PROT_READ) != 0,
               ATTUNE_OUT_OF_MEMORY, "%zu bytes cannot be made read-only", bytes);
    return ATTUNE_OK;
}

static attune_status copy_all_in(fence *on, attune_call *call)
{
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        if (is_present(on, role)) {
            AT_FORWARD(copy_in(on, role));
            call->tensor[role].data = on->of[role].data;
        }
    }
    return ATTUNE_OK;
}

static void copy_all_out(const fence *on)
{
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        if (on->of[role].data != NULL && at_buffer_is_written(on->problem, role)) {
            memcpy(on->call->tensor[role].data, on->of[role].data, (size_t)on->spans.bytes[role]);
        }
    }
}

static void free_all(const fence *on)
{
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        if (on->of[role].pages != NULL) {
            (void)munmap(on->of[role].pages, on->of[role].bytes);
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

attune_status at_fence_run(const attune_problem *problem, const attune_call *call, at_fence_work work, void *context)
{
    fence on = {.problem = problem, .call = call};
    attune_call moved = *call;
    AT_FORWARD(at_call_check_spans(problem, call, &on.spans));
    if (!is_small(&on)) {
        return work(context, call);
    }
    attune_status status = copy_all_in(&on, &moved);
    status = status == ATTUNE_OK ? work(context, &moved) : status;
    if (status == ATTUNE_OK) {
        copy_all_out(&on);
    }
    free_all(&on);
    return status;
}

static attune_status fence_next(at_worker *worker, const json_t *request, json_t *answer)
{
    (void)request;
    (void)answer;
    AT_FAIL_IF(worker->device->target.kind != ATTUNE_TARGET_CPU, ATTUNE_UNSUPPORTED, "fences are for CPUs");
    worker->fences = true;
    return ATTUNE_OK;
}

const at_worker_op at_worker_fence_ops[] = {{"fence", true, fence_next}, {NULL, false, NULL}};
