#include "cli/npy.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "base/text.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are read in place, and they are little-endian");

/* The magic text, the version's two bytes, and the header's length: 2 bytes in version 1, 4 in versions 2 and 3. */
enum { MAGIC_BYTES = 6, VERSION_BYTES = 2, ALIGN_BYTES = 64, DESCR_MAX = 16 };
static const char magic[MAGIC_BYTES] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

static const struct {
    const char *descr;
    int32_t dtype;
} types[] = {
    {"<f4", ATTUNE_FP32}, {"<f2", ATTUNE_FP16}, {"<i4", ATTUNE_INT32}, {"|b1", ATTUNE_BOOL}, {"|u1", ATTUNE_BOOL},
};

/* The header's dictionary, a Python literal, while it is read. */
typedef struct cursor {
    const char *what, *at, *end;
} cursor;

typedef struct header {
    char descr[DESCR_MAX];
    bool fortran;
    int32_t rank;
    int64_t shape[AT_RANK_MAX];
    unsigned seen; /* one bit a key */
} header;

enum { SEEN_DESCR = 1, SEEN_FORTRAN = 2, SEEN_SHAPE = 4, SEEN_ALL = 7 };

static attune_status malformed(const cursor *c, const char *expected)
{
    int left = c->end - c->at < 20 ? (int)(c->end - c->at) : 20;
    return at_fail(ATTUNE_CORRUPT, "%s: its header has \"%.*s\" where %s is expected", c->what, left, c->at, expected);
}

static void skip_blanks(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t')) {
        c->at++;
    }
}

/* Takes the character if it comes next, blanks before it aside. */
static bool take(cursor *c, char wanted)
{
    skip_blanks(c);
    if (c->at < c->end && *c->at == wanted) {
        c->at++;
        return true;
    }
    return false;
}

static bool take_word(cursor *c, const char *word)
{
    size_t length = strlen(word);
    skip_blanks(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0) {
        return false;
    }
    c->at += length;
    return true;
}

static attune_status read_quoted(cursor *c, const char *meaning, char text[DESCR_MAX])
{
    skip_blanks(c);
    char quote = take(c, '\'') ? '\'' : take(c, '"') ? '"' : '\0';
    const char *close = quote == '\0' ? NULL : memchr(c->at, quote, (size_t)(c->end - c->at));
    if (close == NULL || close - c->at >= DESCR_MAX || memchr(c->at, '\\', (size_t)(close - c->at)) != NULL) {
        return malformed(c, meaning);
    }
    memcpy(text, c->at, (size_t)(close - c->at));
    text[close - c->at] = '\0';
    c->at = close + 1;
    return ATTUNE_OK;
}

static attune_status read_dimension(cursor *c, int64_t *value)
{
    skip_blanks(c);
    const char *first = c->at;
    bool over = false;
    for (*value = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        over |= __builtin_mul_overflow(*value, INT64_C(10), value);
        over |= __builtin_add_overflow(*value, (int64_t)(*c->at - '0'), value);
    }
    if (c->at == first) {
        return malformed(c, "a dimension of the shape");
    }
    AT_FAIL_IF(over, ATTUNE_CORRUPT, "%s: a dimension of its shape is %.*s, at most %lld is possible", c->what,
               (int)(c->at - first < 40 ? c->at - first : 40), first, (long long)INT64_MAX);
    (void)take(c, 'L'); /* as Python 2 wrote them */
    return ATTUNE_OK;
}

/* "()", "(3,)", "(3, 4)": one dimension needs its comma, as in Python. */
static attune_status read_shape(cursor *c, header *h)
{
    if (!take(c, '(')) {
        return malformed(c, "the shape, such as (8, 64),");
    }
    bool comma = true;
    for (h->rank = 0; !take(c, ')'); h->rank++) {
        AT_FAIL_IF(h->rank == AT_RANK_MAX, ATTUNE_UNSUPPORTED, "%s: has more than %d dimensions", c->what, AT_RANK_MAX);
        if (!comma) {
            return malformed(c, "a comma in the shape");
        }
        AT_FORWARD(read_dimension(c, &h->shape[h->rank]));
        comma = take(c, ',');
    }
    return h->rank == 1 && !comma ? malformed(c, "a comma before this in a shape of one dimension") : ATTUNE_OK;
}

static attune_status read_descr(cursor *c, header *h)
{
    skip_blanks(c);
    AT_FAIL_IF(c->at < c->end && *c->at == '[', ATTUNE_UNSUPPORTED,
               "%s: holds records of several fields, expected one plain type such as '<f4'", c->what);
    return read_quoted(c, "the element type, such as '<f4',", h->descr);
}

static attune_status read_fortran(cursor *c, header *h)
{
    h->fortran = take_word(c, "True");
    return h->fortran || take_word(c, "False") ? ATTUNE_OK : malformed(c, "True or False for fortran_order");
}

static attune_status read_entry(cursor *c, header *h)
{
    static const struct {
        const char *key;
        unsigned bit;
        attune_status (*read)(cursor *, header *);
    } keys[] = {
        {"descr", SEEN_DESCR, read_descr},
        {"fortran_order", SEEN_FORTRAN, read_fortran},
        {"shape", SEEN_SHAPE, read_shape},
    };
    char key[DESCR_MAX];
    AT_FORWARD(read_quoted(c, "one of the keys 'descr', 'fortran_order' and 'shape'", key));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(key, keys[i].key) == 0) {
            AT_FAIL_IF(h->seen & keys[i].bit, ATTUNE_CORRUPT, "%s: its header has '%s' twice", c->what, key);
            h->seen |= keys[i].bit;
            return take(c, ':') ? keys[i].read(c, h) : malformed(c, "a colon");
        }
    }
    return at_fail(ATTUNE_CORRUPT, "%s: its header has the unknown key '%s'", c->what, key);
}

static attune_status read_dictionary(cursor *c, header *h)
{
    *h = (header){.rank = 0};
    if (!take(c, '{')) {
        return malformed(c, "a dictionary");
    }
    bool comma = true;
    while (!take(c, '}')) {
        if (!comma) {
            return malformed(c, "a comma");
        }
        AT_FORWARD(read_entry(c, h));
        comma = take(c, ',');
    }
    skip_blanks(c);
    if (c->at != c->end) {
        return malformed(c, "nothing but blanks after the dictionary");
    }
    AT_FAIL_IF(h->seen != SEEN_ALL, ATTUNE_CORRUPT, "%s: its header lacks '%s'", c->what,
               !(h->seen & SEEN_DESCR)     ? "descr"
               : !(h->seen & SEEN_FORTRAN) ? "fortran_order"
                                           : "shape");
    return ATTUNE_OK;
}

static attune_status find_dtype(const char *what, const char *descr, bool v2_is_bf16, int32_t *dtype)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(descr, types[i].descr) == 0) {
            *dtype = types[i].dtype;
            return ATTUNE_OK;
        }
    }
    if (strcmp(descr, "<V2") == 0 || strcmp(descr, "|V2") == 0) {
        *dtype = ATTUNE_BF16;
        AT_FAIL_IF(!v2_is_bf16, ATTUNE_UNSUPPORTED,
                   "%s: its type '%s' is two bytes of unknown meaning: say that it is bf16, or store fp16, fp32 or "
                   "safetensors",
                   what, descr);
        return ATTUNE_OK;
    }
    AT_FAIL_IF(descr[0] == '>', ATTUNE_UNSUPPORTED,
               "%s: its type '%s' is big-endian, expected little-endian: convert with .astype('<%s')", what, descr,
               descr + 1);
    bool whole = descr[0] != '\0' && strchr("iu", descr[1]) != NULL && descr[1] != '\0';
    return at_fail(ATTUNE_UNSUPPORTED,
                   "%s: its type '%s' is none of '<f4', '<f2', '<i4', '|b1' and '|u1': convert with "
                   ".astype(numpy.%s)",
                   what, descr, whole ? "int32" : "float32");
}

/* The header's text, between the fixed part and the data. */
static attune_status find_header(const char *what, const unsigned char *file, size_t bytes, cursor *c)
{
    AT_FAIL_IF(bytes < MAGIC_BYTES || memcmp(file, magic, MAGIC_BYTES) != 0, ATTUNE_CORRUPT,
               "%s: is no .npy file: it does not begin with \\x93NUMPY", what);
    int major = bytes > MAGIC_BYTES ? file[MAGIC_BYTES] : 0;
    size_t field = major == 1 ? 2 : 4, fixed = MAGIC_BYTES + VERSION_BYTES + field;
    AT_FAIL_IF(bytes < fixed, ATTUNE_CORRUPT, "%s: ends after %zu bytes, within the fixed part of its header", what,
               bytes);
    int minor = file[MAGIC_BYTES + 1];
    AT_FAIL_IF(major < 1 || major > 3 || minor != 0, ATTUNE_UNSUPPORTED,
               "%s: is of .npy version %d.%d, known are 1.0, 2.0 and 3.0", what, major, minor);
    size_t length = 0;
    for (size_t i = 0; i < field; i++) {
        length |= (size_t)file[MAGIC_BYTES + VERSION_BYTES + i] << (8 * i);
    }
    AT_FAIL_IF(length > bytes - fixed, ATTUNE_CORRUPT, "%s: its header says %zu bytes long, but only %zu follow", what,
               length, bytes - fixed);
    const char *text = (const char *)file + fixed;
    *c = (cursor){what, text, text + length};
    return ATTUNE_OK;
}

attune_status at_npy_parse(const char *what, const void *file, size_t bytes, const at_npy_options *options,
                           at_array *array)
{
    *array = (at_array){.dtype = -1};
    cursor c;
    header h;
    at_array found = {.dtype = -1};
    AT_FORWARD(find_header(what, file, bytes, &c));
    const char *data = c.end;
    AT_FORWARD(read_dictionary(&c, &h));
    AT_FORWARD(find_dtype(what, h.descr, options != NULL && options->v2_is_bf16, &found.dtype));
    AT_FAIL_IF(h.fortran && h.rank > 1, ATTUNE_UNSUPPORTED,
               "%s: is in Fortran order, expected C order: convert with numpy.ascontiguousarray", what);
    AT_FORWARD(at_array_size(what, h.shape, h.rank, at_array_element(found.dtype), &found.bytes));
    size_t held = bytes - (size_t)(data - (const char *)file);
    AT_FAIL_IF(held != found.bytes, ATTUNE_CORRUPT, "%s: its header says %zu bytes of data, the file has %zu", what,
               found.bytes, held);
    found.rank = h.rank;
    memcpy(found.shape, h.shape, sizeof found.shape);
    found.data = data;
    *array = found;
    return ATTUNE_OK;
}

attune_status at_npy_read(const char *path, const at_npy_options *options, void **file, at_array *array)
{
    *array = (at_array){.dtype = -1};
    size_t bytes;
    AT_FORWARD(at_file_read(path, SIZE_MAX, file, &bytes));
    attune_status status = at_npy_parse(path, *file, bytes, options, array);
    if (status != ATTUNE_OK) {
        free(*file);
        *file = NULL;
    }
    return status;
}

static const char *descr_of(int32_t dtype)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].dtype == dtype) {
            return types[i].descr;
        }
    }
    return dtype == ATTUNE_BF16 ? "<V2" : NULL;
}

/* The whole header of version 1, padded with blanks so that the data start at a multiple of 64 bytes. */
static attune_status print_header(const at_array *array, at_text *text)
{
    at_text_add_bytes(text, magic, MAGIC_BYTES);
    at_text_add_bytes(text, "\1\0\0\0", 4); /* the version, and the length that is known only below */
    at_text_add(text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr_of(array->dtype));
    for (int32_t i = 0; i < array->rank; i++) {
        at_text_add(text, "%s%lld", i == 0 ? "" : ", ", (long long)array->shape[i]);
    }
    at_text_add(text, "%s), }", array->rank == 1 ? "," : "");
    while ((text->wanted + 1) % ALIGN_BYTES != 0) {
        at_text_add_bytes(text, " ", 1);
    }
    at_text_add_bytes(text, "\n", 1);
    AT_FORWARD(at_text_status(text, "a .npy header"));
    size_t length = text->length - MAGIC_BYTES - VERSION_BYTES - 2;
    text->data[MAGIC_BYTES + VERSION_BYTES] = (char)(length & 0xff);
    text->data[MAGIC_BYTES + VERSION_BYTES + 1] = (char)(length >> 8);
    return ATTUNE_OK;
}

attune_status at_npy_write(const char *path, const at_array *array)
{
    size_t bytes;
    AT_FAIL_IF(descr_of(array->dtype) == NULL, ATTUNE_INVALID_ARGUMENT, "%s: dtype %d has no .npy form", path,
               array->dtype);
    AT_FORWARD(at_array_size(path, array->shape, array->rank, at_array_element(array->dtype), &bytes));
    AT_FAIL_IF(bytes != array->bytes, ATTUNE_INVALID_ARGUMENT, "%s: %zu bytes to write, its shape means %zu", path,
               array->bytes, bytes);
    char room[512];
    at_text header_text;
    at_text_init_fixed(&header_text, room, sizeof room);
    AT_FORWARD(print_header(array, &header_text));
    at_writer *writer;
    AT_FORWARD(at_writer_open(path, &writer));
    (void)at_writer_add(writer, room, header_text.length);
    (void)at_writer_add(writer, array->data, bytes);
    return at_writer_commit(writer);
}
