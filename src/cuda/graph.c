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

attune_status at_cuda_graph_take(at_device *base, void *captured, void *stream, at_cuda_graph **graph)
{
    at_cuda_graph *made = calloc(1, sizeof *made);
    *graph = NULL;
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a graph");
    made->device = at_cuda_of(base);
    attune_status status = make_ready(made, captured, stream);
    if (status != ATTUNE_OK) {
        at_cuda_graph_destroy(made);
        return status;
    }
    *graph = made;
    return ATTUNE_OK;
}

attune_status at_cuda_capture_end(at_device *base, void *stream, at_cuda_graph **graph)
{
    at_cuda_device *device = at_cuda_of(base);
    at_cu_graph captured = NULL;
    *graph = NULL;
    IN_CONTEXT(device, cuStreamEndCapture(stream, &captured), "ending a capture on stream %p", stream);
    attune_status status = at_cuda_graph_take(base, captured, stream, graph);
    (void)device->driver->cuGraphDestroy(captured);
    return status;
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

attune_status at_cuda_copy(at_device *base, void *to, const void *from, size_t bytes, void *stream)
{
    at_cuda_device *device = at_cuda_of(base);
    IN_CONTEXT(device, cuMemcpyDtoDAsync((uintptr_t)to, (uintptr_t)from, bytes, stream),
               "copying %zu bytes on the device", bytes);
    return ATTUNE_OK;
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

attune_status at_cuda_event_done(at_device *base, void *event, bool *done)
{
    at_cuda_device *device = at_cuda_of(base);
    bool pushed = false;
    AT_FORWARD(at_cuda_enter(device, &pushed));
    at_cu_result error = device->driver->cuEventQuery(event);
    at_cuda_leave(device, pushed);
    *done = error == AT_CU_SUCCESS;
    if (error != AT_CU_NOT_READY) {
        AT_DRIVER_CHECK(device->driver, error, "asking whether an event has come");
    }
    return ATTUNE_OK;
}

void at_cuda_event_destroy(at_device *base, void *event)
{
    at_cuda_device *device = at_cuda_of(base);
    if (event != NULL) {
        (void)device->driver->cuEventDestroy(event);
    }
}

/* ---- The device as a machine --------------------------------------------------------------------------------------
 */

attune_status at_cuda_reset_cache(at_device *base)
{
    at_cuda_device *device = at_cuda_of(base);
    IN_CONTEXT(device, cuCtxResetPersistingL2Cache(), "giving back persisting cache lines");
    return ATTUNE_OK;
}

attune_status at_cuda_bus_id(at_device *base, char id[AT_CUDA_BUS_ID_BYTES])
{
    at_cuda_device *device = at_cuda_of(base);
    IN_CONTEXT(device, cuDeviceGetPCIBusId(id, AT_CUDA_BUS_ID_BYTES, device->handle), "bus id of device %d",
               device->handle);
    return ATTUNE_OK;
}
