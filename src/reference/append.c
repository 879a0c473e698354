#include "reference/append.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/call.h"
#include "reference/sequence.h"

/* The sequence of a new row, how many it gets, and which of them the row is; false where the row is nobody's. */
static bool sequence_of(const attune_args *args, int64_t index, int64_t *batch, int64_t *rows, int64_t *row)
{
    for (int64_t b = 0; b < args->batch; ++b) {
        const at_sequence sequence = at_sequence_of(args, b);
        const int64_t first = args->features & ATTUNE_FEATURE_VARLEN ? sequence.q_first : b * args->seqlen_q;
        if (index >= first && index < first + sequence.seqlen_q) {
            *batch = b;
            *rows = sequence.seqlen_q;
            *row = index - first;
            return true;
        }
    }
    return false;
}

static bool place_of_slot(const attune_args *args, int64_t slot, int64_t *outer, int64_t *row)
{
    const bool paged = (args->features & ATTUNE_FEATURE_PAGED) != 0;
    const int64_t rows = paged ? args->page_size : args->seqlen_kv;
    const int64_t outers = paged ? args->page_count : args->batch;
    if (slot < 0 || rows == 0 || slot / rows >= outers) {
        return false;
    }
    *outer = slot / rows;
    *row = slot % rows;
    return true;
}

bool at_append_place(const attune_args *args, attune_role role, int64_t index, int64_t *outer, int64_t *row)
{
    int64_t batch, rows, at;
    if (args->features & ATTUNE_FEATURE_SLOTS) {
        return place_of_slot(args, ((const int32_t *)args->tensor[ATTUNE_SLOTS].data)[index], outer, row);
    }
    if (!sequence_of(args, index, &batch, &rows, &at)) {
        return false;
    }
    const int64_t position = ((const int32_t *)args->tensor[ATTUNE_USED_KV].data)[batch] - rows + at;
    if (position < 0 || position >= args->seqlen_kv) {
        return false;
    }
    *outer = batch;
    *row = position;
    if (args->features & ATTUNE_FEATURE_PAGED) {
        const bool own = role == ATTUNE_V && (args->features & ATTUNE_FEATURE_PAGED_V);
        const attune_tensor *table = &args->tensor[own ? ATTUNE_PAGE_TABLE_V : ATTUNE_PAGE_TABLE_K];
        const int32_t *entry = (const int32_t *)table->data + batch * table->stride[ATTUNE_STRIDE_BATCH];
        *outer = entry[position / args->page_size];
        *row = position % args->page_size;
    }
    return *outer >= 0 && (!(args->features & ATTUNE_FEATURE_PAGED) || *outer < args->page_count);
}

static attune_status judge_row(const at_inputs *inputs, attune_role role, const int64_t where[3], int64_t source)
{
    const attune_role new_role = role == ATTUNE_K ? ATTUNE_NEW_K : ATTUNE_NEW_V;
    const size_t at = at_inputs_row(inputs, role, where[0], where[1], where[2]);
    const unsigned char *now = (const unsigned char *)inputs->call.tensor[role].data + at;
    const size_t bytes = (size_t)at_inputs_extent(inputs, role).row * at_dtype_bytes(inputs->call.tensor[role].dtype);
    if (source < 0) {
        AT_FAIL_IF(at_poison_intact(inputs->draw.poison, at_inputs_poison_place(role, at), now, bytes) != bytes,
                   ATTUNE_WRONG_RESULT, "append: %s of %s %lld, head %lld, row %lld was written, and no row goes there",
                   at_role_name((int)role), inputs->problem.page_size > 0 ? "page" : "batch", (long long)where[0],
                   (long long)where[1], (long long)where[2]);
        return ATTUNE_OK;
    }
    const unsigned char *wanted = (const unsigned char *)inputs->call.tensor[new_role].data +
                                  at_inputs_row(inputs, new_role, 0, where[1], source);
    AT_FAIL_IF(memcmp(now, wanted, bytes) != 0, ATTUNE_WRONG_RESULT,
               "append: %s of %s %lld, head %lld, row %lld is not new row %lld bit for bit", at_role_name((int)role),
               inputs->problem.page_size > 0 ? "page" : "batch", (long long)where[0], (long long)where[1],
               (long long)where[2], (long long)source);
    return ATTUNE_OK;
}

/* `source` has for each row of the cache the new row that goes there, or -1. */
static attune_status judge_rows(const at_inputs *inputs, attune_role role, const int64_t *source)
{
    const at_extent extent = at_inputs_extent(inputs, role);
    for (int64_t b = 0; b < extent.count[0]; ++b) {
        for (int64_t h = 0; h < extent.count[1]; ++h) {
            for (int64_t i = 0; i < extent.count[2]; ++i) {
                const int64_t where[3] = {b, h, i};
                AT_FORWARD(judge_row(inputs, role, where, source[b * extent.count[2] + i]));
            }
        }
    }
    return ATTUNE_OK;
}

static attune_status judge_role(const at_inputs *inputs, const attune_args *args, attune_role role)
{
    const at_extent extent = at_inputs_extent(inputs, role);
    const int64_t rows = extent.count[0] * extent.count[2];
    int64_t *source = malloc(((size_t)rows + 1) * sizeof *source);
    AT_FAIL_IF(source == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for the places of %lld rows", (long long)rows);
    memset(source, 0xff, (size_t)rows * sizeof *source);
    for (int64_t i = 0; i < args->total_new; ++i) {
        int64_t outer, row;
        if (at_append_place(args, role, i, &outer, &row)) {
            source[outer * extent.count[2] + row] = i;
        }
    }
    const attune_status status = judge_rows(inputs, role, source);
    free(source);
    return status;
}

attune_status at_append_judge(const at_inputs *inputs)
{
    attune_args args;
    at_call_args(&inputs->problem, &inputs->call, &args);
    AT_FORWARD(judge_role(inputs, &args, ATTUNE_K));
    return judge_role(inputs, &args, ATTUNE_V);
}
