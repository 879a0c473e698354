#include "judge/suite.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "judge/trial.h"

/* ---- What is kept of a case ------------------------------------------------------------------------------------- */

static void print_problem(const at_test_problem *test, char text[ATTUNE_PROBLEM_TEXT_MAX])
{
    if (at_test_problem_print(test, text, ATTUNE_PROBLEM_TEXT_MAX) != ATTUNE_OK) {
        (void)snprintf(text, ATTUNE_PROBLEM_TEXT_MAX, "?");
    }
}

static void print_case(const at_gate_case *one, char text[ATTUNE_PROBLEM_TEXT_MAX])
{
    const at_test_problem test = {one->problem, one->draw.length_seed};
    print_problem(&test, text);
}

static void keep_refusal(at_suite_result *result, const at_gate_case *one)
{
    ++result->refused;
    if (result->refusals < AT_KEPT_REFUSALS) {
        at_refusal *kept = &result->refusal[result->refusals++];
        kept->index = one->index;
        (void)snprintf(kept->why, sizeof kept->why, "%s", attune_last_detail());
        print_case(one, kept->problem);
    }
}

static void keep_failure(const at_suite *suite, const at_test_problem *test, const at_gate_case *one,
                         attune_status status, at_suite_result *result)
{
    char text[ATTUNE_PROBLEM_TEXT_MAX];
    ++result->failed;
    if (result->failures == AT_KEPT_FAILURES) {
        return;
    }
    at_failure *kept = &result->failure[result->failures++];
    kept->index = one->index;
    kept->status = status;
    (void)snprintf(kept->what, sizeof kept->what, "%s", attune_last_detail());
    (void)snprintf(kept->how, sizeof kept->how, "%s, %s inputs%s%s%s", at_stratum_name(one->stratum),
                   at_family_name(one->draw.family), one->draw.gaps ? ", gaps" : "",
                   one->draw.repeats != 0 ? ", shared keys" : "", one->draw.far ? ", offsets over 2^31" : "");
    print_case(one, kept->problem);
    print_problem(test, text);
    int length = snprintf(kept->command, sizeof kept->command, "%s --seed %" PRIu64 " --case %" PRId64 " %s",
                          suite->command, suite->seed, one->index, text);
    if (length >= (int)sizeof kept->command) { /* half a command might do anything */
        (void)snprintf(kept->command, sizeof kept->command, "attune check (its command is too long)");
    }
}

static double ratio(double value, double limit)
{
    return limit > 0 ? value / limit : value > 0 ? HUGE_VAL : 0.0;
}

static void keep_margins(at_margins *margins, const at_gate_case *one, const at_finding *finding)
{
    margins->error = fmax(margins->error, ratio(finding->max_error, finding->max_error_limit));
    margins->l2 = fmax(margins->l2, ratio(finding->l2, finding->l2_limit));
    margins->cosine = fmax(margins->cosine, finding->cosine_share);
    margins->lse = fmax(margins->lse, ratio(finding->lse_error, finding->lse_limit));
    if (one->draw.family == AT_FAMILY_NORMAL && one->problem.dtype == ATTUNE_FP16) {
        margins->max_error = fmax(margins->max_error, finding->max_error);
    }
    margins->allclose_missed += !finding->allclose;
}

/* ---- Running ---------------------------------------------------------------------------------------------------- */

/* What ends a suite rather than a case: the machine, not the kernel, is at fault. */
static bool ends_suite(attune_status status)
{
    return status == ATTUNE_OUT_OF_MEMORY || status == ATTUNE_NO_DEVICE || status == ATTUNE_INTERRUPTED ||
           status == ATTUNE_IO_ERROR;
}

static void make_case(const at_test_problem *test, uint64_t seed, bool acc16, int64_t index, at_gate_case *one)
{
    at_case_make(test, seed, index, one);
    if (acc16) {
        at_case_make_acc16(one);
    }
}

static attune_status run_case(const at_suite *suite, const at_test_problem *test, int64_t index,
                              at_suite_result *result)
{
    at_gate_case one;
    at_finding finding;
    at_bias bias = {0};
    make_case(test, suite->seed, suite->acc16, index, &one);
    attune_status status = at_trial_run(suite, &one, &finding, &bias, result->kernel);
    if (status == ATTUNE_UNSUPPORTED) {
        keep_refusal(result, &one);
        return ATTUNE_OK;
    }
    if (ends_suite(status)) {
        return status;
    }
    ++result->executed;
    result->exact += one.stratum == AT_STRATUM_EXACT;
    keep_margins(&result->margins, &one, &finding);
    at_bias_add(&result->bias, &bias);
    if (one.draw.family == AT_FAMILY_NORMAL) {
        at_bias_add(&result->bias_normal, &bias);
    }
    if (status != ATTUNE_OK) {
        keep_failure(suite, test, &one, status, result);
    }
    return ATTUNE_OK;
}

static bool is_done(const at_suite *suite, const at_suite_result *result, int64_t index)
{
    if (suite->stop != NULL && suite->stop(suite->watcher)) {
        return true;
    }
    /* A problem that is refused is refused as a whole; one whose other cases mostly are ends after six tries each. */
    bool hopeless = index > 0 && result->executed == 0 && result->refusal[0].index == 0;
    return hopeless || result->executed >= suite->cases || index >= 6 * suite->cases;
}

static attune_status run_cases(const at_suite *suite, const at_test_problem *test, at_suite_result *result)
{
    if (suite->only >= 0) {
        return run_case(suite, test, suite->only, result);
    }
    for (int64_t index = 0; !is_done(suite, result, index); ++index) {
        AT_FORWARD(run_case(suite, test, index, result));
        if (suite->progress != NULL) {
            suite->progress(suite->watcher, (double)result->executed / (double)suite->cases);
        }
    }
    result->interrupted = suite->stop != NULL && suite->stop(suite->watcher) && result->executed < suite->cases;
    return ATTUNE_OK;
}

attune_status at_suite_run(const at_suite *suite, const at_test_problem *test, at_suite_result *result)
{
    memset(result, 0, sizeof *result);
    AT_FORWARD(attune_problem_check(&test->problem));
    AT_FORWARD(run_cases(suite, test, result));
    result->bias_status = at_judge_bias(&result->bias);
    if (result->bias_status == ATTUNE_OK) {
        result->bias_status = at_judge_bias(&result->bias_normal);
    }
    if (result->bias_status != ATTUNE_OK) {
        (void)snprintf(result->bias_what, sizeof result->bias_what, "%s", attune_last_detail());
    }
    return ATTUNE_OK;
}

attune_status at_suite_ahead(const at_suite *suite, const at_test_problem *test, const at_ahead *ahead)
{
    for (int64_t index = 0; index < suite->cases; ++index) {
        at_gate_case one;
        make_case(test, suite->seed, ahead->acc16, index, &one);
        at_prefetch wanted = {one.problem, one.draw, true, at_trial_rows(suite, &one.problem)};
        wanted.want.acc16 = ahead->acc16;
        AT_FORWARD(at_case_cache_ahead(suite->cache, ahead->scope, ahead->threads, &wanted));
    }
    return ATTUNE_OK;
}

bool at_suite_right(const at_suite_result *result)
{
    return result->executed > 0 && result->failed == 0 && result->bias_status == ATTUNE_OK;
}
