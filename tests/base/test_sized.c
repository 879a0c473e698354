/* Structs of programs that are older and newer than the library. */
#include "base/cm.h"

#include "base/sized.h"

typedef struct first {
    size_t size;
    int32_t a, b;
} first;

typedef struct known {
    size_t size;
    int32_t a, b;
    int64_t c, d;
} known;

typedef struct newest {
    known known;
    int64_t e;
} newest;

static const at_sized kind = {.name = "thing",
                              .init = "thing_init",
                              .least = sizeof(first),
                              .bytes = sizeof(known),
                              .status = ATTUNE_INVALID_PROBLEM};

static void older_structs_end_in_zeros(void **state)
{
    (void)state;
    /* What is behind the older struct is none of it. */
    known given = {.size = sizeof(first), .a = 1, .b = 2, .c = 3, .d = 4};
    known whole;
    memset(&whole, 0xa5, sizeof whole);
    assert_ok(at_sized_read(&kind, &given, &whole));
    assert_memory_equal(&whole, (&(known){.size = sizeof(known), .a = 1, .b = 2}), sizeof whole);
    given.size = sizeof(first) + sizeof given.c;
    assert_ok(at_sized_read(&kind, &given, &whole));
    assert_memory_equal(&whole, (&(known){.size = sizeof(known), .a = 1, .b = 2, .c = 3}), sizeof whole);
}

static void newer_structs_may_not_ask_for_more(void **state)
{
    (void)state;
    newest given = {.known = {.size = sizeof given, .a = 1, .b = 2, .c = 3, .d = 4}};
    known whole;
    assert_ok(at_sized_read(&kind, &given, &whole));
    assert_int_equal(whole.size, sizeof whole);
    assert_int_equal(whole.d, 4);
    given.e = 256; /* the first byte of it is 0 */
    assert_fails(at_sized_read(&kind, &given, &whole), ATTUNE_UNSUPPORTED, "thing.size is 40, and byte 33 is set");
}

static void sizes_that_cannot_be_meant(void **state)
{
    static const size_t bad[] = {0, 1, sizeof(first) - 1, 5 * sizeof(known), SIZE_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        known given = {.size = bad[i]};
        known whole;
        assert_fails(at_sized_read(&kind, &given, &whole), ATTUNE_INVALID_PROBLEM, "thing.size is ");
        assert_non_null(strstr(attune_last_detail(), "32 is what this library has, and at least 16 is needed"));
        assert_non_null(strstr(attune_last_detail(), "thing_init sets it"));
        assert_int_equal(at_sized_write(&kind, &given, &whole, bad[i]), ATTUNE_INVALID_PROBLEM);
    }
}

static void writing_stays_within_the_callers_struct(void **state)
{
    const known whole = {.size = sizeof whole, .a = 1, .b = 2, .c = 3, .d = 4};
    newest given;
    (void)state;
    memset(&given, 0xff, sizeof given);
    assert_ok(at_sized_write(&kind, &whole, &given, sizeof(first)));
    assert_memory_equal(&given, (&(first){.size = sizeof(first), .a = 1, .b = 2}), sizeof(first));
    assert_int_equal(given.known.c, -1);
    assert_ok(at_sized_write(&kind, &whole, &given, sizeof given));
    assert_int_equal(given.known.size, sizeof given);
    assert_int_equal(given.known.d, 4);
    assert_int_equal(given.e, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older_structs_end_in_zeros),
        cmocka_unit_test(newer_structs_may_not_ask_for_more),
        cmocka_unit_test(sizes_that_cannot_be_meant),
        cmocka_unit_test(writing_stays_within_the_callers_struct),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
