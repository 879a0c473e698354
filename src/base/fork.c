#include "base/fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

/* The process's own state, for a process is what forks. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static at_fork_watch *first;
static atomic_uint count;

static void before(void)
{
    pthread_mutex_lock(&lock);
    for (at_fork_watch *at = first; at != NULL; at = at->next) {
        if (at->before != NULL) {
            at->before(at->self);
        }
    }
}

static void parent(void)
{
    for (at_fork_watch *at = first; at != NULL; at = at->next) {
        if (at->parent != NULL) {
            at->parent(at->self);
        }
    }
    pthread_mutex_unlock(&lock);
}

static void child(void)
{
    atomic_fetch_add(&count, 1);
    for (at_fork_watch *at = first; at != NULL; at = at->next) {
        if (at->child != NULL) {
            at->child(at->self);
        }
    }
    pthread_mutex_unlock(&lock); /* this thread has it, as in the parent */
}

static void watch_forks(void)
{
    (void)pthread_atfork(before, parent, child); /* fails without memory: then children are as they were without */
}

void at_fork_add(at_fork_watch *watch)
{
    (void)pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    watch->previous = NULL;
    watch->next = first;
    if (first != NULL) {
        first->previous = watch;
    }
    first = watch;
    pthread_mutex_unlock(&lock);
}

void at_fork_remove(at_fork_watch *watch)
{
    pthread_mutex_lock(&lock);
    if (watch->next != NULL) {
        watch->next->previous = watch->previous;
    }
    if (watch->previous != NULL) {
        watch->previous->next = watch->next;
    } else if (first == watch) {
        first = watch->next;
    }
    pthread_mutex_unlock(&lock);
}

unsigned at_fork_count(void)
{
    return atomic_load_explicit(&count, memory_order_relaxed);
}
