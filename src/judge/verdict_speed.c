/* What follows from a session's samples, and from the peers that could not be in it. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "judge/verdict_parts.h"

enum { PROCESSES_LEAST = 8 }; /* below, only --quick is content */

/* ---- Controls ---------------------------------------------------------------------------------------------------- */

/* Of several looks at the same control the first that does not hold is kept. */
static void keep(at_control *control, const at_check *check)
{
    if (check->outcome != AT_NOT_RUN && control->outcome != AT_INCONCLUSIVE) {
        control->outcome = check->outcome;
        at_sentence_print(control->sentence, "%s", check->what);
    }
}

static attune_status judge_arm_controls(at_verdict *verdict, int arm)
{
    const at_session *session = &verdict->session;
    at_check check;
    at_check_clocks(session, arm, &check);
    keep(&verdict->control[AT_CONTROL_CLOCKS], &check);
    if (session->arm[arm].part == AT_PART_TWIN) {
        AT_FORWARD(at_check_twin(session, arm, &check, NULL));
        keep(&verdict->control[AT_CONTROL_TWIN], &check);
    }
    if (at_verdict_is_peer(verdict, arm)) {
        AT_FORWARD(at_check_swap(session, 0, arm, &check));
        keep(&verdict->control[AT_CONTROL_SWAP], &check);
    }
    return ATTUNE_OK;
}

static void judge_wrong_kernel(at_verdict *verdict)
{
    const at_stage_run *run = &verdict->wrong_kernel;
    at_control *control = &verdict->control[AT_CONTROL_WRONG];
    bool caught = run->status == ATTUNE_WRONG_RESULT;
    if (run->ran) {
        control->outcome = caught ? AT_PASS : AT_INCONCLUSIVE;
        at_sentence_print(control->sentence, "a kernel that is wrong on purpose was %s: %.400s",
                          caught ? "caught" : "not caught", caught ? run->detail : attune_status_string(run->status));
    }
}

static attune_status judge_controls(at_verdict *verdict)
{
    memset(verdict->control, 0, sizeof verdict->control);
    judge_wrong_kernel(verdict);
    for (int arm = 0; arm < verdict->session.arm_count; ++arm) {
        AT_FORWARD(judge_arm_controls(verdict, arm));
    }
    return ATTUNE_OK;
}

/* ---- Peers ------------------------------------------------------------------------------------------------------- */

/* What a pass needs besides its numbers. */
static void demand_enough(const at_verdict *verdict, at_speed *speed)
{
    const char *lacks = NULL;
    if (speed->ratio[AT_MODE_WARM].processes < PROCESSES_LEAST) {
        lacks = "fewer than 8 processes were measured";
    } else if (!speed->known[AT_MODE_COLD]) {
        lacks = "cold was not measured";
    }
    if (speed->outcome == AT_NOT_RUN || (speed->outcome == AT_PASS && lacks != NULL && !verdict->options.quick)) {
        (void)snprintf(speed->why, sizeof speed->why, "%s",
                       speed->outcome == AT_NOT_RUN ? "too little was measured" : lacks);
        speed->outcome = AT_INCONCLUSIVE;
    }
}

static attune_status judge_peers(at_verdict *verdict)
{
    memset(verdict->speed, 0, sizeof verdict->speed);
    for (int arm = 1; arm < verdict->session.arm_count; ++arm) {
        if (at_verdict_is_peer(verdict, arm)) {
            AT_FORWARD(at_speed_judge(&verdict->session, 0, arm, &verdict->speed[arm]));
            demand_enough(verdict, &verdict->speed[arm]);
        }
    }
    return ATTUNE_OK;
}

/* The peer that was least beaten; -1 if there is none. */
static int hardest_peer(const at_verdict *verdict)
{
    int hardest = -1;
    for (int arm = 1; arm < verdict->session.arm_count; ++arm) {
        if (!at_verdict_is_peer(verdict, arm)) {
            continue;
        }
        const at_speed *one = &verdict->speed[arm], *other = &verdict->speed[hardest < 0 ? arm : hardest];
        const at_mode mode = verdict->session.policy.cold_decides ? AT_MODE_COLD : AT_MODE_WARM;
        bool worse = one->outcome != other->outcome ? at_outcome_worse(one->outcome, other->outcome) == one->outcome
                                                    : one->ratio[mode].r.middle < other->ratio[mode].r.middle;
        hardest = hardest < 0 || worse ? arm : hardest;
    }
    return hardest;
}

/* ---- The stage --------------------------------------------------------------------------------------------------- */

bool at_verdict_timing_refutes(const at_verdict *verdict)
{
    at_check check;
    if (verdict->session.arm_count == 0) {
        return false;
    }
    bool impossible = false;
    for (int mode = 0; mode < AT_MODE_COUNT; ++mode) {
        impossible |=
            at_check_floor(&verdict->session, (at_mode)mode, 0, &check) == ATTUNE_OK && check.outcome == AT_FAIL;
    }
    return impossible || verdict->session.wrong[0] > 0;
}

static void conclude(at_verdict *verdict, at_outcome outcome)
{
    verdict->finding[AT_STAGE_SPEED] = (at_stage_finding){.outcome = outcome};
}

/* An arm whose outputs were wrong, timed or in front of the clock, makes all of the session's times worthless. What was
 * found stands where the session ended. */
static bool judge_outputs(at_verdict *verdict)
{
    const char *found = verdict->stage[AT_STAGE_SPEED].detail;
    for (int arm = 0; arm < verdict->session.arm_count; ++arm) {
        int wrong = verdict->session.wrong[arm];
        if (wrong > 0) {
            conclude(verdict, arm == 0 ? AT_FAIL : AT_INCONCLUSIVE);
            char *sentence = verdict->finding[AT_STAGE_SPEED].sentence;
            if (found[0] != '\0') {
                at_sentence_print(sentence, "%s", found);
            } else {
                at_sentence_print(sentence,
                                  "%d timed outputs of %.200s are not what it computes when nobody looks at the clock",
                                  wrong, verdict->arm[arm].name);
            }
            return true;
        }
    }
    return false;
}

static void judge_against_all(at_verdict *verdict)
{
    int hardest = hardest_peer(verdict);
    char *sentence = verdict->finding[AT_STAGE_SPEED].sentence;
    if (verdict->absent_count > 0 && (hardest < 0 || verdict->speed[hardest].outcome != AT_FAIL)) {
        conclude(verdict, AT_INCONCLUSIVE);
        at_sentence_print(sentence, "%.120s could not run: %.300s", verdict->absent[0].name,
                          verdict->absent[0].account);
    } else if (hardest < 0) {
        conclude(verdict, AT_INCONCLUSIVE);
        at_sentence_print(sentence, "there was no peer to be compared with");
    } else {
        conclude(verdict, verdict->speed[hardest].outcome);
        at_sentence_print(sentence, "against %.120s: %s", verdict->arm[hardest].name, verdict->speed[hardest].why);
    }
}

attune_status at_verdict_judge_speed(at_verdict *verdict)
{
    AT_FORWARD(judge_controls(verdict));
    AT_FORWARD(judge_peers(verdict));
    /* A wrong output ends the stage with that status; which arm gave it, the samples say. */
    const at_stage_run *run = &verdict->stage[AT_STAGE_SPEED];
    if (run->ran && !judge_outputs(verdict) && run->status == ATTUNE_OK) {
        judge_against_all(verdict);
    }
    return ATTUNE_OK;
}
