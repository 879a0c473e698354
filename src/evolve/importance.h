/* Which parameters matter: for reports. */
#ifndef EVOLVE_IMPORTANCE_H
#define EVOLVE_IMPORTANCE_H

#include "evolve/replay.h"

enum { AT_IMPORTANCE_LEAST = 8 /* candidates that must have run */ };

/* For each parameter of the space the share of the variance of the times (logarithms; what is more than twice as slow
 * as the best counts as twice) that a random forest over the candidates that ran no longer explains when the
 * parameter's values are shuffled among them (Breiman 2001). 0: it does not matter, 1: nothing else does; shares of
 * parameters that act together overlap, so that the sum may exceed 1. What a search measured is not drawn evenly:
 * parameters matter there as far as it looked. ATTUNE_UNSUPPORTED where fewer than AT_IMPORTANCE_LEAST candidates ran.
 */
attune_status at_importance(const at_recorded *recorded, uint64_t seed, double importance[ATTUNE_PARAMS_MAX]);

#endif
