/* How good is the result of a run? Against attention in fp64, against an O that somebody else computed, and by the
 * rules of numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/status.h"
#include "cli/progress.h"
#include "cli/run.h"
#include "core/call.h"
#include "core/problem.h"
#include "reference/judge.h"

/* Above this the reference takes seeded rows and the edges of tiles. */
static const double whole_flops = 20e9;
enum { SOME_ROWS = 512, TILE_ROWS = 64, SLICE_ROWS = 64 };

/* One element of an array of floats as files hold it, at any address. */
static double element(const at_array *array, int64_t index)
{
    const char *at = (const char *)array->data + (size_t)index * at_array_element(array->dtype);
    float wide;
    uint16_t narrow;
    if (array->dtype == ATTUNE_FP32) {
        memcpy(&wide, at, sizeof wide);
        return (double)wide;
    }
    memcpy(&narrow, at, sizeof narrow);
    return (double)(array->dtype == ATTUNE_FP16 ? at_fp16_to_float(narrow) : at_bf16_to_float(narrow));
}

/* Sums of one pair of results. */
typedef struct sums {
    double max, error, square;
} sums;

static void add(sums *s, double a, double b)
{
    /* Equal infinities are equal; a NaN on either side makes the maximum NaN, and keeps it. */
    double error = a == b ? 0.0 : fabs(a - b);
    s->max = error <= s->max ? s->max : isnan(s->max) ? s->max : error;
    s->error += error * error;
    s->square += b * b;
}

static at_run_error finish(const sums *s)
{
    return (at_run_error){s->max, s->error > 0 ? sqrt(s->error / s->square) : s->error};
}

static attune_status check_given(const at_run_job *job, const at_run_tensor *given)
{
    char have[AT_ARRAY_TEXT_MAX], want[AT_ARRAY_TEXT_MAX];
    at_array_shape_text(&given->array, have);
    at_array_shape_text(&job->o, want);
    AT_FAIL_IF(strcmp(have, want) != 0, ATTUNE_INVALID_ARGUMENT, "%s: its shape is %s, O has %s", given->source, have,
               want);
    int32_t dtype = given->array.dtype;
    AT_FAIL_IF(dtype != ATTUNE_FP32 && dtype != ATTUNE_FP16 && dtype != ATTUNE_BF16, ATTUNE_INVALID_ARGUMENT,
               "%s: its dtype is %s, expected fp32, fp16 or bf16", given->source, at_dtype_name(dtype));
    return ATTUNE_OK;
}

static void compare_given(const at_run_job *job, const at_run_tensor *given, at_run_report *report)
{
    sums apart = {0};
    int64_t count = (int64_t)(job->o.bytes / at_array_element(job->o.dtype));
    for (int64_t i = 0; i < count; i++) {
        add(&apart, element(&job->o, i), element(&given->array, i));
    }
    report->apart = finish(&apart);
    report->compared = true;
}

/* ---- Against fp64 ----------------------------------------------------------------------------------------------- */

/* Results of the reference and of the naive computation, row by row. */
typedef struct truth {
    at_rows rows;
    double *o, *lse, *o_naive, *lse_naive; /* the last two only for judging */
} truth;

static void truth_free(truth *t)
{
    at_rows_free(&t->rows);
    free(t->o);
    free(t->lse);
    free(t->o_naive);
    free(t->lse_naive);
}

static attune_status truth_make(const at_run_job *job, const attune_args *args, bool naive, truth *t)
{
    if (attune_problem_flops(&job->problem) <= whole_flops) {
        AT_FORWARD(at_rows_all(args, &t->rows));
    } else {
        AT_FORWARD(at_rows_some(args, SOME_ROWS, TILE_ROWS, 1, &t->rows));
    }
    size_t rows = (size_t)t->rows.count + 1, width = (size_t)job->problem.head_dim_v;
    t->o = calloc(rows * width, sizeof *t->o);
    t->lse = calloc(rows, sizeof *t->lse);
    t->o_naive = naive ? calloc(rows * width, sizeof *t->o_naive) : NULL;
    t->lse_naive = naive ? calloc(rows, sizeof *t->lse_naive) : NULL;
    AT_FAIL_IF(t->o == NULL || t->lse == NULL || (naive && (t->o_naive == NULL || t->lse_naive == NULL)),
               ATTUNE_OUT_OF_MEMORY, "no memory for the fp64 reference of %zu rows", rows - 1);
    return ATTUNE_OK;
}

/* A slice of rows at a time, so that an interrupt is seen and progress shows. */
static attune_status truth_compute(const at_cli *cli, at_pool *pool, const attune_args *args, bool acc16, truth *t)
{
    at_progress progress;
    attune_status status = ATTUNE_OK;
    int64_t width = args->head_dim_v;
    at_progress_start(&progress, cli->err, "fp64 reference");
    for (int64_t at = 0; status == ATTUNE_OK && at < t->rows.count; at += SLICE_ROWS) {
        int64_t left = t->rows.count - at;
        const at_rows slice = {left < SLICE_ROWS ? left : SLICE_ROWS, t->rows.row + at};
        if (at_cli_interrupted()) {
            status = at_fail(ATTUNE_INTERRUPTED, "interrupted while computing the fp64 reference");
            break;
        }
        status = at_reference_run(pool, args, &slice, t->o + at * width, t->lse + at);
        if (status == ATTUNE_OK && t->o_naive != NULL) {
            status = at_naive_run(pool, args, &slice, acc16, t->o_naive + at * width, t->lse_naive + at);
        }
        at_progress_update(&progress, (double)at / (double)t->rows.count);
    }
    at_progress_end(&progress);
    return status;
}

/* Where a row begins in the arrays of O, in elements. */
static int64_t row_begin(const at_run_job *job, const at_row *row)
{
    const int64_t *stride = job->call.tensor[ATTUNE_O].stride;
    int64_t first = row->batch * stride[ATTUNE_STRIDE_BATCH], place = row->row;
    if (job->problem.varlen) {
        int32_t sequence;
        memcpy(&sequence, (const int32_t *)job->call.tensor[ATTUNE_CU_Q].data + row->batch, sizeof sequence);
        first = 0;
        place += sequence;
    }
    return first + row->head * stride[ATTUNE_STRIDE_HEAD] + place * stride[ATTUNE_STRIDE_SEQ];
}

static void compare_truth(const at_run_job *job, const at_run_tensor *given, const truth *t, at_run_report *report)
{
    sums output = {0}, other = {0};
    int64_t width = job->problem.head_dim_v;
    for (int64_t r = 0; r < t->rows.count; r++) {
        int64_t begin = row_begin(job, &t->rows.row[r]);
        for (int64_t i = 0; i < width; i++) {
            double reference = t->o[r * width + i];
            add(&output, element(&job->o, begin + i), reference);
            if (given != NULL) {
                add(&other, element(&given->array, begin + i), reference);
            }
        }
    }
    report->output = finish(&output);
    report->given = finish(&other);
    report->rows = t->rows.count;
    report->all_rows = (int64_t)(job->o.bytes / at_array_element(job->o.dtype)) / width;
}

/* Small cases are granted what rounding may move them by: their naive error may be small by luck. */
static attune_status grant_noise(at_pool *pool, const attune_args *args, const truth *t, at_case *one)
{
    size_t rows = (size_t)t->rows.count, width = (size_t)args->head_dim_v;
    if (rows * width >= AT_NOISE_CASE) {
        return ATTUNE_OK;
    }
    double *noise = calloc(rows * width + rows + 1, sizeof *noise);
    AT_FAIL_IF(noise == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for the noise of %zu rows", rows);
    at_noise_run(pool, args, &t->rows, t->o, t->lse, noise, noise + rows * width);
    at_judge_noise(one, noise, noise + rows * width);
    free(noise);
    return ATTUNE_OK;
}

static attune_status judge_truth(at_pool *pool, const attune_args *args, const truth *t, bool taints,
                                 at_run_report *report)
{
    at_case one = {.args = args,
                   .rows = &t->rows,
                   .o_reference = t->o,
                   .lse_reference = t->lse,
                   .o_naive = t->o_naive,
                   .lse_naive = t->lse_naive,
                   .taints = taints};
    at_finding finding = {0};
    AT_FORWARD(grant_noise(pool, args, t, &one));
    report->verdict = at_judge_case(&one, &finding, NULL);
    report->max_limit = finding.max_error_limit;
    report->l2_limit = finding.l2_limit;
    report->judged = true;
    if (report->verdict == ATTUNE_OK || report->verdict == ATTUNE_WRONG_RESULT) {
        (void)snprintf(report->reason, sizeof report->reason, "%s",
                       report->verdict == ATTUNE_OK ? "" : attune_last_detail());
        return ATTUNE_OK;
    }
    return report->verdict;
}

attune_status at_run_compare(const at_cli *cli, at_pool *pool, const at_run_job *job, const at_run_tensor *given,
                             bool judge, bool taints, bool acc16, at_run_report *report)
{
    *report = (at_run_report){.verdict = ATTUNE_OK};
    if (given != NULL) {
        AT_FORWARD(check_given(job, given));
        compare_given(job, given, report);
    }
    attune_args args;
    truth t = {.o = NULL};
    at_call_args(&job->problem, &job->call, &args);
    attune_status status = truth_make(job, &args, judge, &t);
    if (status == ATTUNE_OK) {
        status = truth_compute(cli, pool, &args, acc16, &t);
    }
    if (status == ATTUNE_OK) {
        compare_truth(job, given, &t, report);
        status = judge ? judge_truth(pool, &args, &t, taints, report) : ATTUNE_OK;
    }
    truth_free(&t);
    return status;
}
