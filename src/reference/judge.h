/* Is a result right? The rules for numbers, stated in docs/numbers.md, as pure functions of results. */
#ifndef REFERENCE_JUDGE_H
#define REFERENCE_JUDGE_H

#include <stdbool.h>

#include "reference/reference.h"

/* What one case is judged by, all in fp64 and in the order of `rows`. */
typedef struct at_case {
    const attune_args *args; /* sizes, dtype, softcap; O and LSE are read from its tensors (LSE may be absent) */
    const at_rows *rows;
    const double *o_reference, *lse_reference;
    const double *o_naive, *lse_naive;
    /* Where the case is too small for its own naive error to mean much, the largest of redraws and of what at_noise_run
     * says; else 0. The judge uses the larger of these and the case's own. */
    double naive_error;   /* max |O_naive - O_reference| */
    double naive_l2;      /* |O_naive - O_reference| / |O_reference| */
    double naive_lse;     /* max |LSE_naive - LSE_reference| */
    bool standard_normal; /* fp16 and standard-normal inputs: the fixed bar of 2e-3 applies too */
    bool taints;          /* the kernel declares ATTUNE_TRAIT_TAINTS: NaN where the reference is finite is not judged */
} at_case;

/* Outputs, of rows that see a key, below which the naive error of one draw says little: seven redraws are added, and
 * what at_noise_run says; that also in larger cases of fp32, whose naive error hangs on the few rows where large scores
 * compete. */
#define AT_SMALL_CASE 4096
#define AT_NOISE_CASE (64 * AT_SMALL_CASE)
#define AT_REDRAWS 7

/* Sums for the suite-wide rule on bias, filled case by case. */
typedef struct at_bias {
    double error, error_naive; /* sums of signed errors */
    double reference_square;   /* sum of O64^2 */
    double cross, cross_naive; /* sums of O * O64 */
    double reference_absolute; /* sum of |O64| */
    /* Sums over rows of the squares of a row's summed errors, and of its summed error * O64: they give the standard
     * errors of mean and gain. Errors within a row share its softmax and are not independent. */
    double error_square, cross_square;
    int64_t count;
} at_bias;

/* Numbers of one case, for people and evidence. */
typedef struct at_finding {
    double max_error, max_error_limit; /* rule 1 */
    double l2, l2_limit;               /* rule 2 */
    double worst_cosine;               /* rule 3; 1 where no row qualifies */
    double cosine_share;               /* 1 - cosine over what is allowed, of the row that uses most of it */
    double lse_error, lse_limit;       /* rule 4, of the worst row */
    bool fixed_bar;                    /* max |error| <= 2e-3 (reported where it applies) */
    bool allclose;                     /* atol = rtol = 1e-3 holds (reported only) */
    at_row worst;                      /* where max_error is */
} at_finding;

/* ATTUNE_OK if every rule of a single case holds; ATTUNE_WRONG_RESULT with the rule, the row and the numbers in the
 * detail. ATTUNE_INTERNAL when a tolerance is not finite: an error of the suite. Adds to `bias` (may be NULL). */
attune_status at_judge_case(const at_case *one, at_finding *finding, at_bias *bias);
/* Each row's relative error, |O - O64| / |O64| over what is finite in both; of a row whose reference is 0, 0. `error`
 * has room for all rows of the case. */
void at_judge_rows(const at_case *one, double *error);
/* Grows the three naive errors of `to` to those of `from`, a redraw (or the case itself). */
void at_judge_naive(const at_case *from, at_case *to);
/* Grows them to what at_noise_run said of the case `to` itself. */
void at_judge_noise(at_case *to, const double *o_noise, const double *lse_noise);
void at_bias_add(at_bias *to, const at_bias *from);
/* The suite-wide half of rule 2. */
attune_status at_judge_bias(const at_bias *bias);

#endif
