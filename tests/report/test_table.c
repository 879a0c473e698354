#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "report/table.h"
#include "report/utf8.h"

static const at_column columns[] = {
    {"name", AT_COLUMN_TEXT, NULL, 0},
    {"count", AT_COLUMN_INTEGER, NULL, 0},
    {"time", AT_COLUMN_NUMBER, "us", 3},
    {"note", AT_COLUMN_TEXT, NULL, 0},
};

static void add_row(at_table *table, const char *name, int64_t count, double time, const char *note)
{
    at_table_text(table, name);
    at_table_integer(table, count);
    at_table_number(table, time);
    at_table_text(table, note);
}

/* The table's text, malloced. */
static char *printed(const at_table *table, at_format format)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_int_equal(at_table_print(table, format, out), ATTUNE_OK);
    assert_int_equal(fclose(out), 0);
    return text;
}

static at_table *made(void)
{
    at_table *table = NULL;
    assert_int_equal(at_table_create(columns, 4, &table), ATTUNE_OK);
    return table;
}

static void expect(const at_table *table, at_format format, const char *wanted)
{
    char *text = printed(table, format);
    assert_string_equal(text, wanted);
    free(text);
}

static void text_aligns_numbers_right_and_ends_no_line_with_blanks(void **state)
{
    (void)state;
    at_table *table = made();
    add_row(table, "\xc3\xa9t\xc3\xa9", 7, 1.23456, "x");
    add_row(table, "\xe6\xb3\xa8\xe6\x84\x8f", 12345, 1234.5, NULL);
    add_row(table, "longer", -1, 0.0012345, "y");
    expect(table, AT_FORMAT_TEXT,
           "name    count  time [us]  note\n"
           "\xc3\xa9t\xc3\xa9         7       1.23  x\n"
           "\xe6\xb3\xa8\xe6\x84\x8f    12345       1234\n"
           "longer     -1    0.00123  y\n");
    at_table_destroy(table);
}

static void text_shows_control_characters_instead_of_obeying_them(void **state)
{
    (void)state;
    at_table *table = made();
    add_row(table, "a\tb\n\x1b[2J\xff", 1, 1, NULL);
    char *text = printed(table, AT_FORMAT_TEXT);
    assert_non_null(strstr(text, "a\\tb\\n\\x1b[2J?"));
    assert_null(strchr(text, '\x1b'));
    free(text);
    at_table_destroy(table);
}

static void tsv_escapes_and_keeps_every_field(void **state)
{
    (void)state;
    at_table *table = made();
    add_row(table, "a\tb\\c\nd\r", 1, 0.5, NULL);
    add_row(table, NULL, INT64_MIN, NAN, "z");
    expect(table, AT_FORMAT_TSV,
           "name\tcount\ttime\tnote\n"
           "a\\tb\\\\c\\nd\\r\t1\t0.5000000\t\n"
           "\t-9223372036854775808\tnan\tz\n");
    at_table_destroy(table);
}

static void json_is_an_array_of_objects_with_null_for_nan(void **state)
{
    (void)state;
    at_table *table = made();
    add_row(table, "q\"\xff", 3, 0.1, NULL);
    add_row(table, "r", 4, -INFINITY, "s");
    char *text = printed(table, AT_FORMAT_JSON);
    json_t *array = json_loads(text, 0, NULL);
    assert_int_equal(json_array_size(array), 2);
    json_t *first = json_array_get(array, 0), *second = json_array_get(array, 1);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "q\"\xef\xbf\xbd");
    assert_int_equal(json_integer_value(json_object_get(first, "count")), 3);
    assert_true(json_real_value(json_object_get(first, "time")) == 0.1);
    assert_true(json_is_null(json_object_get(first, "note")));
    assert_true(json_is_null(json_object_get(second, "time")));
    json_decref(array);
    free(text);
    at_table_destroy(table);
}

static void an_empty_table_has_its_header_and_an_incomplete_row_is_left_out(void **state)
{
    (void)state;
    at_table *table = made();
    expect(table, AT_FORMAT_TSV, "name\tcount\ttime\tnote\n");
    expect(table, AT_FORMAT_JSON, "[\n]\n");
    at_table_text(table, "half a row");
    expect(table, AT_FORMAT_TSV, "name\tcount\ttime\tnote\n");
    at_table_destroy(table);
    at_table_destroy(NULL);
}

static void numbers_keep_significant_digits(void **state)
{
    (void)state;
    const struct {
        double value;
        int digits;
        const char *text;
    } cases[] = {{0, 3, "0.00"},         {1.23456, 3, "1.23"},   {0.00123456, 3, "0.00123"},
                 {123456, 3, "123456"},  {-12.345, 4, "-12.35"}, {100, 3, "100"},
                 {2e20, 3, "2.00e+20"},  {1e-12, 2, "1.0e-12"},  {INFINITY, 3, "inf"},
                 {-INFINITY, 3, "-inf"}, {NAN, 3, "nan"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char text[48];
        at_number_print(cases[i].value, cases[i].digits, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void utf8_rejects_what_is_not(void **state)
{
    (void)state;
    const char *bad[] = {"\x80", "\xc0\xaf", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        const char *at = bad[i];
        assert_int_equal(at_utf8_next(&at), -1);
        assert_ptr_equal(at, bad[i] + 1);
    }
    const char *good = "\xf0\x9f\x98\x80";
    assert_int_equal(at_utf8_next(&good), 0x1f600);
    assert_int_equal(at_utf8_next(&good), 0);
    assert_int_equal(at_text_width("\xf0\x9f\x98\x80"
                                   "e\xcc\x81"),
                     3);
}

static void formats_have_names(void **state)
{
    (void)state;
    at_format format = AT_FORMAT_TEXT;
    assert_int_equal(at_format_parse("json", &format), ATTUNE_OK);
    assert_int_equal(format, AT_FORMAT_JSON);
    assert_int_equal(at_format_parse("csv", &format), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(format, AT_FORMAT_JSON);
    assert_non_null(strstr(attune_last_detail(), "csv"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_aligns_numbers_right_and_ends_no_line_with_blanks),
        cmocka_unit_test(text_shows_control_characters_instead_of_obeying_them),
        cmocka_unit_test(tsv_escapes_and_keeps_every_field),
        cmocka_unit_test(json_is_an_array_of_objects_with_null_for_nan),
        cmocka_unit_test(an_empty_table_has_its_header_and_an_incomplete_row_is_left_out),
        cmocka_unit_test(numbers_keep_significant_digits),
        cmocka_unit_test(utf8_rejects_what_is_not),
        cmocka_unit_test(formats_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
