/* A pass over PTX that upsets the order in which warps do things: who is right only because a warp happens to be in
 * time is not any more, and who waits as he must is. */
#ifndef CUDA_DELAYS_H
#define CUDA_DELAYS_H

#include "base/text.h"

/* Appends the PTX to `to` with a delay of up to 8 us, for one warp in eight as the clock has it, at the beginning of
 * each entry and behind everything that waits for other threads, and without the code's own sleeping: who sleeps where
 * he should wait is right as long as nobody is later. From sm_90 on the next launch may begin as soon as it may.
 * Returns at how many places there are delays. */
int at_ptx_delay(const char *ptx, at_text *to);

#endif
