#include "reference/spot.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "reference/judge.h"
#include "reference/sequence.h"

enum { COLUMNS = 256 }; /* head dims have at most as many */

typedef struct results {
    double o[AT_SPOT_ROWS * COLUMNS], lse[AT_SPOT_ROWS];
} results;

/* Rows of sequences that have some, any of them more than once. */
static void draw_rows(const attune_args *args, at_random *random, at_rows *rows)
{
    rows->count = 0;
    for (int tries = 0; tries < 8 * AT_SPOT_ROWS && rows->count < AT_SPOT_ROWS; ++tries) {
        at_row *row = &rows->row[rows->count];
        row->batch = (int64_t)at_random_below(random, (uint64_t)args->batch);
        row->head = (int64_t)at_random_below(random, (uint64_t)args->heads_q);
        const int64_t length = at_sequence_of(args, row->batch).seqlen_q;
        if (length > 0) {
            row->row = (int64_t)at_random_below(random, (uint64_t)length);
            ++rows->count;
        }
    }
}

/* NOTE: beside the share, four units of the smallest numbers there are. */
static attune_status judge_share(const attune_args *args, const at_rows *rows, const double *o, double share)
{
    static const double least[] = {[ATTUNE_FP32] = 0x1p-149, [ATTUNE_FP16] = 0x1p-24, [ATTUNE_BF16] = 0x1p-133};
    for (int64_t r = 0; r < rows->count; ++r) {
        const at_row *row = &rows->row[r];
        const int64_t first = at_sequence_of(args, row->batch).q_first;
        const double *wanted = o + r * args->head_dim_v;
        double got[COLUMNS], size = 0;
        at_elements_double(&args->tensor[ATTUNE_O],
                           at_row_index(args, ATTUNE_O, row->batch, row->head, first, row->row), args->head_dim_v, got);
        for (int32_t c = 0; c < args->head_dim_v; ++c) {
            size = fmax(size, fabs(wanted[c]));
        }
        for (int32_t c = 0; c < args->head_dim_v; ++c) {
            AT_FAIL_IF(!(fabs(got[c] - wanted[c]) <= share * size + 4 * least[args->dtype]), ATTUNE_WRONG_RESULT,
                       "batch %lld, head %lld, row %lld, column %d: %g, and the reference %g", (long long)row->batch,
                       (long long)row->head, (long long)row->row, c, got[c], wanted[c]);
        }
    }
    return ATTUNE_OK;
}

static attune_status judge_rules(const at_spot *spot, const attune_args *args, const at_rows *rows,
                                 const results *reference)
{
    results naive, noise;
    at_finding finding;
    at_case one = {.args = args,
                   .rows = rows,
                   .o_reference = reference->o,
                   .lse_reference = reference->lse,
                   .o_naive = naive.o,
                   .lse_naive = naive.lse};
    AT_FORWARD(at_naive_run(spot->pool, args, rows, spot->acc16, naive.o, naive.lse));
    at_noise_run(spot->pool, args, rows, reference->o, reference->lse, noise.o, noise.lse);
    at_judge_naive(&one, &one);
    at_judge_noise(&one, noise.o, noise.lse);
    one.naive_error *= 2;
    one.naive_l2 *= 2;
    return at_judge_case(&one, &finding, NULL);
}

attune_status at_spot_check(const at_spot *spot, const attune_args *args, at_random *random)
{
    at_row row[AT_SPOT_ROWS];
    at_rows rows = {0, row};
    results reference;
    attune_args without_lse = *args;
    without_lse.tensor[ATTUNE_LSE].data = NULL;
    draw_rows(args, random, &rows);
    AT_FORWARD(at_reference_run(spot->pool, args, &rows, reference.o, reference.lse));
    return spot->share > 0 ? judge_share(args, &rows, reference.o, spot->share)
                           : judge_rules(spot, &without_lse, &rows, &reference);
}
