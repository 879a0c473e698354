#include "peers/caller.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "base/status.h"

static const at_sized sized_arm = {
    .name = "arm",
    .init = "whoever calls the hook",
    .least = offsetof(attune_arm, close),
    .bytes = sizeof(attune_arm),
    .status = ATTUNE_INVALID_ARGUMENT,
};
static const at_sized sized_hooks = {
    .name = "hooks",
    .init = "sizeof(attune_arm_hooks)",
    .least = sizeof(attune_arm_hooks),
    .bytes = sizeof(attune_arm_hooks),
    .status = ATTUNE_INVALID_ARGUMENT,
};

typedef struct caller {
    attune_arm arm;
    char *name, *account;
} caller;

/* ---- Calls into the caller ------------------------------------------------------------------------------------------
 */

/* Before a call: what is said of a failure that the caller says nothing of. */
static void expect(const char *name, const char *what)
{
    (void)at_fail(ATTUNE_OK, "%s: %s failed, and nothing was reported of it", name, what);
}

/* After it: statuses are a caller's, and may be anything. */
static attune_status take(const char *name, const char *what, attune_status status)
{
    AT_FAIL_IF((int)status < 0 || status >= ATTUNE_STATUS_COUNT, ATTUNE_INVALID_ARGUMENT,
               "%s: %s returned %d, no status", name, what, (int)status);
    return status;
}

static attune_status workspace(void *of, const attune_call *call, size_t *bytes)
{
    const caller *self = of;
    *bytes = 0;
    expect(self->name, "workspace");
    return take(self->name, "workspace", self->arm.workspace(self->arm.self, call, bytes));
}

static attune_status run(void *of, const attune_call *call)
{
    const caller *self = of;
    expect(self->name, "run");
    return take(self->name, "run", self->arm.run(self->arm.self, call));
}

static attune_status run_own(void *of, const attune_call *call, attune_tensor *output)
{
    const caller *self = of;
    *output = (attune_tensor){0};
    expect(self->name, "run_own");
    AT_FORWARD(take(self->name, "run_own", self->arm.run_own(self->arm.self, call, output)));
    AT_FAIL_IF(output->data == NULL, ATTUNE_INVALID_ARGUMENT, "%s: run_own did not say where its output lies",
               self->name);
    return ATTUNE_OK;
}

static attune_status check_capture(const caller *self, int count, void *graph, const attune_tensor *output)
{
    AT_FAIL_IF(graph == NULL, ATTUNE_INVALID_ARGUMENT, "%s: capture gave no graph", self->name);
    for (int i = 0; i < count; ++i) {
        AT_FAIL_IF(output[i].data == NULL, ATTUNE_INVALID_ARGUMENT,
                   "%s: capture did not say where output %d of %d will lie", self->name, i, count);
    }
    return ATTUNE_OK;
}

static attune_status capture(void *of, const attune_call *calls, int count, void **graph, attune_tensor *output)
{
    const caller *self = of;
    *graph = NULL;
    memset(output, 0, (size_t)count * sizeof *output);
    expect(self->name, "capture");
    AT_FORWARD(take(self->name, "capture", self->arm.capture(self->arm.self, calls, count, graph, output)));
    attune_status status = check_capture(self, count, *graph, output);
    if (status != ATTUNE_OK && *graph != NULL) {
        self->arm.release(self->arm.self, *graph);
        *graph = NULL;
    }
    return status;
}

static void release(void *of, void *graph)
{
    const caller *self = of;
    self->arm.release(self->arm.self, graph);
}

static void close_caller(void *of)
{
    caller *self = of;
    if (self->arm.close != NULL) {
        self->arm.close(self->arm.self);
    }
    free(self->name);
    free(self->account);
    free(self);
}

/* ---- Opening --------------------------------------------------------------------------------------------------------
 */

static attune_status check_members(const caller *self, bool cuda)
{
    const attune_arm *arm = &self->arm;
    AT_FAIL_IF((arm->capture == NULL) != (arm->release == NULL), ATTUNE_INVALID_ARGUMENT,
               "%s: capture and release go together", self->name);
    bool runs = arm->run != NULL || (cuda ? arm->capture != NULL : arm->run_own != NULL);
    AT_FAIL_IF(!runs, ATTUNE_INVALID_ARGUMENT, "%s: on %s an arm has run or %s", self->name, cuda ? "CUDA" : "a CPU",
               cuda ? "capture" : "run_own");
    return ATTUNE_OK;
}

static attune_status open_arm(const attune_arm_hooks *hooks, const attune_problem *problem, const attune_target *target,
                              caller *self)
{
    bool cuda = target->kind == ATTUNE_TARGET_CUDA;
    attune_arm given = {.size = sizeof given, .name = self->name};
    expect(self->name, "opening");
    AT_FORWARD(
        take(self->name, "opening",
             hooks->open(hooks->self, self->name, problem, cuda ? target->device : -1, target->threads, &given)));
    AT_FORWARD(at_sized_read(&sized_arm, &given, &self->arm));
    self->account = strdup(given.account != NULL ? given.account : "");
    AT_FAIL_IF(self->account == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for an arm");
    return check_members(self, cuda);
}

attune_status at_caller_arm(const attune_arm_hooks *hooks, const char *name, const attune_problem *problem,
                            const attune_target *target, attune_arm *arm)
{
    attune_arm_hooks known;
    *arm = (attune_arm){0};
    AT_FORWARD(at_sized_read(&sized_hooks, hooks, &known));
    AT_FAIL_IF(known.open == NULL, ATTUNE_INVALID_ARGUMENT, "hooks.open is NULL");
    caller *self = calloc(1, sizeof *self);
    AT_FAIL_IF(self == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for an arm");
    self->name = strdup(name);
    attune_status status = self->name == NULL ? at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for an arm")
                                              : open_arm(&known, problem, target, self);
    if (status != ATTUNE_OK) {
        close_caller(self);
        return status;
    }
    *arm = (attune_arm){
        .size = sizeof *arm,
        .name = self->name,
        .account = self->account,
        .traits = self->arm.traits,
        .self = self,
        .workspace = self->arm.workspace != NULL ? workspace : NULL,
        .run = self->arm.run != NULL ? run : NULL,
        .run_own = self->arm.run_own != NULL ? run_own : NULL,
        .capture = self->arm.capture != NULL ? capture : NULL,
        .release = self->arm.capture != NULL ? release : NULL,
        .close = close_caller,
    };
    return ATTUNE_OK;
}
