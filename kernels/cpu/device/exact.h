/* A row, or a part of its keys, key after key: for what tiles get wrong. There 0 times a value that is not finite is
 * NaN, though the row does not see the value or gives it a weight too small for fp32; and values whose mean is finite
 * can have a sum that is not. Whoever finds a number that is not finite in a row of O has it computed again, here. */
#ifndef KERNELS_CPU_DEVICE_EXACT_H
#define KERNELS_CPU_DEVICE_EXACT_H

#include "parts.h"
#include "score.h"

enum { EXACT_DIMS = 256 }; /* the largest head dim */

typedef struct exact_row {
    const attune_args *args;
    int64_t batch, head;
    kv_rows key, value;
    int64_t row;  /* of the sequence */
    int64_t last; /* the last key that may be read */
    window seen;
    draft_row draft;
    float query[EXACT_DIMS] __attribute__((aligned(64))); /* scaled */
} exact_row;

/* Scores of VL keys, and which of them the row sees. */
typedef struct exact_scores {
    vf score;
    vi seen;
} exact_scores;

/* Element (row, key) of BIAS or MASK; `bytes` each. */
static const char *exact_plane(const exact_row *x, attune_role role, int64_t key, int64_t bytes)
{
    const attune_tensor *t = &x->args->tensor[role];
    int64_t at = x->batch * t->stride[ATTUNE_STRIDE_BATCH] + x->head * t->stride[ATTUNE_STRIDE_HEAD] +
                 x->row * t->stride[ATTUNE_STRIDE_SEQ] + key;
    return (const char *)t->data + at * bytes;
}

/* Products of the query with `count` keys, at most VL; the other lanes are the last key's. */
static vf exact_products(const exact_row *x, int64_t key, int count)
{
    const int dtype = x->args->tensor[ATTUNE_K].dtype, depth = x->args->head_dim_qk;
    vf sum[VL];
    for (int k = 0; k < VL; ++k) {
        const char *from = kv_row(&x->key, key + lesser_of(k, count - 1));
        sum[k] = splat(0);
        for (int c = 0; c < depth; c += VL) {
            sum[k] += load(x->query + c) * load_some(from + c * bytes_of(dtype), dtype, depth - c);
        }
    }
    return lane_sums(sum);
}

static exact_scores score_exactly(const exact_row *x, int64_t key)
{
    const attune_args *args = x->args;
    const int count = (int)lesser_of(x->last + 1 - key, VL);
    float place[VL] __attribute__((aligned(64)));
    store(place, exact_products(x, key, count));
    scores s = scores_of_keys(place, VL, x->seen.position - key);
    apply_score(args, &s, 1, splat(slope_of(args, x->head)));
    vf products = load(place);
    vf lane = lane_numbers();
    exact_scores of = {products, (lane < splat((float)count)) & (lane >= splat(side_of_tile(x->seen.left, key))) &
                                     (lane <= splat(side_of_tile(x->seen.right, key)))};
    if (args->features & ATTUNE_FEATURE_BIAS) {
        const int dtype = args->tensor[ATTUNE_BIAS].dtype;
        vf bias = load_some(exact_plane(x, ATTUNE_BIAS, key, bytes_of(dtype)), dtype, count);
        of.score += bias;
        of.seen &= bias != splat(-INFINITY);
    }
    if (args->features & ATTUNE_FEATURE_MASK) {
        vb mask = {0};
        memcpy(&mask, exact_plane(x, ATTUNE_MASK, key, 1), (size_t)count);
        of.seen &= (vi)(__builtin_convertvector(mask, vu) != 0u);
    }
    if (args->features & ATTUNE_FEATURE_DRAFT) {
        store(place, splat(0));
        hide_draft(&s, &x->draft, key);
        of.seen &= load(place) == splat(0);
    }
    return of;
}

static void pack_exact(exact_row *x)
{
    const attune_args *args = x->args;
    const int dtype = args->tensor[ATTUNE_Q].dtype;
    const int64_t start_q = find_lengths(args, x->batch).start_q;
    const char *from = row_address(args, ATTUNE_Q, x->batch, x->head, start_q + x->row);
    for (int c = 0; c < args->head_dim_qk; c += VL) {
        vf q = load_some(from + c * bytes_of(dtype), dtype, args->head_dim_qk - c);
        store(x->query + c, q * args->scale);
    }
}

/* The greatest score that the row sees; -infinity where it sees none. NaN is left out: its weight will show. */
static float exact_top(const exact_row *x, int64_t first)
{
    vf top = splat(-INFINITY);
    float highest = -INFINITY;
    for (int64_t key = first; key <= x->last; key += VL) {
        exact_scores s = score_exactly(x, key);
        top = greater(blend(s.seen, s.score, splat(-INFINITY)), top);
    }
    for (int lane = 0; lane < VL; ++lane) {
        highest = top[lane] > highest ? top[lane] : highest;
    }
    return highest;
}

/* A number above `top` by the logarithm of the number of keys, or more where fp32 has none nearer. */
static float raise_exactly(float top, int64_t keys)
{
    const float by = logf((float)keys);
    float raised = top + by;
    if (raised - top < 0.5f * by) {
        raised = nextafterf(top, INFINITY);
    }
    return raised - top < 64 ? raised : top; /* weights are then below e^-64, not 0 */
}

/* Adds a value. A score of -infinity weighs 0, and so makes NaN of infinity; any other weighs more than 0. */
static void add_exactly(const exact_row *x, int64_t key, float score, float weight, float *out)
{
    const int dtype = x->args->tensor[ATTUNE_V].dtype, columns = x->args->head_dim_v;
    const float least = score > -INFINITY && weight < 0x1p-126f ? 0x1p-126f : weight;
    const char *from = kv_row(&x->value, key);
    for (int c = 0; c < columns; c += VL) {
        vf value = load_some(from + c * bytes_of(dtype), dtype, columns - c);
        vf by = blend(magnitude(value) == splat(INFINITY), splat(least), splat(weight));
        store(out + c, load(out + c) + by * value);
    }
}

/* Query `row` of a sequence over its keys first ... last: `out[EXACT_DIMS]`, the sum of e^(score - *top) value; *sum,
 * that of the e^(score - *top). NOTE: *top is above the greatest score, so that both sums are
 * at most means. */
static void attend_exactly(const attune_args *args, int64_t batch, int64_t head, int64_t row, int64_t first,
                           int64_t last, float *out, float *top, float *sum)
{
    lengths of = find_lengths(args, batch);
    const int64_t head_kv = head / (args->heads_q / args->heads_kv);
    exact_row x = {.args = args, .batch = batch, .head = head};
    x.key = find_kv(args, ATTUNE_K, batch, head_kv, &of);
    x.value = find_kv(args, ATTUNE_V, batch, head_kv, &of);
    x.row = row;
    if (args->features & ATTUNE_FEATURE_DRAFT) {
        x.draft = find_draft(args, &of, batch, row);
    }
    x.seen = find_window(args, &of, row);
    x.last = lesser_of(lesser_of(last, of.keys - 1), x.seen.right);
    first = greater_of(first, x.seen.left);
    memset(out, 0, sizeof(float) * EXACT_DIMS);
    pack_exact(&x);
    *top = exact_top(&x, first);
    *top = raise_exactly(*top, args->seqlen_kv);
    vf base = splat(*top == -INFINITY ? 0 : *top);
    vf total = splat(0);
    for (int64_t key = first; key <= x.last; key += VL) {
        exact_scores s = score_exactly(&x, key);
        vf weight = exponential(s.score - base);
        total += (vf)(s.seen & (vi)weight);
        for (int k = 0; k < VL; ++k) {
            if (s.seen[k] != 0) {
                add_exactly(&x, key + k, s.score[k], weight[k], out);
            }
        }
    }
    *sum = 0;
    for (int lane = 0; lane < VL; ++lane) {
        *sum += total[lane];
    }
    if (*sum == 0) { /* whatever the values: no key has a weight */
        memset(out, 0, sizeof(float) * EXACT_DIMS);
    }
}

/* The same, stored: as the row's O and LSE, or in its place `to` among parts. */
static __attribute__((noinline)) void redo_row(const attune_args *args, int64_t batch, int64_t head, int64_t row,
                                               int64_t first, int64_t last, const part_rows *parts, float *to)
{
    float out[EXACT_DIMS] __attribute__((aligned(64)));
    float top, sum;
    attend_exactly(args, batch, head, row, first, last, out, &top, &sum);
    if (to != NULL) {
        memcpy(to, out, sizeof(float) * (size_t)parts->pitch);
        leave_part(parts, to, top, sum);
    } else {
        store_row(args, batch, head, find_lengths(args, batch).start_q + row, out, top, sum);
    }
}

#endif
