/* What the files that judge a verdict share. */
#ifndef JUDGE_VERDICT_PARTS_H
#define JUDGE_VERDICT_PARTS_H

#include "judge/verdict.h"

/* Prints, cutting off what is too long. */
void at_sentence_print(char text[AT_SENTENCE_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The one that is further from a pass: fail, inconclusive, not run. */
at_outcome at_outcome_worse(at_outcome a, at_outcome b);
/* Ratios, controls, peers, and the finding of the speed stage. */
attune_status at_verdict_judge_speed(at_verdict *verdict);
/* Whether the clock showed the candidate wrong: timed outputs were, or were there sooner than can be. */
bool at_verdict_timing_refutes(const at_verdict *verdict);

#endif
