#include "base/cm.h"

#include <string.h>

#include "evolve/scan.h"

static at_code scanned(const char *text)
{
    at_code code;
    assert_ok(at_code_scan(text, &code));
    return code;
}

static void text_becomes_tokens(void **state)
{
    (void)state;
    at_code code = scanned("#include <a.h> \\\n  more\nx->y += 0x1.8p+3f; // said\n\"a\\\"b\" /* { */ 'c'\n");
    const char *const expected[] = {
        "#include <a.h> \\\n  more", "x", "->", "y", "+=", "0x1.8p+3f", ";", "\"a\\\"b\"", "'c'"};
    assert_int_equal(code.count, sizeof expected / sizeof *expected);
    for (int i = 0; i < code.count; ++i) {
        assert_true(at_token_is(&code, i, expected[i]));
    }
    assert_int_equal(code.token[0].kind, AT_TOKEN_DIRECTIVE);
    assert_true(at_token_is_name(&code, 1));
    assert_false(at_token_is_name(&code, 3)); /* a member */
    assert_false(code.device);
    at_code_free(&code);
}

static void brackets_are_matched(void **state)
{
    (void)state;
    at_code code = scanned("f(a[1], (b)){ }");
    assert_int_equal(code.token[1].match, 10);
    assert_int_equal(code.token[10].match, 1);
    assert_int_equal(code.token[3].match, 5);
    assert_int_equal(code.token[0].match, -1);
    at_code_free(&code);
}

static void what_does_not_end_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"(", ")", "(]", "{ ( }", "\"a\n\"", "/* a", "'", "\"\\"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        at_code code;
        assert_int_equal(at_code_scan(texts[i], &code), ATTUNE_INVALID_ARGUMENT);
        assert_null(code.token);
    }
}

static void statements_end_where_they_end(void **state)
{
    (void)state;
    at_code code = scanned("#pragma unroll\nfor (;;) if (a) { b; } else c; d = (e){f}; do g; while (h); "
                           "UNROLL for (;;) i; case 1: { } if constexpr (j) k;");
    static const char *const firsts[] = {"#pragma unroll", "d", "do", "UNROLL", "case", "{", "if"};
    int32_t at = 0;
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; ++i) {
        assert_true(at_token_is(&code, at, firsts[i]));
        at = at_statement_end(&code, at, code.count);
    }
    assert_int_equal(at, code.count);
    assert_int_equal(at_statement_end(&code, at, code.count), -1);
    at_code_free(&code);
}

static void declarations_say_a_name(void **state)
{
    (void)state;
    static const char *const none[] = {"x = 1;", "x[1] = 2;", "f(x);", "return x;", "x->y = 1;", "a += b;"};
    static const char *const some[] = {"int x = 1;", "const vf *x = y;", "float x[4], z;", "array<int, 4> x;",
                                       "unsigned x{};"};
    for (size_t i = 0; i < sizeof none / sizeof *none; ++i) {
        at_code code = scanned(none[i]);
        assert_int_equal(at_declared_name(&code, 0, code.count), -1);
        at_code_free(&code);
    }
    for (size_t i = 0; i < sizeof some / sizeof *some; ++i) {
        at_code code = scanned(some[i]);
        assert_true(at_token_is(&code, at_declared_name(&code, 0, code.count), "x"));
        at_code_free(&code);
    }
}

static void loops_are_read(void **state)
{
    (void)state;
    at_loop loop;
    int32_t first, end;
    at_code code = scanned("UNROLL for (int64_t i = a + 1; i < b->n; i += 4) { c; }");
    assert_true(at_loop_read(&code, 1, &loop));
    assert_int_equal(loop.first, 0);
    assert_true(at_token_is(&code, loop.name, "i"));
    assert_true(at_token_is(&code, loop.from, "a") && at_token_is(&code, loop.from_end, ";"));
    assert_true(at_token_is(&code, loop.below, "b") && at_token_is(&code, loop.below_end, ";"));
    assert_true(at_token_is(&code, loop.by, "4"));
    assert_int_equal(loop.end, code.count);
    at_loop_inside(&code, &loop, &first, &end);
    assert_int_equal(end - first, 2);
    at_code_free(&code);
    code = scanned("for (i = 0; i < 3; ++i) a; for (int i = 3; i > 0; --i) a; for (;;) a;");
    for (int32_t i = 0; i < code.count; ++i) {
        assert_false(at_loop_read(&code, i, &loop));
    }
    at_code_free(&code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_becomes_tokens),          cmocka_unit_test(brackets_are_matched),
        cmocka_unit_test(what_does_not_end_is_refused), cmocka_unit_test(statements_end_where_they_end),
        cmocka_unit_test(declarations_say_a_name),      cmocka_unit_test(loops_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
