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
} tally;

static void count_item(void *context, int64_t item, void *scratch)
{
    tally *t = context;
    unsigned char mark = (unsigned char)(item * 31 + 7);
    if ((uintptr_t)scratch % 64 != 0) {
        atomic_fetch_add(&t->bad_scratch, 1);
    }
    /* No two threads may share scratch: what was written must still be there afterwards. */
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

/* Runs of several callers at the same time: each does all of its items, whoever has the workers. */
typedef struct caller {
    at_pool *pool;
    int runs;
    int wrong;
} caller;

static void *call_often(void *argument)
{
    caller *c = argument;
    for (int run = 0; run < c->runs; ++run) {
        int64_t items = 1 + run % 5;
        _Atomic int64_t sum = 0;
        at_pool_run(c->pool, items, add_item, &sum);
        c->wrong += sum != items * (items + 1) / 2;
    }
    return NULL;
}

static void call_from_threads(int workers, int count, int runs)
{
    at_pool *pool;
    pthread_t threads[AT_CALLERS_MAX + 9];
    caller callers[AT_CALLERS_MAX + 9];
    assert_in_range(count, 1, AT_CALLERS_MAX + 9);
    assert_int_equal(at_pool_create(workers, 64, &pool), ATTUNE_OK);
    for (int i = 0; i < count; ++i) {
        callers[i] = (caller){.pool = pool, .runs = runs};
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < count; ++i) {
        pthread_join(threads[i], NULL);
        assert_int_equal(callers[i].wrong, 0);
    }
    at_pool_destroy(pool);
}

static void callers_share_a_pool(void **state)
{
    (void)state;
    call_from_threads(3, 6, 3000);
}

typedef struct waiter {
    at_pool *pool;
    meeting *meeting;
    tally *tally;
} waiter;

static void meet_and_count(void *context, int64_t item, void *scratch)
{
    waiter *g = context;
    if (item == 0) {
        meet(g->meeting, item, scratch);
    }
    count_item(g->tally, item, scratch);
}

static void *call_once(void *argument)
{
    waiter *g = argument;
    at_pool_run(g->pool, 3, meet_and_count, g);
    return NULL;
}

/* More waiters than threads, each of which waits for all the others: with a lock around the run they wait for ever. */
static void no_caller_waits_for_another(void **state)
{
    (void)state;
    enum { CALLERS = 5 };
    for (int threads = 1; threads <= 3; ++threads) {
        meeting all = {.wanted = CALLERS};
        at_pool *pool;
        pthread_t started[CALLERS];
        waiter waiters[CALLERS];
        tally tallies[CALLERS];
        _Atomic int seen[CALLERS][3] = {{0}};
        assert_int_equal(at_pool_create(threads, SCRATCH, &pool), ATTUNE_OK);
        for (int i = 0; i < CALLERS; ++i) {
            tallies[i] = (tally){.seen = seen[i], .scratch_bytes = SCRATCH};
            waiters[i] = (waiter){pool, &all, &tallies[i]};
            assert_int_equal(pthread_create(&started[i], NULL, call_once, &waiters[i]), 0);
        }
        for (int i = 0; i < CALLERS; ++i) {
            pthread_join(started[i], NULL);
            assert_int_equal(tallies[i].bad_scratch, 0);
            assert_true(seen[i][0] == 1 && seen[i][1] == 1 && seen[i][2] == 1);
        }
        at_pool_destroy(pool);
    }
}

/* So many callers that some find no scratch, and wait for it. */
static void more_callers_than_slots(void **state)
{
    (void)state;
    call_from_threads(2, AT_CALLERS_MAX + 9, 50);
}

typedef struct again {
    at_pool *pool;
    _Atomic int64_t sum;
} again;

static void run_the_same_pool(void *context, int64_t item, void *scratch)
{
    again *a = context;
    (void)item;
    (void)scratch;
    at_pool_run(a->pool, 10, add_item, &a->sum);
}

static void a_run_inside_the_same_pools_run(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads += 3) {
        again a = {.sum = 0};
        assert_int_equal(at_pool_create(threads, 64, &a.pool), ATTUNE_OK);
        at_pool_run(a.pool, 50, run_the_same_pool, &a);
        assert_int_equal(a.sum, 50 * 55);
        at_pool_destroy(a.pool);
    }
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

/* ---- What the caller brings ------------------------------------------------------------------------------------- */

typedef struct loop {
    int calls, pieces;
} loop;

/* Backwards, in pieces of three. */
static void own_loop(void *user, int64_t items, attune_work work, void *context)
{
    loop *l = user;
    ++l->calls;
    for (int64_t end = items; end > 0; end -= 3) {
        int64_t first = end < 3 ? 0 : end - 3;
        work(context, first, end - first);
        ++l->pieces;
    }
}

static void a_loop_of_the_callers(void **state)
{
    (void)state;
    loop l = {0};
    at_pool_options options = {.threads = 4, .scratch_bytes = SCRATCH, .parallel_for = own_loop, .parallel_user = &l};
    at_pool *pool;
    assert_int_equal(at_pool_create_with(&options, &pool), ATTUNE_OK);
    check_run(pool, 10);
    assert_int_equal(l.calls, 1);
    assert_int_equal(l.pieces, 4);
    check_run(pool, 1); /* needs no loop */
    assert_int_equal(l.calls, 1);
    at_pool_destroy(pool);
}

typedef struct heap {
    int given, taken;
    bool empty;
} heap;

static void *heap_take(void *user, size_t bytes, size_t align)
{
    heap *h = user;
    if (h->empty) {
        return NULL;
    }
    ++h->given;
    return aligned_alloc(align, bytes);
}

static void heap_give(void *user, void *memory)
{
    ++((heap *)user)->taken;
    free(memory);
}

static void memory_of_the_callers(void **state)
{
    (void)state;
    heap h = {0};
    at_pool_options options = {
        .threads = 3, .scratch_bytes = SCRATCH, .callers = 2, .memory = {heap_take, heap_give, &h}};
    at_pool *pool;
    assert_int_equal(at_pool_create_with(&options, &pool), ATTUNE_OK);
    assert_int_equal(h.given, 3); /* two callers' and the workers' */
    check_run(pool, 10);
    at_pool_destroy(pool);
    assert_int_equal(h.taken, h.given);
    h.empty = true;
    assert_int_equal(at_pool_create_with(&options, &pool), ATTUNE_OUT_OF_MEMORY);
    assert_null(pool);
}

static void note_cpu(void *context, int64_t item, void *scratch)
{
    (void)item;
    (void)scratch;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1) {
        atomic_fetch_add((_Atomic int *)context, 1);
    }
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void threads_are_bound(void **state)
{
    (void)state;
    cpu_set_t mine;
    assert_int_equal(sched_getaffinity(0, sizeof mine, &mine), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &mine)) {
        ++cpu;
    }
    at_pool_options options = {.threads = 3, .sleeps = true, .cpus = &cpu, .cpu_count = 1};
    at_pool *pool;
    assert_int_equal(at_pool_create_with(&options, &pool), ATTUNE_OK);
    _Atomic int bound = 0;
    at_pool_run(pool, 200, note_cpu, &bound);
    assert_true(CPU_COUNT(&mine) == 1 || (bound > 0 && bound < 200)); /* the caller's thread is as it was */
    at_pool_destroy(pool);
}

/* ---- Forking ---------------------------------------------------------------------------------------------------- */

enum { SECONDS = 3600 };

/* What the child's function returns is its status; one that hangs is ended by its alarm. */
static void in_a_child(int (*run)(at_pool *pool), at_pool *pool)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(SECONDS);
        _exit(run(pool));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int destroy_only(at_pool *pool)
{
    at_pool_destroy(pool);
    return 0;
}

static int run_and_destroy(at_pool *pool)
{
    for (int run = 0; run < 50; ++run) {
        _Atomic int64_t sum = 0;
        at_pool_run(pool, 20, add_item, &sum);
        if (sum != 210) {
            return 1;
        }
    }
    at_pool_destroy(pool);
    return 0;
}

/* The workers of the child are its own: two items meet. */
static int meet_and_destroy(at_pool *pool)
{
    meeting m = {.wanted = at_pool_threads(pool)};
    at_pool_run(pool, m.wanted, meet, &m);
    at_pool_destroy(pool);
    return 0;
}

static int fork_again(at_pool *pool)
{
    pid_t child = fork();
    if (child == 0) {
        _exit(run_and_destroy(pool));
    }
    int status = 1;
    (void)waitpid(child, &status, 0);
    return status != 0 || run_and_destroy(pool) != 0;
}

static void children_have_pools_of_their_own(void **state)
{
    (void)state;
    static int (*const runs[])(at_pool *) = {destroy_only, run_and_destroy, meet_and_destroy, fork_again};
    for (int threads = 1; threads <= 8; threads += threads < 4 ? 1 : 4) {
        at_pool *pool;
        assert_int_equal(at_pool_create(threads, SCRATCH, &pool), ATTUNE_OK);
        for (size_t i = 0; i < sizeof runs / sizeof runs[0]; ++i) {
            in_a_child(runs[i], pool); /* workers spin, or sleep */
            check_run(pool, 10);
            nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
            in_a_child(runs[i], pool);
            check_run(pool, 10);
        }
        at_pool_destroy(pool);
    }
}

typedef struct busy {
    at_pool *pool;
    atomic_bool stop;
} busy;

static void *call_until_stopped(void *argument)
{
    busy *b = argument;
    while (!b->stop) {
        _Atomic int64_t sum = 0;
        at_pool_run(b->pool, 20, add_item, &sum);
    }
    return NULL;
}

/* Other threads hold the workers, and slots, at the moment of the fork. */
static void children_of_a_busy_process(void **state)
{
    (void)state;
    busy b = {.stop = false};
    pthread_t threads[2];
    assert_int_equal(at_pool_create(3, SCRATCH, &b.pool), ATTUNE_OK);
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(pthread_create(&threads[i], NULL, call_until_stopped, &b), 0);
    }
    for (int i = 0; i < 20; ++i) {
        in_a_child(run_and_destroy, b.pool);
    }
    b.stop = true;
    for (int i = 0; i < 2; ++i) {
        pthread_join(threads[i], NULL);
    }
    check_run(b.pool, 10);
    at_pool_destroy(b.pool);
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
        cmocka_unit_test(callers_share_a_pool),
        cmocka_unit_test(no_caller_waits_for_another),
        cmocka_unit_test(more_callers_than_slots),
        cmocka_unit_test(a_run_inside_the_same_pools_run),
        cmocka_unit_test(a_run_inside_another_pools_run),
        cmocka_unit_test(a_loop_of_the_callers),
        cmocka_unit_test(memory_of_the_callers),
        cmocka_unit_test(threads_are_bound),
        cmocka_unit_test(children_have_pools_of_their_own),
        cmocka_unit_test(children_of_a_busy_process),
        cmocka_unit_test(wrong_counts_are_refused),
        cmocka_unit_test(threads_that_cannot_start_are_an_error),
        cmocka_unit_test(count_follows_affinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
