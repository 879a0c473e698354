/* Inputs of append and merge. */
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "base/status.h"
#include "core/call.h"
#include "core/problem.h"
#include "reference/fill.h"
#include "reference/values.h"

/* ---- Append ----------------------------------------------------------------------------------------------------- */

static void write_bits(void *context, unsigned char *row, size_t bytes)
{
    uint64_t *place = context;
    const at_poison bits = {.seed = *place, .kind = AT_POISON_BITS};
    at_poison_write(bits, 0, row, bytes);
    ++*place;
}

/* Rows of any bits: copies are exact, whatever the numbers. */
static void fill_new(const at_inputs *inputs, attune_role role)
{
    uint64_t place = inputs->draw.seed ^ ((uint64_t)role << 56);
    at_inputs_each_row(inputs, role, write_bits, &place);
}

/* No two of one place; some of none. */
static void fill_slots(at_inputs *inputs)
{
    static const int32_t none[] = {-1, INT32_MIN, -2, INT32_MAX};
    const attune_call *call = &inputs->call;
    int32_t *slots = call->tensor[ATTUNE_SLOTS].data;
    const int64_t rows =
        inputs->problem.page_size > 0 ? call->page_count * inputs->problem.page_size : call->batch * call->seqlen_kv;
    const int64_t first = (int64_t)(inputs->draw.seed % 1024);
    const int64_t step = rows > 7 && rows % 7 != 0 ? 7 : 1; /* meets each row before it repeats any */
    for (int64_t i = 0; i < call->total_new; ++i) {
        at_random random = at_random_seed(inputs->draw.seed, 0x736c6f74 + (uint64_t)i);
        const uint64_t kind = at_random_below(&random, 10);
        const bool beyond = i >= rows || (kind == 1 && rows < INT32_MAX);
        slots[i] = kind == 0 ? none[at_random_below(&random, 4)]
                   : beyond  ? (int32_t)(rows + (int64_t)at_random_below(&random, 3))
                             : (int32_t)((first + i * step) % rows);
    }
}

attune_status at_fill_append(at_inputs *inputs)
{
    fill_new(inputs, ATTUNE_NEW_K);
    fill_new(inputs, ATTUNE_NEW_V);
    if (inputs->problem.slots) {
        fill_slots(inputs);
    }
    return ATTUNE_OK;
}

/* ---- Merge ------------------------------------------------------------------------------------------------------ */

/* What an LSE of a family is; `state` 0 outweighs the others in TAIL. */
static double lse_of_family(at_family family, int64_t state, double normal)
{
    switch (family) {
    case AT_FAMILY_LARGE:
        return 200.0 * normal;
    case AT_FAMILY_EQUAL:
        return 3.0;
    case AT_FAMILY_TAIL:
        return state == 0 ? 12.0 : 0.2 * normal;
    case AT_FAMILY_NEGATIVE:
        return -1000.0 + normal;
    default:
        return 2.0 * normal;
    }
}

/* Whether a state has no keys: one in six, and all of a row in sixteen. */
static bool is_empty(const at_inputs *inputs, int64_t index, at_random *random)
{
    at_random row = at_random_seed(inputs->draw.seed, 0x656d707479 + (uint64_t)index);
    const bool drawn = at_random_below(random, 6) == 0;
    return drawn || at_random_below(&row, 16) == 0;
}

static void fill_state(at_inputs *inputs, int64_t state, int64_t batch, int64_t head, int64_t row)
{
    const attune_call *call = &inputs->call;
    const at_family family = inputs->draw.family;
    const int64_t outer = state * call->batch + batch;
    const int64_t index = (batch * call->heads_q + head) * call->seqlen_q + row;
    at_random random = at_random_seed(inputs->draw.seed + (uint64_t)state, 0x7374617465 + (uint64_t)index);
    float values[256] = {0};
    for (int32_t c = 0; c < inputs->problem.head_dim_v; ++c) {
        values[c] = (float)at_random_normal(&random);
        values[c] *= family == AT_FAMILY_SUBNORMAL ? (inputs->problem.dtype == ATTUNE_FP16 ? 0x1p-15F : 0x1p-20F) : 1;
    }
    float lse = (float)lse_of_family(family, state, at_random_normal(&random));
    const bool empty = is_empty(inputs, index, &random);
    const bool strange = family == AT_FAMILY_VISIBLE && at_random_below(&random, 24) == 0;
    if (strange && !empty) {
        const uint64_t kind = at_random_below(&random, 3);
        lse = kind == 0 ? NAN : kind == 1 ? INFINITY : lse;
        values[0] = kind == 2 ? NAN : values[0];
    }
    for (int32_t c = 0; empty && c < inputs->problem.head_dim_v; ++c) {
        values[c] = family == AT_FAMILY_NORMAL ? values[c] : NAN; /* not looked at */
    }
    lse = empty ? -INFINITY : lse;
    at_fill_store(inputs, ATTUNE_STATE_O, at_inputs_row(inputs, ATTUNE_STATE_O, outer, head, row), values,
                  inputs->problem.head_dim_v);
    at_fill_store(inputs, ATTUNE_STATE_LSE, at_inputs_row(inputs, ATTUNE_STATE_LSE, outer, head, row), &lse, 1);
}

attune_status at_fill_merge(at_inputs *inputs)
{
    const attune_call *call = &inputs->call;
    for (int64_t s = 0; s < call->states; ++s) {
        for (int64_t b = 0; b < call->batch; ++b) {
            for (int64_t h = 0; h < call->heads_q; ++h) {
                for (int64_t i = 0; i < call->seqlen_q; ++i) {
                    fill_state(inputs, s, b, h, i);
                }
            }
        }
    }
    return ATTUNE_OK;
}
