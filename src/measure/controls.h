/* Controls: what a session must show of itself before its ratios are believed. Each names a noise and what it would do
 * to a verdict. A control that does not hold makes a verdict inconclusive, never a pass; A/A alone is weighed
 * (speed.h). */
#ifndef MEASURE_CONTROLS_H
#define MEASURE_CONTROLS_H

#include "measure/ratio.h"

typedef struct at_check {
    at_outcome outcome;  /* AT_NOT_RUN: the session has nothing to look at */
    double worst, limit; /* what was seen, and what may be */
    char what[256];      /* for a person */
} at_check;

/* A/A. Noise: anything that depends on an arm's place (its buffers' addresses, its turn). An arm and its twin are the
 * same thing, so that the 99 % interval of their ratio must include 1, unless it is so narrow that it lies within
 * 0.25 % of 1, which no verdict hangs on. `r` is the 95 % interval; both may be NULL. */
attune_status at_check_twin(const at_session *session, int twin, at_check *check, at_interval *r);

/* Label swap. Noise: a bias in favour of whoever comes first. Processes of odd numbers make the arms ready in reverse
 * order (at_executor.start), so that swapped labels must give the inverse ratio: even and odd processes agree by
 * Welch's test at 0.01 %, or within 1 %, of which their mean, the ratio, keeps nothing. Needs two of each. */
attune_status at_check_swap(const at_session *session, int candidate, int peer, at_check *check);

/* Two clocks. Noise: a clock that does not see all of the work. In each process the two must agree, within
 * max(1 us, 3 %); the median over processes is what counts, since one may have been disturbed. */
enum { AT_CLOCKS_PERCENT = 3 };
/* How far apart a reading's clocks are, as a share of that. */
double at_clocks_apart(const at_two_clocks *clocks);
void at_check_clocks(const at_session *session, int arm, at_check *check);

/* Throttling. Noise: a device slowed down while one arm runs. Whole blocks are dropped, never single samples; when more
 * than the policy's share of a mode's blocks was, what is left is no fair sample. */
void at_check_dropped(const at_session *session, at_mode mode, at_check *check);

/* Company. Noise: others at work on a CPU's processors, which may slow one arm down more than another. No more than the
 * policy's share of all blocks may have been taken in it. */
void at_check_company(const at_session *session, at_check *check);

/* Impossible speed. Noise: work that was not done. The median time of a call must not be below the policy's floor. */
attune_status at_check_floor(const at_session *session, at_mode mode, int arm, at_check *check);
/* The floor: 0.95 of what `flops` (without masked work) take at the peak of the top clock; and cold, of what the bytes
 * that must be moved take at the memory's bandwidth, if that is longer. 0 where a rate is not known (0). */
double at_floor_us(at_mode mode, double flops, double peak_flops, double bytes, double peak_bytes);

#endif
