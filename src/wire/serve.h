/* The answering side of the protocol: reads requests, has them answered, until asked to stop. */
#ifndef WIRE_SERVE_H
#define WIRE_SERVE_H

#include <stdbool.h>

#include "wire/protocol.h"

typedef struct at_server {
    void *self;
    /* Does what a request asks and adds what it found to `answer`, an empty object. */
    attune_status (*handle)(void *self, const at_request *request, json_t *answer);
    bool quits; /* set by `handle`: the answer to this request is the last */
} at_server;

/* Serves requests from `in` to `out` until the server quits or `in` ends; writes nothing else there. Fails where a line
 * cannot be read or written. */
attune_status at_serve(at_server *server, int in, int out);
/* Takes the line that a process was started with, standard input and output, and puts nothing in their places, so that
 * what libraries print cannot break the protocol. The process from now on ends with its parent. */
attune_status at_serve_take_line(int *in, int *out);

/* Sets a field; ATTUNE_OUT_OF_MEMORY where `value`, which is taken over, is NULL. */
attune_status at_answer_put(json_t *answer, const char *key, json_t *value);

#endif
