#include "base/cm.h"

#include "wire/json.h"

static json_t *object;

static int set_up(void **state)
{
    (void)state;
    static const char text[] = "{\"name\": \"tiled\", \"count\": 7, \"ratio\": 0.5, \"on\": true, \"off\": false, "
                               "\"list\": [1], \"none\": null}";
    return at_json_parse("ledger", text, sizeof text - 1, &object) == ATTUNE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    json_decref(object);
    return 0;
}

static void fields_of_their_type_are_found(void **state)
{
    (void)state;
    const char *name = NULL;
    int64_t count = 0;
    double ratio = 0, whole = 0;
    bool on = false, off = true;
    json_t *list = NULL;
    assert_ok(at_json_string(object, "row 3", "name", &name));
    assert_string_equal(name, "tiled");
    assert_ok(at_json_int(object, "row 3", "count", 7, 7, &count));
    assert_int_equal(count, 7);
    assert_ok(at_json_double(object, "row 3", "ratio", &ratio));
    assert_true(ratio == 0.5);
    assert_ok(at_json_double(object, "row 3", "count", &whole)); /* a whole number is a number */
    assert_true(whole == 7);
    assert_ok(at_json_bool(object, "row 3", "on", &on));
    assert_ok(at_json_bool(object, "row 3", "off", &off));
    assert_true(on && !off);
    assert_ok(at_json_field(object, "row 3", "list", JSON_ARRAY, &list));
    assert_int_equal(json_array_size(list), 1);
    assert_ok(at_json_list(object, "row 3", "list", 1, 1, &list));
}

static void other_fields_are_named(void **state)
{
    (void)state;
    const char *name;
    int64_t count = 5;
    double ratio;
    bool on;
    json_t *list;
    assert_fails(at_json_string(object, "row 3", "count", &name), ATTUNE_CORRUPT,
                 "row 3: field \"count\" is a whole number, expected a string");
    assert_fails(at_json_string(object, "row 3", "missing", &name), ATTUNE_CORRUPT, "field \"missing\" is nothing");
    assert_fails(at_json_int(object, "row 3", "ratio", 0, 9, &count), ATTUNE_CORRUPT,
                 "is a decimal number, expected a whole number");
    assert_fails(at_json_int(object, "row 3", "count", 8, 9, &count), ATTUNE_CORRUPT, "is 7, allowed are 8 ... 9");
    assert_fails(at_json_int(object, "row 3", "count", -9, 6, &count), ATTUNE_CORRUPT, "is 7, allowed are -9 ... 6");
    assert_int_equal(count, 5);
    assert_fails(at_json_list(object, "row 3", "list", 2, 9, &list), ATTUNE_CORRUPT,
                 "row 3: field \"list\" has 1 entries, allowed are 2 ... 9");
    assert_fails(at_json_list(object, "row 3", "list", 0, 0, &list), ATTUNE_CORRUPT, "allowed are 0 ... 0");
    assert_fails(at_json_list(object, "row 3", "name", 0, 9, &list), ATTUNE_CORRUPT, "expected an array");
    assert_fails(at_json_double(object, "row 3", "none", &ratio), ATTUNE_CORRUPT, "is null, expected a number");
    assert_fails(at_json_bool(object, "row 3", "list", &on), ATTUNE_CORRUPT, "is an array, expected true or false");
}

static void texts_that_are_no_object_are_refused(void **state)
{
    (void)state;
    json_t *value;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "ledger: line 1"},
        {"{\n\"a\": }", "ledger: line 2, column"},
        {"[1]", "is an array, expected an object"},
        {"{\"a\":1,\"a\":2}", "dup"},
        {"{} {}", "end of file expected"},
        {"{\"a\":1e999}", "overflow"},
        {"\"text\"", "line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_fails(at_json_parse("ledger", cases[i].text, strlen(cases[i].text), &value), ATTUNE_CORRUPT,
                     cases[i].words);
        assert_null(value);
    }
}

/* Texts that are printed as they are, and what others become. */
static void values_print_and_read_back_as_the_same(void **state)
{
    (void)state;
    static const struct {
        const char *text, *printed;
    } cases[] = {
        {"{}", "{}"},
        {"{\"b\":1,\"a\":[]}", "{\"b\":1,\"a\":[]}"},
        {"{ \"a\" : [ 8.890, 8.0, 1e300, -0.1, 3e-7 ] }", "{\"a\":[8.89,8.0,1e+300,-0.1,3e-07]}"},
        {"{\"t\":[true,false,null,\"\\u0041\\n\\\"\"]}", "{\"t\":[true,false,null,\"A\\n\\\"\"]}"},
        {"{\"a\":{\"b\":{\"c\":-9223372036854775807}}}", "{\"a\":{\"b\":{\"c\":-9223372036854775807}}}"},
        {"{\"third\":0.333333333333333314829616256247}", "{\"third\":0.3333333333333333}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *value, *again;
        at_text text, second;
        at_text_init(&text);
        at_text_init(&second);
        assert_ok(at_json_parse("case", cases[i].text, strlen(cases[i].text), &value));
        at_json_print(value, &text);
        assert_string_equal(text.data, cases[i].printed);
        assert_ok(at_json_parse("print", text.data, text.length, &again));
        assert_true(json_equal(value, again));
        at_json_print(again, &second);
        assert_string_equal(text.data, second.data);
        at_text_free(&text);
        at_text_free(&second);
        json_decref(value);
        json_decref(again);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fields_of_their_type_are_found),
        TEST(other_fields_are_named),
        TEST(texts_that_are_no_object_are_refused),
        TEST(values_print_and_read_back_as_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
