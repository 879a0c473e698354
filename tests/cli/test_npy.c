#include "base/cm.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/home.h"
#include "cli/npy.h"

/* A file of version 1 with this header text and `data_bytes` zeros. */
typedef struct made {
    unsigned char bytes[700];
    size_t length;
} made;

static made make(const char *header, size_t data_bytes)
{
    made file = {.bytes = "\x93NUMPY\1"};
    size_t length = strlen(header);
    file.bytes[8] = (unsigned char)(length & 0xff);
    file.bytes[9] = (unsigned char)(length >> 8);
    memcpy(file.bytes + 10, header, length);
    file.length = 10 + length + data_bytes;
    return file;
}

static attune_status parse(const char *header, size_t data_bytes, at_array *array)
{
    made file = make(header, data_bytes);
    attune_status status = at_npy_parse("x.npy", file.bytes, file.length, NULL, array);
    array->data = NULL; /* pointed at what is gone now */
    return status;
}

static void assert_same(const at_array *a, const at_array *b)
{
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->shape, b->shape, sizeof a->shape[0] * (size_t)a->rank);
    assert_int_equal(a->bytes, b->bytes);
    if (a->bytes > 0) {
        assert_memory_equal(a->data, b->data, a->bytes);
    }
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    unsigned char data[96];
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (unsigned char)(i * 5);
    }
    const at_array arrays[] = {
        {ATTUNE_FP32, 3, {2, 3, 4}, data, 96}, {ATTUNE_FP16, 1, {7}, data, 14},
        {ATTUNE_BF16, 2, {3, 1}, data, 6},     {ATTUNE_INT32, 1, {5}, data, 20},
        {ATTUNE_BOOL, 2, {2, 8}, data, 16},    {ATTUNE_FP32, 0, {0}, data, 4},
        {ATTUNE_FP32, 2, {0, 9}, data, 0},     {ATTUNE_BOOL, 8, {1, 1, 2, 1, 1, 1, 1, 3}, data, 6},
    };
    const at_npy_options options = {.v2_is_bf16 = true};
    const char *path = folder_file(&home, "a.npy");
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        void *file;
        at_array back;
        assert_ok(at_npy_write(path, &arrays[i]));
        assert_ok(at_npy_read(path, &options, &file, &back));
        assert_same(&back, &arrays[i]);
        assert_int_equal((uintptr_t)back.data % 64, 0); /* the header is padded for it */
        free(file);
    }
}

static at_array read_sample(const char *name, bool v2_is_bf16, void **file)
{
    char path[PATH_MAX];
    const at_npy_options options = {.v2_is_bf16 = v2_is_bf16};
    at_array array;
    (void)snprintf(path, sizeof path, "%s/tests/fuzz/corpus/npy/%s", ATTUNE_SOURCE_DIR, name);
    assert_ok(at_npy_read(path, &options, file, &array));
    return array;
}

/* Files that NumPy itself wrote. */
static void numpys_files_are_read(void **state)
{
    (void)state;
    static const float count[] = {0, 1, 2, 3, 4, 5};
    static const int32_t whole[] = {0, 3, 7};
    static const uint16_t halves[] = {0, 0x3c00, 0x4000, 0x4200}, ones[] = {0x3f80, 0x3f80, 0x3f80};
    static const struct {
        const char *name;
        at_array array;
    } samples[] = {
        {"f4.npy", {ATTUNE_FP32, 3, {1, 2, 3}, count, 24}},
        {"f2.npy", {ATTUNE_FP16, 1, {4}, halves, 8}},
        {"i4.npy", {ATTUNE_INT32, 1, {3}, whole, 12}},
        {"bool.npy", {ATTUNE_BOOL, 2, {2, 2}, "\1\0\0\1", 4}},
        {"empty.npy", {ATTUNE_FP32, 2, {0, 5}, NULL, 0}},
        {"bf16.npy", {ATTUNE_BF16, 1, {3}, ones, 6}},
        {"version2.npy", {ATTUNE_FP32, 1, {3}, count, 12}},
        {"version3.npy", {ATTUNE_FP32, 1, {3}, count, 12}},
        {"scalar.npy", {ATTUNE_FP32, 0, {0}, "\0\0\x20\x40", 4}},
    };
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        void *file;
        at_array array = read_sample(samples[i].name, true, &file);
        assert_same(&array, &samples[i].array);
        free(file);
    }
}

static void spellings_of_the_header(void **state)
{
    (void)state;
    at_array array;
    assert_ok(parse("{\"shape\":(2,),'descr' : '<f4','fortran_order':False}", 8, &array));
    assert_int_equal(array.shape[0], 2);
    assert_ok(parse("{'descr': '|u1', 'fortran_order': False, 'shape': (2L, 3L), }   \n", 6, &array));
    assert_int_equal(array.dtype, ATTUNE_BOOL);
    assert_ok(parse("{'descr': '<f4', 'fortran_order': True, 'shape': (3,), }\n", 12, &array)); /* one order only */
    assert_ok(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (), }\n", 4, &array));
    assert_int_equal(array.rank, 0);
    /* Zero times anything is zero, and no overflow. */
    assert_ok(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9, 0), }\n", 0, &array));
    assert_int_equal(array.bytes, 0);
}

static void lying_headers_are_refused(void **state)
{
    (void)state;
#define HEAD "{'descr': '<f4', 'fortran_order': False, "
    static const struct {
        const char *header;
        size_t data_bytes;
        attune_status status;
        const char *words;
    } cases[] = {
        {HEAD "'shape': (3,), }", 11, ATTUNE_CORRUPT, "header says 12 bytes of data, the file has 11"},
        {HEAD "'shape': (3,), }", 13, ATTUNE_CORRUPT, "header says 12 bytes of data, the file has 13"},
        {HEAD "'shape': (4611686018427387904, 4), }", 16, ATTUNE_CORRUPT, "more than the"},
        {HEAD "'shape': (9223372036854775807,), }", 16, ATTUNE_CORRUPT, "more than the"},
        {HEAD "'shape': (9223372036854775808,), }", 16, ATTUNE_CORRUPT, "at most 9223372036854775807 is possible"},
        {HEAD "'shape': (-1,), }", 4, ATTUNE_CORRUPT, "has \"-1,), }\" where a dimension of the shape is expected"},
        {HEAD "'shape': (3), }", 12, ATTUNE_CORRUPT, "a comma before this"},
        {HEAD "'shape': (3 4), }", 12, ATTUNE_CORRUPT, "a comma in the shape"},
        {HEAD "'shape': (3, 4", 12, ATTUNE_CORRUPT, "a comma in the shape"},
        {HEAD "'shape': [3], }", 12, ATTUNE_CORRUPT, "where the shape"},
        {HEAD "'shape': (1,1,1,1,1,1,1,1,1), }", 4, ATTUNE_UNSUPPORTED, "more than 8 dimensions"},
        {HEAD "}", 0, ATTUNE_CORRUPT, "lacks 'shape'"},
        {"{}", 0, ATTUNE_CORRUPT, "lacks 'descr'"},
        {"{'descr': '<f4', 'shape': ()}", 4, ATTUNE_CORRUPT, "lacks 'fortran_order'"},
        {HEAD "'shape': (), 'shape': ()}", 4, ATTUNE_CORRUPT, "has 'shape' twice"},
        {HEAD "'shape': (), 'x': 1}", 4, ATTUNE_CORRUPT, "unknown key 'x'"},
        {HEAD "'shape': ()} and more", 4, ATTUNE_CORRUPT, "nothing but blanks after"},
        {HEAD "'shape': () 'x'}", 4, ATTUNE_CORRUPT, "where a comma is expected"},
        {HEAD "'shape' ()}", 4, ATTUNE_CORRUPT, "where a colon is expected"},
        {HEAD "'shape: ()}", 4, ATTUNE_CORRUPT, "one of the keys"},
        {"", 0, ATTUNE_CORRUPT, "where a dictionary is expected"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", 4, ATTUNE_CORRUPT, "True or False"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", 24, ATTUNE_UNSUPPORTED,
         "Fortran order, expected C order: convert with numpy.ascontiguousarray"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': ()}", 4, ATTUNE_UNSUPPORTED,
         "'>f4' is big-endian, expected little-endian: convert with .astype('<f4')"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': ()}", 8, ATTUNE_UNSUPPORTED, ".astype(numpy.float32)"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': ()}", 8, ATTUNE_UNSUPPORTED, ".astype(numpy.int32)"},
        {"{'descr': '', 'fortran_order': False, 'shape': ()}", 8, ATTUNE_UNSUPPORTED, "type '' is none"},
        {"{'descr': '<V2', 'fortran_order': False, 'shape': ()}", 2, ATTUNE_UNSUPPORTED, "say that it is bf16"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", 4, ATTUNE_UNSUPPORTED, "records"},
        {"{'descr': 'a type with a long name', 'fortran_order': False, 'shape': ()}", 4, ATTUNE_CORRUPT,
         "element type"},
    };
#undef HEAD
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        at_array array = {.rank = 5};
        assert_fails(parse(cases[i].header, cases[i].data_bytes, &array), cases[i].status, cases[i].words);
        assert_non_null(strstr(attune_last_detail(), "x.npy: "));
        assert_int_equal(array.dtype, -1);
        assert_int_equal(array.rank, 0);
    }
}

static void truncated_files_are_refused(void **state)
{
    (void)state;
    made file = make("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", 8);
    at_array array;
    assert_ok(at_npy_parse("x.npy", file.bytes, file.length, NULL, &array));
    for (size_t bytes = 0; bytes < file.length; bytes++) {
        /* An exact copy, so that a sanitizer sees a read past its end. */
        unsigned char *copy = malloc(bytes + 1);
        assert_non_null(copy);
        copy = realloc(memcpy(copy, file.bytes, bytes), bytes > 0 ? bytes : 1);
        attune_status status = at_npy_parse("x.npy", copy, bytes, NULL, &array);
        free(copy);
        assert_int_equal(status, ATTUNE_CORRUPT);
    }
}

static void headers_of_other_versions(void **state)
{
    (void)state;
    made file = make("{'descr': '<f4', 'fortran_order': False, 'shape': (), }\n", 4);
    at_array array;
    file.bytes[6] = 4;
    assert_fails(at_npy_parse("x.npy", file.bytes, file.length, NULL, &array), ATTUNE_UNSUPPORTED, "version 4.0");
    file.bytes[6] = 1;
    file.bytes[7] = 1;
    assert_fails(at_npy_parse("x.npy", file.bytes, file.length, NULL, &array), ATTUNE_UNSUPPORTED, "version 1.1");
    file.bytes[7] = 0;
    file.bytes[6] = 2; /* four bytes of length now: the dictionary's first two become its upper half */
    assert_fails(at_npy_parse("x.npy", file.bytes, file.length, NULL, &array), ATTUNE_CORRUPT, "bytes long, but only");
    assert_fails(at_npy_parse("x.npy", "PK\3\4 not numpy", 14, NULL, &array), ATTUNE_CORRUPT, "is no .npy file");
}

static void bad_paths_and_arrays(void **state)
{
    (void)state;
    void *file;
    at_array array;
    assert_fails(at_npy_read(folder_file(&home, "no.npy"), NULL, &file, &array), ATTUNE_NOT_FOUND, "no.npy");
    assert_null(file);
    assert_ok(at_file_write(folder_file(&home, "a.npy"), "junk", 4));
    assert_fails(at_npy_read(home.file, NULL, &file, &array), ATTUNE_CORRUPT, "a.npy: is no .npy file");
    assert_null(file);
    const at_array good = {ATTUNE_FP32, 1, {2}, "12345678", 8};
    at_array bad = good;
    bad.dtype = -1;
    assert_fails(at_npy_write(home.file, &bad), ATTUNE_INVALID_ARGUMENT, "dtype -1");
    bad = good;
    bad.bytes = 7;
    assert_fails(at_npy_write(home.file, &bad), ATTUNE_INVALID_ARGUMENT, "7 bytes to write, its shape means 8");
    assert_fails(at_npy_write("/dev/full", &good), ATTUNE_IO_ERROR, "No space left");
    at_file_interrupt();
    attune_status status = at_npy_write(home.file, &good);
    at_file_resume();
    assert_int_equal(status, ATTUNE_INTERRUPTED);
    size_t bytes;
    assert_ok(at_file_read(home.file, 100, &file, &bytes));
    assert_int_equal(bytes, 4); /* the junk is still there, whole */
    free(file);
    assert_int_equal(folder_count(&home), 1);
}

static void shapes_as_text(void **state)
{
    (void)state;
    at_array array = {.rank = 0};
    char text[AT_ARRAY_TEXT_MAX];
    at_array_shape_text(&array, text);
    assert_string_equal(text, "[]");
    array = (at_array){.rank = 3, .shape = {2, 0, 64}};
    at_array_shape_text(&array, text);
    assert_string_equal(text, "[2, 0, 64]");
    array.rank = AT_RANK_MAX; /* the longest text there is must fit */
    for (int i = 0; i < AT_RANK_MAX; i++) {
        array.shape[i] = INT64_MAX;
    }
    at_array_shape_text(&array, text);
    assert_int_equal(strlen(text), 8 * 19 + 7 * 2 + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_is_read),     TEST(numpys_files_are_read),
        TEST(spellings_of_the_header),     TEST(lying_headers_are_refused),
        TEST(truncated_files_are_refused), TEST(headers_of_other_versions),
        TEST(bad_paths_and_arrays),        TEST(shapes_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
