#include "judge/projection.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/problem.h"

enum { LAID_MOST = 256 << 20 /* bytes of all rows */ };

/* Where a role's columns are in a row of all, in elements. */
typedef struct columns {
    int64_t first, head;
} columns;

typedef struct projection {
    const at_inputs *inputs;
    int32_t dtype;
    int64_t batch, rows, width; /* elements of a row */
    bool rows_first;            /* [rows, batch, ...], else [batch, rows, ...] */
    attune_role first;          /* which of Q, K and V are here: from this one on */
    columns of[ATTUNE_V + 1];
    unsigned char *host;
    size_t bytes;
} projection;

static bool same_rows(const at_extent *a, const at_extent *b)
{
    return a->count[ATTUNE_STRIDE_BATCH] == b->count[ATTUNE_STRIDE_BATCH] &&
           a->count[ATTUNE_STRIDE_SEQ] == b->count[ATTUNE_STRIDE_SEQ];
}

static bool can_lie_so(const at_inputs *inputs)
{
    const attune_problem *problem = &inputs->problem;
    const at_extent k = at_inputs_extent(inputs, ATTUNE_K), v = at_inputs_extent(inputs, ATTUNE_V);
    bool can = problem->op == ATTUNE_FORWARD && problem->page_size == 0 && same_rows(&k, &v);
    for (int role = ATTUNE_Q; role <= ATTUNE_V; ++role) {
        can &= !inputs->buffer[role].sparse && inputs->buffer[role].bytes > 0 &&
               inputs->call.tensor[role].dtype == inputs->call.tensor[ATTUNE_Q].dtype;
    }
    return can;
}

static void divide(projection *on)
{
    const at_extent q = at_inputs_extent(on->inputs, ATTUNE_Q), k = at_inputs_extent(on->inputs, ATTUNE_K);
    const int64_t bytes = (int64_t)at_dtype_bytes(on->dtype), align = at_problem_align(&on->inputs->problem);
    const int64_t unit = align > bytes ? align / bytes : 1;
    on->first = same_rows(&q, &k) ? ATTUNE_Q : ATTUNE_K;
    on->batch = k.count[ATTUNE_STRIDE_BATCH];
    on->rows = k.count[ATTUNE_STRIDE_SEQ];
    for (int role = (int)on->first; role <= ATTUNE_V; ++role) {
        const at_extent extent = at_inputs_extent(on->inputs, (attune_role)role);
        on->of[role] = (columns){on->width, (extent.row + unit - 1) / unit * unit};
        on->width += extent.count[ATTUNE_STRIDE_HEAD] * on->of[role].head;
    }
    on->bytes = (size_t)(on->batch * on->rows * on->width * bytes);
}

static size_t place_of(const projection *on, int role, int64_t batch, int64_t head, int64_t row)
{
    const int64_t before = on->rows_first ? row * on->batch + batch : batch * on->rows + row;
    return (size_t)(before * on->width + on->of[role].first + head * on->of[role].head) * at_dtype_bytes(on->dtype);
}

static void copy_rows(const projection *on, int role)
{
    const at_extent extent = at_inputs_extent(on->inputs, (attune_role)role);
    const unsigned char *from = on->inputs->call.tensor[role].data;
    const size_t bytes = (size_t)extent.row * at_dtype_bytes(on->dtype);
    for (int64_t b = 0; b < on->batch; ++b) {
        for (int64_t h = 0; h < extent.count[ATTUNE_STRIDE_HEAD]; ++h) {
            for (int64_t i = 0; i < on->rows; ++i) {
                memcpy(on->host + place_of(on, role, b, h, i),
                       from + at_inputs_row(on->inputs, (attune_role)role, b, h, i), bytes);
            }
        }
    }
}

/* A dimension that is repeated remains so. */
static void point_there(const projection *on, unsigned char *slab, attune_call *call)
{
    const int64_t of_batch = on->rows_first ? on->width : on->rows * on->width;
    const int64_t of_row = on->rows_first ? on->batch * on->width : on->width;
    for (int role = (int)on->first; role <= ATTUNE_V; ++role) {
        attune_tensor *tensor = &call->tensor[role];
        const int64_t stride[] = {
            [ATTUNE_STRIDE_BATCH] = of_batch, [ATTUNE_STRIDE_HEAD] = on->of[role].head, [ATTUNE_STRIDE_SEQ] = of_row};
        tensor->data = slab + place_of(on, role, 0, 0, 0);
        for (int k = 0; k < 3; ++k) {
            tensor->stride[k] = tensor->stride[k] == 0 ? 0 : stride[k];
        }
    }
}

attune_status at_projection_make(const at_placement *place, bool rows_first, attune_call *call, void **slab)
{
    const at_device_ops *ops = place->device->ops;
    projection on = {
        .inputs = place->inputs, .dtype = place->inputs->call.tensor[ATTUNE_Q].dtype, .rows_first = rows_first};
    *slab = NULL;
    if (!can_lie_so(on.inputs)) {
        return ATTUNE_OK;
    }
    divide(&on);
    if (on.bytes > LAID_MOST) {
        return ATTUNE_OK;
    }
    on.host = calloc(on.bytes, 1);
    AT_FAIL_IF(on.host == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu bytes of inputs between one another",
               on.bytes);
    for (int role = (int)on.first; role <= ATTUNE_V; ++role) {
        copy_rows(&on, role);
    }
    attune_status status = ops->allocate(place->device, on.bytes, slab);
    status = status == ATTUNE_OK ? ops->upload(place->device, *slab, on.host, on.bytes) : status;
    free(on.host);
    if (status == ATTUNE_OK) {
        point_there(&on, *slab, call);
    }
    return status;
}
