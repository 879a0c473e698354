#include "library/bind.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

/* ---- Plans ------------------------------------------------------------------------------------------------------- */

static attune_status plan_workspace(void *self, const attune_call *call, size_t *bytes)
{
    return attune_plan_workspace(self, call, bytes);
}

static attune_status plan_run(void *self, const attune_call *call)
{
    return attune_plan_execute(self, call);
}

static void plan_close(void *self)
{
    attune_plan_destroy(self);
}

void at_arm_of_plan(attune_plan *plan, attune_arm *arm)
{
    *arm = (attune_arm){.size = sizeof *arm,
                        .name = attune_plan_kernel(plan),
                        .account = "",
                        .traits = plan->loaded->kernel->traits,
                        .self = plan,
                        .workspace = plan_workspace,
                        .run = plan_run,
                        .close = plan_close};
}

const attune_plan *at_arm_plan(const attune_arm *arm)
{
    return arm->close == plan_close ? arm->self : NULL;
}

attune_status at_arm_workspace(const attune_arm *arm, const attune_call *call, size_t *bytes)
{
    *bytes = 0;
    return arm->workspace == NULL ? ATTUNE_OK : arm->workspace(arm->self, call, bytes);
}

/* ---- Graphs ------------------------------------------------------------------------------------------------------ */

attune_status at_arm_capture(at_device *device, const attune_arm *arm, const attune_call *calls, int count,
                             void *stream, at_cuda_graph **graph)
{
    char why[512];
    attune_status status = ATTUNE_OK;
    AT_FORWARD(at_cuda_capture_begin(device, stream));
    for (int i = 0; i < count && status == ATTUNE_OK; ++i) {
        status = arm->run(arm->self, &calls[i]);
    }
    (void)snprintf(why, sizeof why, "%s", attune_last_detail());
    attune_status ended = at_cuda_capture_end(device, stream, graph);
    return status == ATTUNE_OK ? ended : at_fail(status, "%s", why);
}

static attune_status replay(void *self, const attune_call *call)
{
    return at_cuda_graph_launch(self, call->stream);
}

static attune_status wait_for_stream(void *self)
{
    const at_binding *binding = self;
    return binding->device->ops->synchronise(binding->device, binding->call.stream);
}

/* As many calls as fit into two milliseconds, and no more than 20. */
static attune_status bind_graph(const attune_arm *arm, int64_t call_ns, at_binding *binding)
{
    enum { CALLS_MAX = 20, GRAPH_NS = 2000000 };
    attune_call calls[CALLS_MAX];
    int64_t fits = GRAPH_NS / (call_ns > 0 ? call_ns : 1);
    int count = fits < 1 ? 1 : fits > CALLS_MAX ? CALLS_MAX : (int)fits;
    for (int i = 0; i < count; ++i) {
        calls[i] = binding->call;
    }
    AT_FORWARD(at_arm_capture(binding->device, arm, calls, count, binding->call.stream, &binding->graph));
    binding->arm = (attune_arm){.size = sizeof binding->arm, .name = arm->name, .self = binding->graph, .run = replay};
    binding->bound.arm = &binding->arm;
    binding->bound.calls = count;
    return ATTUNE_OK;
}

attune_status at_bind(at_device *device, const attune_arm *arm, const attune_call *call, int64_t call_ns,
                      at_binding *binding)
{
    *binding = (at_binding){.device = device, .call = *call};
    binding->bound = (at_bound){.arm = arm, .call = &binding->call, .calls = 1};
    if (device->target.kind != ATTUNE_TARGET_CUDA) {
        return ATTUNE_OK;
    }
    binding->bound.finish = wait_for_stream;
    binding->bound.finish_self = binding;
    return bind_graph(arm, call_ns, binding);
}

void at_unbind(at_binding *binding)
{
    at_cuda_graph_destroy(binding->graph);
    memset(binding, 0, sizeof *binding);
}
