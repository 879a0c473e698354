/* Structs as JSON objects, by tables: one row a field says its key, its type and where it lies, and serves writing and
 * reading alike. */
#ifndef EVIDENCE_FIELDS_H
#define EVIDENCE_FIELDS_H

#include "wire/json.h"

typedef enum at_field_kind {
    AT_FIELD_TEXT,  /* char[bytes], terminated */
    AT_FIELD_NOTE,  /* the same, there only where it is not empty: what older files do not have */
    AT_FIELD_INT,   /* int32_t or int64_t, by its bytes, within least ... most */
    AT_FIELD_SEED,  /* uint64_t, written as text: JSON's numbers end at 2^53 for many readers */
    AT_FIELD_REAL,  /* double; what is not finite is written as "inf", "-inf" or "nan" */
    AT_FIELD_REALS, /* double[bytes / 8] */
    AT_FIELD_BOOL,
    AT_FIELD_FLAG,  /* bool, there only where it is true: what files of before it was thought of do not have */
    AT_FIELD_NAME,  /* an enumerator by its name: names[value], ended by NULL */
    AT_FIELD_GROUP, /* a struct of its own table, as an object */
    AT_FIELD_LIST,  /* structs of their own table, as an array of objects; `count` is where an int32_t says how many */
    AT_FIELD_MAP, /* the same as one object: the table has two fields, a member's key, which is a text, and its value */
    AT_FIELD_EACH, /* structs of their own table, one for each of `names`, as an object of objects */
    AT_FIELD_SOME  /* the same, of those names alone whose bool in the array at `count` is set */
} at_field_kind;

typedef struct at_field {
    const char *key; /* NULL ends a table */
    at_field_kind kind;
    size_t offset, bytes;
    int64_t least, most;
    const struct at_field *group;
    const char *const *names;
    size_t stride, count; /* of several structs: the bytes of one; see the kinds */
} at_field;

/* clang-format off */
#define AT_FIELD_PLACE(type, member) .offset = offsetof(type, member), .bytes = sizeof(((type *)0)->member)
#define AT_FIELD(kind_, type, member, key_) {.key = key_, .kind = kind_, AT_FIELD_PLACE(type, member)}
#define AT_FIELD_RANGE(type, member, key_, least_, most_) \
    {.key = key_, .kind = AT_FIELD_INT, AT_FIELD_PLACE(type, member), .least = least_, .most = most_}
#define AT_FIELD_COUNT(type, member, key_) \
    AT_FIELD_RANGE(type, member, key_, 0, \
                   sizeof(((type *)0)->member) == sizeof(int32_t) ? INT32_MAX : INT64_C(1) << 53)
#define AT_FIELD_NAMED(type, member, key_, names_) \
    {.key = key_, .kind = AT_FIELD_NAME, AT_FIELD_PLACE(type, member), .names = names_}
#define AT_FIELD_TABLE(type, member, key_, table) \
    {.key = key_, .kind = AT_FIELD_GROUP, AT_FIELD_PLACE(type, member), .group = table}
#define AT_FIELD_SEVERAL(kind_, type, member, key_, table) \
    .key = key_, .kind = kind_, AT_FIELD_PLACE(type, member), .stride = sizeof(((type *)0)->member[0]), .group = table
#define AT_FIELD_ITEMS(kind_, type, member, count_, key_, table) \
    {AT_FIELD_SEVERAL(kind_, type, member, key_, table), .count = offsetof(type, count_)}
#define AT_FIELD_BY_NAME(type, member, key_, table, names_) \
    {AT_FIELD_SEVERAL(AT_FIELD_EACH, type, member, key_, table), .names = names_}
#define AT_FIELD_BY_SOME(type, member, known_, key_, table, names_) \
    {AT_FIELD_SEVERAL(AT_FIELD_SOME, type, member, key_, table), .names = names_, .count = offsetof(type, known_)}
/* clang-format on */

/* A new object with the fields of the struct at `from`; NULL for want of memory. */
json_t *at_fields_write(const at_field *table, const void *from);
/* The same at the end of an object; false for want of memory, or where `object` is NULL. */
bool at_fields_add(json_t *object, const at_field *table, const void *from);
/* Fills in the fields of the struct at `to`, which all must be there; what else is in the object is passed over.
 * ATTUNE_CORRUPT names `path`, the key and what is wrong. */
attune_status at_fields_read(const at_field *table, const json_t *object, const char *path, void *to);

/* A struct as an array of its fields' values, in the table's order. */
json_t *at_row_write(const at_field *table, const void *from);
attune_status at_row_read(const at_field *table, const json_t *row, const char *path, void *to);

/* One field of `count` structs, of `stride` bytes each, as an array; where all of them are zero the object has no such
 * array. For AT_FIELD_INT. */
bool at_column_add(json_t *object, const at_field *field, const void *items, size_t stride, size_t count);
attune_status at_column_read(const at_field *field, const json_t *object, const char *path, void *items, size_t stride,
                             size_t count);

/* Which of the names a text is; ATTUNE_CORRUPT, naming path and key, for others. */
attune_status at_name_read(const char *text, const char *path, const char *key, const char *const *names, int *value);
/* A text. Those of strangers, and those that were cut off, may not be UTF-8, which JSON is: what is not ASCII is then
 * replaced by question marks. */
json_t *at_words_write(const char *text);
/* A number of JSON, or one of the texts for what is not finite. */
json_t *at_real_write(double value);
attune_status at_real_read(const json_t *value, const char *path, const char *key, double *real);

#endif
