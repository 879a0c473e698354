/* What rounding in fp32 may do to each result: the first-order bound that no honest kernel can be asked to beat.
 *
 * A score computed in fp32 is off by up to 2^-24 of the sum of its terms' magnitudes, A_j; by sqrt(d) / 3 times as much
 * where that is more, for d terms that are added one after another round d times, each time by 2^-24 / sqrt(3) of what
 * they have come to (root mean squares, of terms of one size and sign). To first order that moves O by
 * sum_j P_j A_j |V_j - O| and LSE by sum_j P_j A_j, times 2^-24. Large cases show this in their naive error; in small
 * ones the naive result may be right by luck. */
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "reference/chunks.h"

static const double unit_roundoff = 0x1p-24;

typedef struct job {
    const attune_args *args;
    const at_rows *rows;
    const double *o, *lse; /* the reference's */
    double *o_noise, *lse_noise;
} job;

/* S of one pair, and the sum of its terms' magnitudes. */
static double score_of(const attune_args *args, const at_chunk *chunk, const double *query, const double *key,
                       int64_t j, double *magnitude)
{
    double dot = 0;
    double sizes = 0;
    int64_t row = chunk->row->row;
    for (int32_t c = 0; c < args->head_dim_qk; ++c) {
        dot += query[c] * key[c];
        sizes += fabs(query[c] * key[c]);
    }
    double s = dot * (double)args->scale;
    *magnitude = sizes * fabs((double)args->scale) * fmax(1, sqrt(args->head_dim_qk) / 3);
    if (args->softcap > 0) {
        s = (double)args->softcap * tanh(s / (double)args->softcap);
    }
    if (args->features & ATTUNE_FEATURE_BIAS) {
        int64_t at = at_pair_index(args, ATTUNE_BIAS, chunk->sequence.batch, chunk->head, row);
        double bias = at_element(&args->tensor[ATTUNE_BIAS], at + j);
        s += bias;
        *magnitude += fabs(bias);
    }
    if (args->features & ATTUNE_FEATURE_ALIBI) {
        const attune_tensor *slopes = &args->tensor[ATTUNE_SLOPES];
        double slope = at_element(slopes, chunk->head * slopes->stride[ATTUNE_STRIDE_HEAD]);
        double term = slope * fabs((double)(row + chunk->sequence.offset - j));
        s -= term;
        *magnitude += fabs(term);
    }
    return s;
}

static void add_key(const job *all, const at_chunk *chunk, const double *query, int64_t j)
{
    const attune_args *args = all->args;
    double key[256], value[256], magnitude;
    at_elements_double(&args->tensor[ATTUNE_K], at_key_index(args, ATTUNE_K, &chunk->sequence, chunk->head_kv, j),
                       args->head_dim_qk, key);
    at_elements_double(&args->tensor[ATTUNE_V], at_key_index(args, ATTUNE_V, &chunk->sequence, chunk->head_kv, j),
                       args->head_dim_v, value);
    double s = score_of(args, chunk, query, key, j, &magnitude);
    double weight = unit_roundoff * magnitude * exp(s - all->lse[chunk->first]);
    if (!isfinite(weight)) {
        return;
    }
    all->lse_noise[chunk->first] += weight;
    for (int32_t c = 0; c < args->head_dim_v; ++c) {
        int64_t at = chunk->first * args->head_dim_v + c;
        double distance = fabs(value[c] - all->o[at]);
        all->o_noise[at] += isfinite(distance) ? weight * distance : 0.0;
    }
}

static void work(void *context, int64_t item, void *scratch)
{
    const job *all = context;
    const attune_args *args = all->args;
    (void)scratch;
    int64_t first[] = {item, item + 1};
    const at_chunks single = {1, first};
    const at_chunk chunk = at_chunk_of(args, all->rows, &single, 0);
    unsigned char *seen = calloc((size_t)(chunk.key_end - chunk.key_first) + 1, 1);
    double query[256];
    if (seen == NULL || !isfinite(all->lse[item])) {
        free(seen); /* without memory the bound stays 0: the rules get stricter, never looser */
        return;
    }
    at_elements_double(
        &args->tensor[ATTUNE_Q],
        at_row_index(args, ATTUNE_Q, chunk.sequence.batch, chunk.head, chunk.sequence.q_first, chunk.row->row),
        args->head_dim_qk, query);
    at_chunk_seen(args, &chunk, 0, seen);
    for (int64_t j = chunk.key_first; j < chunk.key_end; ++j) {
        if (seen[j - chunk.key_first]) {
            add_key(all, &chunk, query, j);
        }
    }
    free(seen);
}

void at_noise_run(at_pool *pool, const attune_args *args, const at_rows *rows, const double *o, const double *lse,
                  double *o_noise, double *lse_noise)
{
    job all = {args, rows, o, lse, o_noise, lse_noise};
    for (int64_t i = 0; i < rows->count * args->head_dim_v; ++i) {
        o_noise[i] = 0.0;
    }
    for (int64_t r = 0; r < rows->count; ++r) {
        lse_noise[r] = 0.0;
    }
    at_pool_run(pool, rows->count, work, &all);
}
