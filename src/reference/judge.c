#include "reference/judge.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "base/status.h"
#include "reference/sequence.h"

/* Rule 3: a row's cosine is at least 1 - 2^-10, for rows whose reference exceeds 8 times the naive row's error. NOTE:
 * two vectors a relative distance e apart have a cosine of 1 - e^2 / 2, so that a row just above 8 times would be
 * refused even with the naive error; there, as in every other rule, twice the naive error is granted: 1 - (2 e)^2 / 2.
 */
static const double cosine_slack = 0x1p-10;
static const double cosine_signal = 8.0;

typedef struct place {
    char text[96];
} place;

static place place_of(const at_row *row)
{
    place where;
    (void)snprintf(where.text, sizeof where.text, "batch %lld, head %lld, row %lld", (long long)row->batch,
                   (long long)row->head, (long long)row->row);
    return where;
}

/* Distance between neighbouring numbers of the dtype at |value|. */
static double ulp(int dtype, double value)
{
    int digits = dtype == ATTUNE_FP16 ? 11 : dtype == ATTUNE_BF16 ? 8 : 24;
    int least = dtype == ATTUNE_FP16 ? -24 : dtype == ATTUNE_BF16 ? -133 : -149;
    int exponent;
    (void)frexp(value, &exponent);
    exponent -= digits;
    return ldexp(1.0, value == 0.0 || exponent < least ? least : exponent);
}

/* A row's outputs as stored. */
static void load_row(const at_case *one, int64_t r, double *o)
{
    const at_row *row = &one->rows->row[r];
    int64_t first = at_sequence_of(one->args, row->batch).q_first;
    int64_t at = at_row_index(one->args, ATTUNE_O, row->batch, row->head, first, row->row);
    at_elements_double(&one->args->tensor[ATTUNE_O], at, one->args->head_dim_v, o);
}

static double load_lse(const at_case *one, int64_t r)
{
    const at_row *row = &one->rows->row[r];
    int64_t first = at_sequence_of(one->args, row->batch).q_first;
    return at_element(&one->args->tensor[ATTUNE_LSE],
                      at_row_index(one->args, ATTUNE_LSE, row->batch, row->head, first, row->row));
}

/* Both finite, both NaN, or the same infinity. */
static bool same_kind(double a, double b)
{
    return isfinite(a) ? isfinite(b) : isnan(a) ? isnan(b) : a == b;
}

/* ---- Errors of a case ------------------------------------------------------------------------------------------- */

/* Sums over the outputs whose reference is finite. */
typedef struct errors {
    double largest;                     /* max |O64| */
    double square;                      /* sum O64^2 */
    double error_square;                /* sum (O - O64)^2 */
    double naive_square;                /* sum (O_naive - O64)^2 */
    double max_error;                   /* max |O - O64| */
    double naive_error;                 /* max |O_naive - O64| */
    int64_t worst;                      /* row of max_error */
    double skewed_cosine, skewed_least; /* of the row that uses most of its cosine's slack */
    int64_t skewed;                     /* row of the worst cosine */
    int64_t finite;                     /* outputs summed */
} errors;

typedef struct row_sums {
    double square, output_square, cross, naive_square;
    double error, error_cross; /* sums of O - O64, and of it times O64 */
    bool whole;                /* every output and reference is finite */
} row_sums;

static double l2_of(double error_square, double square)
{
    return square > 0.0 ? sqrt(error_square / square) : error_square > 0.0 ? HUGE_VAL : 0.0;
}

/* Adds one output to the sums of its row, its case and the suite. */
static void add_output(double o, double reference, double naive, errors *sums, row_sums *row, at_bias *bias)
{
    double error = o - reference;
    double naive_error = naive - reference;
    row->square += reference * reference;
    row->output_square += o * o;
    row->cross += o * reference;
    row->naive_square += naive_error * naive_error;
    row->error += error;
    row->error_cross += error * reference;
    sums->largest = fmax(sums->largest, fabs(reference));
    sums->square += reference * reference;
    sums->error_square += error * error;
    sums->finite += 1;
    if (bias != NULL) {
        bias->error += error;
        bias->error_naive += naive_error;
        bias->reference_square += reference * reference;
        bias->cross += o * reference;
        bias->cross_naive += naive * reference;
        bias->reference_absolute += fabs(reference);
        bias->count += 1;
    }
}

static double cosine_of(const row_sums *row)
{
    double norms = sqrt(row->square) * sqrt(row->output_square);
    return norms > 0.0 ? row->cross / norms : 0.0;
}

/* Rule 3's first half: what is not finite must be where the reference's does. A kernel that taints may have more. */
static bool kinds_agree(const at_case *one, double o, double reference)
{
    return same_kind(o, reference) || (one->taints && isfinite(reference) && !isfinite(o));
}

void at_judge_rows(const at_case *one, double *error)
{
    const int32_t columns = one->args->head_dim_v;
    for (int64_t r = 0; r < one->rows->count; ++r) {
        double o[256], difference = 0, square = 0;
        const double *reference = one->o_reference + r * columns;
        load_row(one, r, o);
        for (int32_t c = 0; c < columns; ++c) {
            const bool finite = isfinite(o[c]) && isfinite(reference[c]);
            difference += finite ? (o[c] - reference[c]) * (o[c] - reference[c]) : 0;
            square += finite ? reference[c] * reference[c] : 0;
        }
        error[r] = square > 0 ? sqrt(difference / square) : 0;
    }
}

static attune_status add_row(const at_case *one, int64_t r, errors *sums, row_sums *row, at_bias *bias)
{
    double o[256];
    int32_t columns = one->args->head_dim_v;
    const double *reference = one->o_reference + r * columns;
    const double *naive = one->o_naive + r * columns;
    load_row(one, r, o);
    *row = (row_sums){.whole = true};
    for (int32_t c = 0; c < columns; ++c) {
        AT_FAIL_IF(!kinds_agree(one, o[c], reference[c]), ATTUNE_WRONG_RESULT,
                   "rule 3, inf and NaN in their places: %s, column %d: O is %g, the reference %g",
                   place_of(&one->rows->row[r]).text, c, o[c], reference[c]);
        if (!isfinite(o[c]) || !isfinite(reference[c])) {
            row->whole = false;
            continue;
        }
        AT_FAIL_IF(!isfinite(naive[c]), ATTUNE_INTERNAL,
                   "the naive result is %g where the reference is %g (%s, column %d): no tolerance follows from it",
                   naive[c], reference[c], place_of(&one->rows->row[r]).text, c);
        double error = fabs(o[c] - reference[c]);
        if (error > sums->max_error) {
            sums->max_error = error;
            sums->worst = r;
        }
        add_output(o[c], reference[c], naive[c], sums, row, bias);
    }
    if (bias != NULL) {
        bias->error_square += row->error * row->error;
        bias->cross_square += row->error_cross * row->error_cross;
    }
    return ATTUNE_OK;
}

/* Rule 3's second half: notes the row's cosine where the row is worth one, and where it is nearest to its bound. */
static void note_cosine(const at_case *one, int64_t r, const row_sums *row, double naive_l2, errors *sums,
                        at_finding *finding)
{
    const bool narrow = one->args->dtype != ATTUNE_FP32 || (one->args->features & ATTUNE_FEATURE_TF32) != 0;
    if (!narrow || one->args->head_dim_v == 1 || !row->whole ||
        !(sqrt(row->square) > cosine_signal * sqrt(row->naive_square))) {
        return;
    }
    double naive = fmax(sqrt(row->naive_square / row->square), naive_l2);
    double slack = fmin(0.75, fmax(cosine_slack, 2.0 * naive * naive)); /* a row of zeros never passes */
    double cosine = cosine_of(row);
    double share = (1.0 - cosine) / slack;
    finding->worst_cosine = fmin(finding->worst_cosine, cosine);
    if (share > finding->cosine_share) {
        finding->cosine_share = share;
        sums->skewed = r;
        sums->skewed_cosine = cosine;
        sums->skewed_least = 1.0 - slack;
    }
}

/* ---- The rules of one case -------------------------------------------------------------------------------------- */

/* The larger of two, NaN included: a tolerance that is not finite must come out as an error of the suite. */
static void grow(double *most, double value)
{
    if (!isnan(*most) && !(value <= *most)) {
        *most = value;
    }
}

void at_judge_naive(const at_case *from, at_case *to)
{
    double square = 0;
    double error_square = 0;
    for (int64_t i = 0; i < from->rows->count * from->args->head_dim_v; ++i) {
        double reference = from->o_reference[i];
        if (isfinite(reference)) {
            double difference = from->o_naive[i] - reference;
            grow(&to->naive_error, fabs(difference));
            square += reference * reference;
            error_square += difference * difference;
        }
    }
    grow(&to->naive_l2, l2_of(error_square, square));
    for (int64_t r = 0; r < from->rows->count; ++r) {
        if (isfinite(from->lse_reference[r])) {
            grow(&to->naive_lse, fabs(from->lse_naive[r] - from->lse_reference[r]));
        }
    }
}

void at_judge_noise(at_case *to, const double *o_noise, const double *lse_noise)
{
    double square = 0;
    double noise_square = 0;
    for (int64_t i = 0; i < to->rows->count * to->args->head_dim_v; ++i) {
        if (isfinite(to->o_reference[i])) {
            grow(&to->naive_error, o_noise[i]);
            square += to->o_reference[i] * to->o_reference[i];
            noise_square += o_noise[i] * o_noise[i];
        }
    }
    grow(&to->naive_l2, square > 0.0 ? sqrt(noise_square / square) : 0.0);
    for (int64_t r = 0; r < to->rows->count; ++r) {
        grow(&to->naive_lse, lse_noise[r]);
    }
}

static attune_status judge_error(const at_case *one, const errors *sums, double naive, at_finding *finding)
{
    double factor = one->args->softcap > 0 ? 3.0 : 2.0;
    finding->max_error = sums->max_error;
    finding->max_error_limit = factor * naive + 4.0 * ulp(one->args->tensor[ATTUNE_O].dtype, sums->largest);
    AT_FAIL_IF(!isfinite(finding->max_error_limit), ATTUNE_INTERNAL, "rule 1: the tolerance is %g",
               finding->max_error_limit);
    AT_FAIL_IF(!(sums->max_error <= finding->max_error_limit), ATTUNE_WRONG_RESULT,
               "rule 1, relative error: %s: |O - O64| is %.4g, at most %.4g is allowed", place_of(&finding->worst).text,
               sums->max_error, finding->max_error_limit);
    return ATTUNE_OK;
}

/* The L2 error that honest rounding of the outputs may cost where the naive result is exact, or lucky: half an ulp, and
 * rule 1's four in cases of so few outputs that they do not average out. */
static double l2_of_rounding(const at_case *one, const errors *sums)
{
    double few = fmin(1.0, 64.0 / (double)(sums->finite > 0 ? sums->finite : 1));
    double normal = (0.5 + 4.0 * few) * ulp(one->args->tensor[ATTUNE_O].dtype, 1.0);
    double subnormal = sums->square > 0.0
                           ? ulp(one->args->tensor[ATTUNE_O].dtype, 0.0) * sqrt((double)sums->finite / sums->square)
                           : 0.0;
    return normal + subnormal;
}

static attune_status judge_l2(const at_case *one, const errors *sums, double naive, at_finding *finding)
{
    finding->l2 = l2_of(sums->error_square, sums->square);
    finding->l2_limit = fmax(2.0 * naive, l2_of_rounding(one, sums));
    AT_FAIL_IF(!isfinite(finding->l2_limit), ATTUNE_INTERNAL, "rule 2: the tolerance is %g", finding->l2_limit);
    AT_FAIL_IF(!(finding->l2 <= finding->l2_limit), ATTUNE_WRONG_RESULT,
               "rule 2, L2: |O - O64| / |O64| is %.4g, at most %.4g is allowed", finding->l2, finding->l2_limit);
    return ATTUNE_OK;
}

static attune_status judge_cosine(const at_case *one, const errors *sums, const at_finding *finding)
{
    AT_FAIL_IF(!(finding->cosine_share <= 1.0), ATTUNE_WRONG_RESULT,
               "rule 3, every row counts: %s: cosine with its reference %.6f, at least %.6f is needed",
               place_of(&one->rows->row[sums->skewed]).text, sums->skewed_cosine, sums->skewed_least);
    return ATTUNE_OK;
}

static attune_status judge_lse(const at_case *one, double naive, at_finding *finding)
{
    double worst = -1.0;
    AT_FAIL_IF(!isfinite(naive), ATTUNE_INTERNAL, "rule 4: the naive LSE's error is %g", naive);
    for (int64_t r = 0; one->args->tensor[ATTUNE_LSE].data != NULL && r < one->rows->count; ++r) {
        double reference = one->lse_reference[r];
        double lse = load_lse(one, r);
        AT_FAIL_IF(!kinds_agree(one, lse, reference), ATTUNE_WRONG_RESULT, "rule 4: %s: LSE is %g, the reference %g",
                   place_of(&one->rows->row[r]).text, lse, reference);
        if (!isfinite(reference) || !isfinite(lse)) {
            continue;
        }
        double error = fabs(lse - reference);
        double limit = fmax(1e-5 * fmax(1.0, fabs(reference)), 2.0 * naive);
        if (error / limit > worst) {
            worst = error / limit;
            finding->lse_error = error;
            finding->lse_limit = limit;
        }
        AT_FAIL_IF(!(error <= limit), ATTUNE_WRONG_RESULT,
                   "rule 4: %s: LSE is %.9g, the reference %.9g: they differ by %.4g, at most %.4g is allowed",
                   place_of(&one->rows->row[r]).text, lse, reference, error, limit);
    }
    return ATTUNE_OK;
}

/* The origin's bar, for O in fp16 or finer. NOTE: rounding to fp16 alone costs up to 2e-3 at |O| = 4, so that rows with
 * few keys would fail it honestly: above |O| = 1 the bar grows with the largest output. */
static attune_status judge_bar(const at_case *one, const errors *sums, at_finding *finding)
{
    finding->fixed_bar = sums->max_error <= 2e-3;
    if (!one->standard_normal || one->args->dtype != ATTUNE_FP16 || one->args->tensor[ATTUNE_O].dtype == ATTUNE_BF16) {
        return ATTUNE_OK;
    }
    double bar = 2e-3 * fmax(1.0, sums->largest);
    AT_FAIL_IF(!(sums->max_error <= bar), ATTUNE_WRONG_RESULT,
               "rule 6, the fixed bar: %s: |O - O64| is %.4g, at most %.4g is allowed", place_of(&finding->worst).text,
               sums->max_error, bar);
    return ATTUNE_OK;
}

static bool row_allclose(const at_case *one, int64_t r)
{
    double o[256];
    int32_t columns = one->args->head_dim_v;
    load_row(one, r, o);
    for (int32_t c = 0; c < columns; ++c) {
        double reference = one->o_reference[r * columns + c];
        if (isfinite(reference) && !(fabs(o[c] - reference) <= 1e-3 + 1e-3 * fabs(reference))) {
            return false;
        }
    }
    return true;
}

attune_status at_judge_case(const at_case *one, at_finding *finding, at_bias *bias)
{
    errors sums = {0};
    row_sums row;
    at_case with = *one;
    at_judge_naive(one, &with);
    *finding = (at_finding){.worst_cosine = 1.0, .allclose = true};
    for (int64_t r = 0; r < one->rows->count; ++r) {
        AT_FORWARD(add_row(one, r, &sums, &row, bias));
        note_cosine(one, r, &row, with.naive_l2, &sums, finding);
        finding->allclose = finding->allclose && row_allclose(one, r);
    }
    finding->worst = one->rows->count > 0 ? one->rows->row[sums.worst] : (at_row){0, 0, 0};
    AT_FORWARD(judge_error(one, &sums, with.naive_error, finding));
    AT_FORWARD(judge_l2(one, &sums, with.naive_l2, finding));
    AT_FORWARD(judge_cosine(one, &sums, finding));
    AT_FORWARD(judge_lse(one, with.naive_lse, finding));
    return judge_bar(one, &sums, finding);
}

void at_bias_add(at_bias *to, const at_bias *from)
{
    to->error += from->error;
    to->error_naive += from->error_naive;
    to->reference_square += from->reference_square;
    to->cross += from->cross;
    to->cross_naive += from->cross_naive;
    to->reference_absolute += from->reference_absolute;
    to->error_square += from->error_square;
    to->cross_square += from->cross_square;
    to->count += from->count;
}

attune_status at_judge_bias(const at_bias *bias)
{
    if (bias->count == 0 || bias->reference_square == 0.0) {
        return ATTUNE_OK;
    }
    double count = (double)bias->count;
    /* Six standard errors: a suite of few rows cannot know its mean any better. */
    double mean = fabs(bias->error) / count;
    double mean_limit = fmax(2.0 * fabs(bias->error_naive) / count, 0x1p-13 * bias->reference_absolute / count) +
                        6.0 * sqrt(bias->error_square) / count;
    AT_FAIL_IF(!(mean <= mean_limit), ATTUNE_WRONG_RESULT,
               "rule 2, bias over the suite: the mean signed error is %.4g, at most %.4g is allowed", mean, mean_limit);
    double gain = fabs(bias->cross / bias->reference_square - 1.0);
    double gain_limit = fmax(2.0 * fabs(bias->cross_naive / bias->reference_square - 1.0), 0x1p-13) +
                        6.0 * sqrt(bias->cross_square) / bias->reference_square;
    AT_FAIL_IF(!(gain <= gain_limit), ATTUNE_WRONG_RESULT,
               "rule 2, bias over the suite: O on O64 has a gain off by %.4g, at most %.4g is allowed", gain,
               gain_limit);
    return ATTUNE_OK;
}
