/* A pass over PTX that has the lanes of a warp come apart: what only comes out right because they walk in step, a
 * number that one lane hands to another through shared memory and nobody waits for, does not any more. */
#ifndef CUDA_LANES_H
#define CUDA_LANES_H

#include "base/text.h"

/* Appends the PTX to `to`; where statements that neither wait, nor branch, nor work together with other lanes follow
 * one another, with shared memory written and read among them, half of the lanes do all of them before the others
 * begin. Returns at how many places. */
int at_ptx_part_lanes(const char *ptx, at_text *to);

#endif
