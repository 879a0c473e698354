/* How a strategy does on a recorded problem, over many seeds: what `attune evolve replay` prints. */
#ifndef EVOLVE_STUDY_H
#define EVOLVE_STUDY_H

#include "evolve/replay.h"

typedef struct at_study {
    int budget;
    double *mean; /* [budget], over seeds, of what was reached after so many candidates */
    double *low;  /* [budget], the least of any seed */
    double goal;
    int seeds, arrived; /* seeds; of them those that reached the goal within the budget */
    double needed;      /* the median over seeds of candidates until the goal; budget + 1 for those that did not */
} at_study;

/* Replays with `seeds` seeds from options->seed on. */
attune_status at_study_run(const at_recorded *recorded, const at_replay_options *options, int seeds, double goal,
                           at_study **study);
void at_study_free(at_study *study);

#endif
