/* Q, K and V as a projection of all three leaves them: between one another, in rows of one piece of memory. */
#ifndef JUDGE_PROJECTION_H
#define JUDGE_PROJECTION_H

#include "library/placement.h"

/* Lays the placement's inputs out so in memory of its own, at which `call` points then; K and V alone where Q has other
 * rows than they have, and [rows, batch, columns] or [batch, rows, columns] of it. *slab is for the device to release.
 * NULL, and the call as it was, where they are of several types, in pages, sparse or large. */
attune_status at_projection_make(const at_placement *place, bool rows_first, attune_call *call, void **slab);

#endif
