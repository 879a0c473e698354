/* What several candidates, peers and stages are judged on: the inputs and the truth of a case are made for the first of
 * them, or ahead of all by a thread of the memo's own, and kept for the others. Both are functions of the problem and
 * the draw alone. */
#ifndef JUDGE_MEMO_H
#define JUDGE_MEMO_H

#include "reference/truth.h"

typedef struct at_memo at_memo;

/* What will be wanted. */
typedef struct at_prefetch {
    attune_problem problem;
    at_draw draw;
    bool judged; /* its truth too, */
    at_truth_want want;
} at_prefetch;

/* Keeps at most so many bytes, and makes what comes after anew each time; 0: a quarter of this machine's memory. */
attune_status at_memo_create(size_t most_bytes, at_memo **memo);
/* Ends the thread after what it is making. Nothing may be lent any more. */
void at_memo_destroy(at_memo *memo);

/* Inputs as at_inputs_draw makes them, outputs poisoned; `memo` may be NULL. They are lent to one borrower at a time
 * (others draw their own), and must go back by at_memo_return, which frees what is the borrower's own; `changed`: what
 * they hold is no longer what was drawn. */
attune_status at_memo_inputs(at_memo *memo, const attune_problem *problem, const at_draw *draw, at_inputs *inputs);
void at_memo_return(at_memo *memo, at_inputs *inputs, bool changed);
/* As at_truth_compute; `memo` may be NULL. The truth may be a view of what the memo keeps, and must be freed before it
 * is dropped. */
attune_status at_memo_truth(at_memo *memo, at_pool *pool, const at_inputs *inputs, const at_truth_want *want,
                            at_truth *truth);

/* What is made from here on belongs to this scope, until it is dropped. */
void at_memo_enter(at_memo *memo, int scope);
/* Has it made ahead, for a scope, by a thread that has so many threads to help; NULL is fine. What cannot be made is
 * left to whoever asks for it. */
attune_status at_memo_ahead(at_memo *memo, int scope, int threads, const at_prefetch *wanted);
void at_memo_drop(at_memo *memo, int scope);
/* Inputs and truths that were found instead of made. */
size_t at_memo_found(const at_memo *memo);

#endif
