#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "core/term.h"

static const at_sizes sizes = {{2, 8, 4, 100, 200, 150, 300, 16}};

static attune_term number(int64_t value)
{
    return attune_term_const(value);
}

static attune_term size(attune_size which)
{
    return attune_term_size(which);
}

static int64_t value_of(attune_term term)
{
    int64_t value = -12345;
    assert_int_equal(at_term_check(&term), ATTUNE_OK);
    if (at_term_evaluate(&term, &sizes, &value) != ATTUNE_OK) {
        fail_msg("%s", attune_last_detail());
    }
    return value;
}

static void evaluates(void **state)
{
    (void)state;
    assert_int_equal(value_of(number(-7)), -7);
    assert_int_equal(value_of(size(ATTUNE_SIZE_SEQLEN_Q)), 100);
    assert_int_equal(value_of(attune_term_ceil_div(size(ATTUNE_SIZE_SEQLEN_Q), number(64))), 2);
    assert_int_equal(value_of(attune_term_ceil_div(number(128), number(64))), 2);
    assert_int_equal(value_of(attune_term_ceil_div(number(0), number(64))), 0);
    assert_int_equal(value_of(attune_term_ceil_div(number(-65), number(64))), -1);
    assert_int_equal(value_of(attune_term_mul(size(ATTUNE_SIZE_HEADS_Q), size(ATTUNE_SIZE_BATCH))), 16);
    assert_int_equal(value_of(attune_term_min(number(3), number(-3))), -3);
    assert_int_equal(value_of(attune_term_join(number(3), ATTUNE_TERM_MAX, number(-3))), 3);
    assert_int_equal(value_of(attune_term_join(number(3), ATTUNE_TERM_SUB, number(5))), -2);
    assert_int_equal(value_of(attune_term_join(number(3), ATTUNE_TERM_ADD, number(5))), 8);
    for (int i = 0; i < ATTUNE_SIZE_COUNT; ++i) {
        assert_int_equal(value_of(size((attune_size)i)), sizes.value[i]);
    }
}

static void sizes_come_from_args(void **state)
{
    (void)state;
    attune_args args = {
        .batch = 1, .heads_q = 2, .heads_kv = 3, .seqlen_q = 4, .seqlen_kv = 5, .total_q = 6, .total_kv = 7};
    attune_target cpu = {.kind = ATTUNE_TARGET_CPU, .threads = 8, .sm_count = 99};
    attune_target cuda = {.kind = ATTUNE_TARGET_CUDA, .threads = 99, .sm_count = 8};
    at_sizes filled;
    for (int kind = 0; kind < 2; ++kind) {
        memset(&filled, 0, sizeof filled);
        at_sizes_fill(&filled, &args, kind == 0 ? &cpu : &cuda);
        for (int i = 0; i < ATTUNE_SIZE_COUNT; ++i) {
            assert_int_equal(filled.value[i], i + 1);
        }
    }
}

static void refuses(attune_term term, const char *words)
{
    int64_t value = 77;
    assert_int_equal(at_term_evaluate(&term, &sizes, &value), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(value, 77);
    if (strstr(attune_last_detail(), words) == NULL) {
        fail_msg("the message lacks '%s': %s", words, attune_last_detail());
    }
}

static void arithmetic_is_checked(void **state)
{
    (void)state;
    refuses(attune_term_mul(number(INT64_MAX), number(2)), "overflows");
    refuses(attune_term_join(number(INT64_MAX), ATTUNE_TERM_ADD, number(1)), "overflows");
    refuses(attune_term_join(number(INT64_MIN), ATTUNE_TERM_SUB, number(1)), "overflows");
    refuses(attune_term_ceil_div(number(1), number(0)), "divides by less than one");
    refuses(attune_term_ceil_div(number(INT64_MIN), number(-1)), "divides by less than one");
    assert_int_equal(value_of(attune_term_ceil_div(number(INT64_MAX), number(1))), INT64_MAX);
}

static void malformed_terms(void **state)
{
    (void)state;
    attune_term empty = {{ATTUNE_TERM_END}, {0}};
    attune_term two = {{ATTUNE_TERM_CONST, ATTUNE_TERM_CONST}, {1, 2}};
    attune_term lone = {{ATTUNE_TERM_CONST, ATTUNE_TERM_MUL}, {1}};
    attune_term strange = {{ATTUNE_TERM_CONST, 99}, {1}};
    attune_term beyond = attune_term_size((attune_size)ATTUNE_SIZE_COUNT);
    attune_term below = attune_term_size((attune_size)-1);
    const attune_term bad[] = {empty, two, lone, strange, beyond, below};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        assert_int_equal(at_term_check(&bad[i]), ATTUNE_INVALID_ARGUMENT);
        refuses(bad[i], "term");
    }
}

/* Joining until it no longer fits gives a term that is refused, never one that is cut. */
static void too_long_terms_are_invalid(void **state)
{
    (void)state;
    attune_term term = number(1);
    int joined = 0;
    while (at_term_check(&term) == ATTUNE_OK) {
        assert_int_equal(value_of(term), 1 + joined);
        term = attune_term_join(term, ATTUNE_TERM_ADD, number(1));
        ++joined;
    }
    assert_int_equal(joined, 8);
    refuses(term, "more than 16 nodes");
    term = attune_term_join(term, ATTUNE_TERM_ADD, number(1));
    refuses(term, "combines two values");
}

/* Whatever the bytes, checking and evaluating agree and stay in bounds. */
static void any_bytes_are_survived(void **state)
{
    (void)state;
    at_random random = at_random_seed(1, 1);
    int good = 0;
    for (int i = 0; i < 200000; ++i) {
        attune_term term;
        int64_t value = 0;
        for (int at = 0; at < ATTUNE_TERM_NODES; ++at) {
            term.op[at] = (uint8_t)at_random_below(&random, 10);
            term.value[at] = (int64_t)at_random_below(&random, 12) - 2;
        }
        attune_status checked = at_term_check(&term);
        attune_status evaluated = at_term_evaluate(&term, &sizes, &value);
        good += checked == ATTUNE_OK;
        assert_true(checked == ATTUNE_OK || evaluated != ATTUNE_OK);
    }
    assert_true(good > 1000);
}

static void sizes_that_a_term_names(void **state)
{
    (void)state;
    const attune_term rows = attune_term_size(ATTUNE_SIZE_SEQLEN_Q);
    const attune_term blocks = attune_term_ceil_div(rows, attune_term_const(64));
    const attune_term all = attune_term_mul(blocks, attune_term_size(ATTUNE_SIZE_BATCH));
    const attune_term none = attune_term_const(7);
    assert_int_equal(at_term_sizes(&none), 0);
    assert_int_equal(at_term_sizes(&blocks), 1u << ATTUNE_SIZE_SEQLEN_Q);
    assert_int_equal(at_term_sizes(&all), 1u << ATTUNE_SIZE_SEQLEN_Q | 1u << ATTUNE_SIZE_BATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluates),
        cmocka_unit_test(sizes_come_from_args),
        cmocka_unit_test(sizes_that_a_term_names),
        cmocka_unit_test(arithmetic_is_checked),
        cmocka_unit_test(malformed_terms),
        cmocka_unit_test(too_long_terms_are_invalid),
        cmocka_unit_test(any_bytes_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
