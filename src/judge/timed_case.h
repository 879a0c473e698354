/* The timed_case that candidates of one problem are timed on: inputs, and what their result must be. */
#ifndef JUDGE_TIMED_CASE_H
#define JUDGE_TIMED_CASE_H

#include "base/threads.h"
#include "core/plan.h"
#include "core/problem.h"
#include "judge/case_cache.h"
#include "library/placement.h"
#include "reference/least.h"
#include "reference/truth.h"

typedef struct at_timed_case {
    at_case_cache *cache; /* that lent the inputs; or NULL */
    at_inputs inputs;
    at_truth truth;
} at_timed_case;

/* Draws heads of every kind, so that who looks for a short cut in the inputs finds none that serves all of them, and
 * computes the truth, of a large problem that of some rows; or has both from `cache`, which may be NULL. `timed_case`
 * must stay where it is; pool and cache must outlive it. Free with at_timed_case_free, also after an error. */
attune_status at_timed_case_draw(const at_test_problem *test, uint64_t seed, bool acc16, at_pool *pool,
                                 at_case_cache *cache, at_timed_case *timed_case);
/* What at_timed_case_draw will want. */
void at_timed_case_prefetch(const at_test_problem *test, uint64_t seed, bool acc16, at_prefetch *wanted);
/* What a call on them must do at least. ATTUNE_OUT_OF_MEMORY. */
attune_status at_timed_case_least(const at_test_problem *test, uint64_t seed, at_least *least);
void at_timed_case_free(at_timed_case *timed_case);
/* One call to its end on the timed_case's inputs, which `place` has brought to the plan's device; judged. *us is what
 * it took the caller: about. */
attune_status at_timed_case_run(const at_timed_case *timed_case, at_placement *place, const attune_plan *plan,
                                double *us);
/* The same with queries that are multiplied so, for the call alone: to be found wrong. */
attune_status at_timed_case_run_off(const at_timed_case *timed_case, at_placement *place, const attune_plan *plan,
                                    double query_scale, double *us);
/* ATTUNE_OK where the result that lies in the inputs is right; ATTUNE_WRONG_RESULT names the rule. */
attune_status at_timed_case_judge(const at_timed_case *timed_case);

#endif
