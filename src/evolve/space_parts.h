/* How spaces are made: shared by space.c, which asks descriptors, and space_json.c, which reads them back. */
#ifndef EVOLVE_SPACE_PARTS_H
#define EVOLVE_SPACE_PARTS_H

#include "evolve/space.h"

/* Room for so many codes, which the caller fills in, ascending, and counts. */
attune_status at_space_make_room(at_space *space, int candidates);
/* Everything that follows from the parameters and codes; no order yet. */
attune_status at_space_complete(at_space *space);
/* Appends a candidate to the heuristic order, unless it is in it. */
void at_space_rank(at_space *space, int candidate);
/* The candidate of this number among all combinations; -1 where it is none. */
int at_space_find_code(const at_space *space, int64_t code);

#endif
