/* Is a candidate faster than a peer? The finding from a session's samples alone, for a gate and for whoever judges its
 * evidence again. */
#ifndef MEASURE_SPEED_H
#define MEASURE_SPEED_H

#include "measure/controls.h"

typedef struct at_speed {
    at_outcome outcome;
    char why[320]; /* what decided, with its numbers */
    bool known[AT_MODE_COUNT];
    at_ratio ratio[AT_MODE_COUNT]; /* of the modes that are known */
    at_interval twin;              /* A/A, 95 %; zeros where no arm has a twin */
} at_speed;

/* Fails where a time is impossible, where the warm interval of r lies below 1 / must, or where the cold median of r is
 * below 1. Passes where the warm interval lies above 1 / must, the interval of the difference of medians below 0, and
 * every control holds; by the policy's cold_decides the cold interval does what the warm one does here, and the warm
 * one is recorded alone. Else inconclusive. Not run: there are no warm blocks. Returns a failure only for want of
 * memory or for samples that are no times.
 *
 * A/A (at_check_twin) shows what the places of two arms are worth, and so what r may owe to places. It is one
 * difference of two places, and Student's t with one degree of freedom says what another is that is known by one alone:
 * with 95 % less than 12.7 times as much. By the policy's twin_by_reach an A/A that does not hold leaves a verdict
 * inconclusive where so much could bring r's interval to the bound, or the cold median to 1; a verdict that it cannot
 * turn is kept. */
attune_status at_speed_judge(const at_session *session, int candidate, int peer, at_speed *speed);

#endif
