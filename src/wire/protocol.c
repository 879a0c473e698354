#include "wire/protocol.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* ---- Lines ------------------------------------------------------------------------------------------------------ */

/* Prints `object`, which is taken over, and ends it with a newline. */
static attune_status print(json_t *object, char **line, size_t *bytes)
{
    char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
    json_decref(object);
    *line = NULL;
    AT_FAIL_IF(text == NULL, ATTUNE_OUT_OF_MEMORY,
               "a message of the gate's protocol: no memory, or text that is no "
               "UTF-8");
    size_t length = strlen(text);
    char *ended = length + 1 > AT_LINE_MAX ? NULL : realloc(text, length + 2);
    if (ended == NULL) {
        free(text);
        return at_fail(ATTUNE_INTERNAL, "a message of %zu bytes, %d are the most", length + 1, AT_LINE_MAX);
    }
    ended[length] = '\n';
    ended[length + 1] = '\0';
    *line = ended;
    *bytes = length + 1;
    return ATTUNE_OK;
}

attune_status at_request_print(int64_t id, const char *op, json_t *fields, char **line, size_t *bytes)
{
    json_t *object = json_pack("{s:I,s:s}", "id", (json_int_t)id, "op", op);
    if (object != NULL && fields != NULL && json_object_update_missing(object, fields) != 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(fields);
    return print(object, line, bytes);
}

static attune_status parse(const char *what, const char *line, size_t bytes, json_t **object)
{
    AT_FAIL_IF(bytes > AT_LINE_MAX, ATTUNE_CORRUPT, "%s: a line of %zu bytes, %d are the most", what, bytes,
               AT_LINE_MAX);
    return at_json_parse(what, line, bytes, object);
}

static attune_status read_request(at_request *request)
{
    AT_FORWARD(at_json_int(request->root, "request", "id", 0, INT64_MAX, &request->id));
    return at_json_string(request->root, "request", "op", &request->op);
}

attune_status at_request_parse(const char *line, size_t bytes, at_request *request)
{
    *request = (at_request){0};
    AT_FORWARD(parse("request", line, bytes, &request->root));
    attune_status status = read_request(request);
    if (status != ATTUNE_OK) {
        at_request_free(request);
    }
    return status;
}

void at_request_free(at_request *request)
{
    json_decref(request->root);
    *request = (at_request){0};
}

attune_status at_answer_print(int64_t id, attune_status status, json_t *ok, char **line, size_t *bytes)
{
    if (status == ATTUNE_OK) {
        return print(json_pack("{s:I,s:o}", "id", (json_int_t)id, "ok", ok), line, bytes);
    }
    json_decref(ok);
    json_t *detail = json_string(attune_last_detail());
    if (detail == NULL) { /* no UTF-8: the words of a broken library must not break the line */
        detail = json_string("(a detail that is no UTF-8)");
    }
    return print(json_pack("{s:I,s:{s:s,s:o}}", "id", (json_int_t)id, "error", "status", attune_status_string(status),
                           "detail", detail),
                 line, bytes);
}

/* What the other side failed with, as if it had happened here. */
static attune_status forward_error(const json_t *error)
{
    const char *words;
    const char *detail;
    attune_status status;
    AT_FORWARD(at_json_string(error, "error", "status", &words));
    AT_FORWARD(at_json_string(error, "error", "detail", &detail));
    AT_FORWARD(at_wire_status(words, &status));
    AT_FAIL_IF(status == ATTUNE_OK, ATTUNE_CORRUPT, "answer: an error without one");
    return at_fail(status, "%s", detail);
}

static attune_status read_answer(json_t *root, int64_t id, json_t **ok)
{
    int64_t of;
    json_t *object;
    AT_FORWARD(at_json_int(root, "answer", "id", 0, INT64_MAX, &of));
    AT_FAIL_IF(of != id, ATTUNE_CORRUPT, "answer: it is to request %lld, %lld was asked", (long long)of, (long long)id);
    if (json_object_get(root, "error") != NULL) {
        AT_FORWARD(at_json_field(root, "answer", "error", JSON_OBJECT, &object));
        return forward_error(object);
    }
    AT_FORWARD(at_json_field(root, "answer", "ok", JSON_OBJECT, &object));
    *ok = json_incref(object);
    return ATTUNE_OK;
}

attune_status at_answer_parse(const char *line, size_t bytes, int64_t id, json_t **ok)
{
    json_t *root;
    *ok = NULL;
    AT_FORWARD(parse("answer", line, bytes, &root));
    attune_status status = read_answer(root, id, ok);
    json_decref(root);
    return status;
}
