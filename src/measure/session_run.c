/* One process's part of a session, in stages: warm-up, the blocks of each mode, two clocks. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "measure/blocks.h"
#include "measure/controls.h"
#include "measure/session.h"

/* One mode in one process. */
typedef struct part {
    at_session *session;
    at_executor *executor;
    at_mode mode;
    at_random sets;
    at_block block; /* the last */
    at_blocks blocks;
    double pause_us;
} part;

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

static attune_status check_outputs(at_session *session, const at_block *block)
{
    memcpy(session->wrong, block->wrong, sizeof session->wrong);
    for (int arm = 0; arm < session->arm_count; ++arm) {
        AT_FAIL_IF(block->wrong[arm] != 0, ATTUNE_WRONG_RESULT,
                   "timed outputs: %d calls of %s, in process %d, %s, gave another result than before they were timed",
                   block->wrong[arm], session->arm[arm].name, block->process, at_mode_name(block->mode));
    }
    return ATTUNE_OK;
}

static attune_status take_block(void *self, const int *order, int count, double (*us)[2])
{
    part *on = self;
    const at_clock *clock = &on->executor->clock;
    int64_t start = clock->now_ns(clock->self);
    AT_FAIL_IF(at_file_interrupted(), ATTUNE_INTERRUPTED, "interrupted");
    const at_block_order wanted = {order, count, at_random_next(&on->sets), on->pause_us};
    on->block = (at_block){.mode = on->mode, .process = on->session->processes};
    AT_FORWARD(on->executor->block(on->executor->self, &wanted, &on->block));
    on->executor->loaded_s += 1e-9 * (double)(clock->now_ns(clock->self) - start);
    memcpy(us, on->block.us, sizeof on->block.us);
    return check_outputs(on->session, &on->block);
}

static double mean_us(const at_block *block, int arm)
{
    return (block->us[arm][0] + block->us[arm][1]) / 2;
}

/* ---- Hope ------------------------------------------------------------------------------------------------------- */

enum { FAR = 2 }; /* times as long as what is hopeless */

static bool is_pair(const at_session *session, int candidate, int peer)
{
    return session->arm[candidate].part == AT_PART_CANDIDATE && session->arm[peer].part == AT_PART_PEER;
}

/* Whether a candidate needs so many times as long as what is hopeless, by the logarithm of its time over the peer's. */
static bool is_beyond_hope(const at_session_policy *policy, double log_ratio, double times)
{
    return log_ratio > log(times * policy->hopeless * policy->must);
}

/* ---- Warm-up ----------------------------------------------------------------------------------------------------- */

/* The seconds that the warm blocks will take, as the rounds so far took. */
static double expected_s(const part *on, double spent_s, int rounds)
{
    return spent_s / rounds * on->session->pairs[AT_MODE_WARM] / 2;
}

static double fastest_peer_us(const part *on)
{
    double fastest = HUGE_VAL;
    for (int arm = 0; arm < on->session->arm_count; ++arm) {
        double us = 1e-3 * at_warmup_recent(&on->blocks.warmup[arm]);
        fastest = on->session->arm[arm].part == AT_PART_PEER && us < fastest ? us : fastest;
    }
    return fastest;
}

/* Once for all processes, by the first. */
static void size_mode(part *on)
{
    int *pairs = &on->session->pairs[on->mode];
    if (*pairs == 0) {
        double us = fmax(fastest_peer_us(on), on->executor->sample_us);
        *pairs = at_session_pairs(&on->session->policy, on->mode, us);
    }
}

/* So far beyond hope already that warming up would not change it. Only the first process may stop a session. */
static bool all_far_off(const part *on)
{
    const at_session *session = on->session;
    for (int candidate = 0; candidate < session->arm_count; ++candidate) {
        for (int peer = 0; peer < session->arm_count; ++peer) {
            double ratio = at_warmup_recent(&on->blocks.warmup[candidate]) / at_warmup_recent(&on->blocks.warmup[peer]);
            if (is_pair(session, candidate, peer) && !is_beyond_hope(&session->policy, log(ratio), FAR)) {
                return false;
            }
        }
    }
    return session->processes == 0;
}

/* The first session of a process warms it up; later ones, and other modes, only let their arms settle. */
static bool is_warm(void *self, int rounds, double spent_s)
{
    enum { ROUNDS = 2 };
    static const double other_most_s = 0.2;
    part *on = self;
    const at_session_policy *policy = &on->session->policy;
    bool judged = on->mode == AT_MODE_WARM;
    if (rounds < ROUNDS) {
        return false;
    }
    size_mode(on);
    double loaded = on->executor->loaded_s;
    bool worked = loaded >= policy->warmup_s && loaded + expected_s(on, spent_s, rounds) >= policy->sustained_s;
    bool done = at_blocks_settled(&on->blocks) || spent_s >= (judged ? policy->warmup_max_s : other_most_s);
    return judged ? (worked && done) || all_far_off(on) : done;
}

static attune_status warm_up(part *on)
{
    int process = on->session->processes;
    double spent_s = 0;
    AT_FORWARD(at_blocks_warm_up(&on->blocks, &spent_s));
    if (on->mode == AT_MODE_WARM) {
        on->session->warmup_s[process] = spent_s;
        on->session->settled[process] = at_blocks_settled(&on->blocks);
    }
    return ATTUNE_OK;
}

/* ---- Two clocks -------------------------------------------------------------------------------------------------- */

/* Noise: what the host and a device's clock add to a sample, however long it is: a late wake-up, a boost that lasts a
 * moment. NOTE: in 800 readings over 2 ms on an H200 the two clocks were 10 us apart in the middle, 44 in nine of ten,
 * 191 in 99 of 100 and 338 at most, of 60 that 3 % are there. Cure: a reading that does not hold is made again over a
 * sample in which as much is a quarter, and then a sixteenth; what differs by a share of the time stays as far apart.
 */
static attune_status read_arm(const part *on, int arm, at_two_clocks *clocks)
{
    static const double stretches_us[] = {2e3, 8e3, 32e3};
    int most = on->executor->sample_us > 0 ? 1 : sizeof stretches_us / sizeof stretches_us[0];
    for (int i = 0; i < most; ++i) {
        AT_FORWARD(on->executor->two_clocks(on->executor->self, arm, stretches_us[i], clocks));
        if (at_clocks_apart(clocks) <= 1) {
            break;
        }
    }
    return ATTUNE_OK;
}

static attune_status read_two_clocks(const part *on)
{
    for (int arm = 0; arm < on->session->arm_count; ++arm) {
        at_two_clocks clocks = {.process = on->session->processes, .arm = arm};
        AT_FORWARD(read_arm(on, arm, &clocks));
        AT_FORWARD(at_session_add_clocks(on->session, &clocks));
    }
    return ATTUNE_OK;
}

/* ---- Samples ----------------------------------------------------------------------------------------------------- */

/* Whether the candidate is slower than this peer beyond hope, by this process's warm blocks so far. One that is far off
 * needs a fifth of the pairs to show it. */
static bool hopeless_against(const at_session *session, int candidate, int peer)
{
    const at_session_policy *policy = &session->policy;
    double sum = 0;
    int count = 0;
    for (size_t i = 0; i < session->block_count; ++i) {
        if (at_block_counts(&session->block[i])) {
            sum += log(mean_us(&session->block[i], candidate) / mean_us(&session->block[i], peer));
            ++count;
        }
    }
    bool far = 10 * count >= policy->hopeless_pairs && is_beyond_hope(policy, sum / count, FAR);
    return far || (2 * count >= policy->hopeless_pairs && is_beyond_hope(policy, sum / count, 1));
}

/* Whether every candidate is hopeless against every peer. */
static bool all_hopeless(const at_session *session)
{
    if (session->policy.cold_decides) {
        return false; /* which the warm blocks do not tell */
    }
    for (int candidate = 0; candidate < session->arm_count; ++candidate) {
        for (int peer = 0; peer < session->arm_count; ++peer) {
            if (is_pair(session, candidate, peer) && !hopeless_against(session, candidate, peer)) {
                return false;
            }
        }
    }
    return session->block_count > 0;
}

static bool wants_more(void *self, int blocks, double spent_s)
{
    const part *on = self;
    (void)spent_s;
    return blocks < (on->session->pairs[on->mode] + 1) / 2 && !on->session->stopped;
}

static attune_status keep_block(void *self, double (*us)[2])
{
    const part *on = self;
    at_session *session = on->session;
    (void)us; /* the block has them, and more */
    AT_FORWARD(at_session_add(session, &on->block));
    session->stopped = session->processes == 0 && on->mode == AT_MODE_WARM && all_hopeless(session);
    return ATTUNE_OK;
}

/* Pauses four times as long as a sample, at least 5 ms, so that a device that ramps down between bursts does. */
static void find_pause(part *on, const at_staged *staged)
{
    double longest = 1250;
    for (int arm = 0; arm < on->session->arm_count; ++arm) {
        double us = 1e-3 * at_warmup_recent(&on->blocks.warmup[arm]) * staged->calls[arm];
        longest = us > longest ? us : longest;
    }
    on->pause_us = on->mode == AT_MODE_RESTED ? 4 * longest : 0;
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

static attune_status run_staged(part *on, const at_staged *staged)
{
    AT_FORWARD(warm_up(on));
    find_pause(on, staged);
    AT_FORWARD(at_blocks_sample(&on->blocks));
    return on->mode == AT_MODE_WARM && !on->session->stopped ? read_two_clocks(on) : ATTUNE_OK;
}

static attune_status run_mode(at_session *session, at_executor *executor, at_mode mode)
{
    uint64_t stream = (uint64_t)session->processes * AT_MODE_COUNT + (uint64_t)mode;
    at_staged staged = {.calls = {0}};
    part on = {
        .session = session, .executor = executor, .mode = mode, .sets = at_random_seed(session->policy.seed, stream)};
    on.blocks = (at_blocks){.self = &on,
                            .clock = executor->clock,
                            .order = at_order_seed(session->policy.seed + stream, session->arm_count),
                            .settled = session->policy.drift,
                            .take = take_block,
                            .warm = is_warm,
                            .more = wants_more,
                            .keep = keep_block};
    attune_status status = executor->stage(executor->self, mode, &staged);
    if (status != ATTUNE_OK) {
        memcpy(session->wrong, staged.wrong, sizeof session->wrong);
        return status;
    }
    for (int arm = 0; arm < session->arm_count; ++arm) {
        session->calls[mode][arm] = staged.calls[arm];
    }
    status = run_staged(&on, &staged);
    if (status != ATTUNE_OK) {
        return status; /* what failed may have left no worker to unstage */
    }
    return executor->unstage(executor->self);
}

/* A candidate beyond hope is that in company too. */
static void mark_disturbed(at_session *session, const at_executor *executor)
{
    bool disturbed = !session->stopped && executor->disturbed != NULL && executor->disturbed(executor->observer);
    for (size_t i = 0; disturbed && i < session->block_count; ++i) {
        session->block[i].throttle |= session->block[i].process == session->processes ? AT_THROTTLE_COMPANY : 0;
    }
}

attune_status at_session_process(at_session *session, at_executor *executor)
{
    AT_FAIL_IF(session->processes >= session->policy.processes || session->stopped, ATTUNE_INVALID_ARGUMENT,
               "process %d: the session has ended", session->processes);
    AT_FORWARD(executor->start(executor->self, session->processes));
    for (int mode = 0; mode < AT_MODE_COUNT && !session->stopped; ++mode) {
        if (session->policy.modes >> mode & 1U) {
            AT_FORWARD(run_mode(session, executor, (at_mode)mode));
        }
    }
    mark_disturbed(session, executor);
    ++session->processes;
    return ATTUNE_OK;
}

attune_status at_session_run(at_session *session, at_executor *executor)
{
    while (session->processes < session->policy.processes && !session->stopped) {
        executor->loaded_s = 0;
        AT_FORWARD(at_session_process(session, executor));
    }
    return ATTUNE_OK;
}
