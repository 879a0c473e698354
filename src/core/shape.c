#include "core/shape.h"

#include "core/problem.h"

static at_shape shape_rows(const attune_problem *p, const attune_call *call, bool of_query, int64_t row)
{
    int64_t batch = p->varlen ? 1 : call->batch;
    if (of_query) {
        return (at_shape){{batch, call->heads_q, p->varlen ? call->total_q : call->seqlen_q, 1}, row};
    }
    if (p->page_size > 0) {
        return (at_shape){{call->page_count, call->heads_kv, p->page_size, 1}, row};
    }
    if (p->op == ATTUNE_APPEND) {
        return (at_shape){{call->batch, call->heads_kv, call->seqlen_kv, 1}, row};
    }
    return (at_shape){{batch, call->heads_kv, p->varlen ? call->total_kv : call->seqlen_kv, 1}, row};
}

static at_shape shape_bias(const attune_problem *p, const attune_call *call)
{
    bool of_batch = p->bias == ATTUNE_BIAS_BX1 || p->bias == ATTUNE_BIAS_BXH;
    bool of_heads = p->bias == ATTUNE_BIAS_1XH || p->bias == ATTUNE_BIAS_BXH;
    return (at_shape){{of_batch ? call->batch : 1, of_heads ? call->heads_q : 1, call->seqlen_q, 1}, call->seqlen_kv};
}

static at_shape shape_of_state(const attune_problem *p, const attune_call *call, int64_t row)
{
    at_shape shape = shape_rows(p, call, true, row);
    shape.extent[AT_DIMENSION_STATE] = call->states;
    return shape;
}

at_shape at_shape_of(const attune_problem *p, const attune_call *call, int role)
{
    switch (role) {
    case ATTUNE_Q:
        return shape_rows(p, call, true, p->head_dim_qk);
    case ATTUNE_K:
        return shape_rows(p, call, false, p->head_dim_qk);
    case ATTUNE_V:
        return shape_rows(p, call, false, p->head_dim_v);
    case ATTUNE_O:
        return shape_rows(p, call, true, p->head_dim_v);
    case ATTUNE_LSE:
        return shape_rows(p, call, true, 1);
    case ATTUNE_BIAS:
        return shape_bias(p, call);
    case ATTUNE_MASK:
        return (at_shape){{call->batch, call->heads_q, call->seqlen_q, 1}, call->seqlen_kv};
    case ATTUNE_SINK:
    case ATTUNE_SLOPES:
        return (at_shape){{1, call->heads_q, 1, 1}, 1};
    case ATTUNE_USED_KV:
        return (at_shape){{call->batch, 1, 1, 1}, 1};
    case ATTUNE_CU_Q:
    case ATTUNE_CU_KV:
        return (at_shape){{call->batch + 1, 1, 1, 1}, 1};
    case ATTUNE_PAGE_TABLE_K:
    case ATTUNE_PAGE_TABLE_V:
        return (at_shape){{call->batch, 1, 1, 1}, call->page_table_width};
    case ATTUNE_NEW_K:
        return (at_shape){{1, call->heads_kv, call->total_new, 1}, p->head_dim_qk};
    case ATTUNE_NEW_V:
        return (at_shape){{1, call->heads_kv, call->total_new, 1}, p->head_dim_v};
    case ATTUNE_SLOTS:
        return (at_shape){{call->total_new, 1, 1, 1}, 1};
    case ATTUNE_DRAFT_MASK:
        return (at_shape){{p->varlen ? 1 : call->batch, 1, p->varlen ? call->total_q : call->seqlen_q, 1}, 1};
    case ATTUNE_STATE_O:
        return shape_of_state(p, call, p->head_dim_v);
    case ATTUNE_STATE_LSE:
        return shape_of_state(p, call, 1);
    default: /* of operations that no problem has yet */
        return (at_shape){{0, 0, 0, 0}, 0};
    }
}

bool at_shape_is_empty(const at_shape *shape)
{
    bool empty = shape->row == 0;
    for (int i = 0; i < AT_DIMENSIONS; ++i) {
        empty = empty || shape->extent[i] == 0;
    }
    return empty;
}

bool at_role_has_head_dim(int role)
{
    return role <= ATTUNE_O || role == ATTUNE_NEW_K || role == ATTUNE_NEW_V || role == ATTUNE_STATE_O;
}

bool at_role_is_array(int role)
{
    return role == ATTUNE_CU_Q || role == ATTUNE_CU_KV || role == ATTUNE_USED_KV || role == ATTUNE_SLOTS;
}

int64_t at_stride_of(const attune_call *call, int role, int dimension)
{
    if (at_role_is_array(role)) {
        return 1;
    }
    return dimension < AT_DIMENSION_STATE ? call->tensor[role].stride[dimension]
           : role == ATTUNE_STATE_O       ? call->state_stride_o
                                          : call->state_stride_lse;
}

const char *at_dimension_name(const attune_problem *problem, int role, int dimension)
{
    static const char *const names[AT_DIMENSIONS] = {"batch", "head", "sequence", "state"};
    const bool pool = problem->page_size > 0 && (role == ATTUNE_K || role == ATTUNE_V);
    return pool && dimension == ATTUNE_STRIDE_BATCH ? "page" : names[dimension];
}

/* ---- Contiguous strides ----------------------------------------------------------------------------------------- */

static void stride_rows(const attune_problem *problem, int role, const at_shape *shape, int64_t stride[3])
{
    /* Where align asks for more than a row has, rows are padded. */
    int64_t step = at_problem_align(problem) / (int64_t)at_dtype_bytes(at_problem_dtype(problem, role));
    int64_t row = (shape->row + step - 1) / step * step;
    int64_t heads = shape->extent[ATTUNE_STRIDE_HEAD];
    int64_t rows = shape->extent[ATTUNE_STRIDE_SEQ];
    const bool new_rows = role == ATTUNE_NEW_K || role == ATTUNE_NEW_V;
    const bool cache = (role == ATTUNE_K || role == ATTUNE_V) &&
                       (problem->page_size > 0 || problem->op == ATTUNE_APPEND); /* never packed */
    bool heads_inside = problem->layout == ATTUNE_BSHD || new_rows;
    stride[ATTUNE_STRIDE_SEQ] = heads_inside ? heads * row : row;
    stride[ATTUNE_STRIDE_HEAD] = heads_inside ? row : rows * row;
    stride[ATTUNE_STRIDE_BATCH] = (problem->varlen && !cache) || new_rows ? 0 : heads * rows * row;
}

/* Contiguous in the order of the dimensions. */
static void stride_plain(const at_shape *shape, int64_t stride[3])
{
    stride[2] = shape->row;
    stride[1] = stride[2] * shape->extent[2];
    stride[0] = stride[1] * shape->extent[1];
}

void at_shape_strides(const attune_problem *problem, const attune_call *call, int role, int64_t stride[3])
{
    at_shape shape = at_shape_of(problem, call, role);
    if (at_role_has_head_dim(role)) {
        stride_rows(problem, role, &shape, stride);
        return;
    }
    stride_plain(&shape, stride);
    for (int i = 0; i < 2; ++i) {
        if ((role == ATTUNE_BIAS || (role == ATTUNE_LSE && problem->varlen)) && shape.extent[i] == 1) {
            stride[i] = 0;
        }
    }
}
