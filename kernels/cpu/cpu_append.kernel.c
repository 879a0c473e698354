/* cpu_append: copies new rows of keys and values into a cache, in one piece or in pages. docs/cpu.md explains it.
 *
 * A work item is one new row, with all its heads.
 */
#include "device/sequence.h"

/* Where a new row goes: its page or its sequence, and its row in that; outer -1 where it goes nowhere. */
typedef struct place {
    int64_t outer, row;
} place;

static const place nowhere = {-1, 0};

static place find_slot(const attune_args *args, int64_t index)
{
    const bool paged = (args->features & ATTUNE_FEATURE_PAGED) != 0;
    const int64_t rows = paged ? args->page_size : args->seqlen_kv;
    const int64_t outers = paged ? args->page_count : args->batch;
    int32_t slot;
    memcpy(&slot, (const int32_t *)args->tensor[ATTUNE_SLOTS].data + index, sizeof slot);
    return slot < 0 || rows == 0 || slot / rows >= outers ? nowhere : (place){slot / rows, slot % rows};
}

/* Which sequence new row `index` belongs to: the last that begins at or before it. */
static int64_t find_owner(const attune_args *args, int64_t index)
{
    if (!(args->features & ATTUNE_FEATURE_VARLEN)) {
        return args->seqlen_q > 0 ? index / args->seqlen_q : 0;
    }
    int64_t low = 0;
    int64_t high = args->batch - 1;
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        int32_t begin;
        memcpy(&begin, (const int32_t *)args->tensor[ATTUNE_CU_Q].data + middle, sizeof begin);
        low = begin <= index ? middle : low;
        high = begin <= index ? high : middle - 1;
    }
    return low;
}

/* The position at the end of its sequence that row `index` goes to; -1 for none. */
static int64_t find_position(const attune_args *args, int64_t index, int64_t batch)
{
    const lengths of = find_lengths(args, batch);
    const bool packed = (args->features & ATTUNE_FEATURE_VARLEN) != 0;
    const int64_t row = index - (packed ? of.start_q : batch * args->seqlen_q);
    int32_t used;
    memcpy(&used, (const int32_t *)args->tensor[ATTUNE_USED_KV].data + batch, sizeof used);
    const int64_t position = used - of.length_q + row;
    return row >= 0 && row < of.length_q && position >= 0 && position < args->seqlen_kv ? position : -1;
}

static place find_place(const attune_args *args, attune_role role, int64_t index)
{
    if (args->features & ATTUNE_FEATURE_SLOTS) {
        return find_slot(args, index);
    }
    const int64_t batch = find_owner(args, index);
    const int64_t position = find_position(args, index, batch);
    if (position < 0 || !(args->features & ATTUNE_FEATURE_PAGED)) {
        return position < 0 ? nowhere : (place){batch, position};
    }
    const bool own = role == ATTUNE_V && (args->features & ATTUNE_FEATURE_PAGED_V) != 0;
    const attune_tensor *table = &args->tensor[own ? ATTUNE_PAGE_TABLE_V : ATTUNE_PAGE_TABLE_K];
    const int32_t *entries = (const int32_t *)table->data + batch * table->stride[ATTUNE_STRIDE_BATCH];
    int32_t page;
    memcpy(&page, entries + position / args->page_size, sizeof page);
    return page < 0 || page >= args->page_count ? nowhere : (place){page, position % args->page_size};
}

/* Copies a row of all heads; rows of `bytes`. */
static void copy_row(const attune_args *args, attune_role new_role, attune_role role, int64_t index, int dims)
{
    const place to = find_place(args, role, index);
    const attune_tensor *from = &args->tensor[new_role], *cache = &args->tensor[role];
    const int64_t bytes = bytes_of(cache->dtype);
    for (int64_t head = 0; to.outer >= 0 && head < args->heads_kv; ++head) {
        const int64_t source = index * from->stride[ATTUNE_STRIDE_SEQ] + head * from->stride[ATTUNE_STRIDE_HEAD];
        const int64_t target = to.outer * cache->stride[ATTUNE_STRIDE_BATCH] +
                               head * cache->stride[ATTUNE_STRIDE_HEAD] + to.row * cache->stride[ATTUNE_STRIDE_SEQ];
        memcpy((char *)cache->data + target * bytes, (const char *)from->data + source * bytes, (size_t)(dims * bytes));
    }
}

void ATTUNE_TIER(attune_cpu_append)(const attune_args *args, int64_t index, void *scratch);

void ATTUNE_TIER(attune_cpu_append)(const attune_args *args, int64_t index, void *scratch)
{
    (void)scratch;
    copy_row(args, ATTUNE_NEW_K, ATTUNE_K, index, args->head_dim_qk);
    copy_row(args, ATTUNE_NEW_V, ATTUNE_V, index, args->head_dim_v);
}
