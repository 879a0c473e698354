/* The naive low-precision computation: what a plain framework gets when it stores S and P in the problem's dtype. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "reference/chunks.h"
#include "reference/product.h"

enum { STRIP = AT_PRODUCT_COLUMNS, GROUP = 16 }; /* of fp16 sums: columns and depth at a time */

#define NUMBER float
#define LOAD_NUMBERS at_elements_float
#define OWN_FIELDS
#include "reference/buffers.inc"

/* Numbers as TF32 holds them: eleven significant bits, halves away from zero. One that would become infinite is cut
 * off. */
static void round_tf32(float *value, int64_t count)
{
    const uint32_t infinity = 0x7f800000, half = 0x1000, kept = ~(2 * half - 1);
    for (int64_t i = 0; i < count; ++i) {
        uint32_t bits;
        memcpy(&bits, value + i, sizeof bits);
        const uint32_t rounded = (bits + half) & kept;
        bits = (bits & infinity) == infinity ? bits : (rounded & infinity) == infinity ? bits & kept : rounded;
        memcpy(value + i, &bits, sizeof bits);
    }
}

/* As a product, with the sum carried in fp16 from one group of products to the next, as a tensor core's accumulator is.
 * An fp16 sum that overflowed gives way to the fp32 one. */
static void multiply_acc16(const at_product *shape, const float *left, const float *right, float *out)
{
    const at_product_ops *ops = at_product_best();
    at_product part = {1, STRIP, shape->depth, shape->left_pitch, shape->right_pitch, shape->out_pitch};
    _Alignas(64) float wide[STRIP];
    memcpy(wide, out, sizeof wide);
    ops->of_float(&part, left, right, wide);
    for (int64_t k = 0; k < shape->depth; k += GROUP) {
        part.depth = shape->depth - k < GROUP ? shape->depth - k : GROUP;
        ops->of_float(&part, left + k, right + k * shape->right_pitch, out);
        for (int c = 0; c < STRIP; ++c) {
            out[c] = at_round(ATTUNE_FP16, out[c]);
        }
    }
    for (int c = 0; c < STRIP; ++c) {
        out[c] = isfinite(out[c]) ? out[c] : wide[c];
    }
}

static void accumulate(const buffers *on, const at_product *shape, const float *left, const float *right, float *out)
{
    if (!on->acc16) {
        at_product_best()->of_float(shape, left, right, out);
        return;
    }
    for (int64_t r = 0; r < shape->rows; ++r) {
        for (int64_t c = 0; c < shape->columns; c += STRIP) {
            multiply_acc16(shape, left + r * shape->left_pitch, right + c, out + r * shape->out_pitch + c);
        }
    }
}

static void dot_block(const attune_args *args, const at_chunk *chunk, int64_t column, buffers *on)
{
    const at_product shape = {chunk->rows, AT_BLOCK_KEYS, args->head_dim_qk, 256, AT_BLOCK_KEYS, on->keys};
    float *out = on->score + column;
    if (args->features & ATTUNE_FEATURE_TF32) {
        for (int64_t r = 0; r < chunk->rows; ++r) {
            round_tf32(on->query[r], args->head_dim_qk);
        }
        round_tf32(on->block, args->head_dim_qk * AT_BLOCK_KEYS);
    }
    for (int64_t r = 0; r < chunk->rows; ++r) {
        memset(out + r * on->keys, 0, AT_BLOCK_KEYS * sizeof *out);
    }
    accumulate(on, &shape, on->query[0], on->block, out);
}

/* Rounds as stored; where that overflows a finite number, S stays fp32. */
static float kept(int dtype, float value)
{
    float rounded = at_round(dtype, value);
    return isinf(rounded) && !isinf(value) ? value : rounded;
}

/* S of one row, rounded after every step as a framework that stores each intermediate would. */
static void finish_scores(const attune_args *args, const at_chunk *chunk, int64_t r, buffers *on)
{
    float *score = on->score + r * on->keys;
    const unsigned char *seen = on->seen + r * on->keys;
    int64_t row = chunk->row[r].row;
    bool biased = args->features & ATTUNE_FEATURE_BIAS;
    int64_t bias = biased ? at_pair_index(args, ATTUNE_BIAS, chunk->sequence.batch, chunk->head, row) : 0;
    const attune_tensor *slopes = &args->tensor[ATTUNE_SLOPES];
    float slope = args->features & ATTUNE_FEATURE_ALIBI
                      ? (float)at_element(slopes, chunk->head * slopes->stride[ATTUNE_STRIDE_HEAD])
                      : 0.0F;
    for (int64_t j = chunk->key_first; j < chunk->key_end; ++j) {
        if (!seen[j - chunk->key_first]) {
            continue;
        }
        float s = kept(args->dtype, score[j - chunk->key_first] * args->scale);
        if (args->softcap > 0) {
            s = kept(args->dtype, args->softcap * tanhf(s / args->softcap));
        }
        if (biased) {
            s = kept(args->dtype, s + (float)at_element(&args->tensor[ATTUNE_BIAS], bias + j));
        }
        if (args->features & ATTUNE_FEATURE_ALIBI) {
            s = kept(args->dtype, s - slope * fabsf((float)(row + chunk->sequence.offset - j)));
        }
        score[j - chunk->key_first] = s;
    }
}

/* Replaces S by P, rounded (0 where hidden), and returns the row's LSE. */
static double soften(const attune_args *args, const at_chunk *chunk, int64_t r, buffers *on)
{
    float *score = on->score + r * on->keys;
    const unsigned char *seen = on->seen + r * on->keys;
    const attune_tensor *sinks = &args->tensor[ATTUNE_SINK];
    float sink = args->features & ATTUNE_FEATURE_SINK
                     ? (float)at_element(sinks, chunk->head * sinks->stride[ATTUNE_STRIDE_HEAD])
                     : -INFINITY;
    float maximum = sink;
    bool empty = true;
    for (int64_t j = 0; j < on->keys; ++j) {
        if (seen[j]) {
            empty = false;
            maximum = fmaxf(maximum, score[j]);
        }
    }
    float shift = maximum == -INFINITY ? 0.0F : maximum;
    float sum = 0;
    for (int64_t j = 0; j < on->keys; ++j) {
        score[j] = seen[j] ? expf(score[j] - shift) : 0.0F;
        sum += score[j];
    }
    sum += expf(sink - shift);
    for (int64_t j = 0; j < on->keys; ++j) {
        score[j] = seen[j] && sum != 0.0F ? at_round(args->dtype, score[j] / sum) : 0.0F;
    }
    if (args->features & ATTUNE_FEATURE_TF32) {
        round_tf32(score, on->keys);
    }
    return empty ? (double)sink : (double)(shift + logf(sum));
}

/* For blocks with a non-finite value: what a row does not see leaves no trace in it. */
static void gather_seen(const at_chunk *chunk, int64_t column, buffers *on)
{
    for (int64_t r = 0; r < chunk->rows; ++r) {
        const float *weight = on->score + r * on->keys + column;
        const unsigned char *seen = on->seen + r * on->keys + column;
        float *out = on->o + r * on->columns;
        for (int64_t j = 0; j < AT_BLOCK_KEYS; ++j) {
            for (int64_t c = 0; seen[j] && c < on->columns; ++c) {
                out[c] += weight[j] * on->block[j * on->columns + c];
            }
        }
    }
}

static void gather(const attune_args *args, const at_chunk *chunk, int64_t column, bool finite, buffers *on)
{
    if (args->features & ATTUNE_FEATURE_TF32) {
        round_tf32(on->block, AT_BLOCK_KEYS * on->columns);
    }
    const at_product shape = {chunk->rows, on->columns, AT_BLOCK_KEYS, on->keys, on->columns, on->columns};
    if (finite) {
        accumulate(on, &shape, on->score + column, on->block, on->o);
    } else {
        gather_seen(chunk, column, on);
    }
}

static void store(const attune_args *args, const at_chunk *chunk, const buffers *on, double *o)
{
    for (int64_t r = 0; r < chunk->rows; ++r) {
        for (int64_t c = 0; c < args->head_dim_v; ++c) {
            o[(chunk->first + r) * args->head_dim_v + c] =
                at_round(args->tensor[ATTUNE_O].dtype, on->o[r * on->columns + c]);
        }
    }
}

#include "reference/flow.inc"

attune_status at_naive_run(at_pool *pool, const attune_args *args, const at_rows *rows, int acc16, double *o,
                           double *lse)
{
    return run(pool, args, rows, acc16 != 0, o, lse);
}
