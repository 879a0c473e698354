#include "base/cm.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/home.h"
#include "cli/safetensors.h"

typedef struct made {
    unsigned char bytes[1000];
    size_t length;
} made;

static made make(const char *header, size_t data_bytes)
{
    made file = {.length = 8 + strlen(header) + data_bytes};
    file.bytes[0] = (unsigned char)(strlen(header) & 0xff);
    file.bytes[1] = (unsigned char)(strlen(header) >> 8);
    memcpy(file.bytes + 8, header, strlen(header));
    return file;
}

static const unsigned char data[64] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

static const at_named_array four[] = {
    {"mask", NULL, {ATTUNE_BOOL, 1, {3}, data, 3}},
    {"Q", NULL, {ATTUNE_FP32, 2, {1, 2}, data, 8}},
    {"lse", NULL, {ATTUNE_FP32, 0, {0}, data + 4, 4}},
    {"K", NULL, {ATTUNE_BF16, 3, {1, 2, 3}, data + 2, 12}},
};
static const at_pair pairs[] = {{"made by", "a test"}, {"and", "\"quoted\" \xc3\xa9"}};

static void what_is_written_is_read(void **state)
{
    (void)state;
    const char *path = folder_file(&home, "a.safetensors");
    assert_ok(at_safetensors_write(path, four, 4, pairs, 2));
    at_safetensors *tensors;
    assert_ok(at_safetensors_read(path, &tensors));
    assert_int_equal(at_safetensors_count(tensors), 4);
    for (size_t i = 0; i < 4; i++) {
        const at_named_array *tensor = at_safetensors_find(tensors, four[i].name);
        assert_non_null(tensor);
        assert_int_equal(tensor->array.dtype, four[i].array.dtype);
        assert_int_equal(tensor->array.rank, four[i].array.rank);
        assert_memory_equal(tensor->array.shape, four[i].array.shape, sizeof(int64_t) * (size_t)four[i].array.rank);
        assert_int_equal(tensor->array.bytes, four[i].array.bytes);
        assert_memory_equal(tensor->array.data, four[i].array.data, four[i].array.bytes);
        assert_int_equal((uintptr_t)tensor->array.data % at_array_element(tensor->array.dtype), 0);
    }
    assert_string_equal(at_safetensors_at(tensors, 0)->name, "Q"); /* large elements first, then by name */
    assert_string_equal(at_safetensors_at(tensors, 3)->name, "mask");
    assert_string_equal(at_safetensors_find(tensors, "K")->type, "BF16");
    assert_null(at_safetensors_find(tensors, "q"));
    assert_string_equal(at_safetensors_metadata(tensors, "made by"), "a test");
    assert_string_equal(at_safetensors_metadata(tensors, "and"), "\"quoted\" \xc3\xa9");
    assert_null(at_safetensors_metadata(tensors, "other"));
    at_safetensors_destroy(tensors);
    at_safetensors_destroy(NULL);
}

static void the_order_given_does_not_matter(void **state)
{
    (void)state;
    const at_named_array other[] = {four[3], four[0], four[2], four[1]};
    const at_pair swapped[] = {pairs[1], pairs[0]};
    void *a, *b;
    size_t bytes_a, bytes_b;
    assert_ok(at_safetensors_write(folder_file(&home, "a"), four, 4, pairs, 2));
    assert_ok(at_file_read(home.file, 10000, &a, &bytes_a));
    assert_ok(at_safetensors_write(folder_file(&home, "b"), other, 4, swapped, 2));
    assert_ok(at_file_read(home.file, 10000, &b, &bytes_b));
    assert_int_equal(bytes_a, bytes_b);
    assert_memory_equal(a, b, bytes_a);
    free(a);
    free(b);
}

static void nothing_can_be_written_too(void **state)
{
    (void)state;
    at_safetensors *tensors;
    assert_ok(at_safetensors_write(folder_file(&home, "a"), NULL, 0, NULL, 0));
    assert_ok(at_safetensors_read(home.file, &tensors));
    assert_int_equal(at_safetensors_count(tensors), 0);
    at_safetensors_destroy(tensors);
}

static at_safetensors *read_sample(const char *folder_name, const char *name)
{
    char path[PATH_MAX];
    at_safetensors *tensors;
    (void)snprintf(path, sizeof path, "%s/%s/%s", ATTUNE_SOURCE_DIR, folder_name, name);
    assert_ok(at_safetensors_read(path, &tensors));
    return tensors;
}

/* Files that the format's own library wrote. */
static void the_librarys_files_are_read(void **state)
{
    (void)state;
    at_safetensors *tensors = read_sample("tests/fuzz/corpus/safetensors", "roles.safetensors");
    assert_int_equal(at_safetensors_count(tensors), 4);
    const at_named_array *query = at_safetensors_find(tensors, "Q");
    assert_int_equal(query->array.dtype, ATTUNE_FP32);
    assert_memory_equal(query->array.data, "\0\0\x80\x3f\0\0\x80\x3f", 8);
    assert_int_equal(at_safetensors_find(tensors, "mask")->array.dtype, ATTUNE_BOOL);
    assert_int_equal(at_safetensors_find(tensors, "CU_Q")->array.dtype, ATTUNE_INT32);
    assert_int_equal(at_safetensors_find(tensors, "x")->array.dtype, -1); /* F64: kept, but not for us */
    assert_string_equal(at_safetensors_find(tensors, "x")->type, "F64");
    assert_string_equal(at_safetensors_metadata(tensors, "made"), "by hand");
    at_safetensors_destroy(tensors);
    tensors = read_sample("tests/fuzz/corpus/safetensors", "empty_tensor.safetensors");
    assert_int_equal(at_safetensors_find(tensors, "e")->array.bytes, 0);
    assert_int_equal(at_safetensors_find(tensors, "f")->array.bytes, 4);
    at_safetensors_destroy(tensors);
    tensors = read_sample("examples/data", "minilm_layer.safetensors");
    assert_true(at_safetensors_count(tensors) >= 4);
    at_safetensors_destroy(tensors);
}

static void assert_refused(const char *header, size_t data_bytes, attune_status status, const char *words)
{
    made file = make(header, data_bytes);
    at_safetensors *tensors = (at_safetensors *)&file;
    assert_fails(at_safetensors_parse("x.st", file.bytes, file.length, &tensors), status, words);
    assert_non_null(strstr(attune_last_detail(), "x.st: "));
    assert_null(tensors);
}

#define F32(shape, from, to) "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"

static void lying_offsets_are_refused(void **state)
{
    (void)state;
    assert_refused("{\"a\":" F32("[2]", 0, 8) "}", 7, ATTUNE_CORRUPT, "within the file's 7 bytes");
    assert_refused("{\"a\":" F32("[2]", 0, 8) "}", 9, ATTUNE_CORRUPT, "has 9 bytes of data, its tensors mean 8");
    assert_refused("{\"a\":" F32("[2]", 0, 4) "}", 4, ATTUNE_CORRUPT, "span 4 bytes, its shape and dtype mean 8");
    assert_refused("{\"a\":" F32("[2]", 8, 0) "}", 8, ATTUNE_CORRUPT, "data_offsets are 8 ... 0");
    assert_refused("{\"a\":" F32("[2]", -8, 0) "}", 8, ATTUNE_CORRUPT, "data_offsets are -8 ... 0");
    assert_refused("{\"a\":" F32("[2]", 0, 8) ",\"b\":" F32("[2]", 4, 12) "}", 12, ATTUNE_CORRUPT,
                   "tensor \"b\" begins at 4, inside \"a\"");
    assert_refused("{\"a\":" F32("[2]", 0, 8) ",\"b\":" F32("[2]", 0, 8) "}", 8, ATTUNE_CORRUPT, "begins at 0, inside");
    assert_refused("{\"a\":" F32("[1]", 0, 4) ",\"b\":" F32("[1]", 8, 12) "}", 12, ATTUNE_CORRUPT,
                   "bytes 4 ... 8 of its data belong to no tensor");
    assert_refused("{\"a\":" F32("[1]", 4, 8) "}", 8, ATTUNE_CORRUPT, "bytes 0 ... 4");
    assert_refused("{\"a\":" F32("[2]", 0, 9223372036854775807) "}", 8, ATTUNE_CORRUPT, "within the file's 8 bytes");
    assert_refused("{\"a\":" F32("[2]", 0, 9223372036854775808) "}", 8, ATTUNE_CORRUPT, "of its JSON");
    assert_refused("{\"a\":" F32("[2]", 0, 8.0) "}", 8, ATTUNE_CORRUPT, "item 1 of its data_offsets is a decimal");
    assert_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0]}}", 4, ATTUNE_CORRUPT,
                   "data_offsets have 1 items");
    assert_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, ATTUNE_CORRUPT, "\"data_offsets\" is nothing");
}

static void lying_shapes_are_refused(void **state)
{
    (void)state;
    assert_refused("{\"a\":" F32("[4611686018427387904,4]", 0, 8) "}", 8, ATTUNE_CORRUPT, "that memory can have");
    assert_refused("{\"a\":" F32("[-1,-2]", 0, 8) "}", 8, ATTUNE_CORRUPT, "dimension 0 of its shape is -1");
    assert_refused("{\"a\":" F32("[\"2\"]", 0, 8) "}", 8, ATTUNE_CORRUPT, "item 0 of its shape is a string");
    assert_refused("{\"a\":" F32("[1,1,1,1,1,1,1,1,1]", 0, 4) "}", 4, ATTUNE_UNSUPPORTED, "has 9 dimensions");
    assert_refused("{\"a\":" F32("2", 0, 8) "}", 8, ATTUNE_CORRUPT, "\"shape\" is a whole number");
    assert_refused("{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, ATTUNE_CORRUPT, "\"dtype\" is nothing");
    assert_refused("{\"a\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, ATTUNE_UNSUPPORTED,
                   "tensor \"a\": its dtype \"F31\" is unknown");
    assert_refused("{\"a\":[]}", 0, ATTUNE_CORRUPT, "tensor \"a\": is an array, expected an object");
}

static void lying_headers_are_refused(void **state)
{
    (void)state;
    assert_refused("{\"a\":" F32("[1]", 0, 4) ",\"a\":" F32("[1]", 0, 4) "}", 4, ATTUNE_CORRUPT, "duplicate");
    assert_refused("[]", 0, ATTUNE_CORRUPT, "does not begin with \"{\"");
    assert_refused("", 0, ATTUNE_CORRUPT, "does not begin with \"{\"");
    assert_refused("{", 0, ATTUNE_CORRUPT, "line 1");
    assert_refused("{} x", 0, ATTUNE_CORRUPT, "end of file expected");
    assert_refused("{\"\xff\":1}", 0, ATTUNE_CORRUPT, "unable to decode byte 0xff");
    assert_refused("{\"__metadata__\":{\"a\":1}}", 0, ATTUNE_CORRUPT, "\"a\" of its __metadata__ is a whole number");
    assert_refused("{\"__metadata__\":\"a\"}", 0, ATTUNE_CORRUPT, "its __metadata__ is a string");
    made file = make("{}", 0);
    at_safetensors *tensors;
    assert_ok(at_safetensors_parse("x.st", file.bytes, file.length, &tensors));
    at_safetensors_destroy(tensors);
    assert_fails(at_safetensors_parse("x.st", file.bytes, 7, &tensors), ATTUNE_CORRUPT, "it has 7 bytes");
    file.bytes[0] = 3;
    assert_fails(at_safetensors_parse("x.st", file.bytes, file.length, &tensors), ATTUNE_CORRUPT,
                 "header has 3 bytes, but only 2 follow");
    memset(file.bytes, 0xff, 8);
    assert_fails(at_safetensors_parse("x.st", file.bytes, file.length, &tensors), ATTUNE_CORRUPT,
                 "18446744073709551615 bytes, at most 100000000");
    file = make("{}   ", 0); /* padding is allowed */
    assert_ok(at_safetensors_parse("x.st", file.bytes, file.length, &tensors));
    at_safetensors_destroy(tensors);
}

static void truncated_files_are_refused(void **state)
{
    (void)state;
    made file = make("{\"__metadata__\":{\"k\":\"v\"},\"a\":" F32("[2]", 0, 8) "}", 8);
    at_safetensors *tensors;
    assert_ok(at_safetensors_parse("x.st", file.bytes, file.length, &tensors));
    at_safetensors_destroy(tensors);
    for (size_t bytes = 0; bytes < file.length; bytes++) {
        unsigned char *copy = malloc(bytes > 0 ? bytes : 1);
        assert_non_null(copy);
        memcpy(copy, file.bytes, bytes);
        attune_status status = at_safetensors_parse("x.st", copy, bytes, &tensors);
        free(copy);
        assert_int_equal(status, ATTUNE_CORRUPT);
    }
}

static void bad_tensors_are_not_written(void **state)
{
    (void)state;
    const char *path = folder_file(&home, "a");
    at_named_array bad = four[1];
    bad.array.dtype = -1;
    assert_fails(at_safetensors_write(path, &bad, 1, NULL, 0), ATTUNE_INVALID_ARGUMENT, "\"Q\": dtype -1");
    bad = four[1];
    bad.array.bytes = 4;
    assert_fails(at_safetensors_write(path, &bad, 1, NULL, 0), ATTUNE_INVALID_ARGUMENT, "4 bytes to write");
    bad = four[1];
    bad.name = "__metadata__";
    assert_fails(at_safetensors_write(path, &bad, 1, NULL, 0), ATTUNE_INVALID_ARGUMENT, "can be named");
    bad.name = "\xff";
    assert_fails(at_safetensors_write(path, &bad, 1, NULL, 0), ATTUNE_INVALID_ARGUMENT, "UTF-8");
    const at_named_array twice[] = {four[1], four[1]};
    assert_fails(at_safetensors_write(path, twice, 2, NULL, 0), ATTUNE_INVALID_ARGUMENT, "\"Q\" is given twice");
    const at_pair keys[] = {pairs[0], pairs[0]};
    assert_fails(at_safetensors_write(path, four, 4, keys, 2), ATTUNE_INVALID_ARGUMENT, "\"made by\" is given twice");
    assert_int_equal(folder_count(&home), 0);
    assert_fails(at_safetensors_write("/dev/full", four, 4, NULL, 0), ATTUNE_IO_ERROR, "No space left");
    assert_fails(at_safetensors_write(folder_file(&home, "no/a"), four, 4, NULL, 0), ATTUNE_NOT_FOUND, "no/a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_is_read),     TEST(the_order_given_does_not_matter), TEST(nothing_can_be_written_too),
        TEST(the_librarys_files_are_read), TEST(lying_offsets_are_refused),       TEST(lying_shapes_are_refused),
        TEST(lying_headers_are_refused),   TEST(truncated_files_are_refused),     TEST(bad_tensors_are_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
