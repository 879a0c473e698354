#include "worker/runner.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

struct at_runner {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    attune_status (*work)(void *context); /* NULL: it waits */
    void *context;
    bool ends;
    attune_status status;
    char detail[1024];
};

/* Sleeps, for all processors are the work's. */
static void *serve(void *self)
{
    at_runner *runner = self;
    (void)pthread_mutex_lock(&runner->lock);
    while (!runner->ends) {
        if (runner->work == NULL) {
            (void)pthread_cond_wait(&runner->changed, &runner->lock);
            continue;
        }
        runner->status = runner->work(runner->context);
        (void)snprintf(runner->detail, sizeof runner->detail, "%s", attune_last_detail());
        runner->work = NULL;
        (void)pthread_cond_broadcast(&runner->changed);
    }
    (void)pthread_mutex_unlock(&runner->lock);
    return NULL;
}

attune_status at_runner_do(at_runner *runner, attune_status (*work)(void *context), void *context)
{
    if (runner == NULL) {
        return work(context);
    }
    (void)pthread_mutex_lock(&runner->lock);
    runner->work = work;
    runner->context = context;
    (void)pthread_cond_broadcast(&runner->changed);
    while (runner->work != NULL) {
        (void)pthread_cond_wait(&runner->changed, &runner->lock);
    }
    attune_status status = runner->status;
    (void)pthread_mutex_unlock(&runner->lock);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail(status, "%s", runner->detail);
}

static void free_runner(at_runner *runner)
{
    (void)pthread_cond_destroy(&runner->changed);
    (void)pthread_mutex_destroy(&runner->lock);
    free(runner);
}

attune_status at_runner_create(at_runner **runner)
{
    *runner = NULL;
    at_runner *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a thread that runs calls");
    /* With default attributes these cannot fail on Linux. */
    (void)pthread_mutex_init(&made->lock, NULL);
    (void)pthread_cond_init(&made->changed, NULL);
    const int error = pthread_create(&made->thread, NULL, serve, made);
    if (error != 0) {
        free_runner(made);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "a thread that runs calls could not be started: %s", strerror(error));
    }
    *runner = made;
    return ATTUNE_OK;
}

void at_runner_destroy(at_runner *runner)
{
    if (runner == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&runner->lock);
    runner->ends = true;
    (void)pthread_cond_broadcast(&runner->changed);
    (void)pthread_mutex_unlock(&runner->lock);
    (void)pthread_join(runner->thread, NULL);
    free_runner(runner);
}
