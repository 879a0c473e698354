/* Attention in fp64, by the plain formula: all scores of a row, then its softmax, then its sum of values. */
#include "reference/reference.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "reference/chunks.h"
#include "reference/product.h"

#define NUMBER double
#define LOAD_NUMBERS at_elements_double
#define OWN_FIELDS double maximum[AT_CHUNK_ROWS], sum[AT_CHUNK_ROWS]; /* of each row's scores, and of their powers */
#include "reference/buffers.inc"

/* Q K^T of the chunk against one block of keys, into score columns [column, column + 64). */
static void dot_block(const attune_args *args, const at_chunk *chunk, int64_t column, buffers *on)
{
    const at_product shape = {chunk->rows, AT_BLOCK_KEYS, args->head_dim_qk, 256, AT_BLOCK_KEYS, on->keys};
    double *out = on->score + column;
    for (int64_t r = 0; r < chunk->rows; ++r) {
        memset(out + r * on->keys, 0, AT_BLOCK_KEYS * sizeof *out);
    }
    at_product_best()->of_double(&shape, on->query[0], on->block, out);
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

/* Replaces S by exp(S - maximum), a logit of -inf by -0 (0 where hidden), and returns the row's LSE. */
static double soften(const attune_args *args, const at_chunk *chunk, int64_t r, buffers *on)
{
    double *score = on->score + r * on->keys;
    const unsigned char *seen = on->seen + r * on->keys;
    const attune_tensor *sinks = &args->tensor[ATTUNE_SINK];
    double sink = args->features & ATTUNE_FEATURE_SINK
                      ? at_element(sinks, chunk->head * sinks->stride[ATTUNE_STRIDE_HEAD])
                      : -INFINITY;
    double maximum = sink;
    bool empty = true; /* no key has a weight: the row sees none, or all its logits are -inf */
    for (int64_t j = 0; j < on->keys; ++j) {
        if (seen[j]) {
            empty = empty && score[j] == -INFINITY;
            maximum = fmax(maximum, score[j]);
        }
    }
    on->sum[r] = 0;
    double shift = maximum == -INFINITY ? 0.0 : maximum; /* there is no exp(-inf - -inf) */
    for (int64_t j = 0; j < on->keys; ++j) {
        const double weight = score[j] == -INFINITY ? -0.0 : exp(score[j] - shift);
        score[j] = seen[j] ? weight : 0.0;
        on->sum[r] += score[j];
    }
    on->sum[r] = empty ? 1.0 : on->sum[r] + exp(sink - shift);
    return empty ? sink : shift + log(on->sum[r]);
}

/* A finite logit has a weight, however small: an infinite value stays infinite where fp64 has none left of it. */
static double seen_part(double weight, double value)
{
    const bool lost = weight == 0.0 && !signbit(weight) && isinf(value);
    return (lost ? DBL_MIN : weight) * value;
}

/* As gather_block, for blocks with a non-finite value: what a row does not see leaves no trace in it. */
static void gather_seen(const at_chunk *chunk, int64_t column, buffers *on)
{
    for (int64_t r = 0; r < chunk->rows; ++r) {
        for (int64_t j = 0; j < AT_BLOCK_KEYS; ++j) {
            if (!on->seen[r * on->keys + column + j]) {
                continue;
            }
            double weight = on->score[r * on->keys + column + j];
            for (int64_t c = 0; c < on->columns; ++c) {
                on->o[r * on->columns + c] += seen_part(weight, on->block[j * on->columns + c]);
            }
        }
    }
}

static void gather_block(const at_chunk *chunk, int64_t column, buffers *on)
{
    const at_product shape = {chunk->rows, on->columns, AT_BLOCK_KEYS, on->keys, on->columns, on->columns};
    at_product_best()->of_double(&shape, on->score + column, on->block, on->o);
}

static void gather(const attune_args *args, const at_chunk *chunk, int64_t at, bool finite, buffers *on)
{
    (void)args;
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
