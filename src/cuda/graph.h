/* Streams, graphs and events of an opened CUDA device, for whoever measures or embeds plans. Errors are those of
 * docs/cuda.md. */
#ifndef CUDA_GRAPH_H
#define CUDA_GRAPH_H

#include <stdbool.h>

#include "core/device.h"

/* A stream that does not wait for the default one. `device` is one that at_cuda_open opened. */
attune_status at_cuda_stream_create(at_device *device, void **stream);
void at_cuda_stream_destroy(at_device *device, void *stream);

/* What is enqueued on the stream by this thread between begin and end becomes a graph instead of running. */
typedef struct at_cuda_graph at_cuda_graph;

attune_status at_cuda_capture_begin(at_device *device, void *stream);
/* Ends the capture, whatever became of it: with a graph, made ready and uploaded, or with an error and NULL. */
attune_status at_cuda_capture_end(at_device *device, void *stream, at_cuda_graph **graph);
/* A graph that someone else captured (a CUgraph), made ready and uploaded; the captured one stays theirs. */
attune_status at_cuda_graph_take(at_device *device, void *captured, void *stream, at_cuda_graph **graph);
/* Nodes of the graph: launches, fills and copies. */
size_t at_cuda_graph_nodes(const at_cuda_graph *graph);
attune_status at_cuda_graph_launch(const at_cuda_graph *graph, void *stream);
void at_cuda_graph_destroy(at_cuda_graph *graph); /* NULL is fine */

/* Enqueues a copy from device memory to device memory. */
attune_status at_cuda_copy(at_device *device, void *to, const void *from, size_t bytes, void *stream);

/* Points in time on a stream. */
attune_status at_cuda_event_create(at_device *device, void **event);
attune_status at_cuda_event_record(at_device *device, void *event, void *stream);
/* Waits for both; NOTE: resolution is about 0.5 us. */
attune_status at_cuda_event_elapsed(at_device *device, void *begin, void *end, double *microseconds);
/* Whether all work before the event is done; does not wait. */
attune_status at_cuda_event_done(at_device *device, void *event, bool *done);
void at_cuda_event_destroy(at_device *device, void *event);

/* ---- The device as a machine --------------------------------------------------------------------------------------
 */

/* Gives back what kernels have set aside of the L2 cache for lines that persist. */
attune_status at_cuda_reset_cache(at_device *device);
/* "0000:1b:00.0", by which other libraries know the device. */
enum { AT_CUDA_BUS_ID_BYTES = 32 };
attune_status at_cuda_bus_id(at_device *device, char id[AT_CUDA_BUS_ID_BYTES]);

#endif
