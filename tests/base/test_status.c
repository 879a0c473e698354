#include "base/cm.h"

#include <pthread.h>
#include <stdio.h>

#include "base/status.h"

static void every_status_has_words(void **state)
{
    (void)state;
    for (int i = 0; i < ATTUNE_STATUS_COUNT; i++) {
        const char *words = attune_status_string((attune_status)i);
        assert_non_null(words);
        assert_true(words[0] != '\0');
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(words, attune_status_string((attune_status)j));
        }
    }
    assert_string_equal(attune_status_string(ATTUNE_STATUS_COUNT), "unknown status");
    assert_string_equal(attune_status_string((attune_status)-1), "unknown status");
}

static void failing_sets_the_detail(void **state)
{
    (void)state;
    assert_int_equal(at_fail(ATTUNE_NOT_FOUND, "kernel \"%s\" is %d", "x", 7), ATTUNE_NOT_FOUND);
    assert_string_equal(attune_last_detail(), "kernel \"x\" is 7");
    /* Its own text may be part of the next. */
    assert_int_equal(at_fail(ATTUNE_IO_ERROR, "(%s)", attune_last_detail()), ATTUNE_IO_ERROR);
    assert_string_equal(attune_last_detail(), "(kernel \"x\" is 7)");
    assert_int_equal(at_fail_in(ATTUNE_IO_ERROR, "line %d", 3), ATTUNE_IO_ERROR);
    assert_string_equal(attune_last_detail(), "line 3: (kernel \"x\" is 7)");
}

static void long_details_are_cut(void **state)
{
    (void)state;
    char words[3000];
    memset(words, 'w', sizeof words);
    words[sizeof words - 1] = '\0';
    (void)at_fail(ATTUNE_INTERNAL, "a%s", words);
    size_t limit = strlen(attune_last_detail());
    assert_in_range(limit, 500, 2000);
    (void)at_fail_in(ATTUNE_INTERNAL, "context");
    assert_memory_equal(attune_last_detail(), "context: aw", 11);
    assert_in_range(strlen(attune_last_detail()), limit - 3, limit);
    (void)at_fail(ATTUNE_INTERNAL, "short");
    (void)at_fail_in(ATTUNE_INTERNAL, "%s", words); /* a context that leaves no room at all */
    assert_in_range(strlen(attune_last_detail()), limit - 3, limit);
}

static void *fail_elsewhere(void *seen)
{
    *(size_t *)seen = strlen(attune_last_detail());
    (void)at_fail(ATTUNE_INTERNAL, "elsewhere");
    return NULL;
}

static void details_belong_to_their_thread(void **state)
{
    (void)state;
    (void)at_fail(ATTUNE_INTERNAL, "here");
    pthread_t thread;
    size_t seen = 99;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &seen), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(seen, 0);
    assert_string_equal(attune_last_detail(), "here");
}

static attune_status forward(attune_status status, int *reached)
{
    AT_FORWARD(status);
    *reached = 1;
    AT_FAIL_IF(*reached == 1, ATTUNE_CORRUPT, "reached %d", *reached);
    return ATTUNE_OK;
}

static void macros_return_early(void **state)
{
    (void)state;
    int reached = 0;
    assert_int_equal(forward(ATTUNE_NO_DEVICE, &reached), ATTUNE_NO_DEVICE);
    assert_int_equal(reached, 0);
    assert_fails(forward(ATTUNE_OK, &reached), ATTUNE_CORRUPT, "reached 1");
}

static void versions_agree(void **state)
{
    (void)state;
    char text[32];
    (void)snprintf(text, sizeof text, "%d.%d.%d", attune_version() / 10000, attune_version() / 100 % 100,
                   attune_version() % 100);
    assert_string_equal(attune_version_string(), text);
    assert_int_equal(attune_version(), ATTUNE_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_words), cmocka_unit_test(failing_sets_the_detail),
        cmocka_unit_test(long_details_are_cut),   cmocka_unit_test(details_belong_to_their_thread),
        cmocka_unit_test(macros_return_early),    cmocka_unit_test(versions_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
