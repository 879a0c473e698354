/* Truths that several candidates are judged by: the reference of a case is computed for the first of them, and kept for
 * the others. It is a function of the problem and the draw alone. */
#ifndef GATE_MEMO_H
#define GATE_MEMO_H

#include "reference/truth.h"

typedef struct at_memo at_memo;

/* Keeps at most so many bytes, and computes what comes after anew each time; 0: a quarter of this machine's memory. */
attune_status at_memo_create(size_t most_bytes, at_memo **memo);
void at_memo_destroy(at_memo *memo);
/* As at_truth_compute; `memo` may be NULL. The truth may be a view of what the memo keeps, and must be freed before it.
 */
attune_status at_memo_truth(at_memo *memo, at_pool *pool, const at_inputs *inputs, const at_truth_want *want,
                            at_truth *truth);
/* Truths that were found instead of computed. */
size_t at_memo_found(const at_memo *memo);

#endif
