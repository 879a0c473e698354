/* The verdict's statistics: how many times faster than a peer, and how sure that is. r = peer's time / candidate's
 * time.
 *
 * A block gives the mean of its log-ratios (drift that is linear over the block cancels), a process the mean of its
 * blocks, and the interval is Student's over the processes: samples of one process share its luck (addresses, clocks)
 * and are not independent, so that only processes count as evidence. */
#ifndef MEASURE_RATIO_H
#define MEASURE_RATIO_H

#include "measure/session.h"
#include "measure/statistics.h"

typedef enum at_outcome { AT_NOT_RUN = 0, AT_PASS, AT_FAIL, AT_INCONCLUSIVE } at_outcome;

const char *at_outcome_name(at_outcome outcome); /* "not run", "pass", "fail", "inconclusive" */

/* Noise: processes differ by more than their samples do. Cure: a mean for each process, and an interval over those. */
typedef struct at_spread {
    double sum[AT_SESSION_PROCESSES_MAX];
    int64_t count[AT_SESSION_PROCESSES_MAX];
} at_spread;

void at_spread_add(at_spread *spread, int process, double value);
/* The means of the processes that have values, in order; returns how many. */
int at_spread_means(const at_spread *spread, double means[AT_SESSION_PROCESSES_MAX]);

/* One arm against another in one mode. */
typedef struct at_ratio {
    at_interval r;                              /* 95 % */
    double process_r[AT_SESSION_PROCESSES_MAX]; /* of each process that counts */
    int processes;                              /* with at least one block that counts */
    int64_t blocks, dropped;                    /* that count, and that do not */
    double candidate_us, peer_us, median_r;     /* medians of all samples that count, and their quotient */
    at_interval difference_us; /* candidate's median - peer's (times must, where that is > 1), 10,000 resamples */
    double p_above;            /* of r <= 1 / must: the one-sided P value, for Holm's correction */
} at_ratio;

/* From the blocks of the session that count. With one process only (a hopeless candidate) the interval is over its
 * blocks, which claims too much and serves no other purpose. ATTUNE_INVALID_ARGUMENT where no two blocks of the mode
 * count, or a time is not positive. */
attune_status at_ratio_of(const at_session *session, at_mode mode, int candidate, int peer, at_ratio *ratio);

/* Where r's 95 % interval lies: pass wholly above 1 / must, fail wholly below, else inconclusive. */
at_outcome at_ratio_against(const at_ratio *ratio, double must);

/* "Some shape wins" asks many questions and must not be answered by luck (Holm 1979): which of `count` P values hold at
 * `level` all together. "All shapes win" needs no correction. */
void at_holm(const double *p, int count, double level, bool *holds);

#endif
