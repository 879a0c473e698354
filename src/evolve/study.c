#include "evolve/study.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "measure/statistics.h"

static int first_at(const double *reached, int budget, double goal)
{
    int at = 0;
    while (at < budget && reached[at] < goal) {
        ++at;
    }
    return at;
}

static void add_seed(at_study *study, const double *reached, double *needed)
{
    int first = first_at(reached, study->budget, study->goal);
    study->arrived += first < study->budget;
    needed[study->seeds] = first + 1;
    for (int i = 0; i < study->budget; ++i) {
        study->mean[i] += (reached[i] - study->mean[i]) / (study->seeds + 1);
        study->low[i] = study->seeds == 0 ? reached[i] : fmin(study->low[i], reached[i]);
    }
    ++study->seeds;
}

static attune_status run_seeds(const at_recorded *recorded, const at_replay_options *options, int seeds,
                               double *reached, double *needed, at_study *study)
{
    at_replay_options one = *options;
    for (int seed = 0; seed < seeds; ++seed) {
        one.seed = options->seed + (uint64_t)seed;
        AT_FORWARD(at_replay_run(recorded, &one, reached));
        add_seed(study, reached, needed);
    }
    return at_median(needed, (size_t)seeds, &study->needed);
}

attune_status at_study_run(const at_recorded *recorded, const at_replay_options *options, int seeds, double goal,
                           at_study **study)
{
    int budget = at_replay_budget(recorded, options);
    *study = NULL;
    AT_FAIL_IF(seeds < 1, ATTUNE_INVALID_ARGUMENT, "a study with %d seeds: at least 1 is needed", seeds);
    at_study *made = calloc(1, sizeof *made);
    double *reached = calloc((size_t)budget, sizeof *reached);
    double *needed = calloc((size_t)seeds, sizeof *needed);
    attune_status status = at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a study of %d candidates", budget);
    if (made != NULL) {
        *made = (at_study){.budget = budget, .goal = goal};
        made->mean = calloc((size_t)budget, sizeof *made->mean);
        made->low = calloc((size_t)budget, sizeof *made->low);
    }
    if (made != NULL && made->mean != NULL && made->low != NULL && reached != NULL && needed != NULL) {
        status = run_seeds(recorded, options, seeds, reached, needed, made);
    }
    free(reached);
    free(needed);
    if (status != ATTUNE_OK) {
        at_study_free(made);
        return status;
    }
    *study = made;
    return ATTUNE_OK;
}

void at_study_free(at_study *study)
{
    if (study != NULL) {
        free(study->mean);
        free(study->low);
        free(study);
    }
}
