/* jansson with errors that say where: every getter names the object's path, the key, what is there and what should be.
 */
#ifndef WIRE_JSON_H
#define WIRE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attune/attune.h"
#include "base/text.h"

/* Reads one JSON object that is the whole text; repeated keys are refused. `what` names the text in errors. Release
 * with json_decref. ATTUNE_CORRUPT with line and column otherwise. */
attune_status at_json_parse(const char *what, const char *text, size_t bytes, json_t **object);

/* A field that must be there, of this type; ATTUNE_CORRUPT otherwise. `path` names the object. Results are borrowed
 * from the object. */
attune_status at_json_field(const json_t *object, const char *path, const char *key, json_type type, json_t **field);
attune_status at_json_string(const json_t *object, const char *path, const char *key, const char **value);
attune_status at_json_int(const json_t *object, const char *path, const char *key, int64_t least, int64_t most,
                          int64_t *value);
/* Any finite number, whole or not. */
attune_status at_json_double(const json_t *object, const char *path, const char *key, double *value);
/* An array of `least` to `most` entries. */
attune_status at_json_list(const json_t *object, const char *path, const char *key, size_t least, size_t most,
                           json_t **list);
attune_status at_json_bool(const json_t *object, const char *path, const char *key, bool *value);

/* Appends a value without blanks, members in their order, decimals as the shortest that read back as the same. Equal
 * values have equal texts, whatever text they were read from. */
void at_json_print(const json_t *value, at_text *text);

/* "an object", "a string", ... of a value; NULL is "nothing". */
const char *at_json_kind(const json_t *value);

#endif
