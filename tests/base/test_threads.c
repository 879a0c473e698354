#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/threads.h"

enum { SCRATCH = 1000 };

typedef struct tally {
    _Atomic int *seen; /* one count an item */
    _Atomic int bad_scratch;
    size_t scratch_bytes;
    int plain; /* written by run callers without protection: only correct if runs serialise */
} tally;

static void count_item(void *context, int64_t item, void *scratch)
{
    tally *t = context;
    unsigned char mark = (unsigned char)(item * 31 + 7);
    if ((uintptr_t)scratch % 64 != 0) {
        atomic_fetch_add(&t->bad_scratch, 1);
    }
    /* No two threads may share scratch: what was written must still stand afterwards. */
    memset(scratch, mark, t->scratch_bytes);
    atomic_fetch_add(&t->seen[item], 1);
    for (size_t i = 0; i < t->scratch_bytes; ++i) {
        if (((unsigned char *)scratch)[i] != mark) {
            atomic_fetch_add(&t->bad_scratch, 1);
            return;
        }
    }
}

static void check_run(at_pool *pool, int64_t items)
{
    tally t = {.seen = calloc((size_t)items + 1, sizeof(_Atomic int)), .scratch_bytes = SCRATCH};
    assert_non_null(t.seen);
    at_pool_run(pool, items, count_item, &t);
    for (int64_t i = 0; i < items; ++i) {
        assert_int_equal(t.seen[i], 1);
    }
    assert_int_equal(t.bad_scratch, 0);
    free((void *)t.seen);
}

static void each_item_runs_once(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 3, 8, 33};
    static const int64_t items[] = {0, 1, 2, 3, 7, 64, 1001};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; ++t) {
        at_pool *pool;
        assert_int_equal(at_pool_create(threads[t], SCRATCH, &pool), ATTUNE_OK);
        assert_int_equal(at_pool_threads(pool), threads[t]);
        for (size_t i = 0; i < sizeof items / sizeof *items; ++i) {
            check_run(pool, items[i]);
        }
        at_pool_run(pool, -5, count_item, NULL); /* nothing to do: must not touch the context */
        at_pool_destroy(pool);
    }
}

static void add_item(void *context, int64_t item, void *scratch)
{
    (void)scratch;
    atomic_fetch_add((_Atomic int64_t *)context, item + 1);
}

static void many_short_runs(void **state)
{
    (void)state;
    at_pool *pool;
    assert_int_equal(at_pool_create(4, 0, &pool), ATTUNE_OK);
    for (int run = 0; run < 20000; ++run) {
        int64_t items = run % 11;
        _Atomic int64_t sum = 0;
        at_pool_run(pool, items, add_item, &sum);
        assert_int_equal(sum, items * (items + 1) / 2);
    }
    at_pool_destroy(pool);
}

static void many_items(void **state)
{
    (void)state;
    at_pool *pool;
    assert_int_equal(at_pool_create(3, 64, &pool), ATTUNE_OK);
    _Atomic int64_t sum = 0;
    at_pool_run(pool, 3000000, add_item, &sum);
    assert_int_equal(sum, INT64_C(3000000) * 3000001 / 2);
    at_pool_destroy(pool);
}

/* Workers that fell asleep between runs are woken again. */
static void runs_after_sleep(void **state)
{
    (void)state;
    at_pool *pool;
    assert_int_equal(at_pool_create(3, SCRATCH, &pool), ATTUNE_OK);
    for (int run = 0; run < 20; ++run) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        check_run(pool, 5);
    }
    at_pool_destroy(pool);
}

typedef struct meeting {
    _Atomic int arrived;
    int wanted;
} meeting;

/* Returns only when every item has started: possible only if each has a thread of its own. */
static void meet(void *context, int64_t item, void *scratch)
{
    meeting *m = context;
    (void)item;
    (void)scratch;
    atomic_fetch_add(&m->arrived, 1);
    while (atomic_load(&m->arrived) < m->wanted) {
        sched_yield();
    }
}

static void items_run_at_the_same_time(void **state)
{
    (void)state;
    at_pool *pool;
    assert_int_equal(at_pool_create(4, 0, &pool), ATTUNE_OK);
    for (int run = 0; run < 100; ++run) {
        meeting m = {.wanted = 2 + run % 3};
        at_pool_run(pool, m.wanted, meet, &m);
        assert_int_equal(m.arrived, m.wanted);
    }
    at_pool_destroy(pool);
}

typedef struct caller {
    at_pool *pool;
    int *shared; /* plain: TSan and the sum see it if two runs overlap */
    int runs;
} caller;

static void bump_first(void *context, int64_t item, void *scratch)
{
    (void)scratch;
    if (item == 0) {
        ++*(int *)context;
    }
}

static void *call_often(void *argument)
{
    caller *c = argument;
    for (int run = 0; run < c->runs; ++run) {
        at_pool_run(c->pool, 1 + run % 5, bump_first, c->shared);
    }
    return NULL;
}

static void callers_take_turns(void **state)
{
    (void)state;
    enum { CALLERS = 6, RUNS = 3000 };
    at_pool *pool;
    int shared = 0;
    pthread_t threads[CALLERS];
    assert_int_equal(at_pool_create(3, 64, &pool), ATTUNE_OK);
    caller c = {.pool = pool, .shared = &shared, .runs = RUNS};
    for (int i = 0; i < CALLERS; ++i) {
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &c), 0);
    }
    for (int i = 0; i < CALLERS; ++i) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(shared, CALLERS * RUNS);
    at_pool_destroy(pool);
}

typedef struct nest {
    at_pool *inner;
    _Atomic int64_t sum;
} nest;

static void run_inner(void *context, int64_t item, void *scratch)
{
    nest *n = context;
    (void)item;
    (void)scratch;
    at_pool_run(n->inner, 10, add_item, &n->sum);
}

static void a_run_inside_another_pools_run(void **state)
{
    (void)state;
    at_pool *outer;
    nest n = {.sum = 0};
    assert_int_equal(at_pool_create(4, 0, &outer), ATTUNE_OK);
    assert_int_equal(at_pool_create(3, 0, &n.inner), ATTUNE_OK);
    at_pool_run(outer, 200, run_inner, &n);
    assert_int_equal(n.sum, 200 * 55);
    at_pool_destroy(n.inner);
    at_pool_destroy(outer);
}

static void wrong_counts_are_refused(void **state)
{
    (void)state;
    at_pool *pool = (at_pool *)state;
    assert_int_equal(at_pool_create(0, 0, &pool), ATTUNE_INVALID_ARGUMENT);
    assert_null(pool);
    assert_int_equal(at_pool_create(1025, 0, &pool), ATTUNE_INVALID_ARGUMENT);
    assert_non_null(strstr(attune_last_detail(), "1025"));
    assert_int_equal(at_pool_create(1, SIZE_MAX, &pool), ATTUNE_INVALID_ARGUMENT);
    at_pool_destroy(NULL);
}

/* Sanitizers need the address space that the next test takes away. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* In a process of its own, whose address space has no room for many stacks. */
static int create_without_room(void)
{
    struct rlimit small = {.rlim_cur = (rlim_t)256 << 20, .rlim_max = (rlim_t)256 << 20};
    at_pool *pool = NULL;
    if (setrlimit(RLIMIT_AS, &small) != 0) {
        return 77;
    }
    attune_status status = at_pool_create(1000, 64, &pool);
    if (status != ATTUNE_OUT_OF_MEMORY || pool != NULL || attune_last_detail()[0] == '\0') {
        return 1;
    }
    return at_pool_create(2, 64, &pool) == ATTUNE_OK ? (at_pool_destroy(pool), 0) : 2;
}

static void threads_that_cannot_start_are_an_error(void **state)
{
    (void)state;
    if (SANITIZED) {
        skip();
    }
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(create_without_room());
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void count_follows_affinity(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(at_cpu_count(), CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &before)) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(at_cpu_count(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_item_runs_once),
        cmocka_unit_test(many_short_runs),
        cmocka_unit_test(many_items),
        cmocka_unit_test(runs_after_sleep),
        cmocka_unit_test(items_run_at_the_same_time),
        cmocka_unit_test(callers_take_turns),
        cmocka_unit_test(a_run_inside_another_pools_run),
        cmocka_unit_test(wrong_counts_are_refused),
        cmocka_unit_test(threads_that_cannot_start_are_an_error),
        cmocka_unit_test(count_follows_affinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
