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
                        .traits = attune_plan_traits(plan),
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

/* One replay more keeps the device busy until the host has enqueued the others. */
static attune_status time_replays(void *self, int64_t runs, double *ns)
{
    const at_binding *on = self;
    double us = 0;
    AT_FORWARD(replay(on->graph, &on->call));
    AT_FORWARD(at_cuda_event_record(on->device, on->begin, on->call.stream));
    for (int64_t i = 0; i < runs; ++i) {
        AT_FORWARD(replay(on->graph, &on->call));
    }
    AT_FORWARD(at_cuda_event_record(on->device, on->end, on->call.stream));
    AT_FORWARD(at_cuda_event_elapsed(on->device, on->begin, on->end, &us));
    *ns = 1e3 * us;
    return ATTUNE_OK;
}

/* As many calls as fit into two milliseconds, and no more than 20. */
static attune_status bind_graph(const attune_arm *arm, int64_t call_ns, at_binding *binding)
{
    enum { CALLS_MAX = 20, GRAPH_NS = 2000000, LEAST_NS = 300000 }; /* an event's grain of 0.5 us is 1/600 of that */
    attune_call calls[CALLS_MAX];
    int64_t fits = GRAPH_NS / (call_ns > 0 ? call_ns : 1);
    int count = fits < 1 ? 1 : fits > CALLS_MAX ? CALLS_MAX : (int)fits;
    for (int i = 0; i < count; ++i) {
        calls[i] = binding->call;
    }
    AT_FORWARD(at_arm_capture(binding->device, arm, calls, count, binding->call.stream, &binding->graph));
    binding->arm = (attune_arm){.size = sizeof binding->arm, .name = arm->name, .self = binding->graph, .run = replay};
    binding->bound = (at_bound){.arm = &binding->arm,
                                .call = &binding->call,
                                .calls = count,
                                .time = time_replays,
                                .time_self = binding,
                                .least_ns = LEAST_NS};
    AT_FORWARD(at_cuda_event_create(binding->device, &binding->begin));
    return at_cuda_event_create(binding->device, &binding->end);
}

attune_status at_bind(at_device *device, const attune_arm *arm, const attune_call *call, int64_t call_ns,
                      at_binding *binding)
{
    *binding = (at_binding){.device = device, .call = *call};
    binding->bound = (at_bound){.arm = arm, .call = &binding->call, .calls = 1};
    return device->target.kind == ATTUNE_TARGET_CUDA ? bind_graph(arm, call_ns, binding) : ATTUNE_OK;
}

void at_unbind(at_binding *binding)
{
    at_cuda_graph_destroy(binding->graph);
    if (binding->graph != NULL) {
        at_cuda_event_destroy(binding->device, binding->begin);
        at_cuda_event_destroy(binding->device, binding->end);
    }
    memset(binding, 0, sizeof *binding);
}
