#include "worker/transform.h"

#include <math.h>
#include <string.h>

#include "attune/kernel.h"
#include "core/problem.h"
#include "reference/sequence.h"

/* ---- What there is ----------------------------------------------------------------------------------------------- */

/* From the first element to the last, laid out like the tensor. */
static size_t span(const attune_tensor *tensor, int64_t batch, int64_t heads, int64_t rows, int64_t columns)
{
    int64_t last = (batch - 1) * tensor->stride[ATTUNE_STRIDE_BATCH] +
                   (heads - 1) * tensor->stride[ATTUNE_STRIDE_HEAD] + (rows - 1) * tensor->stride[ATTUNE_STRIDE_SEQ] +
                   columns;
    return rows > 0 ? (size_t)last * at_dtype_bytes(tensor->dtype) : 0;
}

static at_transform_role role_of(const attune_call *call, attune_role role, int64_t batch, int64_t heads, int64_t rows,
                                 int64_t columns)
{
    const attune_tensor *tensor = &call->tensor[role];
    return (at_transform_role){batch, heads, rows, columns, *tensor, span(tensor, batch, heads, rows, columns)};
}

size_t at_transform_result_bytes(const at_transform_map *transformed, const attune_tensor *strides)
{
    const at_transform_role *of = &transformed->role[ATTUNE_O];
    return span(strides, transformed->batch, of->heads, of->rows, of->columns);
}

void at_transform_describe(const attune_problem *problem, const attune_call *call, int64_t rows_q,
                           at_transform_map *transformed)
{
    bool packed = problem->varlen != 0;
    int64_t batch = packed ? 1 : call->batch;
    int64_t queries = packed ? rows_q : call->seqlen_q;
    int64_t keys = packed ? call->total_kv : call->seqlen_kv;
    static const attune_role tell[] = {ATTUNE_BIAS, ATTUNE_MASK,    ATTUNE_SINK,         ATTUNE_SLOPES,
                                       ATTUNE_CU_Q, ATTUNE_USED_KV, ATTUNE_PAGE_TABLE_K, ATTUNE_DRAFT_MASK};
    *transformed = (at_transform_map){.batch = batch, .heads_kv = call->heads_kv, .moves = true};
    for (size_t i = 0; i < sizeof tell / sizeof tell[0]; ++i) {
        transformed->moves = transformed->moves && call->tensor[tell[i]].data == NULL;
    }
    transformed->role[ATTUNE_Q] = role_of(call, ATTUNE_Q, batch, call->heads_q, queries, problem->head_dim_qk);
    const bool pool = problem->page_size > 0;
    const int64_t outer = pool ? call->page_count : batch;
    keys = pool ? problem->page_size : keys;
    transformed->role[ATTUNE_K] = role_of(call, ATTUNE_K, outer, call->heads_kv, keys, problem->head_dim_qk);
    transformed->role[ATTUNE_V] = role_of(call, ATTUNE_V, outer, call->heads_kv, keys, problem->head_dim_v);
    transformed->role[ATTUNE_O] = role_of(call, ATTUNE_O, batch, call->heads_q, queries, problem->head_dim_v);
}

/* ---- What a transform does
 * ------------------------------------------------------------------------------------------- */

typedef struct drawn {
    uint64_t key;
    int64_t batch, head_kv; /* by how much they move */
} drawn;

/* NOTE: 0 stays 0, which is the transform that changes nothing. */
static uint64_t mixed(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

static drawn apply(const at_transform_map *transformed, uint64_t transform)
{
    drawn on = {mixed(transform), 0, 0};
    if (transformed->moves) {
        on.batch = (int64_t)((on.key >> 8) % (uint64_t)transformed->batch);
        on.head_kv = (int64_t)((on.key >> 32) % (uint64_t)transformed->heads_kv);
    }
    return on;
}

static bool flips(const drawn *on, int64_t column, bool values)
{
    return on->key != 0 && (mixed(on->key + (uint64_t)column * 2 + (values ? 1 : 0)) & 1) != 0;
}

static int64_t index_of(const attune_tensor *tensor, int64_t batch, int64_t head, int64_t row)
{
    return batch * tensor->stride[ATTUNE_STRIDE_BATCH] + head * tensor->stride[ATTUNE_STRIDE_HEAD] +
           row * tensor->stride[ATTUNE_STRIDE_SEQ];
}

/* The base's element index of the row that is at number `i` under the transform. */
static int64_t source_of(const at_transform_map *transformed, const at_transform_role *of, const drawn *on, int64_t i)
{
    int64_t batch = i / of->rows / of->heads;
    int64_t head = i / of->rows % of->heads;
    int64_t moved = head + on->head_kv * (of->heads / transformed->heads_kv);
    return index_of(&of->tensor, (batch + on->batch) % of->batch, moved % of->heads, i % of->rows);
}

static int64_t target_of(const at_transform_role *of, const attune_tensor *strides, int64_t i)
{
    return index_of(strides, i / of->rows / of->heads, i / of->rows % of->heads, i % of->rows);
}

/* ---- Inputs ------------------------------------------------------------------------------------------------------ */

static void apply_to_row(const drawn *on, int64_t columns, bool values, size_t bytes, const unsigned char *from,
                         unsigned char *to)
{
    memcpy(to, from, (size_t)columns * bytes);
    for (int64_t column = 0; column < columns; ++column) {
        if (flips(on, column, values)) {
            to[(size_t)(column + 1) * bytes - 1] ^= 0x80U; /* little-endian: the sign is in the last byte */
        }
    }
}

void at_transform_apply(const at_transform_map *transformed, attune_role role, uint64_t transform, void *to)
{
    const at_transform_role *of = &transformed->role[role];
    const drawn on = apply(transformed, transform);
    size_t bytes = at_dtype_bytes(of->tensor.dtype);
    const unsigned char *from = of->tensor.data;
    for (int64_t i = 0; i < of->batch * of->heads * of->rows; ++i) {
        apply_to_row(&on, of->columns, role == ATTUNE_V, bytes,
                     from + (size_t)source_of(transformed, of, &on, i) * bytes,
                     (unsigned char *)to + (size_t)target_of(of, &of->tensor, i) * bytes);
    }
}

/* ---- Outputs ----------------------------------------------------------------------------------------------------- */

enum { COLUMNS = 256 }; /* head dims have at most as many */

static bool row_is_right(const drawn *on, int64_t columns, const double *wanted, const double *got, double share)
{
    double size = 0;
    for (int64_t column = 0; column < columns; ++column) {
        double here = fabs(wanted[column]);
        size = isfinite(here) && here > size ? here : size;
    }
    for (int64_t column = 0; column < columns; ++column) {
        double value = flips(on, column, true) ? -wanted[column] : wanted[column];
        bool alike = value == got[column] || (share > 0 && fabs(value - got[column]) <= share * size);
        if (!alike && !(share <= 0 && isnan(value) && isnan(got[column]))) {
            return false;
        }
    }
    return true;
}

bool at_transform_matches(const at_transform_map *transformed, uint64_t transform, const attune_tensor *got,
                          double share)
{
    const at_transform_role *of = &transformed->role[ATTUNE_O];
    const drawn on = apply(transformed, transform);
    double wanted_row[COLUMNS], got_row[COLUMNS];
    for (int64_t i = 0; i < of->batch * of->heads * of->rows; ++i) {
        at_elements_double(&of->tensor, source_of(transformed, of, &on, i), of->columns, wanted_row);
        at_elements_double(got, target_of(of, got, i), of->columns, got_row);
        if (!row_is_right(&on, of->columns, wanted_row, got_row, share)) {
            return false;
        }
    }
    return true;
}

double at_transform_share(const attune_problem *problem, uint32_t traits, bool of_two)
{
    enum { PLAIN = 16, TF32 = 192, ACC16 = 512 };
    static const double rounding[] = {[ATTUNE_FP32] = 0x1p-14, [ATTUNE_FP16] = 0x1p-11, [ATTUNE_BF16] = 0x1p-8};
    if (problem->tf32) {
        return (of_two ? TF32 : PLAIN) * 0x1p-11;
    }
    return ((traits & ATTUNE_TRAIT_ACC16) != 0 ? ACC16 : PLAIN) * rounding[problem->dtype];
}
