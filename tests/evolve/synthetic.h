/* A racer made of numbers: candidates with known times, and the noises of real machines. Every heat is a function of
 * its seed. */
#ifndef TESTS_EVOLVE_SYNTHETIC_H
#define TESTS_EVOLVE_SYNTHETIC_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "base/status.h"
#include "evolve/race.h"

enum { SYNTHETIC_MAX = 1024 };

typedef struct synthetic {
    double us[SYNTHETIC_MAX]; /* the truth */
    at_refused refused[SYNTHETIC_MAX];
    double noise;        /* of one sample, as a share */
    double spikes;       /* samples that an interrupt doubles, as a share */
    double drift;        /* of the machine, a block */
    double process;      /* what a process adds to each candidate or takes from it, as a share */
    double second_place; /* a fault: what the second arm of a stage takes longer, as a share */
    at_random random;
    int processes;
    double luck[SYNTHETIC_MAX];
    int arm[AT_RACE_ARMS_MAX], arms; /* of the stage */
    int tried, staged, blocks, samples;
    int bad_stage, bad_block; /* candidates that are wrong where they are staged, or timed; 0: none */
    int fails_at;             /* the block that fails; 0: none */
    int deadly;               /* a candidate that takes the device down in every block; 0: none */
    bool disturbed;           /* by others, all the time */
} synthetic;

static inline synthetic synthetic_of(uint64_t seed, double noise)
{
    synthetic made = {.noise = noise, .random = at_random_seed(seed, 77)};
    for (int i = 0; i < SYNTHETIC_MAX; ++i) {
        made.us[i] = 100;
        made.luck[i] = 1;
    }
    return made;
}

static inline attune_status synthetic_try(void *self, int candidate, at_first_run *seen)
{
    synthetic *on = self;
    ++on->tried;
    *seen = (at_first_run){.refused = on->refused[candidate], .us = 500 + on->us[candidate]};
    (void)snprintf(seen->why, sizeof seen->why, "%s", seen->refused == AT_RAN ? "" : "it cannot");
    return ATTUNE_OK;
}

static inline void synthetic_blame(at_first_run *seen, const char *why)
{
    *seen = (at_first_run){.refused = AT_REFUSED_WRONG};
    (void)snprintf(seen->why, sizeof seen->why, "%s", why);
}

static inline attune_status synthetic_stage(void *self, const int *candidate, int count, int *culprit,
                                            at_first_run *seen)
{
    synthetic *on = self;
    for (int i = 0; i < count; ++i) {
        if (on->bad_stage > 0 && candidate[i] == on->bad_stage) {
            *culprit = i;
            synthetic_blame(seen, "wrong on other inputs");
            return ATTUNE_OK;
        }
    }
    ++on->staged;
    memcpy(on->arm, candidate, (size_t)count * sizeof *candidate);
    on->arms = count;
    return ATTUNE_OK;
}

static inline double synthetic_sample(synthetic *on, int arm)
{
    double us = on->us[on->arm[arm]] * on->luck[on->arm[arm]];
    us *= exp(on->noise * at_random_normal(&on->random) + on->drift * on->blocks);
    us *= at_random_uniform(&on->random) < on->spikes ? 2 : 1;
    ++on->samples;
    return us * (arm == 1 ? 1 + on->second_place : 1);
}

static inline bool synthetic_has(const synthetic *on, int candidate)
{
    for (int i = 0; i < on->arms; ++i) {
        if (on->arm[i] == candidate) {
            return true;
        }
    }
    return false;
}

static inline attune_status synthetic_block(void *self, const int *order, int count, double (*us)[2], int *culprit,
                                            at_first_run *seen_of)
{
    synthetic *on = self;
    int seen[AT_RACE_ARMS_MAX] = {0};
    ++on->blocks;
    AT_FAIL_IF(on->blocks == on->fails_at, ATTUNE_DEVICE_ERROR, "the machine is gone");
    AT_FAIL_IF(on->deadly > 0 && synthetic_has(on, on->deadly), ATTUNE_DEVICE_ERROR, "an illegal address");
    AT_FAIL_IF(on->disturbed, AT_DISTURBED, "others use the device");
    for (int i = 0; i < count; ++i) {
        us[order[i]][seen[order[i]]++] = synthetic_sample(on, order[i]);
        if (on->bad_block > 0 && on->arm[order[i]] == on->bad_block && on->blocks > 2) {
            *culprit = order[i];
            synthetic_blame(seen_of, "wrong in a timed call");
        }
    }
    return ATTUNE_OK;
}

static inline attune_status synthetic_unstage(void *self)
{
    ((synthetic *)self)->arms = 0;
    return ATTUNE_OK;
}

static inline attune_status synthetic_renew(void *self)
{
    synthetic *on = self;
    ++on->processes;
    for (int i = 0; i < SYNTHETIC_MAX; ++i) {
        on->luck[i] = exp(on->process * at_random_normal(&on->random));
    }
    return ATTUNE_OK;
}

static inline at_racer synthetic_racer(synthetic *on)
{
    return (at_racer){on, synthetic_try, synthetic_stage, synthetic_block, synthetic_unstage, synthetic_renew};
}

#endif
