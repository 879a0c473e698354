#include "judge/verdict_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "judge/timed_case.h"
#include "worker/arms.h"

const char *at_stage_name(at_stage stage)
{
    static const char *const names[AT_STAGE_COUNT] = {"build", "launch", "sanity", "correctness", "speed"};
    return names[stage];
}

const char *at_control_name(at_control_kind control)
{
    static const char *const names[AT_CONTROL_COUNT] = {"twin", "swap", "clocks", "wrong kernel"};
    return names[control];
}

attune_status at_verdict_create(at_verdict **verdict)
{
    *verdict = calloc(1, sizeof **verdict);
    AT_FAIL_IF(*verdict == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a verdict of %zu bytes", sizeof **verdict);
    return ATTUNE_OK;
}

void at_verdict_destroy(at_verdict *verdict)
{
    if (verdict != NULL) {
        at_session_close(&verdict->session);
    }
    free(verdict);
}

bool at_verdict_is_peer(const at_verdict *verdict, int arm)
{
    return arm > 0 && arm < verdict->session.arm_count && verdict->session.arm[arm].part == AT_PART_PEER;
}

bool at_verdict_is_earnest(const at_verdict *verdict)
{
    enum { CASES = 100 };
    return !verdict->options.quick && verdict->options.must <= 0.95 && verdict->options.cases >= CASES;
}

double at_verdict_tflops(const at_verdict *verdict, double us)
{
    at_test_problem test;
    at_least least;
    const bool known = at_test_problem_parse(verdict->problem, &test) == ATTUNE_OK &&
                       at_timed_case_least(&test, verdict->options.seed, &least) == ATTUNE_OK;
    return known ? least.flops / us * 1e-6 : NAN;
}

/* ---- Taking over a session --------------------------------------------------------------------------------------- */

/* Which of the session's arms go where: new number i is old number from[i]. */
typedef struct selection {
    int from[AT_SESSION_ARMS_MAX];
    int count;
} selection;

static attune_status select_arms(const at_session *session, const int *arms, int count, selection *chosen)
{
    chosen->count = arms != NULL ? count : session->arm_count;
    AT_FAIL_IF(chosen->count < 1 || chosen->count > session->arm_count, ATTUNE_INVALID_ARGUMENT,
               "a verdict on %d of the %d arms of a session", chosen->count, session->arm_count);
    for (int i = 0; i < chosen->count; ++i) {
        chosen->from[i] = arms != NULL ? arms[i] : i;
        AT_FAIL_IF(chosen->from[i] < 0 || chosen->from[i] >= session->arm_count, ATTUNE_INVALID_ARGUMENT,
                   "arm %d of a session of %d", chosen->from[i], session->arm_count);
    }
    AT_FAIL_IF(session->arm[chosen->from[0]].part != AT_PART_CANDIDATE, ATTUNE_INVALID_ARGUMENT,
               "the first arm of a verdict, %s, is no candidate", session->arm[chosen->from[0]].name);
    return ATTUNE_OK;
}

/* The new number of an old arm, -1 if it was left out. */
static int place_of(const selection *chosen, int old)
{
    for (int i = 0; i < chosen->count; ++i) {
        if (chosen->from[i] == old) {
            return i;
        }
    }
    return -1;
}

static void name_arms(at_verdict *verdict, const at_session *session, const selection *chosen)
{
    for (int i = 0; i < chosen->count; ++i) {
        at_arm_label(session->arm[chosen->from[i]].name, verdict->arm[i].name);
    }
}

static attune_status copy_samples(at_session *to, const at_session *session, const selection *chosen)
{
    for (size_t b = 0; b < session->block_count; ++b) {
        const at_block *old = &session->block[b];
        at_block block = *old;
        for (int i = 0; i < chosen->count; ++i) {
            memcpy(block.us[i], old->us[chosen->from[i]], sizeof block.us[i]);
        }
        AT_FORWARD(at_session_add(to, &block));
    }
    for (size_t i = 0; i < session->clocks_count; ++i) {
        at_two_clocks reading = session->clocks[i];
        reading.arm = place_of(chosen, reading.arm);
        if (reading.arm >= 0) {
            AT_FORWARD(at_session_add_clocks(to, &reading));
        }
    }
    return ATTUNE_OK;
}

static void copy_rest(at_session *to, const at_session *session, const selection *chosen)
{
    to->processes = session->processes;
    to->stopped = session->stopped;
    memcpy(to->pairs, session->pairs, sizeof to->pairs);
    memcpy(to->warmup_s, session->warmup_s, sizeof to->warmup_s);
    memcpy(to->settled, session->settled, sizeof to->settled);
    for (int i = 0; i < chosen->count; ++i) {
        to->wrong[i] = session->wrong[chosen->from[i]];
        for (int mode = 0; mode < AT_MODE_COUNT; ++mode) {
            to->calls[mode][i] = session->calls[mode][chosen->from[i]];
        }
    }
}

attune_status at_verdict_session(at_verdict *verdict, const at_session *session, const int *arms, int count)
{
    selection chosen;
    at_session_part part[AT_SESSION_ARMS_MAX];
    AT_FORWARD(select_arms(session, arms, count, &chosen));
    name_arms(verdict, session, &chosen);
    for (int i = 0; i < chosen.count; ++i) {
        part[i] = session->arm[chosen.from[i]];
        part[i].name = verdict->arm[i].name;
        part[i].twin_of = part[i].part == AT_PART_TWIN ? place_of(&chosen, part[i].twin_of) : 0;
    }
    at_session_close(&verdict->session);
    AT_FORWARD(at_session_open(&session->policy, part, chosen.count, &verdict->session));
    copy_rest(&verdict->session, session, &chosen);
    return copy_samples(&verdict->session, session, &chosen);
}

void at_sentence_print(char text[AT_SENTENCE_MAX], const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, AT_SENTENCE_MAX, format, list);
    va_end(list);
}

at_outcome at_outcome_worse(at_outcome a, at_outcome b)
{
    static const int badness[] = {[AT_PASS] = 0, [AT_NOT_RUN] = 1, [AT_INCONCLUSIVE] = 2, [AT_FAIL] = 3};
    return badness[a] >= badness[b] ? a : b;
}
