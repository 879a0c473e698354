/* A worker process and the line to it: started by exec, asked with a deadline, ended when it does not answer.
 *
 * The worker finds the line as its standard input and output, and shared memory (the arena) as descriptor
 * AT_ARENA_FD. What it writes to standard error is kept, the last part of it, for whoever must explain its end. A
 * worker that died, hung or broke the protocol is gone: the channel is then dead, every further question says why, and
 * a new one must be opened. */
#ifndef WIRE_CHANNEL_H
#define WIRE_CHANNEL_H

#include <stdbool.h>

#include "wire/protocol.h"

enum { AT_ARENA_FD = 3, AT_LAST_WORDS_MAX = 16 << 10 };

typedef struct at_channel at_channel;

typedef struct at_channel_options {
    const char *const *command; /* words, ends with NULL; the first is searched for in PATH where it has no slash */
    size_t arena_bytes;         /* 0: none */
} at_channel_options;

/* Starts the process and waits for nothing. Close with at_channel_close. */
attune_status at_channel_open(const at_channel_options *options, at_channel **channel);
/* Asks the worker to quit, waits a moment, ends it and reaps it. NULL is fine. */
void at_channel_close(at_channel *channel);

/* Sends a request and waits for its answer, at most `seconds`. Takes `fields` over (NULL: none). What the worker failed
 * with is returned as its status and detail; release *ok (may be NULL: not wanted) with json_decref. A worker that did
 * not answer, ended or answered rubbish: ATTUNE_DEVICE_ERROR, and the channel is dead. ATTUNE_INTERRUPTED after
 * at_file_interrupt, likewise. */
attune_status at_channel_ask(at_channel *channel, const char *op, json_t *fields, double seconds, json_t **ok);
/* The worker's process; 0 when it is gone. */
int at_channel_process(const at_channel *channel);
/* Why the channel is dead; NULL while it is alive. */
const char *at_channel_death(const at_channel *channel);

/* The memory that both sides map; NULL where there is none. */
unsigned char *at_channel_arena(const at_channel *channel, size_t *bytes);
/* What the worker last wrote to its standard error. Belongs to the channel, valid until its next use. */
const char *at_channel_last_words(const at_channel *channel);

#endif
