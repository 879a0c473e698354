#include "wire/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static const char *kind_of(json_type type)
{
    static const char *const kinds[] = {
        [JSON_OBJECT] = "an object",      [JSON_ARRAY] = "an array",
        [JSON_STRING] = "a string",       [JSON_INTEGER] = "a whole number",
        [JSON_REAL] = "a decimal number", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",           [JSON_NULL] = "null",
    };
    return kinds[type];
}

const char *at_json_kind(const json_t *value)
{
    return value == NULL ? "nothing" : kind_of(json_typeof(value));
}

attune_status at_json_parse(const char *what, const char *text, size_t bytes, json_t **object)
{
    *object = NULL;
    json_error_t error;
    json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (value == NULL) {
        bool memory = json_error_code(&error) == json_error_out_of_memory;
        return at_fail(memory ? ATTUNE_OUT_OF_MEMORY : ATTUNE_CORRUPT, "%s: line %d, column %d of its JSON: %s", what,
                       error.line, error.column, error.text);
    }
    if (!json_is_object(value)) {
        const char *kind = at_json_kind(value);
        json_decref(value);
        return at_fail(ATTUNE_CORRUPT, "%s: its JSON is %s, expected an object", what, kind);
    }
    *object = value;
    return ATTUNE_OK;
}

static attune_status wrong_kind(const char *path, const char *key, const json_t *field, const char *expected)
{
    return at_fail(ATTUNE_CORRUPT, "%s: field \"%s\" is %s, expected %s", path, key, at_json_kind(field), expected);
}

attune_status at_json_field(const json_t *object, const char *path, const char *key, json_type type, json_t **field)
{
    *field = json_object_get(object, key);
    if (*field == NULL || json_typeof(*field) != type) {
        return wrong_kind(path, key, *field, kind_of(type));
    }
    return ATTUNE_OK;
}

attune_status at_json_string(const json_t *object, const char *path, const char *key, const char **value)
{
    json_t *field;
    AT_FORWARD(at_json_field(object, path, key, JSON_STRING, &field));
    *value = json_string_value(field);
    return ATTUNE_OK;
}

attune_status at_json_int(const json_t *object, const char *path, const char *key, int64_t least, int64_t most,
                          int64_t *value)
{
    json_t *field;
    AT_FORWARD(at_json_field(object, path, key, JSON_INTEGER, &field));
    json_int_t number = json_integer_value(field);
    AT_FAIL_IF(number < least || number > most, ATTUNE_CORRUPT, "%s: field \"%s\" is %lld, allowed are %lld ... %lld",
               path, key, (long long)number, (long long)least, (long long)most);
    *value = number;
    return ATTUNE_OK;
}

attune_status at_json_double(const json_t *object, const char *path, const char *key, double *value)
{
    const json_t *field = json_object_get(object, key);
    if (!json_is_number(field)) {
        return wrong_kind(path, key, field, "a number");
    }
    *value = json_number_value(field);
    return ATTUNE_OK;
}

attune_status at_json_list(const json_t *object, const char *path, const char *key, size_t least, size_t most,
                           json_t **list)
{
    AT_FORWARD(at_json_field(object, path, key, JSON_ARRAY, list));
    const size_t count = json_array_size(*list);
    AT_FAIL_IF(count < least || count > most, ATTUNE_CORRUPT,
               "%s: field \"%s\" has %zu entries, allowed are %zu ... %zu", path, key, count, least, most);
    return ATTUNE_OK;
}

attune_status at_json_bool(const json_t *object, const char *path, const char *key, bool *value)
{
    const json_t *field = json_object_get(object, key);
    if (!json_is_boolean(field)) {
        return wrong_kind(path, key, field, "true or false");
    }
    *value = json_is_true(field);
    return ATTUNE_OK;
}

/* ---- Printing ---------------------------------------------------------------------------------------------------- */

static void print_scalar(const json_t *value, at_text *text)
{
    char *printed = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    text->out_of_memory = text->out_of_memory || printed == NULL;
    at_text_add(text, "%s", printed != NULL ? printed : "");
    free(printed);
}

/* With a point or an exponent, so that it is read back as a decimal. */
static void print_real(double value, at_text *text)
{
    size_t begin = text->length;
    at_text_add_double(text, value);
    if (text->length > begin && strpbrk(text->data + begin, ".e") == NULL) {
        at_text_add(text, ".0");
    }
}

static void print_object(const json_t *value, at_text *text)
{
    const char *key, *between = "";
    json_t *member;
    at_text_add(text, "{");
    json_object_foreach((json_t *)value, key, member)
    {
        json_t *name = json_string(key);
        at_text_add(text, "%s", between);
        print_scalar(name, text);
        at_text_add(text, ":");
        at_json_print(member, text);
        between = ",";
        json_decref(name);
    }
    at_text_add(text, "}");
}

void at_json_print(const json_t *value, at_text *text)
{
    if (json_is_object(value)) {
        print_object(value, text);
    } else if (json_is_array(value)) {
        at_text_add(text, "[");
        for (size_t i = 0; i < json_array_size(value); ++i) {
            at_text_add(text, "%s", i > 0 ? "," : "");
            at_json_print(json_array_get(value, i), text);
        }
        at_text_add(text, "]");
    } else if (json_is_real(value)) {
        print_real(json_real_value(value), text);
    } else {
        print_scalar(value, text);
    }
}
