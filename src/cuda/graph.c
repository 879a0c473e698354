#include "cuda/graph.h"

#include <stdlib.h>

#include "base/status.h"
#include "cuda/device.h"

struct at_cuda_graph {
    at_cuda_device *device;
    at_cu_graph_exec exec;
    size_t nodes;
};

/* Runs one driver call in the device's context. */
#define IN_CONTEXT(device, call, ...)                                                                                  \
    do {                                                                                                               \
        bool pushed_ = false;                                                                                          \
        AT_FORWARD(at_cuda_enter((device), &pushed_));                                                                 \
        at_cu_result error_ = (device)->driver->call;                                                                  \
        at_cuda_leave((device), pushed_);                                                                              \
        AT_DRIVER_CHECK((device)->driver, error_, __VA_ARGS__);                                                        \
    } while (0)

/* ---- Streams --------------------------------------------------------------------------------------------------------
 */

attune_status at_cuda_stream_create(at_device *base, void **stream)
{
    at_cuda_device *device = at_cuda_of(base);
    at_cu_stream made = NULL;
    *stream = NULL;
    IN_CONTEXT(device, cuStreamCreate(&made, AT_CU_STREAM_NON_BLOCKING), "a new stream");
    *stream = made;
    return ATTUNE_OK;
}

void at_cuda_stream_destroy(at_device *base, void *stream)
{
    at_cuda_device *device = at_cuda_of(base);
    bool pushed = false;
    if (stream != NULL && at_cuda_enter(device, &pushed) == ATTUNE_OK) {
        (void)device->driver->cuStreamDestroy(stream);
        at_cuda_leave(device, pushed);
    }
}

/* ---- Graphs ---------------------------------------------------------------------------------------------------------
 */

attune_status at_cuda_capture_begin(at_device *base, void *stream)
{
    at_cuda_device *device = at_cuda_of(base);
    IN_CONTEXT(device, cuStreamBeginCapture(stream, AT_CU_CAPTURE_THREAD_LOCAL), "beginning a capture on stream %p",
               stream);
    return ATTUNE_OK;
}

static attune_status make_ready(at_cuda_graph *graph, at_cu_graph captured, void *stream)
{
    at_cuda_device *device = graph->device;
    IN_CONTEXT(device, cuGraphGetNodes(captured, NULL, &graph->nodes), "counting a graph's nodes");
    IN_CONTEXT(device, cuGraphInstantiateWithFlags(&graph->exec, captured, 0), "instantiating a graph of %zu nodes",
               graph->nodes);
    IN_CONTEXT(device, cuGraphUpload(graph->exec, stream), "uploading a graph of %zu nodes", graph->nodes);
    return ATTUNE_OK;
}

attune_status at_cuda_capture_end(at_device *base, void *stream, at_cuda_graph **graph)
{
    at_cuda_device *device = at_cuda_of(base);
    at_cu_graph captured = NULL;
    *graph = NULL;
    IN_CONTEXT(device, cuStreamEndCapture(stream, &captured), "ending a capture on stream %p", stream);
    at_cuda_graph *made = calloc(1, sizeof *made);
    attune_status status = ATTUNE_OUT_OF_MEMORY;
    if (made != NULL) {
        made->device = device;
        status = make_ready(made, captured, stream);
    }
    (void)device->driver->cuGraphDestroy(captured);
    if (status != ATTUNE_OK) {
        at_cuda_graph_destroy(made);
        return status;
    }
    *graph = made;
    return ATTUNE_OK;
}

size_t at_cuda_graph_nodes(const at_cuda_graph *graph)
{
    return graph->nodes;
}

attune_status at_cuda_graph_launch(const at_cuda_graph *graph, void *stream)
{
    IN_CONTEXT(graph->device, cuGraphLaunch(graph->exec, stream), "launching a graph of %zu nodes", graph->nodes);
    return ATTUNE_OK;
}

void at_cuda_graph_destroy(at_cuda_graph *graph)
{
    if (graph != NULL && graph->exec != NULL) {
        (void)graph->device->driver->cuGraphExecDestroy(graph->exec);
    }
    free(graph);
}

/* ---- Events ---------------------------------------------------------------------------------------------------------
 */

attune_status at_cuda_event_create(at_device *base, void **event)
{
    at_cuda_device *device = at_cuda_of(base);
    at_cu_event made = NULL;
    *event = NULL;
    IN_CONTEXT(device, cuEventCreate(&made, 0), "a new event");
    *event = made;
    return ATTUNE_OK;
}

attune_status at_cuda_event_record(at_device *base, void *event, void *stream)
{
    at_cuda_device *device = at_cuda_of(base);
    IN_CONTEXT(device, cuEventRecord(event, stream), "recording an event on stream %p", stream);
    return ATTUNE_OK;
}

attune_status at_cuda_event_elapsed(at_device *base, void *begin, void *end, double *microseconds)
{
    at_cuda_device *device = at_cuda_of(base);
    float milliseconds = 0.0F;
    IN_CONTEXT(device, cuEventSynchronize(end), "waiting for an event");
    IN_CONTEXT(device, cuEventElapsedTime(&milliseconds, begin, end), "the time between two events");
    *microseconds = 1000.0 * (double)milliseconds;
    return ATTUNE_OK;
}

void at_cuda_event_destroy(at_device *base, void *event)
{
    at_cuda_device *device = at_cuda_of(base);
    if (event != NULL) {
        (void)device->driver->cuEventDestroy(event);
    }
}
