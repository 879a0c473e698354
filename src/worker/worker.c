#include "worker/worker.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "worker/timing.h"
#include "worker/worker_ops.h"

/* In the order in which they are searched. */
static const at_worker_op *const tables[] = {at_worker_device_ops,  at_worker_arm_ops,   at_worker_timing_ops,
                                             at_worker_filling_ops, at_worker_delay_ops, at_worker_fence_ops};

enum { TABLES = sizeof tables / sizeof tables[0] };

/* ---- Serving ---------------------------------------------------------------------------------------------------- */

static const at_worker_op *find(const char *name)
{
    for (size_t i = 0; i < TABLES; ++i) {
        for (const at_worker_op *op = tables[i]; op->name != NULL; ++op) {
            if (strcmp(op->name, name) == 0) {
                return op;
            }
        }
    }
    return NULL;
}

static attune_status dispatch(at_worker *worker, const at_request *request, json_t *answer)
{
    const at_worker_op *op = find(request->op);
    AT_FAIL_IF(op == NULL, ATTUNE_INVALID_ARGUMENT, "there is no op \"%.40s\"", request->op);
    AT_FAIL_IF(op->needs_device && worker->device == NULL, ATTUNE_INVALID_ARGUMENT, "\"%s\" before \"open\"", op->name);
    return op->run(worker, request->root, answer);
}

static attune_status handle(void *self, const at_request *request, json_t *answer)
{
    return dispatch(self, request, answer);
}

attune_status at_worker_serve(int in, int out, const attune_arm_hooks *hooks)
{
    at_worker worker = {.hooks = hooks, .server = {.handle = handle}};
    worker.server.self = &worker;
    attune_status status = at_serve(&worker.server, in, out);
    at_worker_close_timing(&worker);
    at_worker_close_arms(&worker);
    at_worker_close_filling(&worker);
    at_candidate_end(&worker.candidate_code);
    attune_context_destroy(worker.context);
    if (worker.arena != NULL) {
        (void)munmap(worker.arena, worker.arena_bytes);
    }
    return status;
}

attune_status attune_worker_serve(const attune_arm_hooks *hooks)
{
    int in, out;
    AT_FORWARD(at_serve_take_line(&in, &out));
    attune_status status = at_worker_serve(in, out, hooks);
    (void)close(in);
    (void)close(out);
    return status;
}

attune_status attune_report(attune_status status, const char *said)
{
    return at_fail(status, "%s", said != NULL ? said : "");
}
