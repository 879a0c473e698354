/* What the files of the gate share. */
#ifndef GATE_GATE_PARTS_H
#define GATE_GATE_PARTS_H

#include "base/threads.h"
#include "cuda/rates.h"
#include "evidence/evidence.h"
#include "gate/gate.h"
#include "measure/clock.h"
#include "stranger/stranger.h"
#include "worker/remote.h"

enum {
    AT_GATE_PEERS = 12,
    AT_COMMAND_WORDS = 16,
    AT_GATE_BATCH = 10 /* problems that share the processes of their sessions: starting a process costs seconds, and
                          evidence is written when the problems of a batch are done */
};

/* Workers of a gate: for candidates, for peers, and for sessions, which have both. */
typedef enum at_gate_worker {
    AT_WORKER_CANDIDATES = 0,
    AT_WORKER_PEERS,
    AT_WORKER_TIMER,
    AT_WORKER_COUNT
} at_gate_worker;

/* A peer, looked at once for each problem. */
typedef struct at_gate_peer {
    char name[AT_KERNEL_TEXT_MAX];
    char account[AT_SENTENCE_MAX]; /* why it cannot run, where it cannot */
    uint32_t traits;
    bool runs;
} at_gate_peer;

/* A candidate, looked at once. */
typedef struct at_gate_candidate {
    const char *text;            /* as given */
    const attune_kernel *kernel; /* its data; NULL for a stranger that does not build */
    at_stranger *stranger;       /* NULL for the library's own */
    const char *params;          /* of a stranger */
    attune_status status;        /* why a stranger does not build */
    char detail[AT_SENTENCE_MAX];
} at_gate_candidate;

typedef struct at_gate {
    const at_gate_options *options;
    at_gate_candidate *candidate; /* as many as the options have */
    at_gate_candidate *folder;    /* peers that are strangers' folders, */
    int folder_count;             /* so many */
    const char *target_text;      /* the options', or what the candidates are for */
    at_pool *pool;                /* for references, */
    at_case_cache *cache;         /* which candidates share, */
    int prefetched;               /* and which makes ahead what these first problems need */
    at_clock clock;
    int64_t began_ns;
    at_device *candidate_worker; /* where candidates are looked at, opened when needed; NULL after they broken it */
    const at_gate_candidate *confined; /* whose CPU kernel the judge is locked for; NULL: nobody's */
    at_device *peer_worker;            /* where peers are, likewise */
    at_device *ahead[AT_WORKER_COUNT]; /* started ahead, not begun; or NULL */
    const char
        *timer[AT_COMMAND_WORDS]; /* the python's command, with the mark that its back ends have been validated */
    attune_target target;
    int version_count;
    at_version version[AT_VERDICT_VERSIONS];
    at_cuda_rates rates;
    at_evidence *known; /* of the candidates, from earlier calls */
    size_t known_count;
    int next_problem; /* the first of the next batch */
    double *chance;   /* of each verdict, that its candidate is faster by luck alone */
    int questions;
} at_gate;

/* One candidate on one problem. */
typedef struct at_gate_entry {
    const at_gate_candidate *candidate;
    const at_test_problem *test;
    at_verdict *verdict;
    const at_verdict *known; /* fresh evidence answers the same question: nothing beyond the build was done; or NULL */
} at_gate_entry;

/* One problem with its candidates and peers, which are timed together. */
typedef struct at_gate_table {
    const at_test_problem *test;
    at_gate_entry *entry;
    int count;
    at_gate_peer peer[AT_GATE_PEERS];
    int peer_count;
} at_gate_table;

/* Seconds since the gate began. */
double at_gate_seconds(const at_gate *gate);
/* Whether the caller wants to stop. */
bool at_gate_stopped(const at_gate *gate);
void at_gate_note(const at_gate *gate, const char *format, ...) __attribute__((format(printf, 2, 3)));
void at_gate_progress(const at_gate *gate, const char *doing, double done);

/* Finds the candidates and the target. Close also after an error. */
attune_status at_gate_candidates_open(at_gate *gate);
void at_gate_candidates_close(at_gate *gate);
/* The peer of this name that is a stranger's folder; NULL for other peers. */
const at_gate_candidate *at_gate_peer_folder(const at_gate *gate, const char *name);
/* Whether it needs a worker of its own, locked before its code is there. */
bool at_gate_is_confined(const at_gate_candidate *candidate);
attune_status at_gate_plan(const at_gate_candidate *candidate, at_device *device, const attune_problem *problem,
                           attune_plan **plan);

/* A worker for a candidate (NULL: any of the library's), for peers; opened if there is none. What is broken is closed
 * by at_gate_close_broken. */
attune_status at_gate_candidate_worker(at_gate *gate, const at_gate_candidate *candidate, at_device **device);
attune_status at_gate_peer_worker(at_gate *gate, at_device **device);
void at_gate_close_broken(at_gate *gate);
void at_gate_close_workers(at_gate *gate);
/* Those that were started and never asked. */
void at_gate_close_ahead(at_gate *gate);
/* Whether any of the peers is. */
bool at_gate_wants_python(const at_gate *gate);
/* How to start a worker. */
void at_gate_remote_options(const at_gate *gate, at_gate_worker which, at_remote_options *options);

/* Starts an interpreter that will be asked for, unless one has been. */
attune_status at_gate_start_ahead(at_gate *gate, at_gate_worker which);
/* One that was started ahead, or a new one. */
attune_status at_gate_open_worker(at_gate *gate, at_gate_worker which, const at_remote_options *options,
                                  at_device **worker);
/* Has made ahead what the problems before `end` will need. */
attune_status at_gate_prefetch(at_gate *gate, int end);
/* The cache's scope of what judging or timing a problem needs. */
int at_gate_cache_scope(int index, bool timed);

/* Takes a problem's candidates from build to correctness, and finds its peers where anyone's time is wanted. */
attune_status at_gate_judge_problem(at_gate *gate, const at_test_problem *test, at_gate_table *table);
/* How many problems can be judged side by side, and so they are: those from gate->next_problem on. */
int at_gate_lanes(const at_gate *gate, int problems);
attune_status at_gate_judge_side_by_side(at_gate *gate, at_gate_table *tables, int count);

/* Says what the machine is, and fails where it cannot be used. */
attune_status at_gate_preflight(at_gate *gate);
/* Takes a candidate from build to correctness. An error is the machine's or the caller's wish. */
attune_status at_gate_right(at_gate *gate, at_gate_entry *entry);
/* Whether a candidate that is right goes below compute-sanitizer, too. */
bool at_gate_wants_sanitizer(const at_gate *gate, const at_gate_entry *entry);
/* Runs small cases of a candidate below compute-sanitizer, notes what is reported and fills it in in the verdict:
 * ATTUNE_WRONG_RESULT where that is the candidate's fault. Where there is none, the verdict says so. */
attune_status at_gate_sanitize(const at_gate *gate, const at_gate_entry *entry);
/* Asks the hardware's counters about one call of a candidate; where they are not to be had the verdict says why. */
attune_status at_gate_counters(const at_gate *gate, const at_gate_entry *entry);
/* Fills in which peers run on a table's problem, and whether what they compute is right. */
attune_status at_gate_peers(at_gate *gate, at_gate_table *table);
/* Times those candidates of the tables that are right against their peers, in processes that the tables share. */
attune_status at_gate_speed(at_gate *gate, at_gate_table *tables, int count);

/* Evidence of earlier calls, read where there is some. at_gate_find_known: the newest that has the same
 * kernel, build, problem, target, options, policy and peers, where its findings follow from its samples; or NULL. */
attune_status at_gate_read_known(at_gate *gate);
void at_gate_forget_known(at_gate *gate);
attune_status at_gate_find_known(const at_gate *gate, const at_verdict *verdict, const at_verdict **known);
/* Keeps a verdict as evidence, where that is wanted. */
attune_status at_gate_keep(const at_gate *gate, const at_verdict *verdict);
/* Adds a proven row for the fastest of a table's candidates that are right, where that is wanted. */
attune_status at_gate_learn(const at_gate *gate, const at_gate_table *table);

/* Adds one verdict to the questions that were asked. Who asks many kernels, or about many problems, whether any is
 * faster, is lucky more often than who asks one: at_gate_weigh says how many of those that are still are by that. */
attune_status at_gate_question(at_gate *gate, const at_verdict *verdict);
attune_status at_gate_weigh(const at_gate *gate, at_gate_result *result);

/* Runs a stage: `work` does what it does for the verdict; its failure is recorded as the stage's. Judges the verdict
 * and calls the watcher. Returns errors that are not the candidate's. */
typedef attune_status (*at_gate_work)(at_gate *gate, const at_gate_entry *entry);
attune_status at_gate_stage(at_gate *gate, const at_gate_entry *entry, at_stage stage, at_gate_work work);

/* The end of it: records how a stage went. */
attune_status at_gate_end_stage(at_gate *gate, const at_gate_entry *entry, at_stage stage, attune_status status,
                                const char *detail, double seconds);

#endif
