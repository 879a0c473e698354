/* A session: one problem, all arms against each other, in several fresh processes. The session holds the clock's policy
 * and every raw sample; an executor does what it is asked. The verdict's statistics are in ratio.h; docs/measuring.md
 * says why it is done this way.
 *
 * A block is a random permutation of the arms and its reverse (order.h), so that it holds two samples of each arm. A
 * sample is one batch of calls timed together (a replayed graph, on CUDA); its time is that of one call. */
#ifndef MEASURE_SESSION_H
#define MEASURE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attune/attune.h"
#include "measure/clock.h"

enum {
    AT_SESSION_ARMS_MAX = 16, /* candidates, peers and the control's twin together */
    AT_SESSION_PROCESSES_MAX = 64
};

/* What the caches hold and how hard the machine is driven. */
typedef enum at_mode {
    AT_MODE_WARM = 0, /* one set of buffers, no pauses: the mode that is judged */
    AT_MODE_COLD,     /* sets of three times the caches in turn, no pauses */
    AT_MODE_RESTED, /* warm, in bursts of at most 5 ms with pauses between them: what a lightly loaded machine gives */
    AT_MODE_COUNT
} at_mode;

const char *at_mode_name(at_mode mode);

/* ---- Policy ---------------------------------------------------------------------------------------------------- */

typedef struct at_session_policy {
    int processes;       /* fresh worker processes; the interval rests on their number */
    int pairs;           /* samples of each arm, mode and process; 0: by the peer's time (at_session_pairs) */
    double warmup_s;     /* alternating arms at least so long in a fresh process */
    double warmup_max_s; /* and no longer, settled or not */
    double drift;        /* the warm-up ends when its times drift by less than this share */
    double sustained_s;  /* a process works warm for at least so long, its warm-up included */
    unsigned modes;      /* bits 1 << at_mode; warm is always there */
    double must;         /* r is held against 1 / must: 0.95 asks for 1.0526 */
    double hopeless;     /* a candidate this many times slower than a peer may be stopped early: */
    int hopeless_pairs;  /* after so many pairs of the first process, a fifth of them if twice as slow again */
    double dropped_most; /* a larger share of dropped blocks leaves a session inconclusive */
    double floor_us[AT_MODE_COUNT]; /* a shorter time is impossible (at_floor_us); 0: not known */
    uint64_t seed;                  /* of orders, of input sets, and of nothing else */
    bool quick;                     /* fewer processes and samples: says so in evidence and never suffices for wisdom */
    bool cold_decides;              /* r's cold interval, not the warm one, is held against 1 / must (decoding) */
    bool twin_by_reach;             /* an A/A that does not hold counts only where it could reach the bound (speed.h) */
} at_session_policy;

/* What a verdict takes: 8 processes, pairs by time, warm-up of 1 to 5 s to 0.5 %, 2 s sustained, warm and cold, must
 * 0.95. */
void at_session_policy_init(at_session_policy *policy, uint64_t seed);
/* A tenth of the time, for someone at work: 3 processes, 40 pairs, warm-up of 0.2 to 0.5 s, warm and cold. */
void at_session_policy_quick(at_session_policy *policy, uint64_t seed);
/* Pairs in each process for a peer's call of so many microseconds: 400 up to 20, 200 up to 200, 100 up to 2000, 40 up
 * to 10,000, then 20; modes that are not judged by an interval take a quarter, cold 50 and rested 40 at most. Sized by
 * the fastest peer, never by how the candidate is doing; where an executor's samples last longer than a call, by those.
 */
int at_session_pairs(const at_session_policy *policy, at_mode mode, double peer_us);

/* ---- Arms ------------------------------------------------------------------------------------------------------ */

typedef enum at_arm_part { AT_PART_CANDIDATE = 0, AT_PART_PEER, AT_PART_TWIN } at_arm_part;

/* What part an arm has in a session, which is all that evidence keeps of it; the arm itself (arm.h) is where it runs.
 */
typedef struct at_session_part {
    const char *name; /* belongs to whoever runs the session */
    at_arm_part part;
    int twin_of; /* AT_PART_TWIN: the arm that it repeats; the ratio of the two must be 1 */
} at_session_part;

/* ---- Executor -------------------------------------------------------------------------------------------------- */

/* What staging found. */
typedef struct at_staged {
    int calls[AT_SESSION_ARMS_MAX]; /* in one sample of each arm */
    int wrong[AT_SESSION_ARMS_MAX]; /* with ATTUNE_WRONG_RESULT: 1 for the arm whose outputs were, before any was timed
                                     */
} at_staged;

/* One block to run: `count` arms in this order, two of each. */
typedef struct at_block_order {
    const int *arm;
    int count;
    uint64_t set;    /* which inputs the block's samples use: secret, from the session's seed */
    double pause_us; /* after each sample (rested); else 0 */
} at_block_order;

/* Why a device ran slower than it could. */
enum {
    AT_THROTTLE_POWER = 1 << 0,    /* at its power limit: what a sustained load meets, recorded and not dropped */
    AT_THROTTLE_THERMAL = 1 << 1,  /* too hot: dropped */
    AT_THROTTLE_HARDWARE = 1 << 2, /* slowed down or braked by hardware: dropped */
    AT_THROTTLE_OTHER = 1 << 3,    /* another process ran on the device: dropped */
    AT_THROTTLE_COMPANY = 1 << 4   /* others worked on the processors: not dropped, and too many leave no pass */
};

/* One block, as measured. */
typedef struct at_block {
    at_mode mode;
    int process;
    double us[AT_SESSION_ARMS_MAX][2]; /* of one call: the first and the second sample of each arm */
    int wrong[AT_SESSION_ARMS_MAX];    /* timed calls of an arm whose output was not the validated one */
    int sm_mhz, power_w;               /* during the block; 0: not known */
    unsigned throttle;                 /* bits above */
} at_block;

/* One arm by two clocks: events on the device, and the wall clock's slope between so many samples and twice as many. On
 * a CPU: wall time of a call, and the process's CPU time of a call / threads. */
typedef struct at_two_clocks {
    int process, arm;
    double us, slope_us;
} at_two_clocks;

/* Drives workers. Arms are numbered as in the session. Any failure ends the session; a worker that died or hung says so
 * in the detail. */
typedef struct at_executor {
    void *self;
    at_clock clock;   /* the parent's, for warm-up; simulated in tests */
    double sample_us; /* samples last at least so long, of however many calls: fewer of them are needed then; or 0 */
    double loaded_s;  /* for how long the process was at work, all its sessions together; kept by them */
    /* A fresh process with all arms opened and the problem's inputs in place; in processes of odd numbers the arms'
     * buffers are made in reverse order. Nothing to do where that process runs already, for a problem before this one.
     */
    attune_status (*start)(void *self, int process);
    /* Buffers and graphs of a mode. */
    attune_status (*stage)(void *self, at_mode mode, at_staged *staged);
    /* Fills in times, wrong outputs, clocks and throttle reasons. */
    attune_status (*block)(void *self, const at_block_order *order, at_block *block);
    /* Over a time of about so many microseconds; an executor of samples that last (sample_us) reads one of those. */
    attune_status (*two_clocks)(void *self, int arm, double stretch_us, at_two_clocks *clocks);
    attune_status (*unstage)(void *self);
    /* Whether others were at work on the same processors while this process's part ran; NULL: that is not looked at. */
    bool (*disturbed)(void *observer);
    void *observer;
} at_executor;

/* ---- Session --------------------------------------------------------------------------------------------------- */

typedef struct at_session {
    at_session_policy policy;
    at_session_part arm[AT_SESSION_ARMS_MAX];
    int arm_count;
    int processes;                                 /* finished */
    int pairs[AT_MODE_COUNT];                      /* in each process; 0: not known yet */
    int calls[AT_MODE_COUNT][AT_SESSION_ARMS_MAX]; /* in a sample */
    at_block *block;                               /* all of them, dropped ones too, in order of time */
    size_t block_count, block_room;
    at_two_clocks *clocks;
    size_t clocks_count, clocks_room;
    double warmup_s[AT_SESSION_PROCESSES_MAX]; /* what it took */
    bool settled[AT_SESSION_PROCESSES_MAX];    /* whether the warm-up ended by itself */
    int wrong[AT_SESSION_ARMS_MAX]; /* calls of each arm with a wrong output, timed or before, which ended the session
                                     */
    bool stopped;                   /* every candidate was hopeless: the session ended early and can only fail */
} at_session;

/* Copies policy and arms (names stay the caller's). Candidates and peers make the pairs; a twin makes the control.
 * ATTUNE_INVALID_ARGUMENT names what is out of range. */
attune_status at_session_open(const at_session_policy *policy, const at_session_part *arms, int arm_count,
                              at_session *session);
/* The part of the session that process number session->processes runs: warm-up, two clocks, the blocks of each mode.
 * Call it until session->processes reaches the policy's or `stopped` is set; between the calls others may use the
 * executor's processes for their problems. ATTUNE_WRONG_RESULT when a timed output was wrong, ATTUNE_INTERRUPTED on an
 * interrupt; what was measured stays. */
attune_status at_session_process(at_session *session, at_executor *executor);
/* Starts all processes and runs their parts. */
attune_status at_session_run(at_session *session, at_executor *executor);
/* Adds what was measured, also as read from evidence. */
attune_status at_session_add(at_session *session, const at_block *block);
attune_status at_session_add_clocks(at_session *session, const at_two_clocks *clocks);
void at_session_close(at_session *session);

/* Whether the block counts: nothing but its power limit, or company, slowed the device. */
bool at_block_counts(const at_block *block);

#endif
