/* NOTE: the engines recognise a graph by its form. Its order, the types of what lies between operations, and comparing
 * (row + seqlen_kv - seqlen_q) with the column rather than any equal expression, are those for which NVIDIA's own front
 * end (github.com/NVIDIA/cudnn-frontend) says that they make the engines fast. */
#include "peers/cudnn_graph.h"

#include "base/status.h"

/* ---- Descriptors ----------------------------------------------------------------------------------------------------
 */

static void fail(at_cudnn_graph *graph, unsigned int error, const char *what)
{
    if (graph->status == ATTUNE_OK) {
        graph->status = at_cudnn_check(graph->cudnn, error, ATTUNE_UNSUPPORTED, what);
    }
}

static at_cudnn_descriptor make(at_cudnn_graph *graph, unsigned int kind, const char *what)
{
    at_cudnn_descriptor made = NULL;
    if (graph->status == ATTUNE_OK && graph->parts == AT_CUDNN_PARTS_MAX) {
        graph->status = at_fail(ATTUNE_INTERNAL, "more than %d parts of a cuDNN graph", AT_CUDNN_PARTS_MAX);
    }
    if (graph->status != ATTUNE_OK) {
        return NULL;
    }
    fail(graph, graph->cudnn->cudnnBackendCreateDescriptor(kind, &made), what);
    if (graph->status == ATTUNE_OK) {
        graph->part[graph->parts++] = made;
    }
    return made;
}

static void set(at_cudnn_graph *graph, at_cudnn_descriptor of, unsigned int attribute, unsigned int type, int64_t count,
                const void *values, const char *what)
{
    if (graph->status == ATTUNE_OK) {
        fail(graph, graph->cudnn->cudnnBackendSetAttribute(of, attribute, type, count, values), what);
    }
}

static void set_descriptor(at_cudnn_graph *graph, at_cudnn_descriptor of, unsigned int attribute,
                           at_cudnn_descriptor value, const char *what)
{
    set(graph, of, attribute, AT_CUDNN_TYPE_DESCRIPTOR, 1, &value, what);
}

/* Enumerations are set as ints of their own attribute types. */
static void set_choice(at_cudnn_graph *graph, at_cudnn_descriptor of, unsigned int attribute, unsigned int type,
                       int value, const char *what)
{
    set(graph, of, attribute, type, 1, &value, what);
}

static void finish(at_cudnn_graph *graph, at_cudnn_descriptor made, const char *what)
{
    if (graph->status == ATTUNE_OK) {
        fail(graph, graph->cudnn->cudnnBackendFinalize(made), what);
    }
}

static void finish_operation(at_cudnn_graph *graph, at_cudnn_descriptor made, const char *what)
{
    finish(graph, made, what);
    if (graph->status == ATTUNE_OK && graph->operations == AT_CUDNN_OPERATIONS_MAX) {
        graph->status = at_fail(ATTUNE_INTERNAL, "more than %d operations of a cuDNN graph", AT_CUDNN_OPERATIONS_MAX);
    }
    if (graph->status == ATTUNE_OK) {
        graph->operation[graph->operations++] = made;
    }
}

/* ---- Tensors --------------------------------------------------------------------------------------------------------
 */

enum { MEMORY, BY_VALUE, BETWEEN };

typedef struct tensor {
    int64_t id;
    int dtype, where;
    int64_t dim[4], stride[4];
} tensor;

static at_cudnn_descriptor make_tensor(at_cudnn_graph *graph, const tensor *of, const char *what)
{
    static const int64_t alignment = 16;
    static const bool yes = true;
    at_cudnn_descriptor made = make(graph, AT_CUDNN_TENSOR, what);
    set_choice(graph, made, AT_CUDNN_TENSOR_DTYPE, AT_CUDNN_TYPE_DATA_TYPE, of->dtype, what);
    set(graph, made, AT_CUDNN_TENSOR_DIMS, AT_CUDNN_TYPE_INT64, 4, of->dim, what);
    set(graph, made, AT_CUDNN_TENSOR_STRIDES, AT_CUDNN_TYPE_INT64, 4, of->stride, what);
    set(graph, made, AT_CUDNN_TENSOR_ID, AT_CUDNN_TYPE_INT64, 1, &of->id, what);
    set(graph, made, AT_CUDNN_TENSOR_ALIGNMENT, AT_CUDNN_TYPE_INT64, 1, &alignment, what);
    if (of->where != MEMORY) {
        set(graph, made, of->where == BETWEEN ? AT_CUDNN_TENSOR_VIRTUAL : AT_CUDNN_TENSOR_BY_VALUE,
            AT_CUDNN_TYPE_BOOLEAN, 1, &yes, what);
    }
    finish(graph, made, what);
    return made;
}

static int half_type(const at_cudnn_shape *shape)
{
    return shape->dtype == ATTUNE_BF16 ? AT_CUDNN_BFLOAT16 : AT_CUDNN_HALF;
}

/* The tensor of a role: rows of `dim`, or with `transposed` columns. */
static at_cudnn_descriptor role_tensor(at_cudnn_graph *graph, attune_role role, int64_t dim, bool transposed)
{
    static const char *const names[] = {"tensor Q", "tensor K", "tensor V", "tensor O", "tensor LSE"};
    const at_cudnn_shape *s = graph->shape;
    bool of_query = role != ATTUNE_K && role != ATTUNE_V;
    int64_t rows = of_query ? s->seqlen_q : s->seqlen_kv;
    int64_t row = s->stride[role][ATTUNE_STRIDE_SEQ];
    const tensor of = {
        .id = AT_CUDNN_ID_ROLES + (int64_t)role,
        .dtype = role == ATTUNE_LSE ? AT_CUDNN_FLOAT : half_type(s),
        .where = MEMORY,
        .dim = {s->batch, of_query ? s->heads_q : s->heads_kv, transposed ? dim : rows, transposed ? rows : dim},
        .stride = {s->stride[role][ATTUNE_STRIDE_BATCH], s->stride[role][ATTUNE_STRIDE_HEAD], transposed ? 1 : row,
                   transposed ? row : 1},
    };
    return make_tensor(graph, &of, names[role]);
}

static at_cudnn_descriptor scalar(at_cudnn_graph *graph, int64_t id, int dtype)
{
    const tensor of = {.id = id, .dtype = dtype, .where = BY_VALUE, .dim = {1, 1, 1, 1}, .stride = {1, 1, 1, 1}};
    return make_tensor(graph, &of, "a scalar");
}

/* What lies between operations: [batch, heads_q, seqlen_q, columns]. */
static at_cudnn_descriptor between(at_cudnn_graph *graph, int64_t columns, int dtype)
{
    const at_cudnn_shape *s = graph->shape;
    const tensor of = {
        .id = graph->next_id++,
        .dtype = dtype,
        .where = BETWEEN,
        .dim = {s->batch, s->heads_q, s->seqlen_q, columns},
        .stride = {s->heads_q * s->seqlen_q * columns, s->seqlen_q * columns, columns, 1},
    };
    return make_tensor(graph, &of, "a tensor between operations");
}

static at_cudnn_descriptor scores(at_cudnn_graph *graph, int dtype)
{
    return between(graph, graph->shape->seqlen_kv, dtype);
}

/* ---- Operations -----------------------------------------------------------------------------------------------------
 */

static void multiply(at_cudnn_graph *graph, at_cudnn_descriptor a, at_cudnn_descriptor b, at_cudnn_descriptor c)
{
    static const char what[] = "a matrix product";
    at_cudnn_descriptor how = make(graph, AT_CUDNN_MATMUL, what);
    set_choice(graph, how, AT_CUDNN_MATMUL_TYPE, AT_CUDNN_TYPE_DATA_TYPE, AT_CUDNN_FLOAT, what);
    finish(graph, how, what);
    at_cudnn_descriptor made = make(graph, AT_CUDNN_OPERATION_MATMUL, what);
    set_descriptor(graph, made, AT_CUDNN_OP_MATMUL_A, a, what);
    set_descriptor(graph, made, AT_CUDNN_OP_MATMUL_B, b, what);
    set_descriptor(graph, made, AT_CUDNN_OP_MATMUL_C, c, what);
    set_descriptor(graph, made, AT_CUDNN_OP_MATMUL_DESC, how, what);
    finish_operation(graph, made, what);
}

/* How elements are combined: `type` is what it is computed in, `axis` which index GEN_INDEX gives. */
typedef struct combine {
    int mode, type;
    int64_t axis;
    const char *what;
} combine;

/* y <- x, b by mode; SELECT also has the condition t. Operands that a mode lacks are NULL. */
static at_cudnn_descriptor pointwise(at_cudnn_graph *graph, const combine *by, at_cudnn_descriptor x,
                                     at_cudnn_descriptor b, at_cudnn_descriptor t, at_cudnn_descriptor y)
{
    static const float one = 1.0F;
    at_cudnn_descriptor how = make(graph, AT_CUDNN_POINTWISE, by->what);
    set_choice(graph, how, AT_CUDNN_POINTWISE_MODE, AT_CUDNN_TYPE_POINTWISE_MODE, by->mode, by->what);
    set_choice(graph, how, AT_CUDNN_POINTWISE_PRECISION, AT_CUDNN_TYPE_DATA_TYPE, by->type, by->what);
    if (by->mode == AT_CUDNN_GEN_INDEX) {
        set(graph, how, AT_CUDNN_POINTWISE_AXIS, AT_CUDNN_TYPE_INT64, 1, &by->axis, by->what);
    }
    finish(graph, how, by->what);
    at_cudnn_descriptor made = make(graph, AT_CUDNN_OPERATION_POINTWISE, by->what);
    set_descriptor(graph, made, AT_CUDNN_OP_POINTWISE_DESC, how, by->what);
    set_descriptor(graph, made, AT_CUDNN_OP_POINTWISE_X, x, by->what);
    set_descriptor(graph, made, AT_CUDNN_OP_POINTWISE_Y, y, by->what);
    if (b != NULL) {
        set_descriptor(graph, made, AT_CUDNN_OP_POINTWISE_B, b, by->what);
    }
    if (t != NULL) {
        set_descriptor(graph, made, AT_CUDNN_OP_POINTWISE_T, t, by->what);
    }
    set(graph, made, AT_CUDNN_OP_POINTWISE_ALPHA1, AT_CUDNN_TYPE_FLOAT, 1, &one, by->what);
    set(graph, made, AT_CUDNN_OP_POINTWISE_ALPHA2, AT_CUDNN_TYPE_FLOAT, 1, &one, by->what);
    finish_operation(graph, made, by->what);
    return y;
}

/* A row's scores to one number. */
static at_cudnn_descriptor reduce(at_cudnn_graph *graph, int operator, at_cudnn_descriptor x, const char *what)
{
    at_cudnn_descriptor y = between(graph, 1, AT_CUDNN_FLOAT);
    at_cudnn_descriptor how = make(graph, AT_CUDNN_REDUCTION, what);
    set_choice(graph, how, AT_CUDNN_REDUCTION_OPERATOR, AT_CUDNN_TYPE_REDUCTION, operator, what);
    set_choice(graph, how, AT_CUDNN_REDUCTION_TYPE, AT_CUDNN_TYPE_DATA_TYPE, AT_CUDNN_FLOAT, what);
    finish(graph, how, what);
    at_cudnn_descriptor made = make(graph, AT_CUDNN_OPERATION_REDUCTION, what);
    set_descriptor(graph, made, AT_CUDNN_OP_REDUCTION_X, x, what);
    set_descriptor(graph, made, AT_CUDNN_OP_REDUCTION_Y, y, what);
    set_descriptor(graph, made, AT_CUDNN_OP_REDUCTION_DESC, how, what);
    finish_operation(graph, made, what);
    return y;
}

/* ---- Attention ------------------------------------------------------------------------------------------------------
 */

static at_cudnn_descriptor scaled_product(at_cudnn_graph *graph)
{
    static const combine scaling = {AT_CUDNN_MUL, AT_CUDNN_FLOAT, 0, "the scale"};
    int64_t dim = graph->shape->head_dim_qk;
    at_cudnn_descriptor product = scores(graph, AT_CUDNN_FLOAT);
    multiply(graph, role_tensor(graph, ATTUNE_Q, dim, false), role_tensor(graph, ATTUNE_K, dim, true), product);
    return pointwise(graph, &scaling, product, scalar(graph, AT_CUDNN_ID_SCALE, AT_CUDNN_FLOAT), NULL,
                     scores(graph, AT_CUDNN_FLOAT));
}

/* Keeps the keys whose column is at most the row's position. */
static at_cudnn_descriptor masked(at_cudnn_graph *graph, at_cudnn_descriptor score)
{
    static const combine row_of = {AT_CUDNN_GEN_INDEX, AT_CUDNN_FLOAT, 2, "the mask's rows"};
    static const combine column_of = {AT_CUDNN_GEN_INDEX, AT_CUDNN_FLOAT, 3, "the mask's columns"};
    static const combine add = {AT_CUDNN_ADD, AT_CUDNN_INT32, 0, "the mask's offset"};
    static const combine subtract = {AT_CUDNN_SUB, AT_CUDNN_INT32, 0, "the mask's offset"};
    static const combine compare = {AT_CUDNN_CMP_GE, AT_CUDNN_BOOLEAN, 0, "the mask's comparison"};
    static const combine select = {AT_CUDNN_SELECT, AT_CUDNN_FLOAT, 0, "the mask"};
    if (graph->shape->mask == AT_CUDNN_MASK_NONE) {
        return score;
    }
    at_cudnn_descriptor row = pointwise(graph, &row_of, score, NULL, NULL, scores(graph, AT_CUDNN_INT32));
    at_cudnn_descriptor column = pointwise(graph, &column_of, score, NULL, NULL, scores(graph, AT_CUDNN_INT32));
    if (graph->shape->mask == AT_CUDNN_MASK_BOTTOM_RIGHT) {
        row = pointwise(graph, &add, row, scalar(graph, AT_CUDNN_ID_SEQLEN_KV, AT_CUDNN_INT32), NULL,
                        scores(graph, AT_CUDNN_INT32));
        row = pointwise(graph, &subtract, row, scalar(graph, AT_CUDNN_ID_SEQLEN_Q, AT_CUDNN_INT32), NULL,
                        scores(graph, AT_CUDNN_INT32));
    }
    at_cudnn_descriptor seen = pointwise(graph, &compare, row, column, NULL, scores(graph, AT_CUDNN_BOOLEAN));
    return pointwise(graph, &select, score, scalar(graph, AT_CUDNN_ID_HIDDEN, AT_CUDNN_FLOAT), seen,
                     scores(graph, AT_CUDNN_FLOAT));
}

static at_cudnn_descriptor softmax(at_cudnn_graph *graph, at_cudnn_descriptor score)
{
    static const combine subtract = {AT_CUDNN_SUB, AT_CUDNN_FLOAT, 0, "the softmax's difference"};
    static const combine exponential = {AT_CUDNN_EXP, AT_CUDNN_FLOAT, 0, "the softmax's exponential"};
    static const combine logarithm = {AT_CUDNN_LOG, AT_CUDNN_FLOAT, 0, "the LSE's logarithm"};
    static const combine add = {AT_CUDNN_ADD, AT_CUDNN_FLOAT, 0, "the LSE's sum"};
    static const combine divide = {AT_CUDNN_DIV, AT_CUDNN_FLOAT, 0, "the softmax's quotient"};
    at_cudnn_descriptor most = reduce(graph, AT_CUDNN_REDUCE_MAX, score, "the softmax's maximum");
    at_cudnn_descriptor below = pointwise(graph, &subtract, score, most, NULL, scores(graph, AT_CUDNN_FLOAT));
    at_cudnn_descriptor weight = pointwise(graph, &exponential, below, NULL, NULL, scores(graph, AT_CUDNN_FLOAT));
    at_cudnn_descriptor sum = reduce(graph, AT_CUDNN_REDUCE_ADD, weight, "the softmax's sum");
    /* NOTE: without an LSE, engines take the division for a part of dropout and refuse: it is there, wanted or not. */
    at_cudnn_descriptor log = pointwise(graph, &logarithm, sum, NULL, NULL, between(graph, 1, AT_CUDNN_FLOAT));
    (void)pointwise(graph, &add, most, log, NULL,
                    graph->shape->lse != 0 ? role_tensor(graph, ATTUNE_LSE, 1, false)
                                           : between(graph, 1, AT_CUDNN_FLOAT));
    return pointwise(graph, &divide, weight, sum, NULL, scores(graph, half_type(graph->shape)));
}

static void join(at_cudnn_graph *graph)
{
    static const char what[] = "the graph of attention";
    graph->whole = make(graph, AT_CUDNN_OPERATIONGRAPH, what);
    if (graph->cudnn->handle != NULL) {
        set(graph, graph->whole, AT_CUDNN_GRAPH_HANDLE, AT_CUDNN_TYPE_HANDLE, 1, &graph->cudnn->handle, what);
    }
    set(graph, graph->whole, AT_CUDNN_GRAPH_OPS, AT_CUDNN_TYPE_DESCRIPTOR, graph->operations, graph->operation, what);
    finish(graph, graph->whole, what);
}

attune_status at_cudnn_graph_build(const at_cudnn *cudnn, const at_cudnn_shape *shape, at_cudnn_graph *graph)
{
    *graph = (at_cudnn_graph){.cudnn = cudnn, .shape = shape, .next_id = AT_CUDNN_ID_INSIDE};
    int64_t dim = shape->head_dim_v;
    at_cudnn_descriptor weights = softmax(graph, masked(graph, scaled_product(graph)));
    multiply(graph, weights, role_tensor(graph, ATTUNE_V, dim, false), role_tensor(graph, ATTUNE_O, dim, false));
    join(graph);
    return graph->status;
}

void at_cudnn_graph_free(at_cudnn_graph *graph)
{
    while (graph->parts > 0) {
        (void)graph->cudnn->cudnnBackendDestroyDescriptor(graph->part[--graph->parts]);
    }
}
