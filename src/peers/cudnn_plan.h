/* A graph of attention made ready to run: one of the engines that cuDNN's heuristics offer for it. */
#ifndef PEERS_CUDNN_PLAN_H
#define PEERS_CUDNN_PLAN_H

#include "peers/cudnn_graph.h"

enum { AT_CUDNN_CHOICES_MAX = 16 };

/* The heuristics' choices for one graph, best first. */
typedef struct at_cudnn_choices {
    const at_cudnn *cudnn;
    int count;
    at_cudnn_descriptor config[AT_CUDNN_CHOICES_MAX];
    int heuristics;
    at_cudnn_descriptor heuristic[2]; /* which own the configs' facts */
} at_cudnn_choices;

/* What heuristics of mode A choose, and behind them, with `all`, the fallbacks. ATTUNE_UNSUPPORTED, with cuDNN's words,
 * where there is none. Free them also after a failure. */
attune_status at_cudnn_choose(const at_cudnn_graph *graph, bool all, at_cudnn_choices *choices);
void at_cudnn_choices_free(at_cudnn_choices *choices);

typedef struct at_cudnn_plan {
    const at_cudnn *cudnn;
    at_cudnn_descriptor ready;
    int64_t workspace_bytes;
    int64_t engine; /* cuDNN's number of it */
} at_cudnn_plan;

/* Compiles the index-th choice. ATTUNE_UNSUPPORTED where that engine refuses the graph after all. */
attune_status at_cudnn_plan_make(const at_cudnn_choices *choices, int index, at_cudnn_plan *plan);
void at_cudnn_plan_free(at_cudnn_plan *plan);
/* Enqueues one run of a plan for the shape, on the call's tensors (16-byte aligned), workspace and stream, by one
 * thread at a time. */
attune_status at_cudnn_plan_run(const at_cudnn_plan *plan, const at_cudnn_shape *shape, float scale,
                                const attune_call *call);

#endif
