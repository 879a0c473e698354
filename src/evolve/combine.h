/* What two descendants of one source changed, in one text: a proposer that needs no model. */
#ifndef EVOLVE_COMBINE_H
#define EVOLVE_COMBINE_H

#include "attune/attune.h"

/* `base` with the lines that `one` changed and those that `other` changed; *combined is the caller's to free.
 * ATTUNE_NOT_FOUND, and NULL, where both changed the same lines in different ways, where nothing comes of it that is
 * not one of the two, or where the texts differ in more than some thousands of lines. */
attune_status at_combine(const char *base, const char *one, const char *other, char **combined);

#endif
