/* Which keys a query row sees. This is the one place that knows, but for masks and biases of -infinity, which are read
 * with the scores (score.h): length, causality, windows and drafts. */
#ifndef KERNELS_CPU_DEVICE_VISIBILITY_H
#define KERNELS_CPU_DEVICE_VISIBILITY_H

#include "sequence.h"

/* What a query row sees: keys left ... right; each row after it, one further. */
typedef struct window {
    int64_t position; /* of the row among the keys */
    int64_t left, right;
} window;

/* That of query row `row`; without bounds, from far left to far right. A causal mask is a right side of 0. */
static inline window find_window(const attune_args *args, const lengths *of, int64_t row)
{
    const int64_t far = INT64_C(1) << 62;
    const int64_t left = args->window_left, right = args->window_right;
    int64_t offset = 0;
    if (args->offset_kind == ATTUNE_OFFSET_BOTTOM_RIGHT) {
        offset = of->keys - of->length_q;
    } else if (args->offset_kind == ATTUNE_OFFSET_NUMBER) {
        offset = args->offset;
    }
    window seen = {.position = row + offset};
    seen.left = left < 0 || left > far / 2 ? -far : seen.position - left;
    seen.right = right < 0 || right > far / 2 ? far : seen.position + right;
    return seen;
}

/* Whether some of `rows` rows from the window's on do not see all of keys first ... last. */
INLINE bool needs_mask(const window *seen, int64_t rows, int64_t first, int64_t last)
{
    return first < seen->left + rows - 1 || last > seen->right;
}

/* A row of a draft: bit j says whether it sees key first + j, the last keys of the sequence being its queries' own;
 * every key before `first` it sees. */
typedef struct draft_row {
    int64_t first;
    uint32_t sees;
} draft_row;

static inline draft_row find_draft(const attune_args *args, const lengths *of, int64_t batch, int64_t row)
{
    const attune_tensor *t = &args->tensor[ATTUNE_DRAFT_MASK];
    const int64_t step = t->stride[ATTUNE_STRIDE_SEQ];
    const int64_t start =
        args->features & ATTUNE_FEATURE_VARLEN ? of->start_q * step : batch * t->stride[ATTUNE_STRIDE_BATCH];
    draft_row draft = {.first = of->keys - of->length_q};
    memcpy(&draft.sees, (const int32_t *)t->data + start + row * step, sizeof draft.sees);
    return draft;
}

#endif
