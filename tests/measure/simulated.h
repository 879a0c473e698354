/* An executor made of numbers: arms of known speed on a machine with every noise that the protocol claims to cure, and
 * a clock that the work itself turns. Nothing here looks at real time, and all follows from the seed. */
#ifndef TESTS_MEASURE_SIMULATED_H
#define TESTS_MEASURE_SIMULATED_H

#include <math.h>

#include "base/random.h"
#include "measure/session.h"

typedef struct simulated {
    /* What it is asked to be. */
    uint64_t seed;
    double us[AT_SESSION_ARMS_MAX][AT_MODE_COUNT]; /* a call of each arm */
    int calls;                                     /* in a sample */
    double process;                                /* sigma of an arm's luck in a process */
    double block;                                  /* sigma of a sample */
    double drift;                                  /* sigma of what all arms drift by together, */
    double memory;                                 /* an AR(1) with this coefficient from sample to sample */
    double outliers;                               /* share of samples that take 20 % longer */
    double bursts;                                 /* chance that throttling begins at a block; it lasts ten */
    double first;                                  /* share added to the first sample made ready: a bias of place */
    double slope_off;                              /* the second clock is off by this share, */
    int slope_spares;                              /* but for the arms before this one, */
    double slope_late_us;                          /* and by so much of a stretch, however long that is */
    int disturbed;                                 /* processes, from the first on, that have company */
    int wrong_arm, wrong_at;                       /* an arm gives a wrong output in this block, counted from 1 */
    /* What it is at. */
    at_hand_clock hand;
    at_random random;
    at_mode mode;
    int number, arms, blocks, burst_left;
    double stretched_us; /* by two clocks, all readings together */
    double luck[AT_SESSION_ARMS_MAX], drifted;
} simulated;

static attune_status simulated_start(void *self, int process)
{
    simulated *on = self;
    on->number = process;
    on->random = at_random_seed(on->seed, (uint64_t)process + 1);
    for (int arm = 0; arm < AT_SESSION_ARMS_MAX; ++arm) {
        on->luck[arm] = on->process * at_random_normal(&on->random);
    }
    on->hand.now_ns += 1000000000;
    return ATTUNE_OK;
}

static attune_status simulated_stage(void *self, at_mode mode, at_staged *staged)
{
    simulated *on = self;
    on->mode = mode;
    for (int arm = 0; arm < AT_SESSION_ARMS_MAX; ++arm) {
        staged->calls[arm] = on->calls;
    }
    return ATTUNE_OK;
}

/* The microseconds of one call, as one sample shows them. */
static double simulated_sample(simulated *on, int arm)
{
    double step = on->drift * sqrt(1 - on->memory * on->memory);
    on->drifted = on->memory * on->drifted + step * at_random_normal(&on->random);
    double log_us = log(on->us[arm][on->mode]) + on->luck[arm] + on->drifted;
    log_us += on->block * at_random_normal(&on->random);
    log_us += at_random_uniform(&on->random) < on->outliers ? log(1.2) : 0;
    /* Arms of even numbers come first in even processes, the others in odd ones. */
    log_us += arm % 2 == on->number % 2 ? on->first : 0;
    log_us += on->burst_left > 0 && arm % 2 == 0 ? log(1.3) : 0;
    return exp(log_us);
}

static attune_status simulated_block(void *self, const at_block_order *order, at_block *block)
{
    simulated *on = self;
    int seen[AT_SESSION_ARMS_MAX] = {0};
    if (on->bursts > 0 && on->burst_left == 0 && at_random_uniform(&on->random) < on->bursts) {
        on->burst_left = 10;
    }
    for (int i = 0; i < order->count; ++i) {
        int arm = order->arm[i];
        double us = simulated_sample(on, arm);
        block->us[arm][seen[arm]++] = us;
        on->hand.now_ns += (int64_t)(1e3 * (us * on->calls + order->pause_us));
    }
    block->throttle = AT_THROTTLE_POWER | (on->burst_left > 0 ? AT_THROTTLE_THERMAL : 0U);
    block->sm_mhz = on->burst_left > 0 ? 1200 : 1980;
    on->burst_left -= on->burst_left > 0;
    ++on->blocks;
    block->wrong[on->wrong_arm] = on->blocks == on->wrong_at;
    return ATTUNE_OK;
}

static attune_status simulated_clocks(void *self, int arm, double stretch_us, at_two_clocks *clocks)
{
    simulated *on = self;
    double off = on->slope_off + on->slope_late_us / stretch_us;
    clocks->us = simulated_sample(on, arm);
    clocks->slope_us = clocks->us * (1 + (arm >= on->slope_spares ? off : 0));
    on->stretched_us += stretch_us;
    return ATTUNE_OK;
}

static attune_status simulated_unstage(void *self)
{
    (void)self;
    return ATTUNE_OK;
}

static bool simulated_disturbed(void *observer)
{
    const simulated *on = observer;
    return on->number < on->disturbed;
}

/* `on` must outlive it. */
static inline at_executor simulated_executor(simulated *on)
{
    return (at_executor){.self = on,
                         .clock = at_clock_by_hand(&on->hand),
                         .start = simulated_start,
                         .stage = simulated_stage,
                         .block = simulated_block,
                         .two_clocks = simulated_clocks,
                         .unstage = simulated_unstage,
                         .disturbed = simulated_disturbed,
                         .observer = on};
}

#endif
