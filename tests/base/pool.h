/* The pool that the tests of a group share: its setup and teardown. A test that wants more threads than one defines
 * POOL_THREADS before it includes this. */
#ifndef TESTS_BASE_POOL_H
#define TESTS_BASE_POOL_H

#include "base/threads.h"

#ifndef POOL_THREADS
#define POOL_THREADS 1
#endif

static at_pool *pool;

static int pool_open(void **state)
{
    (void)state;
    return at_pool_create(POOL_THREADS, 0, &pool) == ATTUNE_OK ? 0 : -1;
}

static int pool_close(void **state)
{
    (void)state;
    at_pool_destroy(pool);
    return 0;
}

#endif
