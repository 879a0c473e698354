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
    AT_FIELD_FLAG, /* bool, there only where it is true: what files of before it was thought of do not have */
    AT_FIELD_NAME, /* an enumerator by its name: names[value], ended by NULL */
    AT_FIELD_GROUP /* a struct of its own table, as an object */
} at_field_kind;

typedef struct at_field {
    const char *key; /* NULL ends a table */
    at_field_kind kind;
    size_t offset, bytes;
    int64_t least, most;
    const struct at_field *group;
    const char *const *names;
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
/* clang-format on */

/* A new object with the fields of the struct at `from`; NULL for want of memory. */
json_t *at_fields_write(const at_field *table, const void *from);
/* Fills in the fields of the struct at `to`, which all must be there; what else is in the object is passed over.
 * ATTUNE_CORRUPT names `path`, the key and what is wrong. */
attune_status at_fields_read(const at_field *table, const json_t *object, const char *path, void *to);

/* Which of the names a text is; ATTUNE_CORRUPT, naming path and key, for others. */
attune_status at_name_read(const char *text, const char *path, const char *key, const char *const *names, int *value);
/* A text. Those of strangers, and those that were cut off, may not be UTF-8, which JSON is: what is not ASCII is then
 * replaced by question marks. */
json_t *at_words_write(const char *text);
/* A number of JSON, or one of the texts for what is not finite. */
json_t *at_real_write(double value);
attune_status at_real_read(const json_t *value, const char *path, const char *key, double *real);

#endif
