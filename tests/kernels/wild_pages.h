/* What only the device can know and is wrong: entries of page tables that are no pages, lengths beyond the declared.
 * Both count as the nearest that is right: results have the same bits. */
#ifndef TESTS_KERNELS_WILD_PAGES_H
#define TESTS_KERNELS_WILD_PAGES_H

#include "base/cm.h"

#include <stdlib.h>
#include <string.h>

#include "library/placement.h"

/* Makes entries wild that are seen and the first or last page, and with `lengths` those that are the longest allowed;
 * returns how many. */
static int make_wild(const at_inputs *inputs, bool lengths)
{
    const attune_call *call = &inputs->call;
    const attune_tensor *table = &call->tensor[ATTUNE_PAGE_TABLE_K];
    int32_t *used = call->tensor[ATTUNE_USED_KV].data;
    int count = 0;
    for (int64_t b = 0; b < call->batch; ++b) {
        int32_t *entry = (int32_t *)table->data + b * table->stride[ATTUNE_STRIDE_BATCH];
        for (int64_t c = 0; c * inputs->problem.page_size < used[b]; ++c) {
            const bool first = entry[c] == 0, last = entry[c] == call->page_count - 1;
            entry[c] = first ? -7 : last ? INT32_MAX : entry[c];
            count += first || last;
        }
        if (lengths && used[b] == call->seqlen_kv) {
            used[b] = INT32_MAX;
            ++count;
        }
    }
    return count;
}

/* One draw of the plan's problem, which has seqused and pages; returns how much of it was wild. */
static int expect_wild_to_be_clamped(at_device *device, const attune_plan *plan, const attune_problem *problem,
                                     uint64_t seed, bool lengths)
{
    const at_draw draw = {.seed = seed};
    at_placement place = {0};
    at_inputs inputs;
    assert_ok(at_inputs_draw(problem, &draw, &inputs));
    assert_ok(at_placement_create(device, &inputs, &place));
    assert_ok(at_placement_run(&place, plan, &place.call));
    const size_t bytes = inputs.buffer[ATTUNE_O].bytes;
    void *tame = malloc(bytes);
    assert_non_null(tame);
    memcpy(tame, inputs.call.tensor[ATTUNE_O].data, bytes);
    const int wild = make_wild(&inputs, lengths);
    assert_ok(at_placement_send_input(&place, ATTUNE_PAGE_TABLE_K));
    assert_ok(at_placement_send_input(&place, ATTUNE_USED_KV));
    assert_ok(at_placement_poison(&place, (at_poison){0}));
    assert_ok(at_placement_run(&place, plan, &place.call));
    assert_memory_equal(inputs.call.tensor[ATTUNE_O].data, tame, bytes);
    free(tame);
    at_placement_free(&place);
    at_inputs_free(&inputs);
    return wild;
}

#endif
