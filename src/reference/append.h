/* Append by the rules: where each new row goes, and whether a cache holds that and nothing else. */
#ifndef REFERENCE_APPEND_H
#define REFERENCE_APPEND_H

#include "reference/inputs.h"

/* Where new row `index` goes in K (or V, whose table may be another): *outer is its page, or its sequence, and *row the
 * place in that. False where it is left out. */
bool at_append_place(const attune_args *args, attune_role role, int64_t index, int64_t *outer, int64_t *row);
/* Whether K and V, poisoned before the call, are what append makes of them: rows that were appended, bit for bit, and
 * poison everywhere else. ATTUNE_WRONG_RESULT names the row. */
attune_status at_append_judge(const at_inputs *inputs);

#endif
