/* One case of a suite: runs a plan on it in every way that could show it wrong. */
#ifndef JUDGE_TRIAL_H
#define JUDGE_TRIAL_H

#include "judge/outputs.h"
#include "judge/suite.h"
#include "library/placement.h"
#include "reference/truth.h"

typedef struct at_trial {
    const at_suite *suite;
    const at_gate_case *which;
    attune_plan *plan;
    at_inputs inputs;
    at_placement place;
    at_truth truth;
    at_outputs first; /* of the first run */
    at_finding finding;
} at_trial;

/* Which rows of a problem's outputs are compared with the reference: all of a small problem's. */
at_truth_want at_trial_rows(const at_suite *suite, const attune_problem *problem);

/* ATTUNE_OK: right. ATTUNE_WRONG_RESULT: wrong; the detail begins with the rule. ATTUNE_UNSUPPORTED: refused. Others:
 * as the failing step said. Adds to `bias`; copies the plan's kernel to `kernel` where that is "". */
attune_status at_trial_run(const at_suite *suite, const at_gate_case *which, at_finding *finding, at_bias *bias,
                           char kernel[512]);

#endif
