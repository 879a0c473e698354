/* The shapes and strides of a call's tensors. */
#ifndef CORE_SHAPE_H
#define CORE_SHAPE_H

#include <stdbool.h>

#include "attune/attune.h"

enum { AT_DIMENSIONS = 4, AT_DIMENSION_STATE = 3 }; /* those of attune_tensor.stride, and the states to be merged */

/* The shape of a role's tensor: outer extents, and the contiguous row inside. Dimensions that a role lacks, or that the
 * problem's bias has not, have extent 1. */
typedef struct at_shape {
    int64_t extent[AT_DIMENSIONS];
    int64_t row;
} at_shape;

at_shape at_shape_of(const attune_problem *problem, const attune_call *call, int role);
bool at_shape_is_empty(const at_shape *shape);
/* Rows of head_dim elements, of the problem's alignment. */
bool at_role_has_head_dim(int role);
/* CU_Q, CU_KV, USED_KV, SLOTS: plain int32 arrays. */
bool at_role_is_array(int role);
/* The stride of one of the dimensions, in elements. */
int64_t at_stride_of(const attune_call *call, int role, int dimension);
/* A pool or states: the dimension's indices are pages, or states. */
const char *at_dimension_name(const attune_problem *problem, int role, int dimension);
/* The contiguous strides that a call begins with; those of states are the call's own. */
void at_shape_strides(const attune_problem *problem, const attune_call *call, int role, int64_t stride[3]);

#endif
