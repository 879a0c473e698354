/* The worker's side of the gate: a process that holds one device and all arms, and does what it is asked over its
 * standard input and output until a request to quit. It decides nothing: what is right, how long to measure and what
 * follows are its parent's.
 *
 * Ops are rows of tables; a room of the gate that has more to ask of a worker adds a table (worker.c lists them). */
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include "library/bind.h"
#include "library/context.h"
#include "wire/serve.h"
#include "worker/candidate.h"
#include "worker/filling.h"

/* One arm, opened for one problem. */
typedef struct at_worker_arm {
    char *name;
    attune_problem problem;
    attune_arm arm;
    at_candidate candidate; /* what a stranger's kernel was loaded from */
    at_loaded *late_loaded; /* code with delays, which runs instead, and its plan; NULL: there is none */
    attune_plan *late;
} at_worker_arm;

typedef struct at_worker {
    attune_context *context; /* from "open" on, and the device is its */
    at_device *device;
    unsigned char *arena; /* shared with the parent; NULL: none */
    size_t arena_bytes;
    at_worker_arm **arm; /* NULL where one was dropped */
    size_t arm_count, arm_room;
    const attune_arm_hooks *hooks; /* what a program adds to a worker; may be NULL */
    at_candidate_code candidate_code;
    at_filling filling;
    bool fences; /* the next call's buffers (fence.c) */
    void *stage; /* the executor's, from "stage" to "unstage" */
    at_server server;
} at_worker;

/* Does what a request asks and adds what it found to `answer`, an empty object. */
typedef attune_status (*at_worker_run)(at_worker *worker, const json_t *request, json_t *answer);

typedef struct at_worker_op {
    const char *name; /* NULL ends a table */
    bool needs_device;
    at_worker_run run;
} at_worker_op;

/* Serves requests from `in` to `out` until "quit" or the end of `in`; answers nothing else there. The arena, if its
 * parent gave one, is descriptor AT_ARENA_FD. Fails where a line cannot be read or written. (attune_worker_serve is the
 * same on standard input and output, which it moves away first, so that what libraries print cannot break the
 * protocol.)
 */
attune_status at_worker_serve(int in, int out, const attune_arm_hooks *hooks);

/* The arm that a request's field names. */
attune_status at_worker_arm_of(const at_worker *worker, const json_t *request, const char *key, at_worker_arm **arm);
/* `bytes` of the arena from field "at" on; ATTUNE_INVALID_ARGUMENT where it is not so large. */
attune_status at_worker_arena(const at_worker *worker, const json_t *request, size_t bytes, unsigned char **data);
#endif
