/* A verdict: everything that was seen of a candidate on one problem, and what follows from it. The gate fills in what
 * was seen; at_verdict_judge derives every finding from it alone, for the gate and for `attune verify` alike, so that a
 * file of evidence can be judged again by whoever doubts it.
 *
 * r = peer's time / candidate's time everywhere: above 1 the candidate is faster. Times are microseconds a call. */
#ifndef JUDGE_VERDICT_H
#define JUDGE_VERDICT_H

#include "base/digest.h"
#include "core/config.h"
#include "core/target.h"
#include "judge/sanitizer.h"
#include "judge/suite.h"
#include "measure/speed.h"

enum {
    AT_VERDICT_ABSENT = 16,   /* peers that could not run */
    AT_VERDICT_VERSIONS = 16, /* programs and libraries that took part */
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
    char cubin[AT_DIGEST_TEXT_MAX];  /* CUDA: of the file as it was loaded */
    char code[AT_DIGEST_TEXT_MAX];   /* of what of it runs: at_cubin_code, at_cpu_code_digest; "" in version 1 */
    char carried[64];                /* the commit whose source, compiled again, gave `cubin` (CPU: `source`) and then
                                        `code`, where the verdict's own session recorded none; else "" */
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

/* An arm of the session, or a peer that was asked for and could not run. */
typedef struct at_arm_facts {
    char name[AT_KERNEL_TEXT_MAX]; /* at_arm_label: "cudnn", "torch:flash", "py:FILE:FUNCTION", a kernel's text */
    char account[AT_SENTENCE_MAX]; /* versions, digests, the engine chosen; of one that could not run: why */
    uint32_t traits;
} at_arm_facts;

typedef struct at_counter {
    char name[32]; /* "tensor_pipe_percent", "dram_read_bytes"; src/judge/counters.h lists them */
    double value;
} at_counter;

/* What the hardware's counters said of one launch; for diagnosis, never part of a finding. */
typedef struct at_counters {
    bool asked;
    char why_not[AT_SENTENCE_MAX]; /* asked for, and not to be had; else "" */
    int32_t count, stalls;
    at_counter counter[AT_VERDICT_COUNTERS];
    at_counter stall[AT_VERDICT_STALLS]; /* reasons for not issuing, worst first, percent of samples */
    char diagnosis[AT_SENTENCE_MAX];
} at_counters;

/* ---- What follows ------------------------------------------------------------------------------------------------ */

/* Checks of the instrument in this very session; the first three are src/measure/controls.h's. */
typedef enum at_control_kind {
    AT_CONTROL_TWIN = 0, /* A/A: an arm against itself must give 1 */
    AT_CONTROL_SWAP,     /* labels swapped, the ratio must be inverted */
    AT_CONTROL_CLOCKS,   /* two clocks must agree on every arm */
    AT_CONTROL_WRONG,    /* a kernel that is wrong on purpose must fail */
    AT_CONTROL_COUNT
} at_control_kind;

typedef struct at_control {
    at_outcome outcome; /* AT_INCONCLUSIVE where it does not hold */
    char sentence[AT_SENTENCE_MAX];
} at_control;

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
    at_session session;                    /* the candidate is arm 0 */
    at_arm_facts arm[AT_SESSION_ARMS_MAX]; /* in the session's order */
    int32_t absent_count;
    at_arm_facts absent[AT_VERDICT_ABSENT];
    at_stage_run wrong_kernel; /* the control: ATTUNE_WRONG_RESULT is what should come */
    at_counters counters;
    int32_t sanitizer_count; /* 0: nobody asked */
    at_sanitizer_finding sanitizer[AT_SANITIZER_TOOLS];

    /* What follows: by at_verdict_judge. */
    at_stage_finding finding[AT_STAGE_COUNT];
    at_speed speed[AT_SESSION_ARMS_MAX]; /* against those arms that are peers */
    at_control control[AT_CONTROL_COUNT];
    at_outcome right; /* build, launch, sanity, correctness, and every timed output */
    at_outcome fast;  /* faster than every peer */
} at_verdict;

/* A verdict with nothing in it, some 100 KB; free with at_verdict_destroy, its session too. */
attune_status at_verdict_create(at_verdict **verdict);
void at_verdict_destroy(at_verdict *verdict);

/* Copies a session, and its arms' names to `arm`; of a session that several candidates share, those `count` of its arms
 * whose numbers are in `arms`, a candidate first. `arms` NULL: all. */
attune_status at_verdict_session(at_verdict *verdict, const at_session *session, const int *arms, int count);
/* Whether an arm of the session is one that the candidate must beat. */
bool at_verdict_is_peer(const at_verdict *verdict, int arm);

/* Whether it asked for all that a verdict should: not quick, r >= 1 / 0.95 or more, 100 cases or more. */
bool at_verdict_is_earnest(const at_verdict *verdict);
/* Operations a second, in 1e12, of a call that took so long, on the lengths that were drawn for it; masked work is left
 * out where the problem alone says what is masked. NAN for a problem that is none. */
double at_verdict_tflops(const at_verdict *verdict, double us);

/* Rounds every time to what a file of evidence keeps (5 significant digits, at most to the nanosecond), and fills in
 * what follows from what was seen. May be called again at any time, for a verdict in the making too: stages that have
 * not run are AT_NOT_RUN. Fails for want of memory only, or with ATTUNE_INVALID_ARGUMENT where what was seen
 * contradicts itself (a time that is not positive, a peer that is not there). */
attune_status at_verdict_judge(at_verdict *verdict);

/* "twin", "swap", "clocks", "wrong kernel". */
const char *at_control_name(at_control_kind control);
/* "build", "launch", "sanity", "correctness", "speed". */
const char *at_stage_name(at_stage stage);
/* The exit code of `attune gate`: 0 right and fast, 1 one of them failed, 2 inconclusive, 3 could not run. */
int at_verdict_exit(const at_verdict *verdict);

#endif
