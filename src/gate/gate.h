/* The gate: is this kernel right, and really faster? Takes candidates and problems through the stages build, launch,
 * sanity, correctness and speed, each candidate's ending at its first failure, and says what was seen as verdicts.
 *
 * Nothing here touches a device or a candidate's code: that is done in workers. docs/gate.md is the guide. */
#ifndef GATE_GATE_H
#define GATE_GATE_H

#include "core/problem.h"
#include "judge/verdict.h"

/* Called with what happens; any of them may be NULL. */
typedef struct at_gate_watch {
    void *self;
    void (*machine)(void *self, const char *what, const char *found);     /* pre-flight, one finding at a time */
    void (*problem)(void *self, const char *problem);                     /* its candidates follow */
    void (*candidate)(void *self, const at_verdict *verdict);             /* its stages follow */
    void (*stage)(void *self, const at_verdict *verdict, at_stage stage); /* ended, and judged */
    void (*verdict)(void *self, const at_verdict *verdict);               /* all of it is there */
    void (*note)(void *self, const char *text);                           /* anything else worth a line */
    void (*progress)(void *self, const char *doing, double done);         /* 0 ... 1 of a stage */
    bool (*stop)(void *self);
    void *keeper;
    void (*keep)(void *keeper, const at_verdict *verdict); /* of each pair: the new one, or that of earlier evidence */
} at_gate_watch;

/* How sessions are timed instead of by workers; for tests. */
typedef struct at_gate_timing at_gate_timing;

typedef struct at_gate_options {
    const char *const *candidate; /* kernel texts */
    int candidate_count;
    bool paired; /* candidate i is judged on problem i alone, instead of each on all */
    const at_test_problem *problem;
    int problem_count;
    const char *const *peer; /* names; "best" means all of PyTorch's back ends that run */
    int peer_count;
    double must;
    int64_t cases;
    uint64_t seed;
    bool quick;
    bool counters;
    bool sanitize;        /* candidates also run below compute-sanitizer, where that is; the library's own CUDA kernels
                             do so wherever there is `evidence` */
    bool again;           /* judge anew what has fresh evidence already */
    double limit_s;       /* begin nothing that would end later; 0: no limit */
    const char *evidence; /* a directory; NULL: nothing is kept */
    const char *wisdom;   /* a file that proven rows are added to; NULL: none */
    const char *target, *isa;
    int threads;                  /* 0: all */
    int lanes;                    /* problems judged side by side; 0: as many as the host has cores for */
    double patience_s;            /* for one launch, or one answer of a descriptor; 0: 10 s */
    const char *const *worker;    /* the command that starts a worker, ends with NULL */
    bool own_arms;                /* it is a program with arms of its own, whose names nobody here knows */
    const char *const *python;    /* the one for arms of PyTorch; NULL: there is none */
    const at_gate_timing *timing; /* NULL: by workers */
    at_gate_watch watch;
} at_gate_options;

/* What came of it. */
typedef struct at_gate_result {
    bool begun; /* what is asked for can be: names are known, places can be written to, there is a machine */
    int passed, failed, inconclusive, not_run; /* verdicts, those known too, by their exit codes */
    int known;                                 /* of these, those that fresh evidence had already */
    int faster;                                /* verdicts whose candidate is faster, each asked by itself, */
    int faster_among;                          /* and how many of these where it is asked whether any is (Holm) */
    int left;                                  /* (candidate, problem) pairs that the limit left over */
    int exit_code; /* 0 pass, 1 fail, 2 inconclusive, 3 could not run, 4 unfinished: the limit left some */
} at_gate_result;

/* ATTUNE_OK when the gate ran, whatever it found. Errors are the caller's (a kernel, an arm or a target that is not
 * there, a place that cannot be written to), all of them before `begun`; the machine's; or ATTUNE_INTERRUPTED. Verdicts
 * that were finished before have been reported and kept. */
attune_status at_gate_run(const at_gate_options *options, at_gate_result *result);

/* What ncu says of one call of a candidate, on the first problem: of the options the candidate, the worker and the seed
 * are read. Where that is not to be had `why_not` says why, with ATTUNE_OK. */
attune_status at_gate_count(const at_gate_options *options, const attune_target *target, at_counters *counters);

/* Whether there can be peers of these names, before anything is done for them; "best" is one. */
attune_status at_gate_check_peers(const char *const *peer, int count, bool own_arms);

#endif
