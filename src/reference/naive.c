/* The naive low-precision computation: what a plain framework gets when it stores S and P in the problem's dtype. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/status.h"
#include "reference/chunks.h"

typedef float lanes __attribute__((vector_size(16)));

enum { STRIP = 16, LANES = STRIP / 4, GROUP = 16 };

typedef struct job {
    const attune_args *args;
    const at_rows *rows;
    at_chunks chunks;
    double *o, *lse;
    bool acc16;
    atomic_bool failed;
} job;

#define NUMBER float
#define LOAD_NUMBERS at_elements_float
#define OWN_FIELDS bool acc16; /* sums are carried in fp16 */
#include "reference/buffers.inc"

/* out[16] += left[depth] times right[depth][16]: one product after another in fp32, as the plain loop would. */
static void multiply(const float *left, int64_t depth, const float *right, int64_t pitch, float *out)
{
    lanes sum[LANES];
    for (int l = 0; l < LANES; ++l) {
        sum[l] = ((const lanes *)out)[l];
    }
    for (int64_t k = 0; k < depth; ++k) {
        const lanes *row = (const lanes *)(right + k * pitch);
        for (int l = 0; l < LANES; ++l) {
            sum[l] += left[k] * row[l];
        }
    }
    for (int l = 0; l < LANES; ++l) {
        ((lanes *)out)[l] = sum[l];
    }
}

/* The same with the sum carried in fp16 from one group of products to the next, as a tensor core's accumulator is. */
static void multiply_acc16(const float *left, int64_t depth, const float *right, int64_t pitch, float *out)
{
    for (int64_t k = 0; k < depth; k += GROUP) {
        multiply(left + k, depth - k < GROUP ? depth - k : GROUP, right + k * pitch, pitch, out);
        for (int c = 0; c < STRIP; ++c) {
            out[c] = at_round(ATTUNE_FP16, out[c]);
        }
    }
}

static void accumulate(const buffers *on, const float *left, int64_t depth, const float *right, int64_t pitch,
                       float *out)
{
    if (!on->acc16) {
        multiply(left, depth, right, pitch, out);
        return;
    }
    _Alignas(16) float wide[STRIP];
    for (int c = 0; c < STRIP; ++c) {
        wide[c] = out[c];
    }
    multiply(left, depth, right, pitch, wide);
    multiply_acc16(left, depth, right, pitch, out);
    for (int c = 0; c < STRIP; ++c) {
        out[c] = isfinite(out[c]) ? out[c] : wide[c]; /* an fp16 sum that overflowed gives way to the fp32 one */
    }
}

static void dot_block(const attune_args *args, const at_chunk *chunk, int64_t column, buffers *on)
{
    for (int64_t r = 0; r < chunk->rows; ++r) {
        float *out = on->score + r * on->keys + column;
        for (int64_t j = 0; j < AT_BLOCK_KEYS; ++j) {
            out[j] = 0.0F;
        }
        for (int64_t j = 0; j < AT_BLOCK_KEYS; j += STRIP) {
            accumulate(on, on->query[r], args->head_dim_qk, on->block + j, AT_BLOCK_KEYS, out + j);
        }
    }
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
    return empty ? (double)sink : (double)(shift + logf(sum));
}

static void gather_block(const at_chunk *chunk, int64_t column, bool finite, buffers *on)
{
    for (int64_t r = 0; r < chunk->rows; ++r) {
        const float *weight = on->score + r * on->keys + column;
        const unsigned char *seen = on->seen + r * on->keys + column;
        float *out = on->o + r * on->columns;
        for (int64_t c = 0; finite && c < on->columns; c += STRIP) {
            accumulate(on, weight, AT_BLOCK_KEYS, on->block + c, on->columns, out + c);
        }
        for (int64_t j = 0; !finite && j < AT_BLOCK_KEYS; ++j) {
            for (int64_t c = 0; seen[j] && c < on->columns; ++c) {
                out[c] += weight[j] * on->block[j * on->columns + c];
            }
        }
    }
}

static void compute(const attune_args *args, const at_chunk *chunk, buffers *on, double *o, double *lse)
{
    int64_t keys = chunk->key_end - chunk->key_first;
    load_queries(args, chunk, on);
    for (int64_t at = 0; at < keys; at += AT_BLOCK_KEYS) {
        load_keys(args, chunk, chunk->key_first + at, keys - at < AT_BLOCK_KEYS ? keys - at : AT_BLOCK_KEYS, on);
        dot_block(args, chunk, at, on);
    }
    for (int64_t r = 0; r < chunk->rows; ++r) {
        at_chunk_seen(args, chunk, r, on->seen + r * on->keys);
        finish_scores(args, chunk, r, on);
        lse[chunk->first + r] = soften(args, chunk, r, on);
    }
    for (int64_t i = 0; i < AT_CHUNK_ROWS * on->columns; ++i) {
        on->o[i] = 0.0F;
    }
    for (int64_t at = 0; at < keys; at += AT_BLOCK_KEYS) {
        int64_t count = keys - at < AT_BLOCK_KEYS ? keys - at : AT_BLOCK_KEYS;
        gather_block(chunk, at, load_values(args, chunk, chunk->key_first + at, count, on), on);
    }
    for (int64_t r = 0; r < chunk->rows; ++r) {
        for (int64_t c = 0; c < args->head_dim_v; ++c) {
            o[(chunk->first + r) * args->head_dim_v + c] = at_round(args->dtype, on->o[r * on->columns + c]);
        }
    }
}

static void work(void *context, int64_t item, void *scratch)
{
    job *all = context;
    (void)scratch;
    at_chunk chunk = at_chunk_of(all->args, all->rows, &all->chunks, item);
    buffers *on = buffers_create(all->args, &chunk);
    if (on == NULL) {
        atomic_store(&all->failed, true);
        return;
    }
    on->acc16 = all->acc16;
    compute(all->args, &chunk, on, all->o, all->lse);
    buffers_destroy(on);
}

attune_status at_naive_run(at_pool *pool, const attune_args *args, const at_rows *rows, int acc16, double *o,
                           double *lse)
{
    job all = {.args = args, .rows = rows, .o = o, .lse = lse, .acc16 = acc16 != 0};
    AT_FORWARD(at_chunks_create(args, rows, &all.chunks));
    at_pool_run(pool, all.chunks.count, work, &all);
    at_chunks_destroy(&all.chunks);
    AT_FAIL_IF(atomic_load(&all.failed), ATTUNE_OUT_OF_MEMORY, "no memory for the scores of %lld keys",
               (long long)args->seqlen_kv);
    return ATTUNE_OK;
}
