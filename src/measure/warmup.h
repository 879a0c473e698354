/* Noise: the first calls are not like the later ones (pages are mapped at first touch, caches and branch predictors
 * learn, the clock ramps up, a library starts its threads). Cure: untimed rounds until the times of a round have
 * settled: the medians of the last two groups of rounds agree, or differ by no more than rounds do by chance. */
#ifndef MEASURE_WARMUP_H
#define MEASURE_WARMUP_H

#include <stdbool.h>
#include <stdint.h>

enum { AT_WARMUP_GROUP = 5 }; /* rounds whose median is compared */

/* Of one arm. Zero it to begin. */
typedef struct at_warmup {
    int64_t rounds;
    double last[2 * AT_WARMUP_GROUP]; /* a ring */
} at_warmup;

void at_warmup_add(at_warmup *warmup, double round_ns);
/* Whether two full groups were seen and their medians differ by at most `share` of the newer one, or by no more than
 * the median deviation within a group (as far as that is a few percent): a noisy machine's medians never agree more
 * closely, however long one waits. */
bool at_warmup_settled(const at_warmup *warmup, double share);
/* The median of the newest group (of what there is, if less); 0 of nothing. */
double at_warmup_recent(const at_warmup *warmup);

#endif
