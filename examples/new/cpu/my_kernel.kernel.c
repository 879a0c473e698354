/* my_kernel, the source: one query row of one head. attune owns the threads, calls this for every item of the grid in
 * any order, and gives each thread a scratch whose contents are arbitrary. */
#include <math.h>

#include "attune/kernel.h"

enum { BLOCK_N }; /* the parameter's place, as in the descriptor: args->param[BLOCK_N] */

/* An element as fp32. Strides count elements; the last dimension is contiguous. */
static float load(const attune_tensor *tensor, int64_t at)
{
    union {
        uint32_t bits;
        float value;
    } x;
    if (tensor->dtype == ATTUNE_FP32) {
        return ((const float *)tensor->data)[at];
    }
    const uint32_t half = ((const uint16_t *)tensor->data)[at];
    if (tensor->dtype == ATTUNE_BF16) {
        x.bits = half << 16;
        return x.value;
    }
    const uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
    x.bits = (half & 0x8000) << 16;
    if (exponent == 0) {
        return (x.bits != 0 ? -1.0f : 1.0f) * ((float)fraction * 0x1p-24f);
    }
    x.bits |= exponent == 31 ? 0x7f800000 | fraction << 13 : (exponent + 112) << 23 | fraction << 13;
    return x.value;
}

static uint16_t to_fp16(float value)
{
    union {
        float value;
        uint32_t bits;
    } x = {value};
    const uint16_t sign = (uint16_t)(x.bits >> 16 & 0x8000);
    const float size = fabsf(value);
    if (size >= 65520.0f) {
        return sign | 0x7c00;
    }
    if (size < 0x1p-14f) {
        return sign | (uint16_t)rintf(size * 0x1p24f);
    }
    return sign | (uint16_t)(((x.bits & 0x7fffffff) - 0x38000000 + 0xfff + (x.bits >> 13 & 1)) >> 13);
}

static void store(const attune_tensor *tensor, int64_t at, float value)
{
    union {
        float value;
        uint32_t bits;
    } x = {value};
    uint16_t *half = (uint16_t *)tensor->data + at;
    if (tensor->dtype == ATTUNE_FP32) {
        ((float *)tensor->data)[at] = value;
    } else if (value != value) {
        *half = 0x7fff;
    } else if (tensor->dtype == ATTUNE_BF16) {
        *half = (uint16_t)((x.bits + 0x7fff + (x.bits >> 16 & 1)) >> 16);
    } else {
        *half = to_fp16(value);
    }
}

static int64_t row_of(const attune_tensor *tensor, int64_t batch, int64_t head, int64_t row)
{
    return batch * tensor->stride[ATTUNE_STRIDE_BATCH] + head * tensor->stride[ATTUNE_STRIDE_HEAD] +
           row * tensor->stride[ATTUNE_STRIDE_SEQ];
}

/* How many keys the row sees: query row i is at key i + offset, and a causal mask hides what is behind it. */
static int64_t keys_of(const attune_args *args, int64_t row)
{
    if ((args->features & ATTUNE_FEATURE_CAUSAL) == 0) {
        return args->seqlen_kv;
    }
    const int64_t offset = args->offset_kind == ATTUNE_OFFSET_TOP_LEFT ? 0
                           : args->offset_kind == ATTUNE_OFFSET_NUMBER ? args->offset
                                                                       : args->seqlen_kv - args->seqlen_q;
    const int64_t seen = row + offset + 1;
    return seen < 0 ? 0 : seen < args->seqlen_kv ? seen : args->seqlen_kv;
}

/* What is known of a row so far: out is the sum of weight * value, both by exp(score - top). */
typedef struct state {
    float *out;
    float top, sum;
} state;

static void begin_tile(state *row, float top, int columns)
{
    const float kept = row->top == top ? 1.0f : expf(row->top - top);
    for (int c = 0; c < columns; ++c) {
        row->out[c] *= kept;
    }
    row->sum *= kept;
    row->top = top;
}

/* Scores of `count` keys; returns the largest, or `top` where that is larger. */
static float score_tile(const attune_args *args, int64_t q, int64_t k, int count, float top, float *score)
{
    const attune_tensor *t = args->tensor;
    for (int j = 0; j < count; ++j, k += t[ATTUNE_K].stride[ATTUNE_STRIDE_SEQ]) {
        float dot = 0;
        for (int c = 0; c < args->head_dim_qk; ++c) {
            dot += load(&t[ATTUNE_Q], q + c) * load(&t[ATTUNE_K], k + c);
        }
        score[j] = dot * args->scale;
        top = fmaxf(top, score[j]);
    }
    return top;
}

/* NOTE: a weight of zero must not meet a value that is not finite: 0 * infinity is no number. */
static void add_tile(const attune_args *args, int64_t v, int count, const float *score, state *row)
{
    const attune_tensor *value = &args->tensor[ATTUNE_V];
    for (int j = 0; j < count; ++j, v += value->stride[ATTUNE_STRIDE_SEQ]) {
        const float weight = score[j] == -INFINITY ? 0.0f : expf(score[j] - row->top);
        row->sum += weight;
        for (int c = 0; c < args->head_dim_v && weight != 0; ++c) {
            row->out[c] += weight * load(value, v + c);
        }
    }
}

void ATTUNE_TIER(attend_my_kernel)(const attune_args *args, int64_t item, void *scratch);

void ATTUNE_TIER(attend_my_kernel)(const attune_args *args, int64_t item, void *scratch)
{
    const attune_tensor *t = args->tensor;
    const int tile = args->param[BLOCK_N];
    const int64_t row = item % args->seqlen_q, head = item / args->seqlen_q % args->heads_q;
    const int64_t batch = item / args->seqlen_q / args->heads_q;
    const int64_t head_kv = head / (args->heads_q / args->heads_kv);
    const int64_t keys = keys_of(args, row), q = row_of(&t[ATTUNE_Q], batch, head, row);
    float *score = scratch;
    state now = {.out = score + tile, .top = -INFINITY};
    for (int c = 0; c < args->head_dim_v; ++c) {
        now.out[c] = 0;
    }
    for (int64_t first = 0; first < keys; first += tile) {
        const int count = (int)(keys - first < tile ? keys - first : tile);
        begin_tile(&now, score_tile(args, q, row_of(&t[ATTUNE_K], batch, head_kv, first), count, now.top, score),
                   args->head_dim_v);
        add_tile(args, row_of(&t[ATTUNE_V], batch, head_kv, first), count, score, &now);
    }
    const int64_t o = row_of(&t[ATTUNE_O], batch, head, row);
    for (int c = 0; c < args->head_dim_v; ++c) { /* a row that sees no key is 0, and its LSE -infinity */
        store(&t[ATTUNE_O], o + c, now.sum == 0 ? 0 : now.out[c] / now.sum);
    }
    if (t[ATTUNE_LSE].data != NULL) {
        store(&t[ATTUNE_LSE], row_of(&t[ATTUNE_LSE], batch, head, row),
              now.sum == 0 ? -INFINITY : now.top + logf(now.sum));
    }
}
