/* The protocol between the gate and its workers: one JSON object a line, in either direction, and what travels in it.
 *
 *     {"id":1,"op":"hello","protocol":1}        a request: a number that rises, what to do, and its fields
 *     {"id":1,"ok":{"protocol":1}}              its answer
 *     {"id":1,"error":{"status":"not found","detail":"..."}}
 *
 * Lines have at most AT_LINE_MAX bytes; bulk bytes go through memory that both sides map. docs/gate.md lists the ops.
 */
#ifndef WIRE_PROTOCOL_H
#define WIRE_PROTOCOL_H

#include "attune/kernel.h"
#include "wire/json.h"

/* Raised whenever an op or field changes its meaning. Both sides must agree. */
#define AT_PROTOCOL 1

enum { AT_LINE_MAX = 1 << 20 };

/* ---- Lines ------------------------------------------------------------------------------------------------------ */

typedef struct at_request {
    int64_t id;
    const char *op; /* belongs to root */
    json_t *root;   /* the whole object, fields beside id and op; release with at_request_free */
} at_request;

/* Makes a line, its newline included, for the caller to free. Takes `fields` (an object, or NULL) over, also on
 * failure. */
attune_status at_request_print(int64_t id, const char *op, json_t *fields, char **line, size_t *bytes);
/* ATTUNE_CORRUPT for anything that is no request. */
attune_status at_request_parse(const char *line, size_t bytes, at_request *request);
void at_request_free(at_request *request);

/* An answer's line. With ATTUNE_OK, `ok` is sent and taken over; else the status and the thread's detail are. */
attune_status at_answer_print(int64_t id, attune_status status, json_t *ok, char **line, size_t *bytes);
/* Reads the answer to request `id`. What the other side failed with is returned as status and detail, *ok being NULL;
 * ATTUNE_CORRUPT for anything that is no answer to it. Release *ok with json_decref. */
attune_status at_answer_parse(const char *line, size_t bytes, int64_t id, json_t **ok);

/* ---- What travels ----------------------------------------------------------------------------------------------- */

/* An address of the worker's, or a count of bytes: 0 ... 2^63 - 1. */
attune_status at_wire_address(const json_t *object, const char *key, void **address);
attune_status at_wire_bytes(const json_t *object, const char *key, size_t most, size_t *bytes);
json_t *at_wire_from_address(const void *address);

/* A problem travels as its text. */
attune_status at_wire_problem(const json_t *object, const char *key, attune_problem *problem);
json_t *at_wire_from_problem(const attune_problem *problem);

/* Targets, terms and calls. The makers return NULL only for want of memory. */
attune_status at_wire_target(const json_t *object, attune_target *target);
json_t *at_wire_from_target(const attune_target *target);
attune_status at_wire_term(const json_t *array, attune_term *term);
json_t *at_wire_from_term(const attune_term *term);
attune_status at_wire_call(const json_t *object, attune_call *call);
json_t *at_wire_from_call(const attune_call *call);

/* A status by its words, as attune_status_string gives them; ATTUNE_CORRUPT for others. */
attune_status at_wire_status(const char *words, attune_status *status);

#endif
