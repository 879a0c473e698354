/* A verdict: everything that was seen of a candidate on one problem, and what follows from it. The gate fills in what
 * was seen; at_verdict_judge derives every finding from it alone, for the gate and for `attune verify` alike, so that a
 * file of evidence can be judged again by whoever doubts it.
 *
 * r = peer's time / candidate's time everywhere: above 1 the candidate is faster. Times are microseconds a call. */
#ifndef GATE_VERDICT_H
#define GATE_VERDICT_H

#include "base/digest.h"
#include "core/config.h"
#include "core/target.h"
#include "gate/suite.h"
#include "measure/ratio.h"

enum {
    AT_VERDICT_ARMS = 12,     /* the candidate, its peers, and arms for controls */
    AT_VERDICT_MODES = 4,     /* warm, cold, rested, and one to spare */
    AT_VERDICT_VERSIONS = 16, /* programs and libraries that took part */
    AT_VERDICT_CONTROLS = 8,
    AT_VERDICT_COUNTERS = 32,
    AT_VERDICT_STALLS = 6,
    AT_SENTENCE_MAX = 512
};

/* ---- Findings ---------------------------------------------------------------------------------------------------- */

typedef enum at_stage {
    AT_STAGE_BUILD = 0,
    AT_STAGE_LAUNCH,
    AT_STAGE_SANITY,
    AT_STAGE_CORRECTNESS,
    AT_STAGE_SPEED,
    AT_STAGE_COUNT
} at_stage;

/* What a stage showed, in words for a person; `look` says what to look at, "" where nothing is wrong. */
typedef struct at_stage_finding {
    at_outcome outcome;
    char sentence[AT_SENTENCE_MAX];
    char look[AT_SENTENCE_MAX];
} at_stage_finding;

/* ---- What was seen ----------------------------------------------------------------------------------------------- */

/* A program or library that took part: "attune" "0.1.0", "nvrtc" "13.0", "pytorch" "2.11.0+cu130". */
typedef struct at_version {
    char name[24];
    char text[96];
} at_version;

/* How the candidate was made. Digests are SHA-256 in hex, "" where there is nothing of the kind. */
typedef struct at_build_facts {
    char source[AT_DIGEST_TEXT_MAX]; /* CUDA: of source, headers and options (at_build); CPU: of the source's text */
    char cubin[AT_DIGEST_TEXT_MAX];  /* CUDA: of the code as it was loaded */
    char compiler[96];               /* "nvrtc 13.0", "gcc 12.2.0" */
    int32_t threads, registers, smem_bytes, local_bytes; /* CUDA: as at_cuda_usage has them, the worst entry's */
    int32_t spill_bytes, warnings, blocks_sm;
    int64_t workspace_bytes; /* of a call of the problem's sizes */
} at_build_facts;

/* One stage as it went. */
typedef struct at_stage_run {
    bool ran;
    attune_status status; /* how it ended; ATTUNE_WRONG_RESULT: a rule was broken; others as the failing step said */
    char detail[AT_SENTENCE_MAX]; /* what went wrong; after ATTUNE_OK what was looked at: "two poisons, guard bands" */
    char look[AT_SENTENCE_MAX];   /* what to look at after a failure: a file, a command; may be "" */
    double seconds;
} at_stage_run;

/* Something that was timed. */
typedef struct at_arm_facts {
    char name[AT_KERNEL_TEXT_MAX]; /* as given: "cudnn", "torch:flash", "py:FILE:FUNCTION", a kernel's text */
    char detail[AT_SENTENCE_MAX];  /* versions, digests, the engine chosen; why it could not run */
    attune_status status;          /* ATTUNE_OK, or why it could not run */
    bool peer;                     /* the candidate must beat it; neither candidate nor a control's arm */
    bool nondeterministic;         /* its timed outputs are compared within a tolerance */
} at_arm_facts;

/* One worker process in one mode. Samples 2 b and 2 b + 1 of an arm are those of block b, as at_samples has them. */
typedef struct at_process_record {
    int64_t blocks;                   /* timed, dropped ones included */
    double *us[AT_VERDICT_ARMS];      /* 2 * blocks of them, NULL for arms that did not run; malloced */
    int32_t *sm_mhz;                  /* a block; NULL or 0 where the clock is not known; malloced */
    uint8_t *dropped;                 /* a block: 1 where the device throttled; NULL: none; malloced */
    double wall_us[AT_VERDICT_ARMS];  /* the second clock's time a call; 0 where it was not taken */
    double event_us[AT_VERDICT_ARMS]; /* and the first clock's at the same replays */
    int64_t outputs[AT_VERDICT_ARMS]; /* timed outputs compared afterwards, */
    int64_t wrong[AT_VERDICT_ARMS];   /* and of those the wrong ones */
} at_process_record;

typedef struct at_mode_record {
    char name[16];              /* "warm", "cold", "rested" */
    int64_t calls;              /* in a timed graph */
    double floor_us;            /* no right kernel is faster here (FLOPs or bytes over the device's peak); 0: unknown */
    bool stopped;               /* ended early: the candidate could only fail */
    int32_t process_count;      /* fresh worker processes */
    at_process_record *process; /* malloced */
} at_mode_record;

/* A check of the instrument in this very session. */
typedef struct at_control {
    char name[16]; /* "wrong kernel", "label swap" or "A/A": the last two are derived from samples */
    bool ran;
    attune_status status; /* "wrong kernel": how its trial ended; ATTUNE_WRONG_RESULT is what should come */
    char detail[AT_SENTENCE_MAX];
    int32_t arm, twin; /* "A/A": two arms that are the same thing */
    /* Derived. */
    at_outcome outcome;
    at_interval ratio;
} at_control;

typedef struct at_counter {
    char name[32]; /* "tensor_pipe_percent", "dram_read_bytes"; src/gate/counters.h lists them */
    double value;
} at_counter;

/* What the hardware's counters said of one launch; for diagnosis, never part of a finding. */
typedef struct at_counters {
    bool asked;
    char why_not[AT_SENTENCE_MAX]; /* asked for, and not to be had; else "" */
    int32_t count;
    at_counter counter[AT_VERDICT_COUNTERS];
    int32_t stalls;
    at_counter stall[AT_VERDICT_STALLS]; /* reasons for not issuing, worst first, percent of samples */
    char diagnosis[AT_SENTENCE_MAX];
} at_counters;

/* ---- What follows ------------------------------------------------------------------------------------------------ */

/* The candidate against one arm in one mode. */
typedef struct at_comparison {
    bool known;                   /* both were timed: the rest is filled in */
    double candidate_us, peer_us; /* medians over all samples kept */
    double ratio;                 /* peer_us / candidate_us */
    at_interval r;                /* log-ratio a block, mean a process, Student's t over processes; 95 % */
    at_interval difference_us;    /* candidate's median - peer's median, 10,000 bootstrap resamples; 95 % */
} at_comparison;

/* "faster" than one arm: judged warm, with the cold median ratio at least 1. */
typedef struct at_faster {
    at_outcome outcome;
    char sentence[AT_SENTENCE_MAX];
    at_comparison mode[AT_VERDICT_MODES]; /* in the order of the verdict's modes */
} at_faster;

typedef struct at_verdict_options {
    double must;   /* r >= 1 / must; 0.95 unless asked for otherwise */
    int64_t cases; /* of the suite */
    uint64_t seed;
    bool quick; /* a first impression: never enough for wisdom */
} at_verdict_options;

typedef struct at_verdict {
    /* Who and where. */
    char kernel[AT_KERNEL_TEXT_MAX]; /* "NAME:PARAM=VALUE,..." with every parameter */
    char problem[ATTUNE_PROBLEM_TEXT_MAX];
    char when[24]; /* UTC: "2026-11-21T09:30:00Z" */
    uint32_t traits;
    bool stranger; /* judged from a directory; not one of the library's kernels */
    at_verdict_options options;
    attune_target target;
    int32_t version_count;
    at_version version[AT_VERDICT_VERSIONS];

    /* What was seen. */
    at_build_facts build;
    at_stage_run stage[AT_STAGE_COUNT];
    at_suite_result suite;
    int32_t arm_count; /* arm 0 is the candidate */
    at_arm_facts arm[AT_VERDICT_ARMS];
    int32_t mode_count;
    at_mode_record mode[AT_VERDICT_MODES];
    int32_t control_count;
    at_control control[AT_VERDICT_CONTROLS];
    at_counters counters;

    /* What follows: by at_verdict_judge. */
    at_stage_finding finding[AT_STAGE_COUNT];
    at_faster faster[AT_VERDICT_ARMS]; /* of those arms that are peers */
    at_outcome right;                  /* build, launch, sanity, correctness, and every timed output */
    at_outcome fast;                   /* faster than every peer */
} at_verdict;

/* A verdict with nothing in it, about 100 KB; free with at_verdict_destroy, its samples too. */
attune_status at_verdict_create(at_verdict **verdict);
void at_verdict_destroy(at_verdict *verdict);

/* Memory for `count` processes of a mode, all empty; and for one process's blocks: samples of the arms in the bit mask
 * `arms`, clocks and drops, all 0. Belong to the verdict. */
attune_status at_verdict_processes(at_mode_record *mode, int32_t count);
attune_status at_verdict_blocks(at_process_record *process, int64_t blocks, uint32_t arms);

/* Rounds every time to what a file of evidence keeps (5 significant digits, at least a nanosecond), and fills in what
 * follows from what was seen. May be called again at any time, for a verdict in the making too: stages that have not
 * run are AT_NOT_RUN. Fails for want of memory only, or with ATTUNE_INVALID_ARGUMENT where what was seen contradicts
 * itself (a time that is not positive, an arm that is not there). */
attune_status at_verdict_judge(at_verdict *verdict);

/* "build", "launch", "sanity", "correctness", "speed". */
const char *at_stage_name(at_stage stage);
/* The exit code of `attune gate`: 0 right and fast, 1 one of them failed, 2 inconclusive, 3 could not run. */
int at_verdict_exit(const at_verdict *verdict);

#endif
