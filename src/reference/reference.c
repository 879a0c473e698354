/* Attention in fp64, by the plain formula: all scores of a row, then its softmax, then its sum of values. */
#include "reference/reference.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/status.h"
#include "reference/chunks.h"

/* Two lanes are what every x86-64 and every 64-bit Arm has; the compiler keeps these in registers. */
typedef double lanes __attribute__((vector_size(16)));

enum { STRIP = 8, LANES = STRIP / 2 };

#define NUMBER double
#define LOAD_NUMBERS at_elements_double
#define OWN_FIELDS double maximum[AT_CHUNK_ROWS], sum[AT_CHUNK_ROWS]; /* of each row's scores, and of their powers */
#include "reference/buffers.inc"

/* out[2][8] += left[2][depth] times right[depth][8]; right's rows are `pitch` apart. */
static void multiply(const double *left0, const double *left1, int64_t depth, const double *right, int64_t pitch,
                     double *out0, double *out1)
{
    lanes sum0[LANES], sum1[LANES];
    for (int l = 0; l < LANES; ++l) {
        sum0[l] = ((const lanes *)out0)[l];
        sum1[l] = ((const lanes *)out1)[l];
    }
    for (int64_t k = 0; k < depth; ++k) {
        const lanes *row = (const lanes *)(right + k * pitch);
        for (int l = 0; l < LANES; ++l) {
            sum0[l] += left0[k] * row[l];
            sum1[l] += left1[k] * row[l];
        }
    }
    for (int l = 0; l < LANES; ++l) {
        ((lanes *)out0)[l] = sum0[l];
        ((lanes *)out1)[l] = sum1[l];
    }
}

/* Q K^T of the chunk against one block of keys, into score columns [column, column + 64). */
static void dot_block(const attune_args *args, const at_chunk *chunk, int64_t column, buffers *on)
{
    for (int64_t r = 0; r < chunk->rows; r += 2) {
        double *out0 = on->score + r * on->keys + column;
        double *out1 = out0 + on->keys;
        for (int64_t j = 0; j < AT_BLOCK_KEYS; j += STRIP) {
            for (int l = 0; l < STRIP; ++l) {
                out0[j + l] = out1[j + l] = 0.0;
            }
            multiply(on->query[r], on->query[r + 1], args->head_dim_qk, on->block + j, AT_BLOCK_KEYS, out0 + j,
                     out1 + j);
        }
    }
}

/* Turns one row of Q K^T into S: scale, softcap, bias, ALiBi. Hidden keys are left as they are. */
static void finish_scores(const attune_args *args, const at_chunk *chunk, int64_t r, buffers *on)
{
    double *score = on->score + r * on->keys;
    const unsigned char *seen = on->seen + r * on->keys;
    int64_t row = chunk->row[r].row;
    bool biased = args->features & ATTUNE_FEATURE_BIAS;
    int64_t bias = biased ? at_pair_index(args, ATTUNE_BIAS, chunk->sequence.batch, chunk->head, row) : 0;
    const attune_tensor *slopes = &args->tensor[ATTUNE_SLOPES];
    double slope = args->features & ATTUNE_FEATURE_ALIBI
                       ? at_element(slopes, chunk->head * slopes->stride[ATTUNE_STRIDE_HEAD])
                       : 0.0;
    for (int64_t j = chunk->key_first; j < chunk->key_end; ++j) {
        double s = score[j - chunk->key_first] * (double)args->scale;
        if (!seen[j - chunk->key_first]) {
            continue;
        }
        if (args->softcap > 0) {
            s = (double)args->softcap * tanh(s / (double)args->softcap);
        }
        if (biased) {
            s += at_element(&args->tensor[ATTUNE_BIAS], bias + j);
        }
        if (args->features & ATTUNE_FEATURE_ALIBI) {
            s -= slope * fabs((double)(row + chunk->sequence.offset - j));
        }
        score[j - chunk->key_first] = s;
    }
}

/* Replaces S by exp(S - maximum) (0 where hidden) and returns the row's LSE. */
static double soften(const attune_args *args, const at_chunk *chunk, int64_t r, buffers *on)
{
    double *score = on->score + r * on->keys;
    const unsigned char *seen = on->seen + r * on->keys;
    const attune_tensor *sinks = &args->tensor[ATTUNE_SINK];
    double sink = args->features & ATTUNE_FEATURE_SINK
                      ? at_element(sinks, chunk->head * sinks->stride[ATTUNE_STRIDE_HEAD])
                      : -INFINITY;
    double maximum = sink;
    bool empty = true;
    for (int64_t j = 0; j < on->keys; ++j) {
        if (seen[j]) {
            empty = false;
            maximum = fmax(maximum, score[j]);
        }
    }
    on->sum[r] = 0;
    /* exp(-inf - -inf): where every logit is -inf the sum is empty, as for a row that sees nothing. */
    double shift = maximum == -INFINITY ? 0.0 : maximum;
    for (int64_t j = 0; j < on->keys; ++j) {
        score[j] = seen[j] ? exp(score[j] - shift) : 0.0;
        on->sum[r] += score[j];
    }
    on->sum[r] = empty ? 1.0 : on->sum[r] + exp(sink - shift);
    if (empty) {
        return sink;
    }
    return shift + log(on->sum[r]);
}

/* As multiply, for blocks with a non-finite value: what a row does not see leaves no trace in it. */
static void gather_seen(const at_chunk *chunk, int64_t column, buffers *on)
{
    for (int64_t r = 0; r < chunk->rows; ++r) {
        for (int64_t j = 0; j < AT_BLOCK_KEYS; ++j) {
            if (!on->seen[r * on->keys + column + j]) {
                continue;
            }
            double weight = on->score[r * on->keys + column + j];
            for (int64_t c = 0; c < on->columns; ++c) {
                on->o[r * on->columns + c] += weight * on->block[j * on->columns + c];
            }
        }
    }
}

static void gather_block(const at_chunk *chunk, int64_t column, buffers *on)
{
    for (int64_t r = 0; r < chunk->rows; r += 2) {
        const double *weight = on->score + r * on->keys + column;
        double *out = on->o + r * on->columns;
        for (int64_t c = 0; c < on->columns; c += STRIP) {
            multiply(weight, weight + on->keys, AT_BLOCK_KEYS, on->block + c, on->columns, out + c,
                     out + on->columns + c);
        }
    }
}

static void gather(const at_chunk *chunk, int64_t at, bool finite, buffers *on)
{
    if (finite) {
        gather_block(chunk, at, on);
    } else {
        gather_seen(chunk, at, on);
    }
}

static void store(const attune_args *args, const at_chunk *chunk, const buffers *on, double *o)
{
    for (int64_t r = 0; r < chunk->rows; ++r) {
        for (int64_t c = 0; c < args->head_dim_v; ++c) {
            double sum = on->o[r * on->columns + c];
            o[(chunk->first + r) * args->head_dim_v + c] = on->sum[r] == 0.0 ? sum : sum / on->sum[r];
        }
    }
}

#include "reference/flow.inc"

attune_status at_reference_run(at_pool *pool, const attune_args *args, const at_rows *rows, double *o, double *lse)
{
    return run(pool, args, rows, false, o, lse);
}
