#include "reference/sequence.h"

#include <stddef.h>
#include <string.h>

#include "base/half.h"

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* First row and length of a packed sequence, kept inside [0, total] whatever the array says. */
static void packed(const int32_t *cu, int64_t batch, int64_t longest, int64_t total, int64_t *first, int64_t *length)
{
    *first = clamp(cu[batch], 0, total);
    *length = clamp((int64_t)cu[batch + 1] - cu[batch], 0, longest);
    *length = clamp(*length, 0, total - *first);
}

at_sequence at_sequence_of(const attune_args *args, int64_t batch)
{
    at_sequence sequence = {.batch = batch, .seqlen_q = args->seqlen_q, .seqlen_kv = args->seqlen_kv};
    if (args->features & ATTUNE_FEATURE_VARLEN) {
        packed(args->tensor[ATTUNE_CU_Q].data, batch, args->seqlen_q, args->total_q, &sequence.q_first,
               &sequence.seqlen_q);
    }
    if ((args->features & ATTUNE_FEATURE_VARLEN) && args->tensor[ATTUNE_CU_KV].data != NULL) {
        packed(args->tensor[ATTUNE_CU_KV].data, batch, args->seqlen_kv, args->total_kv, &sequence.kv_first,
               &sequence.seqlen_kv);
    }
    if (args->features & ATTUNE_FEATURE_SEQUSED) {
        const int32_t *used = args->tensor[ATTUNE_USED_KV].data;
        sequence.seqlen_kv = clamp(used[batch], 0, sequence.seqlen_kv);
    }
    switch (args->offset_kind) {
    case ATTUNE_OFFSET_TOP_LEFT:
        sequence.offset = 0;
        break;
    case ATTUNE_OFFSET_NUMBER:
        sequence.offset = args->offset;
        break;
    default:
        sequence.offset = sequence.seqlen_kv - sequence.seqlen_q;
    }
    return sequence;
}

void at_sequence_range(const attune_args *args, const at_sequence *sequence, int64_t row, int64_t *first, int64_t *end)
{
    /* Far beyond any position, far from overflow. */
    const int64_t unbounded = INT64_C(1) << 60;
    int64_t position = row + sequence->offset;
    int64_t low = 0;
    int64_t high = sequence->seqlen_kv;
    if (args->features & ATTUNE_FEATURE_CAUSAL) {
        high = clamp(position + 1, 0, high);
    }
    if (args->features & ATTUNE_FEATURE_WINDOW) {
        if (args->window_left >= 0) {
            low = clamp(position - clamp(args->window_left, 0, unbounded), 0, high);
        }
        if (args->window_right >= 0) {
            high = clamp(position + clamp(args->window_right, 0, unbounded) + 1, low, high);
        }
    }
    *first = low;
    *end = high;
}

int64_t at_row_index(const attune_args *args, attune_role role, int64_t batch, int64_t head, int64_t first, int64_t row)
{
    const int64_t *stride = args->tensor[role].stride;
    int64_t index = head * stride[ATTUNE_STRIDE_HEAD] + (first + row) * stride[ATTUNE_STRIDE_SEQ];
    return args->features & ATTUNE_FEATURE_VARLEN ? index : index + batch * stride[ATTUNE_STRIDE_BATCH];
}

int64_t at_page_of(const attune_args *args, attune_role role, int64_t batch, int64_t key)
{
    const bool own = role == ATTUNE_V && (args->features & ATTUNE_FEATURE_PAGED_V);
    const attune_tensor *table = &args->tensor[own ? ATTUNE_PAGE_TABLE_V : ATTUNE_PAGE_TABLE_K];
    const int32_t *entry = (const int32_t *)table->data + batch * table->stride[ATTUNE_STRIDE_BATCH];
    return clamp(entry[key / args->page_size], 0, args->page_count - 1);
}

int64_t at_key_index(const attune_args *args, attune_role role, const at_sequence *sequence, int64_t head, int64_t key)
{
    const int64_t *stride = args->tensor[role].stride;
    if (!(args->features & ATTUNE_FEATURE_PAGED)) {
        return at_row_index(args, role, sequence->batch, head, sequence->kv_first, key);
    }
    return at_page_of(args, role, sequence->batch, key) * stride[ATTUNE_STRIDE_BATCH] +
           head * stride[ATTUNE_STRIDE_HEAD] + key % args->page_size * stride[ATTUNE_STRIDE_SEQ];
}

bool at_draft_sees(const attune_args *args, const at_sequence *sequence, int64_t row, int64_t key)
{
    const int64_t draft = key - sequence->offset; /* as which row of the sequence's the key was written */
    const uint32_t *words = args->tensor[ATTUNE_DRAFT_MASK].data;
    const int64_t at = at_row_index(args, ATTUNE_DRAFT_MASK, sequence->batch, 0, sequence->q_first, row);
    return draft < 0 || (draft < 32 && (words[at] >> draft & 1u) != 0);
}

int64_t at_pair_index(const attune_args *args, attune_role role, int64_t batch, int64_t head, int64_t row)
{
    const int64_t *stride = args->tensor[role].stride;
    return batch * stride[ATTUNE_STRIDE_BATCH] + head * stride[ATTUNE_STRIDE_HEAD] + row * stride[ATTUNE_STRIDE_SEQ];
}

void at_elements_float(const attune_tensor *tensor, int64_t index, int64_t count, float *to)
{
    const uint16_t *half = (const uint16_t *)tensor->data + index;
    switch (tensor->dtype) {
    case ATTUNE_FP16:
        at_fp16_to_floats(half, count, to);
        break;
    case ATTUNE_BF16:
        at_bf16_to_floats(half, count, to);
        break;
    default:
        for (int64_t i = 0; i < count; ++i) {
            to[i] = ((const float *)tensor->data)[index + i];
        }
    }
}

void at_elements_double(const attune_tensor *tensor, int64_t index, int64_t count, double *to)
{
    enum { SOME = 64, FOUR = 4 };
    typedef float floats __attribute__((vector_size(16)));
    typedef double doubles __attribute__((vector_size(32)));
    float value[SOME];
    for (int64_t i = 0; i < count; i += SOME) {
        int64_t n = count - i < SOME ? count - i : SOME;
        int64_t k = 0;
        at_elements_float(tensor, index + i, n, value);
        for (; k + FOUR <= n; k += FOUR) {
            floats four;
            memcpy(&four, value + k, sizeof four);
            const doubles wide = __builtin_convertvector(four, doubles);
            memcpy(to + i + k, &wide, sizeof wide);
        }
        for (; k < n; ++k) {
            to[i + k] = value[k];
        }
    }
}

double at_element(const attune_tensor *tensor, int64_t index)
{
    float value;
    at_elements_float(tensor, index, 1, &value);
    return value;
}

float at_round(int dtype, float value)
{
    switch (dtype) {
    case ATTUNE_FP16:
        return at_fp16_to_float(at_fp16_from_float(value));
    case ATTUNE_BF16:
        return at_bf16_to_float(at_bf16_from_float(value));
    default:
        return value;
    }
}
