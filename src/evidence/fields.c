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
    AT_FORWARD(at_json_list(object, path, key, count, count, &array));
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

/* A new value of `made`, appended; false for want of memory. */
static bool set(json_t *object, const char *key, json_t *made)
{
    return json_object_set_new(object, key, made) == 0;
}

static int32_t count_of(const at_field *field, const void *from)
{
    return (int32_t)get_int((const char *)from + field->count, sizeof(int32_t));
}

static bool is_known(const at_field *field, const void *from, int i)
{
    return field->kind == AT_FIELD_EACH || ((const bool *)from + field->count)[i];
}

static json_t *write_value(const at_field *field, const void *at);

static json_t *write_list(const at_field *field, const char *at, int32_t count)
{
    json_t *list = json_array();
    for (int32_t i = 0; list != NULL && i < count; ++i) {
        if (json_array_append_new(list, at_fields_write(field->group, at + (size_t)i * field->stride)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static json_t *write_map(const at_field *field, const char *at, int32_t count)
{
    const at_field *key = field->group, *value = key + 1;
    json_t *map = json_object();
    for (int32_t i = 0; map != NULL && i < count; ++i) {
        const char *item = at + (size_t)i * field->stride;
        if (!set(map, item + key->offset, write_value(value, item + value->offset))) {
            json_decref(map);
            map = NULL;
        }
    }
    return map;
}

static json_t *write_by_name(const at_field *field, const void *from)
{
    json_t *object = json_object();
    const char *at = (const char *)from + field->offset;
    for (int i = 0; object != NULL && field->names[i] != NULL; ++i) {
        if (is_known(field, from, i) &&
            !set(object, field->names[i], at_fields_write(field->group, at + (size_t)i * field->stride))) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

/* Of one place in the struct. */
static json_t *write_value(const at_field *field, const void *at)
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
    default:
        return NULL;
    }
}

static json_t *write_field(const at_field *field, const void *from)
{
    const char *at = (const char *)from + field->offset;
    switch (field->kind) {
    case AT_FIELD_LIST:
        return write_list(field, at, count_of(field, from));
    case AT_FIELD_MAP:
        return write_map(field, at, count_of(field, from));
    case AT_FIELD_EACH:
    case AT_FIELD_SOME:
        return write_by_name(field, from);
    default:
        return write_value(field, at);
    }
}

static bool is_left_out(const at_field *field, const char *at)
{
    return (field->kind == AT_FIELD_FLAG && !*(const bool *)(const void *)at) ||
           (field->kind == AT_FIELD_NOTE && at[0] == '\0');
}

bool at_fields_add(json_t *object, const at_field *table, const void *from)
{
    bool well = object != NULL;
    for (; well && table->key != NULL; ++table) {
        well =
            is_left_out(table, (const char *)from + table->offset) || set(object, table->key, write_field(table, from));
    }
    return well;
}

json_t *at_fields_write(const at_field *table, const void *from)
{
    json_t *object = json_object();
    if (!at_fields_add(object, table, from)) {
        json_decref(object);
        object = NULL;
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

/* What errors call a part of an object: "file: verdict 1.stages.build", "file: verdict 1.arms[2]". */
typedef struct part {
    char path[400];
} part;

static part part_of(const char *path, const char *key)
{
    part inner;
    (void)snprintf(inner.path, sizeof inner.path, "%.300s.%.50s", path, key);
    return inner;
}

static part entry_of(const char *path, const char *key, size_t index)
{
    part inner;
    (void)snprintf(inner.path, sizeof inner.path, "%.300s.%.50s[%zu]", path, key, index);
    return inner;
}

static attune_status read_group(const json_t *object, const char *path, const at_field *field, void *to)
{
    json_t *group;
    AT_FORWARD(at_json_field(object, path, field->key, JSON_OBJECT, &group));
    return at_fields_read(field->group, group, part_of(path, field->key).path, to);
}

static attune_status read_list(const json_t *object, const char *path, const at_field *field, char *to, int32_t *count)
{
    json_t *list;
    AT_FORWARD(at_json_list(object, path, field->key, 0, field->bytes / field->stride, &list));
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const json_t *item = json_array_get(list, i);
        AT_FAIL_IF(!json_is_object(item), ATTUNE_CORRUPT, "%s: entry %zu of \"%s\" is %s, expected an object", path, i,
                   field->key, at_json_kind(item));
        AT_FORWARD(at_fields_read(field->group, item, entry_of(path, field->key, i).path, to + i * field->stride));
    }
    *count = (int32_t)json_array_size(list);
    return ATTUNE_OK;
}

static attune_status read_field(const at_field *field, const json_t *object, const char *path, void *from);

static attune_status read_map(const json_t *object, const char *path, const at_field *field, char *to, int32_t *count)
{
    const at_field *key = field->group;
    at_field value = key[1];
    json_t *map;
    *count = 0;
    AT_FORWARD(at_json_field(object, path, field->key, JSON_OBJECT, &map));
    AT_FAIL_IF(json_object_size(map) > field->bytes / field->stride, ATTUNE_CORRUPT,
               "%s: field \"%s\" has %zu entries, allowed are 0 ... %zu", path, field->key, json_object_size(map),
               field->bytes / field->stride);
    for (void *entry = json_object_iter(map); entry != NULL; entry = json_object_iter_next(map, entry)) {
        char *item = to + (size_t)*count * field->stride;
        value.key = json_object_iter_key(entry);
        AT_FAIL_IF(strlen(value.key) >= key->bytes, ATTUNE_CORRUPT,
                   "%s: a key of \"%s\" has %zu bytes, at most %zu are allowed", path, field->key, strlen(value.key),
                   key->bytes - 1);
        memcpy(item + key->offset, value.key, strlen(value.key) + 1);
        AT_FORWARD(read_field(&value, map, part_of(path, field->key).path, item));
        ++*count;
    }
    return ATTUNE_OK;
}

static attune_status read_by_name(const json_t *object, const char *path, const at_field *field, char *to, bool *known)
{
    json_t *group;
    const part inner = part_of(path, field->key);
    AT_FORWARD(at_json_field(object, path, field->key, JSON_OBJECT, &group));
    for (int i = 0; field->names[i] != NULL; ++i) {
        json_t *item = json_object_get(group, field->names[i]);
        if (known != NULL) {
            known[i] = item != NULL;
        }
        if (known == NULL || known[i]) {
            AT_FORWARD(at_json_field(group, inner.path, field->names[i], JSON_OBJECT, &item));
            AT_FORWARD(at_fields_read(field->group, item, part_of(inner.path, field->names[i]).path,
                                      to + (size_t)i * field->stride));
        }
    }
    return ATTUNE_OK;
}

static attune_status read_value(const at_field *field, const json_t *object, const char *path, void *to)
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
    default:
        return ATTUNE_INTERNAL;
    }
}

static attune_status read_field(const at_field *field, const json_t *object, const char *path, void *whole)
{
    char *to = (char *)whole + field->offset, *beside = (char *)whole + field->count;
    int32_t count = 0;
    attune_status status;
    switch (field->kind) {
    case AT_FIELD_LIST:
    case AT_FIELD_MAP:
        status = (field->kind == AT_FIELD_LIST ? read_list : read_map)(object, path, field, to, &count);
        set_int(beside, sizeof count, status == ATTUNE_OK ? count : 0);
        return status;
    case AT_FIELD_EACH:
        return read_by_name(object, path, field, to, NULL);
    case AT_FIELD_SOME:
        return read_by_name(object, path, field, to, (bool *)beside);
    default:
        return read_value(field, object, path, to);
    }
}

attune_status at_fields_read(const at_field *table, const json_t *object, const char *path, void *to)
{
    for (; table->key != NULL; ++table) {
        AT_FORWARD(read_field(table, object, path, to));
    }
    return ATTUNE_OK;
}

/* ---- Rows and columns -------------------------------------------------------------------------------------------- */

json_t *at_row_write(const at_field *table, const void *from)
{
    json_t *object = at_fields_write(table, from), *row = json_array(), *value;
    const char *key;
    bool well = object != NULL && row != NULL;
    json_object_foreach(object, key, value)
    {
        well = well && json_array_append(row, value) == 0;
    }
    json_decref(object);
    if (!well) {
        json_decref(row);
    }
    return well ? row : NULL;
}

attune_status at_row_read(const at_field *table, const json_t *row, const char *path, void *to)
{
    json_t *object = json_object();
    bool well = object != NULL;
    for (size_t i = 0; well && table[i].key != NULL && i < json_array_size(row); ++i) {
        well = json_object_set(object, table[i].key, json_array_get(row, i)) == 0;
    }
    attune_status status =
        well ? at_fields_read(table, object, path, to) : at_fail(ATTUNE_OUT_OF_MEMORY, "%s: no memory for a row", path);
    json_decref(object);
    return status;
}

bool at_column_add(json_t *object, const at_field *field, const void *items, size_t stride, size_t count)
{
    json_t *list = json_array();
    bool well = list != NULL, any = false;
    for (size_t i = 0; well && i < count; ++i) {
        int64_t value = get_int((const char *)items + i * stride + field->offset, field->bytes);
        any = any || value != 0;
        well = json_array_append_new(list, json_integer(value)) == 0;
    }
    if (well && any) {
        return set(object, field->key, list);
    }
    json_decref(list);
    return well;
}

attune_status at_column_read(const at_field *field, const json_t *object, const char *path, void *items, size_t stride,
                             size_t count)
{
    json_t *list = json_object_get(object, field->key);
    AT_FAIL_IF(list != NULL && json_array_size(list) != count, ATTUNE_CORRUPT,
               "%s: \"%s\" is no array of %zu numbers, one a block", path, field->key, count);
    for (size_t i = 0; i < count; ++i) {
        const json_t *entry = list == NULL ? NULL : json_array_get(list, i);
        const int64_t value = json_integer_value(entry);
        AT_FAIL_IF(entry != NULL && (!json_is_integer(entry) || value < field->least || value > field->most),
                   ATTUNE_CORRUPT, "%s: entry %zu of \"%s\" is no whole number of %lld ... %lld", path, i, field->key,
                   (long long)field->least, (long long)field->most);
        set_int((char *)items + i * stride + field->offset, field->bytes, value);
    }
    return ATTUNE_OK;
}
