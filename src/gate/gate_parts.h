/* What the files of the gate share. */
#ifndef GATE_GATE_PARTS_H
#define GATE_GATE_PARTS_H

#include "base/threads.h"
#include "gate/gate.h"
#include "gate/remote.h"
#include "measure/clock.h"

enum { AT_GATE_PEERS = 12 };

/* A peer, looked at once for each problem. */
typedef struct at_gate_peer {
    char name[AT_KERNEL_TEXT_MAX];
    char account[AT_SENTENCE_MAX]; /* why it cannot run, where it cannot */
    uint32_t traits;
    bool runs;
} at_gate_peer;

typedef struct at_gate {
    const at_gate_options *options;
    at_pool *pool; /* for references */
    at_clock clock;
    int64_t began_ns;
    at_device *judge; /* where candidates are looked at, opened when needed; NULL after they spoilt it */
    at_device *court; /* where peers are, likewise */
    attune_target target;
    int version_count;
    at_version version[AT_VERDICT_VERSIONS];
} at_gate;

/* One candidate on one problem. */
typedef struct at_gate_entry {
    const char *candidate;
    const attune_problem *problem;
    at_verdict *verdict;
} at_gate_entry;

/* Seconds since the gate began. */
double at_gate_seconds(const at_gate *gate);
/* Whether the caller wants to stop. */
bool at_gate_stopped(const at_gate *gate);
void at_gate_note(const at_gate *gate, const char *format, ...) __attribute__((format(printf, 2, 3)));
void at_gate_progress(const at_gate *gate, const char *doing, double done);

/* A worker for candidates, for peers; opened if there is none. What is spoilt is closed by at_gate_settle. */
attune_status at_gate_judge(at_gate *gate, at_device **device);
attune_status at_gate_court(at_gate *gate, at_device **device);
void at_gate_settle(at_gate *gate);
void at_gate_close_workers(at_gate *gate);
/* Whether an arm is one that only the fetcher's worker has. */
bool at_gate_is_foreign(const char *arm);
/* Whether any of the peers is. */
bool at_gate_wants_fetcher(const at_gate *gate);
/* How to start a worker that has all the peers. */
void at_gate_remote_options(const at_gate *gate, bool with_peers, at_remote_options *options);

/* Says what the machine is, and fails where it cannot be used. */
attune_status at_gate_preflight(at_gate *gate);
/* Takes a candidate from build to correctness. An error is the machine's or the caller's wish. */
attune_status at_gate_right(at_gate *gate, const at_gate_entry *entry);
/* Which peers run on a problem, and whether what they compute is right. */
attune_status at_gate_peers(at_gate *gate, const attune_problem *problem, at_gate_peer peers[AT_GATE_PEERS],
                            int *count);
/* Times those candidates of a problem that are right against its peers. */
attune_status at_gate_speed(at_gate *gate, const at_gate_entry *entries, int count, const at_gate_peer *peers,
                            int peer_count);

/* Runs a stage: `work` does what it does for the verdict; its failure is recorded as the stage's. Judges the verdict
 * and tells the watcher. Returns errors that are not the candidate's. */
typedef attune_status (*at_gate_work)(at_gate *gate, const at_gate_entry *entry);
attune_status at_gate_stage(at_gate *gate, const at_gate_entry *entry, at_stage stage, at_gate_work work);

#endif
