/* Arms of plans, and arms bound to a call's buffers on a device: how planner, benches and the gate's workers make one
 * ready to be timed. */
#ifndef LIBRARY_BIND_H
#define LIBRARY_BIND_H

#include "core/device.h"
#include "core/plan.h"
#include "cuda/graph.h"
#include "measure/arm.h"

/* A plan as an arm, which takes the plan over. */
void at_arm_of_plan(attune_plan *plan, attune_arm *arm);
/* The plan behind a kernel's arm; NULL behind others. Belongs to the arm. */
const attune_plan *at_arm_plan(const attune_arm *arm);
/* Bytes of workspace that the arm takes for a call. */
attune_status at_arm_workspace(const attune_arm *arm, const attune_call *call, size_t *bytes);

/* A graph of `count` calls of an arm, one after the other, all on `stream`; the arm must have run before. */
attune_status at_arm_capture(at_device *device, const attune_arm *arm, const attune_call *calls, int count,
                             void *stream, at_cuda_graph **graph);

/* An arm on a call's buffers, ready to be timed: on a CPU as it is, by the clock of who times it; on CUDA as a graph of
 * several calls, by the device's events, so that the host is left out. It must not be moved. */
typedef struct at_binding {
    at_device *device;
    attune_call call;
    attune_arm arm; /* CUDA: replays the graph */
    at_cuda_graph *graph;
    void *begin, *end; /* CUDA's events */
    at_bound bound;    /* what is timed */
} at_binding;

/* `arm` and the buffers of `call`, its workspace too, must outlive the binding; on CUDA the call has a stream, and the
 * arm has run on it in about `call_ns`. Unbind it, also after a failure. */
attune_status at_bind(at_device *device, const attune_arm *arm, const attune_call *call, int64_t call_ns,
                      at_binding *binding);
void at_unbind(at_binding *binding); /* one that is all zeros is fine */

#endif
