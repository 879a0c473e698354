/* Sanity: what must hold of any kernel before its numbers are looked at. It ends; it writes all of its outputs and
 * nothing else; it leaves its inputs alone; it gives the same bits again unless it says that it may not; and what it
 * gives depends on what its inputs hold now, not on where they lie, nor on what the outputs or the workspace held
 * before. */
#ifndef JUDGE_SANITY_H
#define JUDGE_SANITY_H

#include "judge/suite.h"

/* Runs the suite's plan once on standard-normal inputs: "launch". Any failure is the kernel's, unless at_ends_suite. */
attune_status at_sanity_launch(const at_suite *suite, const at_test_problem *test);
/* The rest, with so many repeated runs. ATTUNE_WRONG_RESULT says what was seen; *done (static) what was looked at. */
attune_status at_sanity_run(const at_suite *suite, const at_test_problem *test, int repeats, const char **done);

/* Has inputs and truths for all of this made ahead. */
attune_status at_sanity_ahead(const at_suite *suite, const at_test_problem *test, const at_ahead *ahead);

/* Whether O alone, on standard-normal inputs, is right: what is asked of a peer, which need not give LSE. */
attune_status at_sanity_judge(const at_suite *suite, const at_test_problem *test, at_finding *finding);

#endif
