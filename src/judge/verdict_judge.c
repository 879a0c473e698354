/* What follows from what was seen: the stages before the clock, and the whole. Everything here is a function of the raw
 * part of a verdict. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "judge/verdict_parts.h"

/* ---- Rounding ---------------------------------------------------------------------------------------------------- */

/* By way of decimal digits, so that the value is exactly what its text reads back as. */
static double rounded(double us)
{
    char text[64];
    (void)snprintf(text, sizeof text, us < 10 ? "%.3f" : "%.4e", us);
    return isfinite(us) ? strtod(text, NULL) : us;
}

static attune_status round_time(const at_verdict *verdict, int arm, double *us)
{
    *us = rounded(*us);
    AT_FAIL_IF(!(*us > 0) || !isfinite(*us), ATTUNE_INVALID_ARGUMENT,
               "a sample of %s took %g us: more than half a nanosecond is needed", verdict->arm[arm].name, *us);
    return ATTUNE_OK;
}

static attune_status round_times(at_verdict *verdict)
{
    at_session *session = &verdict->session;
    for (size_t b = 0; b < session->block_count; ++b) {
        for (int i = 0; i < 2 * session->arm_count; ++i) {
            at_block *block = &session->block[b];
            AT_FORWARD(round_time(verdict, i / 2, &block->us[i / 2][i % 2]));
        }
    }
    for (size_t i = 0; i < session->clocks_count; ++i) {
        session->clocks[i].us = rounded(session->clocks[i].us);
        session->clocks[i].slope_us = rounded(session->clocks[i].slope_us);
    }
    return ATTUNE_OK;
}

/* ---- Build, launch, sanity --------------------------------------------------------------------------------------- */

/* Whether the machine is at fault and not the candidate. */
static bool is_machines(attune_status status)
{
    return status == ATTUNE_OUT_OF_MEMORY || status == ATTUNE_NO_DEVICE || status == ATTUNE_IO_ERROR ||
           status == ATTUNE_INTERRUPTED || status == ATTUNE_INTERNAL || status == ATTUNE_NOT_FOUND;
}

static at_outcome outcome_of(const at_stage_run *run)
{
    if (!run->ran) {
        return AT_NOT_RUN;
    }
    return run->status == ATTUNE_OK ? AT_PASS : is_machines(run->status) ? AT_INCONCLUSIVE : AT_FAIL;
}

/* A stage whose run says it all. */
static void judge_run(const at_stage_run *run, at_stage_finding *finding)
{
    *finding = (at_stage_finding){.outcome = outcome_of(run)};
    if (run->ran) {
        at_sentence_print(finding->sentence, "%s",
                          run->detail[0] != '\0' ? run->detail : attune_status_string(run->status));
        at_sentence_print(finding->look, "%s", run->status == ATTUNE_OK ? "" : run->look);
    }
}

/* Whether timing failed, and by nothing that a kernel can do: a wrong output, or a device that no longer answers. */
static bool is_timings(const at_stage_run *run)
{
    return run->ran && run->status != ATTUNE_OK && run->status != ATTUNE_WRONG_RESULT &&
           run->status != ATTUNE_DEVICE_ERROR;
}

static void judge_timing(const at_stage_run *run, at_stage_finding *finding)
{
    judge_run(run, finding);
    finding->outcome = is_timings(run) ? AT_INCONCLUSIVE : finding->outcome;
}

/* Whether a kernel of the library's says that the problem is none of its own, which is no fault. */
static bool is_refused(const at_verdict *verdict)
{
    const at_stage_run *run = &verdict->stage[AT_STAGE_BUILD];
    return run->ran && run->status == ATTUNE_UNSUPPORTED && !verdict->stranger;
}

/* A declaration that keeps the whole from passing. */
static void add_clocks(const at_verdict *verdict, at_stage_finding *finding)
{
    const size_t used = strlen(finding->sentence);
    if ((verdict->traits & ATTUNE_TRAIT_CLOCKS) != 0) {
        (void)snprintf(finding->sentence + used, AT_SENTENCE_MAX - used,
                       "; declared to read when or where it runs, and so never found right");
    }
}

static void judge_build(at_verdict *verdict)
{
    const at_build_facts *build = &verdict->build;
    at_stage_finding *finding = &verdict->finding[AT_STAGE_BUILD];
    judge_run(&verdict->stage[AT_STAGE_BUILD], finding);
    finding->outcome = is_refused(verdict) ? AT_INCONCLUSIVE : finding->outcome;
    if (finding->outcome != AT_PASS) {
        return;
    }
    if (verdict->target.kind == ATTUNE_TARGET_CPU || build->registers == 0) {
        at_sentence_print(finding->sentence, "%s", build->compiler);
    } else {
        at_sentence_print(finding->sentence,
                          "%s: %d registers, %d bytes spilt, %d bytes of shared memory, %d blocks a multiprocessor",
                          build->compiler, build->registers, build->spill_bytes, build->smem_bytes, build->blocks_sm);
    }
    add_clocks(verdict, finding);
}

/* ---- Correctness ------------------------------------------------------------------------------------------------- */

static bool margins_kept(const at_margins *margins)
{
    return margins->error <= 1 && margins->l2 <= 1 && margins->cosine <= 1 && margins->lse <= 1;
}

static attune_status judge_bias(const at_suite_result *suite)
{
    AT_FORWARD(at_judge_bias(&suite->bias));
    return at_judge_bias(&suite->bias_normal);
}

static void describe_failure(const at_suite_result *suite, at_stage_finding *finding)
{
    finding->outcome = AT_FAIL;
    if (suite->failures > 0) {
        const at_failure *first = &suite->failure[0];
        at_sentence_print(finding->sentence, "%lld of %lld cases wrong; case %lld (%s): %.300s",
                          (long long)suite->failed, (long long)suite->executed, (long long)first->index, first->how,
                          first->what);
        bool fits = strlen(first->command) < sizeof finding->look;
        at_sentence_print(finding->look, "%s", fits ? first->command : "attune check (its command is too long)");
    } else {
        at_sentence_print(finding->sentence, "%lld of %lld cases wrong", (long long)suite->failed,
                          (long long)suite->executed);
    }
}

static void describe_pass(const at_suite_result *suite, at_stage_finding *finding)
{
    const at_margins *margins = &suite->margins;
    finding->outcome = AT_PASS;
    int at = snprintf(finding->sentence, AT_SENTENCE_MAX,
                      "%lld of %lld cases right, %lld of them exactly this problem; worst share of what is allowed: "
                      "error %.2f, L2 %.2f, cosine %.2f, LSE %.2f",
                      (long long)(suite->executed - suite->failed), (long long)suite->executed, (long long)suite->exact,
                      margins->error, margins->l2, margins->cosine, margins->lse);
    if (margins->max_error > 0 && at < AT_SENTENCE_MAX) {
        (void)snprintf(finding->sentence + at, (size_t)(AT_SENTENCE_MAX - at), "; max |error| on standard normals %.2g",
                       margins->max_error);
    }
}

/* What compute-sanitizer made of it, in a few words: the report has them all. */
static void add_sanitizer(const at_verdict *verdict, at_stage_finding *finding)
{
    for (int i = 0; i < verdict->sanitizer_count; ++i) {
        const at_sanitizer_finding *seen = &verdict->sanitizer[i];
        const size_t used = strlen(finding->sentence);
        const char *what = !seen->ran ? "not checked" : seen->reports == 0 ? "nothing" : "reports that decide nothing";
        (void)snprintf(finding->sentence + used, AT_SENTENCE_MAX - used, "; %s: %s", seen->tool, what);
    }
}

static void judge_correctness(at_verdict *verdict)
{
    const at_suite_result *suite = &verdict->suite;
    at_stage_finding *finding = &verdict->finding[AT_STAGE_CORRECTNESS];
    judge_run(&verdict->stage[AT_STAGE_CORRECTNESS], finding);
    if (finding->outcome != AT_PASS && suite->failed == 0) {
        return;
    }
    if (suite->failed > 0) {
        describe_failure(suite, finding);
    } else if (suite->interrupted || suite->executed < verdict->options.cases) {
        finding->outcome = AT_INCONCLUSIVE;
        at_sentence_print(finding->sentence, "only %lld of %lld cases were executed%s%.300s",
                          (long long)suite->executed, (long long)verdict->options.cases,
                          suite->refusals > 0 ? ", others refused: " : "",
                          suite->refusals > 0 ? suite->refusal[0].why : "");
    } else if (!margins_kept(&suite->margins)) {
        finding->outcome = AT_FAIL;
        at_sentence_print(finding->sentence, "a rule's limit is exceeded: shares of error %g, L2 %g, cosine %g, LSE %g",
                          suite->margins.error, suite->margins.l2, suite->margins.cosine, suite->margins.lse);
    } else if (judge_bias(suite) != ATTUNE_OK) {
        finding->outcome = AT_FAIL;
        at_sentence_print(finding->sentence, "over all cases: %.400s", attune_last_detail());
    } else {
        describe_pass(suite, finding);
        add_sanitizer(verdict, finding);
    }
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

static at_outcome is_right(const at_verdict *verdict)
{
    at_outcome right = AT_PASS;
    for (int stage = 0; stage < AT_STAGE_SPEED; ++stage) {
        right = at_outcome_worse(right, verdict->finding[stage].outcome);
    }
    if ((verdict->traits & ATTUNE_TRAIT_CLOCKS) != 0) {
        right = at_outcome_worse(right, AT_INCONCLUSIVE);
    }
    if (verdict->control[AT_CONTROL_WRONG].outcome == AT_INCONCLUSIVE) {
        right = at_outcome_worse(right, AT_INCONCLUSIVE);
    }
    return at_verdict_timing_refutes(verdict) ? AT_FAIL : right;
}

/* The session's bound decides, and the options' is what is reported: they must be the same. */
static attune_status check_policy(const at_verdict *verdict)
{
    const at_session_policy *policy = &verdict->session.policy;
    AT_FAIL_IF(verdict->session.arm_count > 0 && policy->must != verdict->options.must, ATTUNE_INVALID_ARGUMENT,
               "must is %g, and the session was judged by %g", verdict->options.must, policy->must);
    AT_FAIL_IF(verdict->session.arm_count > 0 && policy->quick && !verdict->options.quick, ATTUNE_INVALID_ARGUMENT,
               "a quick session, and a verdict that is not");
    return ATTUNE_OK;
}

attune_status at_verdict_judge(at_verdict *verdict)
{
    AT_FORWARD(check_policy(verdict));
    AT_FORWARD(round_times(verdict));
    judge_build(verdict);
    judge_run(&verdict->stage[AT_STAGE_LAUNCH], &verdict->finding[AT_STAGE_LAUNCH]);
    judge_run(&verdict->stage[AT_STAGE_SANITY], &verdict->finding[AT_STAGE_SANITY]);
    judge_correctness(verdict);
    judge_timing(&verdict->stage[AT_STAGE_SPEED], &verdict->finding[AT_STAGE_SPEED]);
    AT_FORWARD(at_verdict_judge_speed(verdict));
    verdict->right = is_right(verdict);
    verdict->fast = verdict->finding[AT_STAGE_SPEED].outcome;
    return ATTUNE_OK;
}

/* Whether something that the gate needed was not to be had. */
static bool could_not_run(const at_verdict *verdict)
{
    for (int stage = 0; stage < AT_STAGE_COUNT; ++stage) {
        const at_stage_run *run = &verdict->stage[stage];
        if (run->ran && is_machines(run->status)) {
            return true;
        }
    }
    return verdict->absent_count > 0 || is_refused(verdict) || is_timings(&verdict->stage[AT_STAGE_SPEED]);
}

int at_verdict_exit(const at_verdict *verdict)
{
    at_outcome whole = at_outcome_worse(verdict->right, verdict->fast);
    return whole == AT_PASS ? 0 : whole == AT_FAIL ? 1 : could_not_run(verdict) ? 3 : 2;
}
