/* Evaluating terms: postfix integer expressions over a call's actual sizes. */
#ifndef CORE_TERM_H
#define CORE_TERM_H

#include "attune/kernel.h"

typedef struct at_sizes {
    int64_t value[ATTUNE_SIZE_COUNT];
} at_sizes;

/* Collects the sizes of args on target (a CPU's threads as its sm_count). */
void at_sizes_fill(at_sizes *sizes, const attune_args *args, const attune_target *target);
/* ATTUNE_OK for a term that is well formed: every op known, no stack under- or overflow, one result. */
attune_status at_term_check(const attune_term *term);
/* The value; ATTUNE_INVALID_ARGUMENT for a term that is not well formed, on overflow of int64, or division by a number
 * below 1. */
attune_status at_term_evaluate(const attune_term *term, const at_sizes *sizes, int64_t *value);
/* The same of a term that at_term_check has passed; and a bit for each size that one names. */
attune_status at_term_value(const attune_term *term, const at_sizes *sizes, int64_t *value);
uint64_t at_term_sizes(const attune_term *term);

#endif
