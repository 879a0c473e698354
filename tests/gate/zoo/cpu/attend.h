/* What the CPU zoo's kernels share: plain attention, one query row of one head an item, as an honest author who knows
 * no tricks would write it. A kernel of the zoo defines one of the macros below, which plants its fault, and includes
 * this. Supports what zoo_cpu.h says. */
#ifndef ZOO_CPU_ATTEND_H
#define ZOO_CPU_ATTEND_H

#include <math.h>
#include <string.h>

#include "attune/kernel.h"

#ifndef SCALE_BY
#define SCALE_BY 1.0f /* the scale is multiplied by this */
#endif
#ifndef DROPPED_TAIL
#define DROPPED_TAIL 0 /* as many of the last keys are forgotten where the length is no multiple of 8 */
#endif
#ifndef KEYS_OF
#define KEYS_OF(args) (args)->seqlen_kv /* the call's keys */
#endif
#ifndef ROWS_OF
#define ROWS_OF(args) (args)->seqlen_q /* and rows */
#endif
#ifndef MASK_SHIFT
#define MASK_SHIFT 0 /* causal: so many keys too many are seen */
#endif
#ifndef MULTIPLIES_HIDDEN
#define MULTIPLIES_HIDDEN 0 /* 1: values of hidden keys are multiplied by zero instead of left out */
#endif
#ifndef HEADROOM
#define HEADROOM 0.0f /* what is subtracted from scores lies so far above their maximum */
#endif
#ifndef ROUNDED
#define ROUNDED(weight) (weight) /* an element of P */
#endif
#ifndef WRITES_PAST
#define WRITES_PAST 0 /* elements behind each head's last row are written */
#endif
#ifndef BEFORE_ROW
#define BEFORE_ROW(args, item, scratch) /* a statement before anything is computed */
#endif
#ifndef AFTER_ROW
#define AFTER_ROW(args, item, scratch, out) /* one after the row is written */
#endif

enum { KEYS_MAX = 12288, DIM_MAX = 256 };

static float load(const attune_tensor *t, int64_t at)
{
    union {
        uint32_t bits;
        float value;
    } x;
    if (t->dtype == ATTUNE_FP32) {
        return ((const float *)t->data)[at];
    }
    const uint32_t half = ((const uint16_t *)t->data)[at];
    if (t->dtype == ATTUNE_BF16) {
        x.bits = half << 16;
        return x.value;
    }
    const uint32_t exponent = half >> 10 & 31;
    const uint32_t fraction = half & 1023;
    x.bits = (half & 0x8000) << 16;
    if (exponent == 31) {
        x.bits |= 0x7f800000 | fraction << 13;
    } else if (exponent != 0) {
        x.bits |= (exponent + 112) << 23 | fraction << 13;
    } else {
        float tiny = (float)fraction * 0x1p-24f;
        return x.bits != 0 ? -tiny : tiny;
    }
    return x.value;
}

static void store(const attune_tensor *t, int64_t at, float value)
{
    union {
        float value;
        uint32_t bits;
    } x = {value};
    uint16_t *half = (uint16_t *)t->data + at;
    if (t->dtype == ATTUNE_FP32) {
        ((float *)t->data)[at] = value;
    } else if (value != value) {
        *half = 0x7fff;
    } else if (t->dtype == ATTUNE_BF16) {
        *half = (uint16_t)((x.bits + 0x7fff + (x.bits >> 16 & 1)) >> 16);
    } else {
        const uint16_t sign = (uint16_t)(x.bits >> 16 & 0x8000);
        const float size = fabsf(value);
        if (size >= 65520.0f) {
            *half = sign | 0x7c00;
        } else if (size < 0x1p-14f) {
            *half = sign | (uint16_t)rintf(size * 0x1p24f);
        } else {
            *half = sign | (uint16_t)(((x.bits & 0x7fffffff) - 0x38000000 + 0xfff + (x.bits >> 13 & 1)) >> 13);
        }
    }
}

static int64_t row_of(const attune_tensor *t, int64_t batch, int64_t head, int64_t row)
{
    return batch * t->stride[0] + head * t->stride[1] + row * t->stride[2];
}

/* Keys that the row sees. */
static int64_t keys_of(const attune_args *args, int64_t row)
{
    int64_t offset = args->offset_kind == ATTUNE_OFFSET_TOP_LEFT ? 0
                     : args->offset_kind == ATTUNE_OFFSET_NUMBER ? args->offset
                                                                 : args->seqlen_kv - args->seqlen_q;
    int64_t keys = KEYS_OF(args);
    if (args->features & ATTUNE_FEATURE_CAUSAL) {
        int64_t seen = row + offset + 1 + MASK_SHIFT;
        keys = seen < 0 ? 0 : seen < keys ? seen : keys;
    }
    return keys % 8 != 0 && keys > DROPPED_TAIL ? keys - DROPPED_TAIL : keys;
}

static void attend_row(const attune_args *args, int64_t item, void *scratch)
{
    float *score = scratch;
    float *out = score + KEYS_MAX;
    const attune_tensor *t = args->tensor;
    const int64_t row = item % ROWS_OF(args);
    const int64_t head = item / ROWS_OF(args) % args->heads_q;
    const int64_t batch = item / ROWS_OF(args) / args->heads_q;
    const int64_t head_kv = head / (args->heads_q / args->heads_kv);
    const int64_t keys = keys_of(args, row);
    const int64_t q = row_of(&t[ATTUNE_Q], batch, head, row);
    float top = -INFINITY, sum = 0;
    BEFORE_ROW(args, item, scratch)
    for (int64_t j = 0; j < keys; ++j) {
        const int64_t k = row_of(&t[ATTUNE_K], batch, head_kv, j);
        float dot = 0;
        for (int c = 0; c < args->head_dim_qk; ++c) {
            dot += load(&t[ATTUNE_Q], q + c) * load(&t[ATTUNE_K], k + c);
        }
        score[j] = dot * (args->scale * SCALE_BY);
        top = fmaxf(top, score[j]);
    }
    top += HEADROOM;
    memset(out, 0, sizeof *out * (size_t)args->head_dim_v);
    for (int64_t j = 0; j < keys; ++j) {
        const float weight = score[j] == -INFINITY ? 0.0f : ROUNDED(expf(score[j] - top));
        const int64_t v = row_of(&t[ATTUNE_V], batch, head_kv, j);
        sum += weight;
        for (int c = 0; c < args->head_dim_v && weight != 0; ++c) {
            out[c] += weight * load(&t[ATTUNE_V], v + c);
        }
    }
    for (int64_t j = keys; MULTIPLIES_HIDDEN && j < args->seqlen_kv; ++j) {
        const int64_t v = row_of(&t[ATTUNE_V], batch, head_kv, j);
        for (int c = 0; c < args->head_dim_v; ++c) {
            out[c] += 0.0f * load(&t[ATTUNE_V], v + c);
        }
    }
    const int64_t o = row_of(&t[ATTUNE_O], batch, head, row);
    for (int c = 0; c < args->head_dim_v; ++c) {
        store(&t[ATTUNE_O], o + c, sum == 0 ? 0 : out[c] / sum);
    }
    for (int c = 0; c < WRITES_PAST && row == args->seqlen_q - 1; ++c) {
        store(&t[ATTUNE_O], o + args->head_dim_v + c, 1);
    }
    if (t[ATTUNE_LSE].data != NULL) {
        store(&t[ATTUNE_LSE], row_of(&t[ATTUNE_LSE], batch, head, row), sum == 0 ? -INFINITY : top + logf(sum));
    }
    AFTER_ROW(args, item, scratch, out)
}

/* ENTRY is attend_ and the kernel's name. */
#ifdef ENTRY
void ATTUNE_TIER(ENTRY)(const attune_args *args, int64_t item, void *scratch);

void ATTUNE_TIER(ENTRY)(const attune_args *args, int64_t item, void *scratch)
{
    attend_row(args, item, scratch);
}
#endif

#endif
