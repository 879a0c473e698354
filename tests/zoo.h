/* A zoo of kernels for testing the judge and the gate: one honest kernel, and copies of it with one flaw each. */
#ifndef TESTS_ZOO_H
#define TESTS_ZOO_H

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "attune/kernel.h"
#include "base/half.h"
#include "core/problem.h"

typedef enum zoo_flaw {
    ZOO_HONEST,
    ZOO_SCALE_OFF,       /* scale one per cent too large */
    ZOO_FP8_P,           /* P rounded to three mantissa bits */
    ZOO_DROPS_TAIL,      /* the last 64 keys left out */
    ZOO_MEAN_OF_V,       /* no softmax at all */
    ZOO_CAUSAL_OFF,      /* sees one key too many */
    ZOO_SWAPPED_HEADS,   /* reads the wrong key/value head */
    ZOO_NAN_ROW,         /* one row in a hundred is NaN */
    ZOO_ZEROS,           /* writes zeros */
    ZOO_SKIPS_ROW,       /* one row in a hundred is never written */
    ZOO_WRITES_PAST,     /* one element past its row's end */
    ZOO_CHANGES_INPUT,   /* scales Q in place */
    ZOO_RANDOM_BITS,     /* the last bit of some outputs depends on the call */
    ZOO_READS_NEIGHBOUR, /* rounds otherwise when the batch is larger */
    ZOO_ASKS_NEIGHBOUR,  /* rounds otherwise beside a packed query that begins with 0 or a large number */
    ZOO_LSE_OFF,         /* LSE in base 2 */
    ZOO_EMPTY_NAN,       /* rows that see nothing are 0 / 0 */
    ZOO_NO_MAXIMUM,      /* exp without subtracting the maximum */
    ZOO_HIGH_REFERENCE,  /* subtracts 2^8 times more than the maximum, and rounds weights to fp16 */
    ZOO_LEAKS,           /* hidden keys weigh zero, but are multiplied */
    ZOO_BIASED,          /* rounds O towards zero */
    ZOO_INT32,           /* element offsets in 32 bits: wraps onto the tensor's first rows */
    ZOO_ONE_ROW,         /* one row in all is half as large again */
    ZOO_BARE_FP8,        /* P in fp8 where there is no LSE */
    ZOO_KEEPS_ZEROS,     /* writes nothing where O is zero */
    ZOO_BETWEEN,         /* no softmax where keys lie between queries */
    ZOO_IN_ROWS,         /* no softmax where a row of K is further from the next than a sequence is */
    ZOO_SHARED,          /* no softmax where a stride of 0 repeats keys */
    ZOO_TWINS,           /* leaves out a key that is the one before it, where not all are */
    ZOO_TF32,            /* operands of eleven significant bits: no flaw where the problem says tf32 */
    ZOO_BF16,            /* operands of eight, in fp32 problems */
    ZOO_FLAWS
} zoo_flaw;

static inline float zoo_load(const attune_tensor *tensor, int64_t at)
{
    switch (tensor->dtype) {
    case ATTUNE_FP16:
        return at_fp16_to_float(((const uint16_t *)tensor->data)[at]);
    case ATTUNE_BF16:
        return at_bf16_to_float(((const uint16_t *)tensor->data)[at]);
    default:
        return ((const float *)tensor->data)[at];
    }
}

static inline void zoo_store(const attune_tensor *tensor, int64_t at, float value)
{
    switch (tensor->dtype) {
    case ATTUNE_FP16:
        ((uint16_t *)tensor->data)[at] = at_fp16_from_float(value);
        break;
    case ATTUNE_BF16:
        ((uint16_t *)tensor->data)[at] = at_bf16_from_float(value);
        break;
    default:
        ((float *)tensor->data)[at] = value;
    }
}

static inline float zoo_round(int dtype, float value)
{
    return dtype == ATTUNE_FP16   ? at_fp16_to_float(at_fp16_from_float(value))
           : dtype == ATTUNE_BF16 ? at_bf16_to_float(at_bf16_from_float(value))
                                  : value;
}

/* Drops mantissa bits below `kept`: to nearest, or towards zero. */
static inline float zoo_chop(float value, int kept, bool nearest)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits += nearest ? 1u << (22 - kept) : 0u;
    bits &= ~((1u << (23 - kept)) - 1);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What a product takes of a number. */
static inline float zoo_operand(zoo_flaw flaw, float value)
{
    return !isfinite(value)   ? value
           : flaw == ZOO_TF32 ? zoo_chop(value, 10, true)
           : flaw == ZOO_BF16 ? zoo_chop(value, 7, true)
                              : value;
}

typedef struct zoo_row {
    int64_t batch, head, head_kv, row, first_q, first_kv, keys, offset;
} zoo_row;

/* Where the item-th (batch, head, row) of the padded grid lies; false where a packed sequence is shorter. */
static inline bool zoo_place(const attune_args *args, int64_t item, zoo_flaw flaw, zoo_row *at)
{
    int64_t rows = args->seqlen_q;
    at->row = item % args->seqlen_q;
    at->head = item / args->seqlen_q % args->heads_q;
    at->batch = item / args->seqlen_q / args->heads_q;
    at->head_kv = at->head / (args->heads_q / args->heads_kv);
    if (flaw == ZOO_SWAPPED_HEADS) {
        at->head_kv = (at->head_kv + 1) % args->heads_kv;
    }
    at->keys = args->seqlen_kv;
    at->first_q = at->first_kv = 0;
    if (args->features & ATTUNE_FEATURE_VARLEN) {
        const int32_t *cu_q = args->tensor[ATTUNE_CU_Q].data;
        const int32_t *cu_kv = args->tensor[ATTUNE_CU_KV].data;
        at->first_q = cu_q[at->batch];
        at->first_kv = cu_kv[at->batch];
        rows = cu_q[at->batch + 1] - at->first_q;
        at->keys = cu_kv[at->batch + 1] - at->first_kv;
    }
    if (args->features & ATTUNE_FEATURE_SEQUSED) {
        int64_t used = ((const int32_t *)args->tensor[ATTUNE_USED_KV].data)[at->batch];
        at->keys = used < at->keys ? used : at->keys;
    }
    at->offset = args->offset_kind == ATTUNE_OFFSET_TOP_LEFT ? 0
                 : args->offset_kind == ATTUNE_OFFSET_NUMBER ? args->offset
                                                             : at->keys - rows;
    return at->row < rows;
}

static inline int64_t zoo_index(const attune_args *args, attune_role role, zoo_flaw flaw, int64_t batch, int64_t head,
                                int64_t row)
{
    const int64_t *stride = args->tensor[role].stride;
    int64_t at = head * stride[1] + row * stride[2] + (args->features & ATTUNE_FEATURE_VARLEN ? 0 : batch * stride[0]);
    return flaw == ZOO_INT32 ? at & 0x7fffffff : at;
}

/* Whether two keys begin with the same two numbers; of any with itself or what is before the first, no. */
static inline bool zoo_is_twin(const attune_args *args, const zoo_row *at, int64_t key, int64_t other)
{
    const attune_tensor *k = &args->tensor[ATTUNE_K];
    if (other < 0 || key == other) {
        return false;
    }
    const int64_t a = zoo_index(args, ATTUNE_K, ZOO_HONEST, at->batch, at->head_kv, at->first_kv + key);
    const int64_t b = zoo_index(args, ATTUNE_K, ZOO_HONEST, at->batch, at->head_kv, at->first_kv + other);
    return zoo_load(k, a) == zoo_load(k, b) && zoo_load(k, a + 1) == zoo_load(k, b + 1);
}

static inline bool zoo_sees(const attune_args *args, const zoo_row *at, int64_t key, zoo_flaw flaw)
{
    int64_t position = at->row + at->offset;
    if (flaw == ZOO_DROPS_TAIL && at->keys > 128 && key >= at->keys - 64) {
        return false;
    }
    if (flaw == ZOO_TWINS && zoo_is_twin(args, at, key, key - 1) && !zoo_is_twin(args, at, 0, at->keys - 1)) {
        return false;
    }
    if (args->features & ATTUNE_FEATURE_CAUSAL && key > position + (flaw == ZOO_CAUSAL_OFF)) {
        return false;
    }
    if (args->features & ATTUNE_FEATURE_WINDOW) {
        if ((args->window_left >= 0 && key < position - args->window_left) ||
            (args->window_right >= 0 && key > position + args->window_right)) {
            return false;
        }
    }
    if (args->features & ATTUNE_FEATURE_MASK) {
        const int64_t *stride = args->tensor[ATTUNE_MASK].stride;
        const unsigned char *mask = args->tensor[ATTUNE_MASK].data;
        return mask[at->batch * stride[0] + at->head * stride[1] + at->row * stride[2] + key] != 0;
    }
    return true;
}

/* The score of one pair, -inf where hidden. */
static inline float zoo_score(const attune_args *args, const zoo_row *at, int64_t key, zoo_flaw flaw)
{
    int64_t q = zoo_index(args, ATTUNE_Q, flaw, at->batch, at->head, at->first_q + at->row);
    int64_t k = zoo_index(args, ATTUNE_K, flaw, at->batch, at->head_kv, at->first_kv + key);
    float dot = 0;
    if (!zoo_sees(args, at, key, flaw)) {
        return -INFINITY;
    }
    for (int32_t c = 0; c < args->head_dim_qk; ++c) {
        dot += zoo_operand(flaw, zoo_load(&args->tensor[ATTUNE_Q], q + c)) *
               zoo_operand(flaw, zoo_load(&args->tensor[ATTUNE_K], k + c));
    }
    float s = dot * args->scale * (flaw == ZOO_SCALE_OFF ? 1.01F : 1.0F);
    if (args->softcap > 0) {
        s = args->softcap * tanhf(s / args->softcap);
    }
    if (args->features & ATTUNE_FEATURE_BIAS) {
        const int64_t *stride = args->tensor[ATTUNE_BIAS].stride;
        float bias = zoo_load(&args->tensor[ATTUNE_BIAS],
                              at->batch * stride[0] + at->head * stride[1] + at->row * stride[2] + key);
        s = bias == -INFINITY ? bias : s + bias;
    }
    if (args->features & ATTUNE_FEATURE_ALIBI) {
        const attune_tensor *slopes = &args->tensor[ATTUNE_SLOPES];
        s -= zoo_load(slopes, at->head * slopes->stride[1]) * fabsf((float)(at->row + at->offset - key));
    }
    return s;
}

/* Scores into weights, not yet normalised. Returns their sum; *lse as the kernel would store it. */
static inline float zoo_soften(const attune_args *args, const zoo_row *at, zoo_flaw flaw, float *score, float *lse)
{
    const attune_tensor *sinks = &args->tensor[ATTUNE_SINK];
    float sink = args->features & ATTUNE_FEATURE_SINK ? zoo_load(sinks, at->head * sinks->stride[1]) : -INFINITY;
    float maximum = sink;
    float sum = 0;
    for (int64_t j = 0; j < at->keys; ++j) {
        score[j] = zoo_score(args, at, j, flaw);
        maximum = fmaxf(maximum, score[j]);
    }
    float shift = maximum == -INFINITY || flaw == ZOO_NO_MAXIMUM ? 0.0F : maximum;
    shift += flaw == ZOO_HIGH_REFERENCE ? 5.545177F : 0.0F;
    for (int64_t j = 0; j < at->keys; ++j) {
        score[j] = flaw == ZOO_MEAN_OF_V ? 1.0F : expf(score[j] - shift);
        sum += score[j];
        score[j] = zoo_round(flaw == ZOO_HIGH_REFERENCE ? ATTUNE_FP16 : args->dtype,
                             flaw == ZOO_FP8_P ? zoo_chop(score[j], 3, true) : zoo_operand(flaw, score[j]));
    }
    sum += expf(sink - shift);
    *lse = (shift + logf(sum)) * (flaw == ZOO_LSE_OFF ? 1.442695F : 1.0F);
    return sum;
}

static inline float zoo_output(const attune_args *args, const zoo_row *at, zoo_flaw flaw, const float *weight,
                               float sum, int32_t column)
{
    float o = 0;
    for (int64_t j = 0; j < at->keys; ++j) {
        /* Hidden keys, and those of weight zero, are skipped; a leaking kernel multiplies them by zero. */
        if (flaw == ZOO_LEAKS || weight[j] != 0.0F) {
            int64_t v = zoo_index(args, ATTUNE_V, flaw, at->batch, at->head_kv, at->first_kv + j);
            o += weight[j] * zoo_operand(flaw, zoo_load(&args->tensor[ATTUNE_V], v + column));
        }
    }
    if (sum == 0.0F && flaw != ZOO_EMPTY_NAN) {
        return 0.0F;
    }
    return o / sum;
}

/* Whether the query that follows a packed sequence's last one, a neighbour's, begins as hardly any drawn one does. */
static inline bool zoo_neighbour_says(const attune_args *args, const zoo_row *at)
{
    const int32_t *cu_q = args->tensor[ATTUNE_CU_Q].data;
    if (!(args->features & ATTUNE_FEATURE_VARLEN) || cu_q[at->batch + 1] >= args->total_q) {
        return false;
    }
    int64_t next = zoo_index(args, ATTUNE_Q, ZOO_HONEST, 0, at->head, cu_q[at->batch + 1]);
    float begins = fabsf(zoo_load(&args->tensor[ATTUNE_Q], next));
    return begins == 0.0F || begins > 150.0F;
}

/* Whether the inputs lie as those of callers do that these flaws do not know. */
static inline bool zoo_lies_so(const attune_args *args, zoo_flaw flaw)
{
    const attune_tensor *q = &args->tensor[ATTUNE_Q], *k = &args->tensor[ATTUNE_K];
    const char *first = q->data, *keys = k->data;
    switch (flaw) {
    case ZOO_BETWEEN:
        return keys > first && keys < first + q->stride[2] * (int64_t)at_dtype_bytes(q->dtype);
    case ZOO_IN_ROWS:
        return args->batch > 1 && k->stride[2] > k->stride[0] && k->stride[0] > 0;
    case ZOO_SHARED:
        return (args->batch > 1 && k->stride[0] == 0) || (args->heads_kv > 1 && k->stride[1] == 0);
    default:
        return false;
    }
}

static inline void zoo_attend(const attune_args *args, int64_t item, float *score, zoo_flaw flaw)
{
    static atomic_uint calls;
    zoo_row at;
    if (!zoo_place(args, item, flaw, &at)) {
        return;
    }
    bool chosen = item % 100 == 7 % (args->batch * args->heads_q * args->seqlen_q);
    int64_t first = zoo_index(args, ATTUNE_O, flaw, at.batch, at.head, at.first_q + at.row);
    if ((flaw == ZOO_SKIPS_ROW && chosen) ||
        (flaw == ZOO_KEEPS_ZEROS && zoo_load(&args->tensor[ATTUNE_O], first) == 0.0F)) {
        return;
    }
    if (flaw == ZOO_BARE_FP8 && args->tensor[ATTUNE_LSE].data == NULL) {
        flaw = ZOO_FP8_P;
    }
    flaw = zoo_lies_so(args, flaw) ? ZOO_MEAN_OF_V : flaw;
    bool heeds_neighbour = (flaw == ZOO_READS_NEIGHBOUR && args->batch > 1) ||
                           (flaw == ZOO_ASKS_NEIGHBOUR && zoo_neighbour_says(args, &at));
    const attune_tensor *to = &args->tensor[ATTUNE_O];
    int64_t o = zoo_index(args, ATTUNE_O, flaw, at.batch, at.head, at.first_q + at.row);
    float lse;
    float sum = zoo_soften(args, &at, flaw, score, &lse);
    for (int32_t c = 0; c < args->head_dim_v; ++c) {
        float value = zoo_output(args, &at, flaw, score, sum, c);
        value = flaw == ZOO_ZEROS || (flaw == ZOO_NAN_ROW && chosen) ? (flaw == ZOO_ZEROS ? 0.0F : NAN) : value;
        value = flaw == ZOO_BIASED ? zoo_chop(value, args->dtype == ATTUNE_FP16 ? 10 : 7, false) : value;
        value = flaw == ZOO_RANDOM_BITS && atomic_fetch_add(&calls, 1) % 3 == 0 ? value * 1.002F : value;
        value = flaw == ZOO_ONE_ROW && item == 1234 ? value * 1.5F : value;
        value = heeds_neighbour ? value * 1.002F : value;
        zoo_store(to, o + c, value);
    }
    if (flaw == ZOO_WRITES_PAST) {
        zoo_store(to, o + args->head_dim_v, 0.0F);
    }
    if (flaw == ZOO_CHANGES_INPUT && chosen) {
        zoo_store(&args->tensor[ATTUNE_Q], zoo_index(args, ATTUNE_Q, flaw, at.batch, at.head, at.first_q + at.row),
                  0.5F);
    }
    if (args->tensor[ATTUNE_LSE].data != NULL) {
        zoo_store(&args->tensor[ATTUNE_LSE], zoo_index(args, ATTUNE_LSE, flaw, at.batch, at.head, at.first_q + at.row),
                  lse);
    }
}

#endif
