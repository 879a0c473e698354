/* A thread for calls: what is handed to it runs there, and what became of it comes back. */
#include "base/cm.h"

#include <pthread.h>

#include "base/status.h"
#include "worker/runner.h"

typedef struct handed {
    pthread_t where;
    int runs;
} handed;

static attune_status note(void *context)
{
    handed *on = context;
    on->where = pthread_self();
    ++on->runs;
    return ATTUNE_OK;
}

static attune_status miss(void *context)
{
    return at_fail(ATTUNE_WRONG_RESULT, "number %d", ++((handed *)context)->runs);
}

static void work_runs_on_one_other_thread(void **state)
{
    at_runner *runner;
    handed on = {.runs = 0};
    (void)state;
    assert_ok(at_runner_create(&runner));
    assert_ok(at_runner_do(runner, note, &on));
    const pthread_t first = on.where;
    assert_false(pthread_equal(first, pthread_self()));
    for (int i = 0; i < 1000; ++i) {
        assert_ok(at_runner_do(runner, note, &on));
        assert_true(pthread_equal(first, on.where));
    }
    assert_int_equal(on.runs, 1001);
    at_runner_destroy(runner);
}

static void failures_come_back_with_their_words(void **state)
{
    at_runner *runner;
    handed on = {.runs = 0};
    (void)state;
    assert_ok(at_runner_create(&runner));
    assert_fails(at_runner_do(runner, miss, &on), ATTUNE_WRONG_RESULT, "number 1");
    assert_ok(at_runner_do(runner, note, &on));
    assert_fails(at_runner_do(runner, miss, &on), ATTUNE_WRONG_RESULT, "number 3");
    at_runner_destroy(runner);
}

static void without_one_it_runs_here(void **state)
{
    handed on = {.runs = 0};
    (void)state;
    assert_ok(at_runner_do(NULL, note, &on));
    assert_true(pthread_equal(on.where, pthread_self()));
    assert_fails(at_runner_do(NULL, miss, &on), ATTUNE_WRONG_RESULT, "number 2");
    at_runner_destroy(NULL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_runs_on_one_other_thread),
        cmocka_unit_test(failures_come_back_with_their_words),
        cmocka_unit_test(without_one_it_runs_here),
    };
    return cmocka_run_group_tests_name("runner", tests, NULL, NULL);
}
