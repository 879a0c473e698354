/* Streams, graphs and events of an opened CUDA device, for whoever measures or embeds plans. Errors are those of
 * docs/cuda.md. */
#ifndef CUDA_GRAPH_H
#define CUDA_GRAPH_H

#include "core/device.h"

/* A stream that does not wait for the default one. `device` is one that at_cuda_open opened. */
attune_status at_cuda_stream_create(at_device *device, void **stream);
void at_cuda_stream_destroy(at_device *device, void *stream);

/* What is enqueued on the stream by this thread between begin and end becomes a graph instead of running. */
typedef struct at_cuda_graph at_cuda_graph;

attune_status at_cuda_capture_begin(at_device *device, void *stream);
/* Ends the capture, whatever became of it: with a graph, made ready and uploaded, or with an error and NULL. */
attune_status at_cuda_capture_end(at_device *device, void *stream, at_cuda_graph **graph);
/* Nodes of the graph: launches, fills and copies. */
size_t at_cuda_graph_nodes(const at_cuda_graph *graph);
attune_status at_cuda_graph_launch(const at_cuda_graph *graph, void *stream);
void at_cuda_graph_destroy(at_cuda_graph *graph); /* NULL is fine */

/* Points in time on a stream. */
attune_status at_cuda_event_create(at_device *device, void **event);
attune_status at_cuda_event_record(at_device *device, void *event, void *stream);
/* Waits for both; NOTE: resolution is about 0.5 us. */
attune_status at_cuda_event_elapsed(at_device *device, void *begin, void *end, double *microseconds);
void at_cuda_event_destroy(at_device *device, void *event);

#endif
