#include "reference/pages.h"

#include <stdlib.h>

#include "base/random.h"
#include "base/status.h"
#include "core/call.h"
#include "reference/sequence.h"

static bool is_pool(const at_inputs *inputs, attune_role role)
{
    return inputs->problem.page_size > 0 && (role == ATTUNE_K || role == ATTUNE_V);
}

at_extent at_pages_extent(const at_inputs *inputs, attune_role role)
{
    at_extent extent = at_inputs_extent(inputs, role);
    if (is_pool(inputs, role)) {
        extent.count[ATTUNE_STRIDE_BATCH] = inputs->call.batch;
        extent.count[ATTUNE_STRIDE_SEQ] = inputs->call.seqlen_kv;
    }
    return extent;
}

/* The pages [*first, *end) of a sequence that some query of it may see; lengths alone, where nothing is asked. */
static void pages_seen(const attune_args *args, int64_t batch, int64_t *first, int64_t *end)
{
    const at_sequence sequence = at_sequence_of(args, batch);
    int64_t low = INT64_MAX;
    if (args->total_new > 0) { /* those that new rows go to */
        const int64_t start = sequence.seqlen_kv - sequence.seqlen_q;
        *first = start > 0 ? start / args->page_size : 0;
        *end = (sequence.seqlen_kv + args->page_size - 1) / args->page_size;
        return;
    }
    for (int64_t i = 0; i < sequence.seqlen_q; ++i) {
        int64_t row_first, row_end;
        at_sequence_range(args, &sequence, i, &row_first, &row_end);
        low = row_first < low && row_first < row_end ? row_first : low;
    }
    *end = (sequence.seqlen_kv + args->page_size - 1) / args->page_size;
    *first = low == INT64_MAX ? *end : low / args->page_size;
}

/* How many pages, from its first on, a sequence has in common with the first sequence: full ones of both. */
static int64_t shared_pages(const at_inputs *inputs, const attune_args *args, int64_t batch)
{
    at_random random = at_random_seed(inputs->draw.seed, 0x736861726564 + (uint64_t)batch);
    int64_t first, end, first_of_0, end_of_0;
    if (batch == 0 || args->total_new > 0 || at_random_below(&random, 3) != 0) {
        return 0;
    }
    pages_seen(args, 0, &first_of_0, &end_of_0);
    pages_seen(args, batch, &first, &end);
    const int64_t full = at_sequence_of(args, batch).seqlen_kv / args->page_size;
    const int64_t full_of_0 = at_sequence_of(args, 0).seqlen_kv / args->page_size;
    const int64_t most = full < full_of_0 ? full : full_of_0;
    return first_of_0 == 0 && first == 0 ? most : 0;
}

void at_pages_own(const at_inputs *inputs, int64_t batch, int64_t *first, int64_t *end)
{
    attune_args args;
    *first = 0;
    *end = at_inputs_extent(inputs, ATTUNE_K).count[ATTUNE_STRIDE_SEQ];
    if (inputs->problem.page_size > 0) {
        at_call_args(&inputs->problem, &inputs->call, &args);
        pages_seen(&args, batch, first, end);
        const int64_t shared = shared_pages(inputs, &args, batch);
        *first = (*first > shared ? *first : shared) * args.page_size;
        *end = at_sequence_of(&args, batch).seqlen_kv;
    }
}

size_t at_pages_row(const at_inputs *inputs, attune_role role, int64_t batch, int64_t head, int64_t row)
{
    const int64_t size = inputs->problem.page_size;
    if (!is_pool(inputs, role)) {
        return at_inputs_row(inputs, role, batch, head, row);
    }
    const bool own = role == ATTUNE_V && inputs->problem.page_table_v;
    const attune_tensor *table = &inputs->call.tensor[own ? ATTUNE_PAGE_TABLE_V : ATTUNE_PAGE_TABLE_K];
    const int32_t *entry = (const int32_t *)table->data + batch * table->stride[ATTUNE_STRIDE_BATCH];
    return at_inputs_row(inputs, role, entry[row / size], head, row % size);
}

/* ---- Filling ---------------------------------------------------------------------------------------------------- */

static void shuffle(at_random *random, int32_t *pages, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        pages[i] = (int32_t)i;
    }
    for (int64_t i = count - 1; i > 0; --i) {
        const int64_t other = (int64_t)at_random_below(random, (uint64_t)i + 1);
        const int32_t page = pages[i];
        pages[i] = pages[other];
        pages[other] = page;
    }
}

/* Each page that is somebody's is taken once, in random order. */
static void fill_table(at_inputs *inputs, const attune_args *args, attune_role role, const int32_t *pages)
{
    static const int32_t nonsense[] = {2147480000, -1, INT32_MIN, INT32_MAX, 0}; /* the last may be a page */
    const attune_tensor *table = &inputs->call.tensor[role];
    int32_t *first_row = table->data;
    int64_t taken = 0;
    for (int64_t b = 0; b < args->batch; ++b) {
        int32_t *row = first_row + b * table->stride[ATTUNE_STRIDE_BATCH];
        const int64_t shared = shared_pages(inputs, args, b);
        int64_t first, end;
        pages_seen(args, b, &first, &end);
        for (int64_t c = 0; c < args->page_table_width; ++c) {
            /* Rows to append are left out where their page is none; another sequence's would be written twice. */
            const bool left_out = args->total_new > 0 && (inputs->draw.seed + (uint64_t)(b + c)) % 16 == 0;
            const bool own = c >= first && c < end && !left_out;
            const uint64_t which = (uint64_t)(b + c + (int64_t)(inputs->draw.seed % 5));
            row[c] = !own ? nonsense[which % (left_out ? 4 : 5)] : c < shared ? first_row[c] : pages[taken++];
        }
    }
}

static void fill_drafts(at_inputs *inputs)
{
    const at_extent extent = at_inputs_extent(inputs, ATTUNE_DRAFT_MASK);
    for (int64_t b = 0; b < extent.count[0]; ++b) {
        for (int64_t i = 0; i < extent.count[2]; ++i) {
            at_random random = at_random_seed(inputs->draw.seed ^ 0x6472616674, (uint64_t)(b * 4096 + i));
            const uint64_t kind = at_random_below(&random, 8);
            const uint32_t path = (uint32_t)at_random_next(&random);
            /* A path in a tree, mostly: the row itself and some before it. Also none of them, and all. */
            const uint32_t before = i < 31 ? (UINT32_C(2) << i) - 1 : UINT32_MAX;
            const uint32_t word = kind == 0   ? 0
                                  : kind == 1 ? UINT32_MAX
                                  : kind == 2 ? path
                                              : (path & before) | UINT32_C(1) << (i % 32);
            uint32_t *words = inputs->call.tensor[ATTUNE_DRAFT_MASK].data;
            words[at_inputs_row(inputs, ATTUNE_DRAFT_MASK, b, 0, i) / sizeof *words] = word;
        }
    }
}

attune_status at_pages_fill(at_inputs *inputs)
{
    attune_args args;
    if (inputs->problem.draft_mask) {
        fill_drafts(inputs);
    }
    if (inputs->problem.page_size == 0 || inputs->problem.slots) {
        return ATTUNE_OK;
    }
    at_call_args(&inputs->problem, &inputs->call, &args);
    const int64_t count = inputs->call.page_count;
    int32_t *pages = calloc((size_t)count, sizeof *pages);
    AT_FAIL_IF(pages == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %lld pages", (long long)count);
    at_random random = at_random_seed(inputs->draw.seed, 0x7461626c65);
    shuffle(&random, pages, count);
    fill_table(inputs, &args, ATTUNE_PAGE_TABLE_K, pages);
    if (inputs->problem.page_table_v) {
        shuffle(&random, pages, count);
        fill_table(inputs, &args, ATTUNE_PAGE_TABLE_V, pages);
    }
    free(pages);
    return ATTUNE_OK;
}
