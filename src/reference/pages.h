/* Page tables as cases have them: permuted, with pages in common, and nonsense wherever nobody may look. */
#ifndef REFERENCE_PAGES_H
#define REFERENCE_PAGES_H

#include "reference/inputs.h"

/* Fills both page tables and DRAFT_MASK, where the problem has them; lengths are there. */
attune_status at_pages_fill(at_inputs *inputs);
/* The rows [*first, *end) of a sequence's keys that lie in pages of its own: what it has in common with the first
 * sequence is that one's, and pages left of a window are nobody's. Without pages all rows that there are. */
void at_pages_own(const at_inputs *inputs, int64_t batch, int64_t *first, int64_t *end);
/* As at_inputs_row, of a row of a sequence's keys or values, which has a page. */
size_t at_pages_row(const at_inputs *inputs, attune_role role, int64_t batch, int64_t head, int64_t row);
/* The extents of a role as if it had no pages: [batch, heads, rows of a sequence]. */
at_extent at_pages_extent(const at_inputs *inputs, attune_role role);

#endif
