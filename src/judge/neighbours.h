/* What earlier calls left nearby. Timed calls follow one another on the same inputs, each with an output and a
 * workspace of its own, at irregular distances in one piece of memory: whoever looks around finds the answer ready. So
 * this repeats that arrangement and then changes some of what the earlier calls left: the last call's result must not
 * change. */
#ifndef JUDGE_NEIGHBOURS_H
#define JUDGE_NEIGHBOURS_H

#include "core/plan.h"
#include "library/placement.h"

/* The plan's result on the placed inputs is wanted again, bit by bit where `share` is 0, else as at_transform_matches
 * has it. ATTUNE_WRONG_RESULT says what was seen. */
attune_status at_neighbours_run(at_placement *place, const attune_plan *plan, uint64_t seed, double share);

#endif
