/* Code digests: what a compiler would not notice changes nothing, everything else does. */
#include "base/cm.h"
#include "base/code.h"

static void digest(const char *text, char hex[AT_DIGEST_TEXT_MAX])
{
    unsigned char bytes[AT_DIGEST_BYTES];
    at_sha256 sha;
    at_sha256_init(&sha);
    at_code_add(&sha, text);
    at_sha256_end(&sha, bytes);
    at_digest_text(bytes, hex);
}

static void comments_and_blanks_change_nothing(void **state)
{
    (void)state;
    static const char *const same[] = {
        "#define A 1\nint a = '\\'' + \"/*\"[0]; /* why */\n",
        "\n\n  #define A 1 // one\n\n\tint   a = '\\'' + \"/*\"[0];\n\n",
        "/* head\n * of the file */\n#define A 1\r\nint a/**/= '\\'' + \"/*\"[0];",
    };
    char first[AT_DIGEST_TEXT_MAX], other[AT_DIGEST_TEXT_MAX];
    digest(same[0], first);
    for (size_t i = 1; i < sizeof same / sizeof same[0]; ++i) {
        digest(same[i], other);
        assert_string_equal(first, other);
    }
}

static void everything_else_does(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"int a;", "int b;"},
        {"int a;", "inta;"},
        {"#define A\nint a;", "#define A int a;"},
        {"\"a  b\"", "\"a b\""},
        {"\"//\"", "\"/*\""},
        {"'\"' /* x */ 1", "'\"' 1 1"},
        {"\"\\\"//\" 1", "\"\\\"//\" 2"},
        {"a / b", "a // b"},
        {"x\\\ny", "x y"},
    };
    char one[AT_DIGEST_TEXT_MAX], two[AT_DIGEST_TEXT_MAX];
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; ++i) {
        digest(pairs[i][0], one);
        digest(pairs[i][1], two);
        assert_string_not_equal(one, two);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comments_and_blanks_change_nothing),
        cmocka_unit_test(everything_else_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
