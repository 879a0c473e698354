#include "base/cm.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"

static void growing_text_holds_all(void **state)
{
    (void)state;
    at_text text;
    at_text_init(&text);
    assert_string_equal(text.data, "");
    for (int i = 0; i < 1000; i++) {
        at_text_add(&text, "%d,", i);
    }
    at_text_add_bytes(&text, "end", 3);
    char *data;
    size_t bytes;
    assert_ok(at_text_take(&text, "list", &data, &bytes));
    assert_int_equal(bytes, strlen(data));
    assert_int_equal(bytes, 10 * 2 + 90 * 3 + 900 * 4 + 3);
    assert_memory_equal(data, "0,1,2,", 6);
    assert_string_equal(data + bytes - 7, "999,end");
    free(data);
    assert_string_equal(text.data, ""); /* usable again */
}

/* What a shell makes of a word is the word. */
static void words_pass_through_a_shell(void **state)
{
    (void)state;
    static const char *const words[] = {
        "tiled:BLOCK_M=64,BLOCK_N=48", "/a/b-c_d.e", "",  "two words",    "it's",      "'", "''", "a'b c'd",
        "$HOME `id` \"x\" \\",         "*?[a]{b,c}", "~", "!x;y&z|<>()#", "line\nline"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i) {
        char heard[64] = "";
        at_text text;
        at_text_init(&text);
        at_text_add(&text, "printf %%s ");
        at_text_add_word(&text, words[i]);
        FILE *shell = popen(text.data, "r"); /* NOLINT(cert-env33-c): a shell is what is asked */
        assert_non_null(shell);
        (void)fread(heard, 1, sizeof heard - 1, shell);
        assert_int_equal(pclose(shell), 0);
        assert_string_equal(heard, words[i]);
        at_text_free(&text);
    }
    at_text plain;
    at_text_init(&plain);
    at_text_add_word(&plain, words[0]);
    assert_string_equal(plain.data, words[0]); /* nothing is in the way of reading it */
    at_text_free(&plain);
}

static void empty_text_can_be_taken(void **state)
{
    (void)state;
    at_text text;
    at_text_init(&text);
    char *data = NULL;
    assert_ok(at_text_take(&text, "nothing", &data, NULL));
    assert_string_equal(data, "");
    free(data);
    at_text_free(&text);
}

static void fixed_text_keeps_its_bounds(void **state)
{
    (void)state;
    char buffer[8] = "xxxxxxx";
    at_text text;
    at_text_init_fixed(&text, buffer, 6);
    at_text_add(&text, "%s", "abcde"); /* fits exactly */
    assert_ok(at_text_status(&text, "letters"));
    at_text_add(&text, "%s", "");
    assert_ok(at_text_status(&text, "letters"));
    at_text_add(&text, "%s", "f");
    assert_fails(at_text_status(&text, "letters"), ATTUNE_INVALID_ARGUMENT, "letters needs 7 bytes, the buffer has 6");
    at_text_add_bytes(&text, "", 0);
    assert_string_equal(buffer, "abcde");
    assert_int_equal(buffer[6], 'x');
    at_text_free(&text); /* must not free the caller's buffer */
}

static void nothing_follows_what_did_not_fit(void **state)
{
    (void)state;
    char buffer[6];
    at_text text;
    at_text_init_fixed(&text, buffer, sizeof buffer);
    at_text_add(&text, "%s", "abc");
    at_text_add(&text, "%s", "too long");
    at_text_add(&text, "%s", "z"); /* would fit, but not after the gap */
    assert_string_equal(buffer, "abc");
    assert_fails(at_text_status(&text, "it"), ATTUNE_INVALID_ARGUMENT, "needs 13 bytes");
}

static void floats_read_back(void **state)
{
    (void)state;
    static const float values[] = {0.0f, 0.1f, 1.0f / 3, 16777217.0f, FLT_MAX, FLT_MIN, 1e-45f, -2.5f, 0.088388346f};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char buffer[64];
        at_text text;
        at_text_init_fixed(&text, buffer, sizeof buffer);
        at_text_add_float(&text, values[i]);
        float back = 77;
        assert_ok(at_parse_float("value", buffer, &back));
        assert_true(back == values[i]);
        double exact = (double)values[i] * 1.1, again = 77;
        at_text_init_fixed(&text, buffer, sizeof buffer);
        at_text_add_double(&text, exact);
        assert_ok(at_parse_double("value", buffer, &again));
        assert_true(again == exact);
    }
    char buffer[64];
    at_text text;
    at_text_init_fixed(&text, buffer, sizeof buffer);
    at_text_add_float(&text, 0.1f);
    at_text_add_bytes(&text, " ", 1);
    at_text_add_double(&text, -(double)INFINITY);
    at_text_add_bytes(&text, " ", 1);
    at_text_add_float(&text, -NAN);
    assert_string_equal(buffer, "0.1 -inf nan");
}

static void numbers_ignore_the_locale(void **state)
{
    (void)state;
    /* A locale with a decimal comma, where the machine has one; without one the test still checks the C locale. */
    static const char *const commas[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "nl_NL.UTF-8"};
    for (size_t i = 0; i < 4 && setlocale(LC_NUMERIC, commas[i]) == NULL; i++) {
    }
    char buffer[32];
    at_text text;
    at_text_init_fixed(&text, buffer, sizeof buffer);
    at_text_add_float(&text, 1.5f);
    double value = 0;
    attune_status status = at_parse_double("scale", "1.5", &value);
    (void)setlocale(LC_NUMERIC, "C");
    assert_ok(status);
    assert_string_equal(buffer, "1.5");
    assert_true(value == 1.5);
}

static void whole_numbers_are_strict(void **state)
{
    (void)state;
    int64_t value = 77;
    assert_ok(at_parse_int64("b", "0", 0, 10, &value));
    assert_int_equal(value, 0);
    assert_ok(at_parse_int64("b", "-9223372036854775808", INT64_MIN, INT64_MAX, &value));
    assert_true(value == INT64_MIN);
    assert_ok(at_parse_int64("b", "9223372036854775807", INT64_MIN, INT64_MAX, &value));
    assert_true(value == INT64_MAX);
    assert_ok(at_parse_int64("b", "007", 0, 10, &value));
    assert_int_equal(value, 7);
    static const char *const wrong[] = {"", "-", "+1", " 1", "1 ", "1.0", "0x10", "1e3", "--1", "1,000", "\xd9\xa1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_fails(at_parse_int64("batch", wrong[i], 0, 10, &value), ATTUNE_INVALID_ARGUMENT,
                     "expected a whole number");
    }
    static const char *const outside[] = {"11",
                                          "-1",
                                          "9223372036854775808",
                                          "-9223372036854775809",
                                          "18446744073709551617",
                                          "99999999999999999999999999"};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        assert_fails(at_parse_int64("batch", outside[i], 0, 10, &value), ATTUNE_INVALID_ARGUMENT,
                     "allowed are 0 ... 10");
    }
    assert_fails(at_parse_int64("batch", "11", 0, 10, &value), ATTUNE_INVALID_ARGUMENT, "batch is 11");
    assert_int_equal(value, 7); /* failures left it alone */
}

static void unsigned_numbers_use_all_bits(void **state)
{
    (void)state;
    uint64_t value = 7;
    assert_ok(at_parse_uint64("seed", "18446744073709551615", &value));
    assert_true(value == UINT64_MAX);
    assert_fails(at_parse_uint64("seed", "18446744073709551616", &value), ATTUNE_INVALID_ARGUMENT, "seed is 1844");
    assert_fails(at_parse_uint64("seed", "-1", &value), ATTUNE_INVALID_ARGUMENT, "without a sign");
}

static void decimals_are_strict(void **state)
{
    (void)state;
    double value = 0;
    float narrow = 0;
    assert_ok(at_parse_double("scale", "-1.25e-2", &value));
    assert_true(value == -0.0125);
    assert_ok(at_parse_float("scale", ".5", &narrow));
    assert_true(narrow == 0.5f);
    static const char *const wrong[] = {"",   ".",  "e5",  "nan",  "inf", "-inf", "0x1p3",
                                        " 1", "1 ", "1,5", "1.5x", "1e",  "--1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_fails(at_parse_double("scale", wrong[i], &value), ATTUNE_INVALID_ARGUMENT, "expected a decimal number");
        assert_fails(at_parse_float("scale", wrong[i], &narrow), ATTUNE_INVALID_ARGUMENT, "expected a decimal number");
    }
    assert_fails(at_parse_double("scale", "1e999", &value), ATTUNE_INVALID_ARGUMENT, "1.8e308");
    assert_fails(at_parse_float("scale", "-1e39", &narrow), ATTUNE_INVALID_ARGUMENT, "3.4e38");
    assert_true(narrow == 0.5f);
}

static void distances_count_edits(void **state)
{
    (void)state;
    assert_int_equal(at_text_distance("", ""), 0);
    assert_int_equal(at_text_distance("", "abc"), 3);
    assert_int_equal(at_text_distance("kitten", "sitting"), 3);
    assert_int_equal(at_text_distance("casual", "causal"), 1); /* neighbours swapped */
    assert_int_equal(at_text_distance("tiled", "tiled"), 0);
    char full[AT_DISTANCE_MAX + 1], longer[AT_DISTANCE_MAX + 2];
    memset(full, 'a', sizeof full);
    full[AT_DISTANCE_MAX] = '\0';
    memset(longer, 'a', sizeof longer);
    longer[AT_DISTANCE_MAX + 1] = '\0';
    assert_int_equal(at_text_distance(full, ""), AT_DISTANCE_MAX);
    assert_int_equal(at_text_distance(full, longer), AT_DISTANCE_MAX);
    assert_int_equal(at_text_distance(longer, longer), 0);
}

static void nearest_is_near(void **state)
{
    (void)state;
    static const char *const names[] = {"causal", NULL, "window", "softcap", "d"};
    assert_string_equal(at_text_nearest("casual", names, 5), "causal");
    assert_string_equal(at_text_nearest("windows", names, 5), "window");
    assert_string_equal(at_text_nearest("softcap", names, 5), "softcap");
    assert_null(at_text_nearest("elephant", names, 5));
    assert_null(at_text_nearest("", names, 5));
    assert_null(at_text_nearest("x", names, 5)); /* not "d": nothing of it would remain */
    assert_null(at_text_nearest("causal", names, 0));
}

static void times_have_the_unit_that_suits_them(void **state)
{
    static const struct {
        double us;
        const char *text;
    } times[] = {{0.0123, "12.30 ns"}, {0.9999, "999.9 ns"}, {1, "1.000 us"},     {931.24, "931.2 us"},
                 {999.99, "1.000 ms"}, {20420, "20.42 ms"},  {1.25e6, "1.250 s"}, {3.6e9, "3600 s"},
                 {0, "0.000 ns"},      {NAN, "-"},           {INFINITY, "-"}};
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof times[0]; ++i) {
        char text[AT_TIME_TEXT];
        at_time_print(times[i].us, text);
        assert_string_equal(text, times[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growing_text_holds_all),
        cmocka_unit_test(words_pass_through_a_shell),
        cmocka_unit_test(empty_text_can_be_taken),
        cmocka_unit_test(fixed_text_keeps_its_bounds),
        cmocka_unit_test(nothing_follows_what_did_not_fit),
        cmocka_unit_test(floats_read_back),
        cmocka_unit_test(numbers_ignore_the_locale),
        cmocka_unit_test(whole_numbers_are_strict),
        cmocka_unit_test(unsigned_numbers_use_all_bits),
        cmocka_unit_test(decimals_are_strict),
        cmocka_unit_test(distances_count_edits),
        cmocka_unit_test(nearest_is_near),
        cmocka_unit_test(times_have_the_unit_that_suits_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
