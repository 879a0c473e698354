#include "judge/outputs.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/status.h"
#include "core/problem.h"

static const attune_role outputs[2] = {ATTUNE_O, ATTUNE_LSE};

at_grid at_outputs_grid(const at_inputs *inputs, attune_role role)
{
    const at_extent extent = at_inputs_extent(inputs, role);
    const int32_t *cu = inputs->problem.varlen ? inputs->call.tensor[ATTUNE_CU_Q].data : NULL;
    size_t element = at_dtype_bytes(inputs->call.tensor[role].dtype);
    return (at_grid){extent.count[0], extent.count[1], cu == NULL ? extent.count[2] : cu[inputs->problem.batch],
                     (size_t)extent.row * element, element};
}

at_part at_outputs_whole(const at_inputs *inputs)
{
    const at_grid over = at_outputs_grid(inputs, ATTUNE_O);
    return (at_part){0, over.batch, 0, over.rows};
}

at_part at_outputs_sequence(const at_inputs *inputs, int64_t batch)
{
    const int32_t *cu = inputs->call.tensor[ATTUNE_CU_Q].data;
    at_part only = at_outputs_whole(inputs);
    if (inputs->problem.varlen) {
        only.first_row = cu[batch];
        only.end_row = cu[batch + 1];
    } else {
        only.first_batch = batch;
        only.end_batch = batch + 1;
    }
    return only;
}

static unsigned char *row_of(const at_inputs *inputs, attune_role role, int64_t batch, int64_t head, int64_t row)
{
    const at_buffer *buffer = &inputs->buffer[role];
    return buffer->base + buffer->at + at_inputs_row(inputs, role, batch, head, row);
}

static void copy_rows(const at_inputs *inputs, attune_role role, const at_grid *over, unsigned char *to)
{
    for (int64_t b = 0; b < over->batch; ++b) {
        for (int64_t h = 0; h < over->heads; ++h) {
            for (int64_t i = 0; i < over->rows; ++i, to += over->row_bytes) {
                memcpy(to, row_of(inputs, role, b, h, i), over->row_bytes);
            }
        }
    }
}

attune_status at_outputs_keep(const at_inputs *inputs, at_outputs *kept)
{
    *kept = (at_outputs){.poison = inputs->draw.poison};
    for (int k = 0; k < 2; ++k) {
        const at_grid over = at_outputs_grid(inputs, outputs[k]);
        size_t bytes = (size_t)(over.batch * over.heads * over.rows) * over.row_bytes;
        kept->row[k] = malloc(bytes + 1);
        AT_FAIL_IF(kept->row[k] == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to keep %zu bytes of output", bytes);
        copy_rows(inputs, outputs[k], &over, kept->row[k]);
    }
    return ATTUNE_OK;
}

void at_outputs_free(at_outputs *kept)
{
    free(kept->row[0]);
    free(kept->row[1]);
    *kept = (at_outputs){0};
}

void at_outputs_put_back(const at_outputs *kept, at_inputs *inputs, uint64_t seed)
{
    at_random random = at_random_seed(seed, 0x666f726d);
    for (int k = 0; k < 2; ++k) {
        const at_grid over = at_outputs_grid(inputs, outputs[k]);
        const unsigned char *from = kept->row[k];
        for (int64_t r = 0; r < over.batch * over.heads * over.rows; ++r, from += over.row_bytes) {
            if (at_random_next(&random) >> 63) {
                memcpy(
                    row_of(inputs, outputs[k], r / over.rows / over.heads, r / over.rows % over.heads, r % over.rows),
                    from, over.row_bytes);
            }
        }
    }
}

/* Two runs' results of one row, and what the memory held before each. */
typedef struct pair {
    const unsigned char *first, *now;
    at_poison first_poison, now_poison;
    uint64_t place;
    const at_grid *over;
} pair;

/* Whether some element still holds the poison of each run, which says nothing where those are the same. */
static bool is_unwritten(const pair *row)
{
    const size_t bytes = row->over->element_bytes;
    for (size_t at = 0; at < row->over->row_bytes; at += bytes) {
        if (memcmp(row->first + at, row->now + at, bytes) != 0 &&
            at_poison_intact(row->first_poison, row->place + at, row->first + at, bytes) == bytes &&
            at_poison_intact(row->now_poison, row->place + at, row->now + at, bytes) == bytes) {
            return true;
        }
    }
    return false;
}

attune_status at_outputs_same(const at_outputs *kept, const at_inputs *inputs, int k, const at_part *where,
                              const char *rule)
{
    const at_grid over = at_outputs_grid(inputs, outputs[k]);
    const char *name = at_role_name((int)outputs[k]);
    for (int64_t b = where->first_batch; b < where->end_batch; ++b) {
        for (int64_t h = 0; h < over.heads; ++h) {
            for (int64_t i = where->first_row; i < where->end_row; ++i) {
                const unsigned char *first =
                    kept->row[k] + (size_t)((b * over.heads + h) * over.rows + i) * over.row_bytes;
                const unsigned char *now = row_of(inputs, outputs[k], b, h, i);
                if (memcmp(first, now, over.row_bytes) == 0) {
                    continue;
                }
                const pair row = {first,
                                  now,
                                  kept->poison,
                                  inputs->draw.poison,
                                  at_inputs_poison_place(outputs[k], at_inputs_row(inputs, outputs[k], b, h, i)),
                                  &over};
                AT_FAIL_IF(is_unwritten(&row), ATTUNE_WRONG_RESULT,
                           "outputs: %s of batch %lld, head %lld, row %lld was not written", name, (long long)b,
                           (long long)h, (long long)i);
                return at_fail(ATTUNE_WRONG_RESULT, "%s: %s of batch %lld, head %lld, row %lld has other bits", rule,
                               name, (long long)b, (long long)h, (long long)i);
            }
        }
    }
    return ATTUNE_OK;
}
