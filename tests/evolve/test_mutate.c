#include "base/cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "evolve/mutate.h"

enum { IDEA = 160, DRAWS = 200 };

/* Whether some draw of a rule makes this of a source. Blanks count as one another, and are left out at lines' ends. */
static bool same_but_blanks(const char *a, const char *b)
{
    for (;; ++a, ++b) {
        a += strspn(a, " \n");
        b += strspn(b, " \n");
        if (*a != *b || *a == '\0') {
            return *a == *b;
        }
    }
}

static bool makes(const char *rule, const char *source, const char *expected)
{
    bool found = false;
    for (uint64_t draw = 0; draw < DRAWS && !found; ++draw) {
        char idea[IDEA], *changed;
        if (at_mutate_by(rule, source, draw, &changed, idea, sizeof idea) == ATTUNE_OK) {
            found = same_but_blanks(changed, expected);
            assert_true(idea[0] != '\0');
        }
        free(changed);
    }
    return found;
}

static bool applies(const char *rule, const char *source)
{
    char idea[IDEA], *changed;
    const attune_status status = at_mutate_by(rule, source, 1, &changed, idea, sizeof idea);
    assert_true(status == ATTUNE_OK || (status == ATTUNE_NOT_FOUND && changed == NULL));
    free(changed);
    return status == ATTUNE_OK;
}

/* ---- Each rule -------------------------------------------------------------------------------------------------- */

static void jam_shares_the_inner_loop(void **state)
{
    (void)state;
    assert_true(makes("jam",
                      "void f(void) { for (int n = 0; n < k; ++n) { float s = 0; for (int c = 0; c < d; ++c) { s += "
                      "a[n] * b[c]; } o[n] = s; } }",
                      "void f(void) { for (int n = 0; n < k / 2 * 2; n += 2) { float s = 0; float s_1 = 0; "
                      "for (int c = 0; c < d; ++c) { s += a[n] * b[c]; s_1 += a[(n + 1)] * b[c]; } o[n] = s; "
                      "o[(n + 1)] = s_1; } for (int n = k / 2 * 2; n < k; ++n) { float s = 0; for (int c = 0; c < d; "
                      "++c) { s += a[n] * b[c]; } o[n] = s; } }"));
}

static void jam_leaves_what_is_carried_on(void **state)
{
    (void)state;
    const char *const inner = "for (int c = 0; c < d; ++c) { o[c] += n; }";
    static const char *const bodies[] = {"break;", "at = n; g(at);", "if (n) continue;", "k = 3;", "return;"};
    char text[300];
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; ++i) {
        (void)snprintf(text, sizeof text, "void f(void) { for (int n = 0; n < k; ++n) { %s %s } }", inner, bodies[i]);
        assert_false(applies("jam", text));
    }
    assert_true(applies("jam", "void f(void) { for (int n = 0; n < k; ++n) { for (int c = 0; c < d; ++c) { o[c] += n; "
                               "} } }"));
}

/* What is more than a register file holds is never drawn: 6 iterations become 12 at most, and 12 no more. */
static void jam_stops_where_registers_end(void **state)
{
    (void)state;
    const char *const grouped =
        "void f(void) { for (int n = 0; n < k / %d * %d; n += %d) { float s = 0; for (int c = 0; "
        "c < d; ++c) { s += a[n] * b[c]; } o[n] = s; } }";
    char text[600];
    (void)snprintf(text, sizeof text, grouped, 12, 12, 12);
    assert_false(applies("jam", text));
    (void)snprintf(text, sizeof text, grouped, 6, 6, 6);
    for (uint64_t draw = 0; draw < 16; ++draw) {
        char idea[IDEA], *changed;
        assert_ok(at_mutate_by("jam", text, draw, &changed, idea, sizeof idea));
        assert_non_null(strstr(changed, "n += 12"));
        free(changed);
    }
    const char *const summed = "void f(void) { for (int v = 0; v < k; ++v) { float s = 0, t = 0; for (int c = 0; c < "
                               "d; ++c) { %s } o[v] = s + t; } }";
    char body[400] = "";
    for (int sums = 1; sums <= 17; ++sums) { /* two of 16 sums are 32; none of 17 */
        (void)snprintf(body + strlen(body), sizeof body - strlen(body), "s += a[%d];", sums);
        (void)snprintf(text, sizeof text, summed, body);
        assert_int_equal(applies("jam", text), sums <= 16);
    }
    assert_true(applies("jam", "void f(void) { for (int n = 0; n < k; n += 16) { for (int c = 0; c < d; ++c) { o[c] += "
                               "a[n]; } } }"));
}

static void unroll_puts_a_pragma(void **state)
{
    (void)state;
    assert_true(
        makes("unroll", "for (int i = 0; i < n; ++i) a;", "#pragma GCC unroll 4\nfor (int i = 0; i < n; ++i) a;"));
    assert_true(makes("unroll", "__device__ int b;\n#pragma unroll\nfor (int i = 0; i < n; ++i) a;",
                      "__device__ int b;\n#pragma unroll 8\nfor (int i = 0; i < n; ++i) a;"));
}

static void chains_makes_several_sums(void **state)
{
    (void)state;
    assert_true(makes("chains", "{ float s = 0; for (int i = 0; i < n; ++i) { s += a[i]; } }",
                      "{ float s = 0; float s_1 = {0}; for (int i = 0; i < n / 2 * 2; i += 2) { s += a[i]; s_1 "
                      "+= a[(i + 1)]; } for (int i = n / 2 * 2; i < n; ++i) { s += a[i]; } s += s_1; }"));
    assert_false(applies("chains", "{ float s = 0; for (int i = 0; i < n; ++i) { s += s * a[i]; } }"));
}

/* A loop around a sum in several parts is still one that can be jammed. */
static void rules_take_what_rules_left(void **state)
{
    (void)state;
    char idea[IDEA], *parts, *jammed;
    assert_ok(
        at_mutate_by("chains",
                     "void f(void) { for (int c = 0; c < d; ++c) { vf s = o[c]; for (int i = 0; i < n; ++i) { s += "
                     "a[i] * b[c]; } o[c] = s; } }",
                     1, &parts, idea, sizeof idea));
    assert_ok(at_mutate_by("jam", parts, 1, &jammed, idea, sizeof idea));
    free(jammed);
    free(parts);
}

static void split_makes_two_loops(void **state)
{
    (void)state;
    assert_true(makes("split", "for (int i = 0; i < n; ++i) { a[i] = 1; b[i] = 2; }",
                      "for (int i = 0; i < n; ++i) { a[i] = 1; } for (int i = 0; i < n; ++i) { b[i] = 2; }"));
    assert_false(applies("split", "for (int i = 0; i < n; ++i) { int x = a[i]; b[i] = x; }"));
    assert_false(applies("split", "for (int i = 0; i < n; ++i) { a[i] = 1; __syncthreads(); }"));
}

static void interchange_turns_two_loops(void **state)
{
    (void)state;
    assert_true(makes("interchange", "for (int i = 0; i < n; ++i) { for (int k = 0; k < m; ++k) { a[k] += b[i][k]; } }",
                      "for (int k = 0; k < m; ++k) { for (int i = 0; i < n; ++i) { a[k] += b[i][k]; } }"));
    static const char *const bound[] = {
        "for (int i = 0; i < n; ++i) { for (int k = 0; k < i; ++k) { a[k] = i; } }",
        "for (int i = 0; i < n; ++i) { float s = 0; for (int k = 0; k < m; ++k) { a[k] = i; } }",
        "for (int i = 0; i < n; ++i) { for (int k = 0; k < m; ++k) { last = a[k]; } }",
        "for (int i = 0; i < n; ++i) { for (int k = 0; k < m; ++k) { a[k] = i; __syncthreads(); } }"};
    for (size_t i = 0; i < sizeof bound / sizeof *bound; ++i) {
        assert_false(applies("interchange", bound[i]));
    }
}

/* Counts of stages and the like, where they are numbers of the source. */
static void constants_become_others(void **state)
{
    (void)state;
    assert_true(makes("constant", "constexpr int stages = 2;", "constexpr int stages = 3;"));
    assert_true(makes("constant", "enum { PAD = 8, KEYS = 4 };", "enum { PAD = 16, KEYS = 4 };"));
    assert_true(makes("constant", "enum { PAD = 8, KEYS = 4 };", "enum { PAD = 8, KEYS = 2 };"));
    assert_true(makes("constant", "static const bool swizzled = 0;", "static const bool swizzled = 1;"));
    static const char *const others[] = {
        "int x = 2;", "constexpr int x = 2 * y;", "constexpr float x = 0.5f;", "enum { A, B };",
        "x = 2;",     "constexpr int x = 100000;"};
    for (size_t i = 0; i < sizeof others / sizeof *others; ++i) {
        assert_false(applies("constant", others[i]));
    }
}

static void exp_becomes_a_polynomial(void **state)
{
    (void)state;
    char idea[IDEA], *changed;
    assert_ok(at_mutate_by("exp", "#include <math.h>\nfloat f(float x) { return expf(x); }", 3, &changed, idea, IDEA));
    const char *at = strstr(changed, "static inline");
    assert_true(at > strstr(changed, "#include") && at < strstr(changed, "float f("));
    assert_non_null(strstr(changed, "return exp_by_"));
    free(changed);
    assert_true(makes("exp", "__device__ float f(float x) { return expf(x); }",
                      "__device__ float f(float x) { return __expf(x); }"));
    assert_false(applies("exp", "float expf(float x);"));
}

/* A polynomial gets one degree more, wherever it is called, and its function once; the highest has no next. */
static void polynomials_are_refined(void **state)
{
    (void)state;
    static const char coarse[] = "float exp_by_5(float x);\nfloat f(float x) { return exp_by_5(x) + exp_by_5(2 * x); }";
    char idea[IDEA], *changed, *again;
    assert_ok(at_mutate_refine(coarse, &changed, idea, IDEA));
    assert_non_null(strstr(changed, "float exp_by_6(float x)\n{"));
    assert_non_null(strstr(changed, "return exp_by_6(x) + exp_by_6(2 * x);"));
    assert_non_null(strstr(idea, "of degree 6 instead of 5"));
    assert_int_equal(at_mutate_refine(changed, &again, idea, IDEA), ATTUNE_NOT_FOUND);
    assert_null(again);
    free(changed);
    assert_ok(at_mutate_refine("__device__ float f(float x) { return exp2_by_3(x); }", &changed, idea, IDEA));
    assert_non_null(strstr(changed, "return exp2_by_4(x);"));
    free(changed);
    assert_int_equal(at_mutate_refine("float f(float x) { return expf(x); }", &changed, idea, IDEA), ATTUNE_NOT_FOUND);
}

static void hoist_reads_once(void **state)
{
    (void)state;
    assert_true(makes("hoist", "{ for (int i = 0; i < p->n; ++i) { a[i] = p->n; } }",
                      "{ const __typeof__(p->n) n_1 = p->n; for (int i = 0; i < n_1; ++i) { a[i] = n_1; } }"));
    assert_false(applies("hoist", "{ for (int i = 0; i < p->n; ++i) { p->n = 3; } }"));
    assert_false(applies("hoist", "{ for (int i = 0; i < 3; ++i) { p = q; a[i] = p->n; } }"));
}

static void restrict_is_promised_once(void **state)
{
    (void)state;
    assert_true(makes("restrict", "void f(const int *a) { }", "void f(const int *restrict a) { }"));
    assert_false(applies("restrict", "void f(const int *restrict a) { }"));
    assert_false(applies("restrict", "int f(void) { return a * b; }"));
}

static void swap_exchanges_strangers_alone(void **state)
{
    (void)state;
    assert_true(makes("swap", "void f(void) { a = 1; b = 2; }", "void f(void) { b = 2; a = 1; }"));
    static const char *const bound[] = {"a = 1; b = a;", "a = b; b = 1;",         "a[1] = 1; b = c[2];",
                                        "g(); h();",     "int a = 1; int b = a;", "a = 1; return;"};
    char text[100];
    for (size_t i = 0; i < sizeof bound / sizeof *bound; ++i) {
        (void)snprintf(text, sizeof text, "void f(void) { %s }", bound[i]);
        assert_false(applies("swap", text));
    }
}

static void prefetches_change_their_hint(void **state)
{
    (void)state;
    assert_true(makes("prefetch", "{ __builtin_prefetch(a, 0); }", "{ __builtin_prefetch(a, 0, 2); }"));
    assert_true(makes("prefetch", "{ __builtin_prefetch(a, 0, 2); }", "{ __builtin_prefetch(a, 0, 1); }"));
}

static void reductions_become_shuffles(void **state)
{
    (void)state;
    assert_true(
        makes("shuffle",
              "__device__ void f() { s.p[r][lane] = x; __syncthreads(); for (int step = 8; step > 0; step /= 2) "
              "{ if (lane < step) { s.p[r][lane] = fmaxf(s.p[r][lane], s.p[r][lane + step]); } "
              "__syncthreads(); } y = s.p[r][0]; }",
              "__device__ void f() { float all_1 = x;\n#pragma unroll\nfor (int step = 8; step > 0; step /= 2) "
              "{ all_1 = fmaxf(all_1, __shfl_xor_sync(0xffffffffu, all_1, step)); } y = all_1; }"));
}

static void elements_are_loaded_by_four(void **state)
{
    (void)state;
    char idea[IDEA], *changed;
    assert_ok(at_mutate_by("widen",
                           "__device__ void f() { for (int i = (int)threadIdx.x; i < n * w; i += T) { int r = i / w, c "
                           "= i % w; const element *from = q + r; float x = c < dim ? to_float(from[c]) : 0; t[r][c] = "
                           "x; } }",
                           1, &changed, idea, IDEA));
    assert_non_null(strstr(changed, "i < (n * w) / 4"));
    assert_non_null(strstr(changed, "reinterpret_cast<const element4 *>(from + c_4)"));
    free(changed);
}

/* ---- All of them ------------------------------------------------------------------------------------------------ */

static char *weakened(void)
{
    void *text;
    size_t bytes;
    assert_ok(
        at_file_read(ATTUNE_SOURCE_DIR "/examples/weakened/cpu_tiled/weak_cpu_tiled.kernel.c", 1 << 20, &text, &bytes));
    return text;
}

static void one_draw_gives_one_change(void **state)
{
    (void)state;
    char *source = weakened();
    int differ = 0;
    for (uint64_t draw = 0; draw < 40; ++draw) {
        char ideas[2][IDEA], *changed[2];
        assert_ok(at_mutate(source, 3, draw, &changed[0], ideas[0], IDEA));
        assert_ok(at_mutate(source, 3, draw, &changed[1], ideas[1], IDEA));
        assert_string_equal(changed[0], changed[1]);
        assert_string_equal(ideas[0], ideas[1]);
        assert_string_not_equal(changed[0], source);
        free(changed[1]);
        assert_ok(at_mutate(source, 3, draw + 1000, &changed[1], ideas[1], IDEA));
        differ += strcmp(changed[0], changed[1]) != 0;
        free(changed[0]);
        free(changed[1]);
    }
    assert_true(differ > 20);
    free(source);
}

static int count_of(const char *source, uint32_t turns, const char *words)
{
    int count = 0;
    for (uint32_t turn = 0; turn < turns; ++turn) {
        char idea[IDEA], *changed;
        assert_ok(at_mutate(source, turn, turn, &changed, idea, IDEA));
        count += strstr(idea, words) != NULL;
        free(changed);
    }
    return count;
}

/* Turns come to a rule as often as its weight says, and not by luck; what is called in loops is changed more often. */
static void turns_and_depths_decide(void **state)
{
    enum { TURNS = 96 };
    (void)state;
    static const char exponentials[] =
        "float f(float x) { return expf(x); }\nfloat g(int n) { float s = 0;\nfor (int i "
        "= 0; i < n; ++i) { s += a[i]; } return s; }";
    const int exps = count_of(exponentials, TURNS, "polynomial"), all = TURNS * 3 / 26;
    assert_true(exps >= all);
    static const char calls[] =
        "void f(float *restrict x, int n) {\nfor (int i = 0; i < n; ++i) { x[i] = 1; }\n}\n"
        "void g(float *restrict x, int n) {\nfor (int i = 0; i < n; ++i) { x[i] = 2; }\n}\n"
        "void h(float *restrict x, int n) { g(x, n); for (int j = 0; j < 4; ++j) { for (int k = "
        "0; k < 4; ++k) { f(x, n); } } }";
    const int f = count_of(calls, TURNS, "line 2:"), g = count_of(calls, TURNS, "line 5:");
    assert_true(f > 2 * g);
}

static const char two_functions[] =
    "void f(float *restrict x, int n) {\nfor (int i = 0; i < n; ++i) { x[i] = 1; }\n}\n"
    "void g(float *restrict x, int n) {\nfor (int i = 0; i < n; ++i) { x[i] = 2; }\n}\n";

/* Who knows that nothing was to be had in a function goes to another; by which rule and where is said. */
static void what_was_tried_is_known(void **state)
{
    enum { TURNS = 60, TRIED = 6 };
    (void)state;
    at_trial trial[TRIED];
    for (int i = 0; i < TRIED; ++i) {
        trial[i] = (at_trial){"unroll", "f", true, 0, 0.005, 1};
    }
    int in_f[2] = {0};
    for (uint32_t turn = 0; turn < TURNS; ++turn) {
        for (int knows = 0; knows < 2; ++knows) {
            char *changed;
            at_mutation made;
            const at_mutate_memory memory = {.trials = {trial, knows > 0 ? TRIED : 0}};
            assert_ok(at_mutate_knowing(two_functions, &memory, turn, turn, &changed, &made));
            assert_true(strcmp(made.place, "f") == 0 || strcmp(made.place, "g") == 0);
            assert_string_equal(made.rule, "unroll");
            in_f[knows] += strcmp(made.place, "f") == 0;
            free(changed);
        }
    }
    assert_in_range(in_f[0], TURNS / 4, 3 * TURNS / 4);
    assert_true(in_f[1] < TURNS / 6);
}

static bool has_no_sixteen(const void *self, const char *changed)
{
    ++*(int *)(uintptr_t)self;
    return strstr(changed, "unroll 16") == NULL;
}

/* What there was already is drawn again. */
static void nothing_is_proposed_twice(void **state)
{
    enum { TURNS = 40 };
    (void)state;
    int asked = 0;
    for (uint32_t turn = 0; turn < TURNS; ++turn) {
        char *changed;
        at_mutation made;
        const at_mutate_memory memory = {.is_new = has_no_sixteen, .self = &asked};
        assert_ok(at_mutate_knowing(two_functions, &memory, turn, turn, &changed, &made));
        assert_null(strstr(changed, "unroll 16"));
        free(changed);
    }
    assert_true(asked > TURNS);
}

static void what_is_no_source_has_no_change(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "\n", "(", "int x", "\"", "{}", ";;;;", "for", "for (", "expf"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        char idea[IDEA], *changed;
        assert_int_equal(at_mutate(texts[i], 7, 7, &changed, idea, IDEA), ATTUNE_NOT_FOUND);
        assert_null(changed);
    }
    char *changed, idea[IDEA];
    assert_int_equal(at_mutate_by("none", "", 1, &changed, idea, IDEA), ATTUNE_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jam_shares_the_inner_loop),     cmocka_unit_test(jam_leaves_what_is_carried_on),
        cmocka_unit_test(jam_stops_where_registers_end), cmocka_unit_test(unroll_puts_a_pragma),
        cmocka_unit_test(chains_makes_several_sums),     cmocka_unit_test(split_makes_two_loops),
        cmocka_unit_test(rules_take_what_rules_left),    cmocka_unit_test(interchange_turns_two_loops),
        cmocka_unit_test(constants_become_others),       cmocka_unit_test(exp_becomes_a_polynomial),
        cmocka_unit_test(polynomials_are_refined),       cmocka_unit_test(hoist_reads_once),
        cmocka_unit_test(restrict_is_promised_once),     cmocka_unit_test(swap_exchanges_strangers_alone),
        cmocka_unit_test(prefetches_change_their_hint),  cmocka_unit_test(reductions_become_shuffles),
        cmocka_unit_test(elements_are_loaded_by_four),   cmocka_unit_test(one_draw_gives_one_change),
        cmocka_unit_test(turns_and_depths_decide),       cmocka_unit_test(what_is_no_source_has_no_change),
        cmocka_unit_test(what_was_tried_is_known),       cmocka_unit_test(nothing_is_proposed_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
