/* Attention as a graph of cuDNN's operations: S = scale Q K^T, mask, softmax written out, O = P V, in the form that its
 * engines for fused attention recognise. (The single operation for attention has no mask before cuDNN 9.21.) */
#ifndef PEERS_CUDNN_GRAPH_H
#define PEERS_CUDNN_GRAPH_H

#include "attune/kernel.h"
#include "peers/cudnn_library.h"

enum { AT_CUDNN_MASK_NONE, AT_CUDNN_MASK_TOP_LEFT, AT_CUDNN_MASK_BOTTOM_RIGHT };

/* All that a graph is made for; all members are of one size, so that shapes compare as bytes. */
typedef struct at_cudnn_shape {
    int64_t dtype; /* attune_dtype */
    int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_kv, head_dim_qk, head_dim_v;
    int64_t mask;         /* AT_CUDNN_MASK_ */
    int64_t lse;          /* whether LSE is wanted */
    int64_t stride[5][3]; /* of Q, K, V, O and LSE by role, as in attune_tensor, elements */
} at_cudnn_shape;

/* What the graph's tensors in memory are called in a variant pack: a role's is 1 + the role; scalars are passed by
 * value, through a pointer to the host's memory. */
enum {
    AT_CUDNN_ID_ROLES = 1,
    AT_CUDNN_ID_SCALE = 10, /* float */
    AT_CUDNN_ID_HIDDEN,     /* float: the score of a hidden key */
    AT_CUDNN_ID_SEQLEN_Q,   /* int32 */
    AT_CUDNN_ID_SEQLEN_KV,  /* int32 */
    AT_CUDNN_ID_INSIDE      /* the first that has no memory */
};

enum { AT_CUDNN_PARTS_MAX = 96, AT_CUDNN_OPERATIONS_MAX = 24 };

/* A graph and the descriptors it is made of. The first failure is remembered and nothing is done after it. */
typedef struct at_cudnn_graph {
    const at_cudnn *cudnn;
    const at_cudnn_shape *shape;
    attune_status status;
    int64_t next_id;
    int parts, operations;
    at_cudnn_descriptor part[AT_CUDNN_PARTS_MAX]; /* everything made, in this order */
    at_cudnn_descriptor operation[AT_CUDNN_OPERATIONS_MAX];
    at_cudnn_descriptor whole;
} at_cudnn_graph;

/* Builds the graph; `shape` must outlive it. ATTUNE_UNSUPPORTED, with cuDNN's words, where it refuses. Free it also
 * after a failure. */
attune_status at_cudnn_graph_build(const at_cudnn *cudnn, const at_cudnn_shape *shape, at_cudnn_graph *graph);
void at_cudnn_graph_free(at_cudnn_graph *graph);

#endif
