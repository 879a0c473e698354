#include "base/cm.h"

#include <stdlib.h>

#include "evolve/combine.h"

static void changes_apart_are_joined(void **state)
{
    (void)state;
    static const struct {
        const char *base, *one, *other, *both;
    } cases[] = {
        {"a\nb\nc\nd\n", "A\nb\nc\nd\n", "a\nb\nc\nD\n", "A\nb\nc\nD\n"},
        {"a\nb\nc\n", "b\nc\n", "a\nb\nc\nd", "b\nc\nd"},
        {"a\nb\nc\n", "a\nx\ny\nb\nc\n", "a\nb\n", "a\nx\ny\nb\n"},
        {"a\nb\nc\nd\ne\n", "A\nb\nC\nd\ne\n", "A\nb\nc\nd\nE\n",
         "A\nb\nC\nd\nE\n"}, /* one change is the same in both */
        {"f\nf\nf\ng\n", "f\nf\ng\n", "f\nf\nf\ng\nh\n", "f\nf\ng\nh\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        char *combined;
        assert_ok(at_combine(cases[i].base, cases[i].one, cases[i].other, &combined));
        assert_string_equal(combined, cases[i].both);
        free(combined);
        assert_ok(at_combine(cases[i].base, cases[i].other, cases[i].one, &combined));
        assert_string_equal(combined, cases[i].both);
        free(combined);
    }
}

static void conflicts_and_nothing_new_are_no_proposal(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"a\nb\nc\n", "a\nx\nc\n", "a\ny\nc\n"},
        {"a\nb\n", "a\nb\n", "a\nb\n"},
        {"a\nb\n", "a\n", "a\nb\n"},
        {"a\nb\nc\n", "a\nc\n", "a\nx\nc\n"},
        {"", "", ""},
        {"", "a\n", "b\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        char *combined;
        assert_int_equal(at_combine(cases[i][0], cases[i][1], cases[i][2], &combined), ATTUNE_NOT_FOUND);
        assert_null(combined);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_apart_are_joined),
        cmocka_unit_test(conflicts_and_nothing_new_are_no_proposal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
