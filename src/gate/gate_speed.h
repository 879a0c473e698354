/* How sessions are timed: by workers, or in tests by a machine made of numbers. */
#ifndef GATE_GATE_SPEED_H
#define GATE_GATE_SPEED_H

#include "gate/gate_parts.h"

/* One session: a candidate, the peers that run, and the twin of the first peer. Each candidate has its own, so that one
 * that is hopeless ends its session early, and one that fails in front of the clock breaks nothing for others; their
 * processes they share. */
typedef struct at_gate_bench {
    at_gate_table *table;
    at_session session;
    at_session_part arm[AT_SESSION_ARMS_MAX];
    int arm_count;
    const at_gate_entry *entry;
    double seconds;
    attune_status status; /* how its session ended */
    char detail[AT_SENTENCE_MAX];
    void *run_state; /* the timing's own; NULL at first */
    void (*close_run)(void *run_state);
} at_gate_bench;

/* Makes executors for benches, whose processes are shared. */
struct at_gate_timing {
    void *self;
    /* An executor for the next part of this bench. Belongs to the timing. */
    attune_status (*open)(void *self, at_gate *gate, at_gate_bench *bench, at_executor *executor);
    /* The part has ended, so or so. */
    void (*leave)(void *self, attune_status status);
    /* No bench has more to do in this process. */
    void (*end_process)(void *self);
    void (*close)(void *self);
};

/* By workers. */
attune_status at_gate_timing_workers(at_gate *gate, at_gate_timing *timing);
/* As the gate's options want it. */
attune_status at_gate_timing_open(at_gate *gate, at_gate_timing *timing);

#endif
