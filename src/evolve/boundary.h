/* What refusals teach: the chance that a candidate would be refused, from which were and which were not.
 *
 * What a descriptor can predict is no candidate in the first place. What remains (compilers that give up, launches that
 * fail, results that are wrong) lies in regions nobody wrote down, mostly beyond some value of a few parameters.
 * Method: a random forest over the features, as of a regression of 0 (ran) and 1 (refused), drawn towards the share of
 * refusals seen as long as few are known. */
#ifndef EVOLVE_BOUNDARY_H
#define EVOLVE_BOUNDARY_H

#include "evolve/space.h"

typedef struct at_boundary at_boundary;

/* The space must outlive it. */
attune_status at_boundary_create(const at_space *space, uint64_t seed, at_boundary **boundary);
void at_boundary_destroy(at_boundary *boundary);
/* Remembers; a second word on the same candidate replaces the first. */
void at_boundary_learn(at_boundary *boundary, int candidate, bool refused);
/* 0 ... 1; 0 as long as nothing was refused, and exactly what was seen where something was. */
double at_boundary_chance(at_boundary *boundary, int candidate);

#endif
