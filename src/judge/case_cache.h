/* What several candidates, peers and stages are judged on: the inputs and the truth of a case are made for the first of
 * them, or ahead of all by a thread of the cache's own, and kept for the others. Both are functions of the problem and
 * the draw alone. */
#ifndef JUDGE_CASE_CACHE_H
#define JUDGE_CASE_CACHE_H

#include "reference/truth.h"

typedef struct at_case_cache at_case_cache;

/* What will be wanted. */
typedef struct at_prefetch {
    attune_problem problem;
    at_draw draw;
    bool judged; /* its truth too, */
    at_truth_want want;
} at_prefetch;

/* Keeps at most so many bytes, and makes what comes after anew each time; 0: a quarter of this machine's memory. */
attune_status at_case_cache_create(size_t most_bytes, at_case_cache **cache);
/* Ends the thread after what it is making. Nothing may be lent any more. */
void at_case_cache_destroy(at_case_cache *cache);

/* Inputs as at_inputs_draw makes them, outputs poisoned; `cache` may be NULL. They are lent to one borrower at a time
 * (others draw their own), and must go back by at_case_cache_return, which frees what is the borrower's own; `changed`:
 * what they hold is no longer what was drawn. */
attune_status at_case_cache_inputs(at_case_cache *cache, const attune_problem *problem, const at_draw *draw,
                                   at_inputs *inputs);
void at_case_cache_return(at_case_cache *cache, at_inputs *inputs, bool changed);
/* As at_truth_compute; `cache` may be NULL. The truth may be a view of what the cache keeps, and must be freed before
 * it is dropped. */
attune_status at_case_cache_truth(at_case_cache *cache, at_pool *pool, const at_inputs *inputs,
                                  const at_truth_want *want, at_truth *truth);

/* What is made from here on belongs to this scope, until it is dropped. */
void at_case_cache_enter(at_case_cache *cache, int scope);
/* Has it made ahead, for a scope, by a thread that has so many threads to help; NULL is fine. What cannot be made is
 * left to whoever asks for it. */
attune_status at_case_cache_ahead(at_case_cache *cache, int scope, int threads, const at_prefetch *wanted);
void at_case_cache_drop(at_case_cache *cache, int scope);
/* Inputs and truths that were found instead of made. */
size_t at_case_cache_found(const at_case_cache *cache);

#endif
