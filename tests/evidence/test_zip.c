/* Compressed files: what goes in comes out, and what is damaged is refused. */
#include <stdlib.h>

#include "base/cm.h"
#include "evidence/zip.h"

static at_text zipped(const char *const *piece, size_t count)
{
    at_text text;
    at_zip *zip;
    at_text_init(&text);
    assert_ok(at_zip_create(&text, &zip));
    for (size_t i = 0; i < count; ++i) {
        assert_ok(at_zip_add(zip, piece[i], strlen(piece[i])));
    }
    assert_ok(at_zip_end(zip));
    return text;
}

static const char *const pieces[] = {"{one}", "", "{two two two two two two}"};

static void what_goes_in_comes_out(void **state)
{
    (void)state;
    at_text file = zipped(pieces, 3), text;
    at_text_init(&text);
    assert_true(at_zip_is(file.data, file.length));
    assert_false(at_zip_is("{\"format\"", 9));
    assert_false(at_zip_is(file.data, 2));
    assert_ok(at_zip_open("it", file.data, file.length, 1000, &text));
    assert_string_equal(text.data, "{one}{two two two two two two}");
    at_text_free(&text);
    at_text_free(&file);
    assert_ok(at_zip_end(NULL));
}

static void damage_is_refused(void **state)
{
    (void)state;
    at_text file = zipped(pieces, 3), text;
    for (size_t bytes = 0; bytes < file.length; ++bytes) {
        at_text_init(&text);
        assert_fails(at_zip_open("it", file.data, bytes, 1000, &text), ATTUNE_CORRUPT, "it cannot be decompressed");
        at_text_free(&text);
    }
    at_text_init(&text);
    at_text_add(&file, "more");
    assert_fails(at_zip_open("it", file.data, file.length, 1000, &text), ATTUNE_CORRUPT, "something follows");
    at_text_free(&text);
    at_text_free(&file);
}

/* A small file may hold very much. */
static void size_is_bounded(void **state)
{
    (void)state;
    char *zeros = malloc(1 << 20);
    assert_non_null(zeros);
    memset(zeros, '0', 1 << 20);
    zeros[(1 << 20) - 1] = '\0';
    at_text file = zipped((const char *const *)&zeros, 1), text;
    at_text_init(&text);
    assert_true(file.length < 4096);
    assert_fails(at_zip_open("it", file.data, file.length, 1 << 19, &text), ATTUNE_CORRUPT, "holds more than");
    at_text_free(&text);
    at_text_free(&file);
    free(zeros);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_out),
        cmocka_unit_test(damage_is_refused),
        cmocka_unit_test(size_is_bounded),
    };
    return cmocka_run_group_tests_name("zip", tests, NULL, NULL);
}
