#include "cli/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "wire/json.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are read in place, and they are little-endian");

enum { LENGTH_BYTES = 8, ALIGN_BYTES = 64 };
#define METADATA "__metadata__"

static const struct {
    const char *name;
    size_t element;
    int32_t dtype;
} types[] = {
    {"F32", 4, ATTUNE_FP32},  {"F16", 2, ATTUNE_FP16}, {"BF16", 2, ATTUNE_BF16}, {"I32", 4, ATTUNE_INT32},
    {"BOOL", 1, ATTUNE_BOOL}, {"U8", 1, ATTUNE_BOOL},  {"F64", 8, -1},           {"I64", 8, -1},
    {"U64", 8, -1},           {"C64", 8, -1},          {"U32", 4, -1},           {"I16", 2, -1},
    {"U16", 2, -1},           {"I8", 1, -1},           {"F8_E4M3", 1, -1},       {"F8_E5M2", 1, -1},
    {"F8_E8M0", 1, -1},
};

struct at_safetensors {
    void *file;     /* owned, or NULL */
    json_t *header; /* owns the names */
    size_t count;
    at_named_array *tensor;
};

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

static attune_status read_type(const char *path, const json_t *fields, at_named_array *tensor, size_t *element)
{
    const char *type;
    AT_FORWARD(at_json_string(fields, path, "dtype", &type));
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(type, types[i].name) == 0) {
            tensor->type = types[i].name;
            tensor->array.dtype = types[i].dtype;
            *element = types[i].element;
            return ATTUNE_OK;
        }
    }
    return at_fail(ATTUNE_UNSUPPORTED, "%s: its dtype \"%.40s\" is unknown", path, type);
}

static attune_status read_int(const char *path, const char *field, const json_t *list, size_t index, int64_t *value)
{
    const json_t *item = json_array_get(list, index);
    AT_FAIL_IF(!json_is_integer(item), ATTUNE_CORRUPT, "%s: item %zu of its %s is %s, expected a whole number", path,
               index, field, at_json_kind(item));
    *value = json_integer_value(item);
    return ATTUNE_OK;
}

static attune_status read_shape(const char *path, const json_t *fields, at_array *array)
{
    json_t *list;
    AT_FORWARD(at_json_field(fields, path, "shape", JSON_ARRAY, &list));
    AT_FAIL_IF(json_array_size(list) > AT_RANK_MAX, ATTUNE_UNSUPPORTED, "%s: has %zu dimensions, at most %d are known",
               path, json_array_size(list), AT_RANK_MAX);
    array->rank = (int32_t)json_array_size(list);
    for (size_t i = 0; i < (size_t)array->rank; i++) {
        AT_FORWARD(read_int(path, "shape", list, i, &array->shape[i]));
    }
    return ATTUNE_OK;
}

/* Where the tensor's bytes are, within the `held` bytes of data. */
static attune_status read_place(const char *path, const json_t *fields, const unsigned char *data, size_t held,
                                at_array *array)
{
    json_t *list;
    int64_t begin = 0, end = 0;
    AT_FORWARD(at_json_field(fields, path, "data_offsets", JSON_ARRAY, &list));
    AT_FAIL_IF(json_array_size(list) != 2, ATTUNE_CORRUPT, "%s: its data_offsets have %zu items, expected 2", path,
               json_array_size(list));
    AT_FORWARD(read_int(path, "data_offsets", list, 0, &begin));
    AT_FORWARD(read_int(path, "data_offsets", list, 1, &end));
    AT_FAIL_IF(begin < 0 || end < begin || (uint64_t)end > held, ATTUNE_CORRUPT,
               "%s: its data_offsets are %lld ... %lld, expected a range within the file's %zu bytes of data", path,
               (long long)begin, (long long)end, held);
    size_t bytes = (size_t)(end - begin);
    AT_FAIL_IF(bytes != array->bytes, ATTUNE_CORRUPT,
               "%s: its data_offsets span %zu bytes, its shape and dtype mean %zu", path, bytes, array->bytes);
    array->data = data + begin;
    return ATTUNE_OK;
}

static attune_status read_tensor(const char *what, const char *name, const json_t *fields, const unsigned char *data,
                                 size_t held, at_named_array *tensor)
{
    char path[256];
    at_text text;
    at_text_init_fixed(&text, path, sizeof path);
    at_text_add(&text, "%.150s: tensor \"%.80s\"", what, name);
    AT_FAIL_IF(!json_is_object(fields), ATTUNE_CORRUPT, "%s: is %s, expected an object", path, at_json_kind(fields));
    size_t element = 0;
    tensor->name = name;
    AT_FORWARD(read_type(path, fields, tensor, &element));
    AT_FORWARD(read_shape(path, fields, &tensor->array));
    AT_FORWARD(at_array_size(path, tensor->array.shape, tensor->array.rank, element, &tensor->array.bytes));
    return read_place(path, fields, data, held, &tensor->array);
}

static attune_status check_metadata(const char *what, json_t *metadata)
{
    AT_FAIL_IF(!json_is_object(metadata), ATTUNE_CORRUPT, "%s: its " METADATA " is %s, expected an object", what,
               at_json_kind(metadata));
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value)
    {
        AT_FAIL_IF(!json_is_string(value), ATTUNE_CORRUPT, "%s: \"%.80s\" of its " METADATA " is %s, expected a string",
                   what, key, at_json_kind(value));
    }
    return ATTUNE_OK;
}

static int by_place(const void *left, const void *right)
{
    const at_array *a = &((const at_named_array *)left)->array, *b = &((const at_named_array *)right)->array;
    uintptr_t at_a = (uintptr_t)a->data, at_b = (uintptr_t)b->data;
    /* An empty tensor shares its place with the one that follows it. */
    return at_a != at_b ? (at_a > at_b) - (at_a < at_b) : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* In order of place each tensor begins where the one before ends, from the first byte of the data to the last. */
static attune_status check_places(const char *what, const at_safetensors *tensors, const unsigned char *data,
                                  size_t held)
{
    const unsigned char *next = data;
    for (size_t i = 0; i < tensors->count; i++) {
        const at_named_array *tensor = &tensors->tensor[i];
        const unsigned char *begin = tensor->array.data;
        AT_FAIL_IF(begin < next, ATTUNE_CORRUPT, "%s: tensor \"%.80s\" begins at %td, inside \"%.80s\"", what,
                   tensor->name, begin - data, tensors->tensor[i - 1].name);
        AT_FAIL_IF(begin > next, ATTUNE_CORRUPT, "%s: bytes %td ... %td of its data belong to no tensor", what,
                   next - data, begin - data);
        next = begin + tensor->array.bytes;
    }
    AT_FAIL_IF((size_t)(next - data) != held, ATTUNE_CORRUPT, "%s: has %zu bytes of data, its tensors mean %td", what,
               held, next - data);
    return ATTUNE_OK;
}

static attune_status read_tensors(const char *what, const unsigned char *data, size_t held, at_safetensors *tensors)
{
    size_t size = json_object_size(tensors->header);
    tensors->tensor = calloc(size + 1, sizeof *tensors->tensor);
    AT_FAIL_IF(tensors->tensor == NULL, ATTUNE_OUT_OF_MEMORY, "%s: no memory for a list of %zu tensors", what, size);
    const char *name;
    json_t *fields;
    json_object_foreach(tensors->header, name, fields)
    {
        if (strcmp(name, METADATA) == 0) {
            AT_FORWARD(check_metadata(what, fields));
        } else {
            AT_FORWARD(read_tensor(what, name, fields, data, held, &tensors->tensor[tensors->count++]));
        }
    }
    qsort(tensors->tensor, tensors->count, sizeof *tensors->tensor, by_place);
    return check_places(what, tensors, data, held);
}

/* Splits the file into the header's text and the data. */
static attune_status find_header(const char *what, const unsigned char *file, size_t bytes, size_t *length)
{
    AT_FAIL_IF(bytes < LENGTH_BYTES, ATTUNE_CORRUPT,
               "%s: is no safetensors file: it has %zu bytes, the length of the header alone takes 8", what, bytes);
    uint64_t said = 0;
    for (int i = 0; i < LENGTH_BYTES; i++) {
        said |= (uint64_t)file[i] << (8 * i);
    }
    AT_FAIL_IF(said > AT_SAFETENSORS_HEADER_MAX, ATTUNE_CORRUPT,
               "%s: says that its header has %llu bytes, at most %u are allowed (or it is no safetensors file)", what,
               (unsigned long long)said, AT_SAFETENSORS_HEADER_MAX);
    AT_FAIL_IF(said > bytes - LENGTH_BYTES, ATTUNE_CORRUPT,
               "%s: says that its header has %llu bytes, but only %zu follow", what, (unsigned long long)said,
               bytes - LENGTH_BYTES);
    AT_FAIL_IF(said == 0 || file[LENGTH_BYTES] != '{', ATTUNE_CORRUPT, "%s: its header does not begin with \"{\"",
               what);
    *length = (size_t)said;
    return ATTUNE_OK;
}

static attune_status parse_into(const char *what, const unsigned char *file, size_t bytes, at_safetensors *tensors)
{
    size_t length = 0;
    AT_FORWARD(find_header(what, file, bytes, &length));
    AT_FORWARD(at_json_parse(what, (const char *)file + LENGTH_BYTES, length, &tensors->header));
    return read_tensors(what, file + LENGTH_BYTES + length, bytes - LENGTH_BYTES - length, tensors);
}

attune_status at_safetensors_parse(const char *what, const void *file, size_t bytes, at_safetensors **tensors)
{
    *tensors = NULL;
    at_safetensors *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "%s: no memory to read its header", what);
    attune_status status = parse_into(what, file, bytes, made);
    if (status != ATTUNE_OK) {
        at_safetensors_destroy(made);
        return status;
    }
    *tensors = made;
    return ATTUNE_OK;
}

attune_status at_safetensors_read(const char *path, at_safetensors **tensors)
{
    *tensors = NULL;
    void *file;
    size_t bytes;
    AT_FORWARD(at_file_read(path, SIZE_MAX, &file, &bytes));
    attune_status status = at_safetensors_parse(path, file, bytes, tensors);
    if (status != ATTUNE_OK) {
        free(file);
        return status;
    }
    (*tensors)->file = file;
    return ATTUNE_OK;
}

void at_safetensors_destroy(at_safetensors *tensors)
{
    if (tensors == NULL) {
        return;
    }
    json_decref(tensors->header);
    free(tensors->tensor);
    free(tensors->file);
    free(tensors);
}

size_t at_safetensors_count(const at_safetensors *tensors)
{
    return tensors->count;
}

const at_named_array *at_safetensors_at(const at_safetensors *tensors, size_t index)
{
    return &tensors->tensor[index];
}

const at_named_array *at_safetensors_find(const at_safetensors *tensors, const char *name)
{
    for (size_t i = 0; i < tensors->count; i++) {
        if (strcmp(tensors->tensor[i].name, name) == 0) {
            return &tensors->tensor[i];
        }
    }
    return NULL;
}

const char *at_safetensors_metadata(const at_safetensors *tensors, const char *key)
{
    return json_string_value(json_object_get(json_object_get(tensors->header, METADATA), key));
}

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

static const char *type_of(int32_t dtype)
{
    for (size_t i = 0; dtype >= 0 && i < sizeof types / sizeof types[0]; i++) {
        if (types[i].dtype == dtype) {
            return types[i].name;
        }
    }
    return NULL;
}

static int by_size_then_name(const void *left, const void *right)
{
    const at_named_array *const *a = left, *const *b = right;
    size_t size_a = at_array_element((*a)->array.dtype), size_b = at_array_element((*b)->array.dtype);
    return size_a != size_b ? (size_a < size_b) - (size_a > size_b) : strcmp((*a)->name, (*b)->name);
}

static attune_status check_tensor(const char *path, const at_named_array *tensor)
{
    size_t bytes;
    AT_FAIL_IF(type_of(tensor->array.dtype) == NULL, ATTUNE_INVALID_ARGUMENT,
               "%s: tensor \"%s\": dtype %d has no safetensors form", path, tensor->name, tensor->array.dtype);
    AT_FAIL_IF(strcmp(tensor->name, METADATA) == 0, ATTUNE_INVALID_ARGUMENT, "%s: no tensor can be named " METADATA,
               path);
    AT_FORWARD(
        at_array_size(path, tensor->array.shape, tensor->array.rank, at_array_element(tensor->array.dtype), &bytes));
    AT_FAIL_IF(bytes != tensor->array.bytes, ATTUNE_INVALID_ARGUMENT,
               "%s: tensor \"%s\": %zu bytes to write, its shape means %zu", path, tensor->name, tensor->array.bytes,
               bytes);
    return ATTUNE_OK;
}

/* The header's object for one tensor; NULL for want of memory. */
static json_t *describe(const at_array *array, size_t begin)
{
    json_t *shape = json_array();
    for (int32_t i = 0; i < array->rank; i++) {
        if (json_array_append_new(shape, json_integer(array->shape[i])) != 0) {
            json_decref(shape);
            return NULL;
        }
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", type_of(array->dtype), "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)(begin + array->bytes));
}

static attune_status add_entry(json_t *object, const char *path, const char *name, json_t *value)
{
    if (json_object_get(object, name) != NULL) {
        json_decref(value);
        return at_fail(ATTUNE_INVALID_ARGUMENT, "%s: the name \"%s\" is given twice", path, name);
    }
    /* Fails for want of memory too, which leaves nothing to tell apart: names are nearly always the reason. */
    AT_FAIL_IF(value == NULL || json_object_set_new(object, name, value) != 0, ATTUNE_INVALID_ARGUMENT,
               "%s: \"%s\" or its value cannot be stored: it is not valid UTF-8, or memory is short", path, name);
    return ATTUNE_OK;
}

static attune_status add_metadata(json_t *header, const char *path, const at_pair *metadata, size_t pairs)
{
    if (pairs == 0) {
        return ATTUNE_OK;
    }
    json_t *object = json_object();
    AT_FORWARD(add_entry(header, path, METADATA, object));
    for (size_t i = 0; i < pairs; i++) {
        AT_FORWARD(add_entry(object, path, metadata[i].key, json_string(metadata[i].value)));
    }
    return ATTUNE_OK;
}

static attune_status fill_header(json_t *header, const char *path, const at_named_array *const *sorted, size_t count)
{
    size_t begin = 0;
    for (size_t i = 0; i < count; i++) {
        AT_FORWARD(check_tensor(path, sorted[i]));
        AT_FORWARD(add_entry(header, path, sorted[i]->name, describe(&sorted[i]->array, begin)));
        AT_FAIL_IF(__builtin_add_overflow(begin, sorted[i]->array.bytes, &begin), ATTUNE_INVALID_ARGUMENT,
                   "%s: the tensors together have more bytes than a file can", path);
    }
    return ATTUNE_OK;
}

/* jansson keeps the order of insertion: metadata first, then tensors in the order of their data. The header is padded
 * with blanks so that the data start at a multiple of 64 bytes. */
static attune_status print_header(const json_t *header, const char *path, at_text *text)
{
    char *dump = json_dumps(header, JSON_COMPACT);
    AT_FAIL_IF(dump == NULL, ATTUNE_OUT_OF_MEMORY, "%s: no memory for its header", path);
    size_t length = strlen(dump), padding = (ALIGN_BYTES - (LENGTH_BYTES + length) % ALIGN_BYTES) % ALIGN_BYTES;
    for (int i = 0; i < LENGTH_BYTES; i++) {
        char byte = (char)((length + padding) >> (8 * i) & 0xff);
        at_text_add_bytes(text, &byte, 1);
    }
    at_text_add_bytes(text, dump, length);
    at_text_add(text, "%*s", (int)padding, "");
    free(dump);
    AT_FAIL_IF(length + padding > AT_SAFETENSORS_HEADER_MAX, ATTUNE_INVALID_ARGUMENT,
               "%s: its header would have %zu bytes, at most %u are allowed", path, length + padding,
               AT_SAFETENSORS_HEADER_MAX);
    return at_text_status(text, "a safetensors header");
}

static attune_status build_header(const char *path, const at_named_array *const *sorted, size_t count,
                                  const at_pair *metadata, size_t pairs, at_text *text)
{
    json_t *header = json_object();
    AT_FAIL_IF(header == NULL, ATTUNE_OUT_OF_MEMORY, "%s: no memory for its header", path);
    attune_status status = add_metadata(header, path, metadata, pairs);
    if (status == ATTUNE_OK) {
        status = fill_header(header, path, sorted, count);
    }
    if (status == ATTUNE_OK) {
        status = print_header(header, path, text);
    }
    json_decref(header);
    return status;
}

static attune_status write_sorted(const char *path, const at_named_array *const *sorted, size_t count,
                                  const at_text *text)
{
    at_writer *writer;
    AT_FORWARD(at_writer_open(path, &writer));
    (void)at_writer_add(writer, text->data, text->length);
    for (size_t i = 0; i < count; i++) {
        (void)at_writer_add(writer, sorted[i]->array.data, sorted[i]->array.bytes);
    }
    return at_writer_commit(writer);
}

static int by_key(const void *left, const void *right)
{
    return strcmp(((const at_pair *)left)->key, ((const at_pair *)right)->key);
}

attune_status at_safetensors_write(const char *path, const at_named_array *tensors, size_t count,
                                   const at_pair *metadata, size_t pairs)
{
    const at_named_array **sorted = calloc(count + 1, sizeof *sorted);
    at_pair *keys = calloc(pairs + 1, sizeof *keys);
    attune_status status = ATTUNE_OK;
    at_text text;
    at_text_init(&text);
    if (sorted == NULL || keys == NULL) {
        status = at_fail(ATTUNE_OUT_OF_MEMORY, "%s: no memory to sort its tensors", path);
    } else {
        for (size_t i = 0; i < count; i++) {
            sorted[i] = &tensors[i];
        }
        if (pairs > 0) {
            memcpy(keys, metadata, pairs * sizeof *keys);
        }
        qsort(sorted, count, sizeof *sorted, by_size_then_name);
        qsort(keys, pairs, sizeof *keys, by_key);
        status = build_header(path, sorted, count, keys, pairs, &text);
    }
    if (status == ATTUNE_OK) {
        status = write_sorted(path, sorted, count, &text);
    }
    at_text_free(&text);
    free(sorted);
    free(keys);
    return status;
}
