#include "evidence/fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

/* ---- Reals ------------------------------------------------------------------------------------------------------- */

json_t *at_real_write(double value)
{
    if (isnan(value)) {
        return json_string("nan");
    }
    return isinf(value) ? json_string(value > 0 ? "inf" : "-inf") : json_real(value);
}

attune_status at_real_read(const json_t *value, const char *path, const char *key, double *real)
{
    if (json_is_number(value)) {
        *real = json_number_value(value);
        return ATTUNE_OK;
    }
    const char *text = json_is_string(value) ? json_string_value(value) : "";
    AT_FAIL_IF(strcmp(text, "nan") != 0 && strcmp(text, "inf") != 0 && strcmp(text, "-inf") != 0, ATTUNE_CORRUPT,
               "%s: field \"%s\" is %s, expected a number", path, key, at_json_kind(value));
    *real = text[0] == 'n' ? NAN : text[0] == 'i' ? HUGE_VAL : -HUGE_VAL;
    return ATTUNE_OK;
}

static json_t *write_reals(const double *values, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; array != NULL && i < count; ++i) {
        if (json_array_append_new(array, at_real_write(values[i])) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static attune_status read_reals(const json_t *object, const char *path, const char *key, double *values, size_t count)
{
    json_t *array;
    AT_FORWARD(at_json_field(object, path, key, JSON_ARRAY, &array));
    AT_FAIL_IF(json_array_size(array) != count, ATTUNE_CORRUPT, "%s: field \"%s\" has %zu numbers, %zu are expected",
               path, key, json_array_size(array), count);
    for (size_t i = 0; i < count; ++i) {
        AT_FORWARD(at_real_read(json_array_get(array, i), path, key, &values[i]));
    }
    return ATTUNE_OK;
}

/* ---- Whole numbers ----------------------------------------------------------------------------------------------- */

static int64_t get_int(const void *at, size_t bytes)
{
    int64_t value = 0;
    int32_t narrow = 0;
    if (bytes == sizeof value) {
        memcpy(&value, at, sizeof value);
        return value;
    }
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

static void set_int(void *at, size_t bytes, int64_t value)
{
    int32_t narrow = (int32_t)value;
    memcpy(at, bytes == sizeof value ? (const void *)&value : (const void *)&narrow, bytes);
}

static json_t *write_seed(const void *at)
{
    uint64_t seed;
    char text[24];
    memcpy(&seed, at, sizeof seed);
    (void)snprintf(text, sizeof text, "%" PRIu64, seed);
    return json_string(text);
}

static attune_status read_seed(const json_t *object, const char *path, const char *key, void *to)
{
    const char *text;
    uint64_t seed;
    AT_FORWARD(at_json_string(object, path, key, &text));
    attune_status status = at_parse_uint64(key, text, &seed);
    if (status != ATTUNE_OK) {
        return at_fail_in(ATTUNE_CORRUPT, "%s", path);
    }
    memcpy(to, &seed, sizeof seed);
    return ATTUNE_OK;
}

json_t *at_words_write(const char *text)
{
    json_t *string = json_string(text);
    if (string != NULL) {
        return string;
    }
    at_text plain;
    at_text_init(&plain);
    for (; *text != '\0'; ++text) {
        at_text_add(&plain, "%c", (unsigned char)*text < 0x80 ? *text : '?');
    }
    string = plain.out_of_memory ? NULL : json_string(plain.data);
    at_text_free(&plain);
    return string;
}

attune_status at_name_read(const char *text, const char *path, const char *key, const char *const *names, int *value)
{
    for (int i = 0; names[i] != NULL; ++i) {
        if (strcmp(names[i], text) == 0) {
            *value = i;
            return ATTUNE_OK;
        }
    }
    return at_fail(ATTUNE_CORRUPT, "%s: field \"%s\" is \"%.40s\", which is none of its names", path, key, text);
}

static attune_status read_name(const json_t *object, const char *path, const at_field *field, void *to)
{
    const char *text;
    int value = 0;
    AT_FORWARD(at_json_string(object, path, field->key, &text));
    AT_FORWARD(at_name_read(text, path, field->key, field->names, &value));
    set_int(to, field->bytes, value);
    return ATTUNE_OK;
}

/* ---- Fields ------------------------------------------------------------------------------------------------------ */

static json_t *write_field(const at_field *field, const void *at)
{
    switch (field->kind) {
    case AT_FIELD_TEXT:
    case AT_FIELD_NOTE:
        return at_words_write(at);
    case AT_FIELD_INT:
        return json_integer(get_int(at, field->bytes));
    case AT_FIELD_SEED:
        return write_seed(at);
    case AT_FIELD_REAL:
        return at_real_write(*(const double *)at);
    case AT_FIELD_REALS:
        return write_reals(at, field->bytes / sizeof(double));
    case AT_FIELD_BOOL:
    case AT_FIELD_FLAG:
        return json_boolean(*(const bool *)at);
    case AT_FIELD_NAME:
        return json_string(field->names[get_int(at, field->bytes)]);
    case AT_FIELD_GROUP:
        return at_fields_write(field->group, at);
    }
    return NULL;
}

static bool is_left_out(const at_field *field, const char *at)
{
    return (field->kind == AT_FIELD_FLAG && !*(const bool *)(const void *)at) ||
           (field->kind == AT_FIELD_NOTE && at[0] == '\0');
}

json_t *at_fields_write(const at_field *table, const void *from)
{
    json_t *object = json_object();
    for (; object != NULL && table->key != NULL; ++table) {
        const char *at = (const char *)from + table->offset;
        if (!is_left_out(table, at) && json_object_set_new(object, table->key, write_field(table, at)) != 0) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

static attune_status read_text(const json_t *object, const char *path, const at_field *field, char *to)
{
    const char *text;
    AT_FORWARD(at_json_string(object, path, field->key, &text));
    AT_FAIL_IF(strlen(text) >= field->bytes, ATTUNE_CORRUPT, "%s: field \"%s\" has %zu bytes, at most %zu are allowed",
               path, field->key, strlen(text), field->bytes - 1);
    memset(to, 0, field->bytes); /* equal texts make equal structs */
    memcpy(to, text, strlen(text) + 1);
    return ATTUNE_OK;
}

static attune_status read_group(const json_t *object, const char *path, const at_field *field, void *to)
{
    json_t *group;
    char inner[160];
    AT_FORWARD(at_json_field(object, path, field->key, JSON_OBJECT, &group));
    (void)snprintf(inner, sizeof inner, "%.100s.%.50s", path, field->key);
    return at_fields_read(field->group, group, inner, to);
}

static attune_status read_field(const at_field *field, const json_t *object, const char *path, void *to)
{
    int64_t whole;
    switch (field->kind) {
    case AT_FIELD_NOTE:
        if (json_object_get(object, field->key) == NULL) {
            memset(to, 0, field->bytes);
            return ATTUNE_OK;
        }
        return read_text(object, path, field, to);
    case AT_FIELD_TEXT:
        return read_text(object, path, field, to);
    case AT_FIELD_INT:
        AT_FORWARD(at_json_int(object, path, field->key, field->least, field->most, &whole));
        set_int(to, field->bytes, whole);
        return ATTUNE_OK;
    case AT_FIELD_SEED:
        return read_seed(object, path, field->key, to);
    case AT_FIELD_REAL:
        return at_real_read(json_object_get(object, field->key), path, field->key, to);
    case AT_FIELD_REALS:
        return read_reals(object, path, field->key, to, field->bytes / sizeof(double));
    case AT_FIELD_BOOL:
        return at_json_bool(object, path, field->key, to);
    case AT_FIELD_FLAG:
        *(bool *)to = false;
        return json_object_get(object, field->key) == NULL ? ATTUNE_OK : at_json_bool(object, path, field->key, to);
    case AT_FIELD_NAME:
        return read_name(object, path, field, to);
    case AT_FIELD_GROUP:
        return read_group(object, path, field, to);
    }
    return ATTUNE_INTERNAL;
}

attune_status at_fields_read(const at_field *table, const json_t *object, const char *path, void *to)
{
    for (; table->key != NULL; ++table) {
        AT_FORWARD(read_field(table, object, path, (char *)to + table->offset));
    }
    return ATTUNE_OK;
}
