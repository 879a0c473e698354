/* The verdict's statistics: how many times faster than a peer, and how sure that is. r = peer's time / candidate's
 * time.
 *
 * A block gives the mean of its log-ratios (drift that is linear over the block cancels), a process a mean of its
 * blocks, and the interval is Student's over the processes: samples of one process share its luck (addresses, clocks)
 * and are not independent, so that only processes count as evidence. */
#ifndef MEASURE_RATIO_H
#define MEASURE_RATIO_H

#include "measure/session.h"
#include "measure/statistics.h"

typedef enum at_outcome { AT_PASS = 0, AT_FAIL, AT_INCONCLUSIVE, AT_NOT_RUN } at_outcome;

const char *at_outcome_name(at_outcome outcome); /* "pass", "fail", "inconclusive", "not run" */

/* One candidate against one peer in one mode. */
typedef struct at_ratio {
    at_interval r;                              /* 95 % */
    double process_r[AT_SESSION_PROCESSES_MAX]; /* of each process */
    int processes;                              /* with at least one block that counts */
    size_t blocks, dropped;
    double candidate_us, peer_us, median_r; /* medians of all samples that count, and their quotient */
    at_interval difference_us; /* candidate's median - peer's (times must, where that is > 1), 10,000 resamples */
} at_ratio;

/* From the blocks of the session that count. ATTUNE_INVALID_ARGUMENT with fewer than two processes. */
attune_status at_ratio_of(const at_session *session, at_mode mode, int candidate, int peer, at_ratio *ratio);

#endif
