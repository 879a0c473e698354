/* The ground that candidates of one problem are timed on: inputs, and what their result must be. */
#ifndef JUDGE_GROUND_H
#define JUDGE_GROUND_H

#include "base/threads.h"
#include "core/plan.h"
#include "judge/memo.h"
#include "judge/placement.h"
#include "reference/truth.h"

typedef struct at_ground {
    at_memo *memo; /* that lent the inputs; or NULL */
    at_inputs inputs;
    at_truth truth;
} at_ground;

/* Draws heads of every kind, so that who looks for a short cut in the inputs finds none that serves all of them, and
 * computes the truth, of a large problem that of some rows; or has both from `memo`, which may be NULL. `ground` must
 * stay where it is; pool and memo must outlive it. Free with at_ground_free, also after an error. */
attune_status at_ground_draw(const attune_problem *problem, uint64_t seed, bool acc16, at_pool *pool, at_memo *memo,
                             at_ground *ground);
/* What at_ground_draw will want. */
void at_ground_foresee(const attune_problem *problem, uint64_t seed, bool acc16, at_foresight *wanted);
void at_ground_free(at_ground *ground);
/* One call to its end on the ground's inputs, which `place` has brought to the plan's device; judged. *us is what it
 * took the caller: about. */
attune_status at_ground_run(const at_ground *ground, at_placement *place, const attune_plan *plan, double *us);
/* ATTUNE_OK where the result that lies in the inputs is right; ATTUNE_WRONG_RESULT names the rule. */
attune_status at_ground_judge(const at_ground *ground);

#endif
