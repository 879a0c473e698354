#include "evolve/compilers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/status.h"
#include "base/threads.h"
#include "judge/built.h"

enum { COMPILERS_MAX = 16, KNOWN_MIN = 4 };

/* A job may take so many times what jobs took so far, but never less than that. */
static const double patience = 8, patience_least_s = 20, longest_s = 120;

typedef struct job {
    char kernel[AT_KERNEL_TEXT_MAX];
    attune_problem problem;
    bool likely, taken, done;
    at_compiled compiled;
} job;

struct at_compilers {
    at_compilers_options options;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t added, done;
    job **jobs;
    int count, room, next; /* all before it were taken */
    int known;             /* compiled so far, */
    double known_s;        /* in so many seconds all together */
    bool closing;
    int threads;
    pthread_t thread[COMPILERS_MAX];
};

/* ---- One compiler ------------------------------------------------------------------------------------------------ */

static attune_status open_channel(const at_compilers *on, at_channel **channel)
{
    enum { PATIENCE_S = 30 };
    const at_channel_options options = {.command = on->options.worker};
    AT_FORWARD(at_channel_open(&options, channel));
    return at_channel_ask(*channel, "hello", json_pack("{s:i,s:i}", "protocol", AT_PROTOCOL, "arena", 0), PATIENCE_S,
                          NULL);
}

/* How long the next job may take. With the lock. */
static double allowed_s(const at_compilers *on)
{
    double most = on->options.longest_s > 0 ? on->options.longest_s : longest_s;
    double wanted = on->known < KNOWN_MIN ? most : patience * on->known_s / on->known;
    wanted = wanted < patience_least_s ? patience_least_s : wanted;
    return wanted < most ? wanted : most;
}

static void compile(const at_compilers *on, at_channel **channel, job *one, double seconds)
{
    attune_status status = *channel == NULL ? open_channel(on, channel) : ATTUNE_OK;
    if (status == ATTUNE_OK) {
        status = at_built_compile(*channel, one->kernel, &one->problem, &on->options.target, seconds,
                                  &one->compiled.build, &one->compiled.seconds);
    }
    one->compiled.status = status;
    (void)snprintf(one->compiled.why, sizeof one->compiled.why, "%s", status == ATTUNE_OK ? "" : attune_last_detail());
    if (*channel != NULL && at_channel_death(*channel) != NULL) {
        at_channel_close(*channel);
        *channel = NULL;
    }
}

static void finish(at_compilers *on, job *one)
{
    one->done = true;
    if (one->compiled.status == ATTUNE_OK) {
        ++on->known;
        on->known_s += one->compiled.seconds;
    }
    (void)pthread_cond_broadcast(&on->done);
}

/* Of those that nobody took the first that is wanted, else the first that is likely to be; NULL where there is none.
 * With the lock. */
static job *take(at_compilers *on)
{
    job *found = NULL;
    while (on->next < on->count && on->jobs[on->next]->taken) {
        ++on->next;
    }
    for (int i = on->next; i < on->count && (found == NULL || found->likely); ++i) {
        job *one = on->jobs[i];
        found = !one->taken && (found == NULL || !one->likely) ? one : found;
    }
    if (found != NULL) {
        found->taken = true;
    }
    return found;
}

static void *work(void *context)
{
    at_compilers *on = context;
    at_channel *channel = NULL;
    (void)pthread_mutex_lock(&on->lock);
    for (;;) {
        job *one = on->closing ? NULL : take(on);
        while (!on->closing && one == NULL) {
            (void)pthread_cond_wait(&on->added, &on->lock);
            one = on->closing ? NULL : take(on);
        }
        if (one == NULL) {
            break;
        }
        double seconds = allowed_s(on);
        (void)pthread_mutex_unlock(&on->lock);
        compile(on, &channel, one, seconds);
        (void)pthread_mutex_lock(&on->lock);
        finish(on, one);
    }
    (void)pthread_mutex_unlock(&on->lock);
    at_channel_close(channel);
    return NULL;
}

/* ---- The pool ---------------------------------------------------------------------------------------------------- */

static int wanted_threads(const at_compilers_options *options)
{
    int count = options->count > 0 ? options->count : at_cpu_count() - 1;
    return count < 1 ? 1 : count > COMPILERS_MAX ? COMPILERS_MAX : count;
}

attune_status at_compilers_open(const at_compilers_options *options, at_compilers **compilers)
{
    *compilers = NULL;
    at_compilers *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for compilers");
    made->options = *options;
    (void)pthread_mutex_init(&made->lock, NULL);
    (void)pthread_cond_init(&made->added, NULL);
    (void)pthread_cond_init(&made->done, NULL);
    for (int i = 0; i < wanted_threads(options); ++i) {
        made->threads += pthread_create(&made->thread[made->threads], NULL, work, made) == 0;
    }
    if (made->threads == 0) {
        at_compilers_close(made);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "no thread for a compiler");
    }
    *compilers = made;
    return ATTUNE_OK;
}

void at_compilers_close(at_compilers *on)
{
    if (on == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&on->lock);
    on->closing = true;
    (void)pthread_cond_broadcast(&on->added);
    (void)pthread_mutex_unlock(&on->lock);
    for (int i = 0; i < on->threads; ++i) {
        (void)pthread_join(on->thread[i], NULL);
    }
    for (int i = 0; i < on->count; ++i) {
        free(on->jobs[i]);
    }
    free(on->jobs);
    (void)pthread_cond_destroy(&on->done);
    (void)pthread_cond_destroy(&on->added);
    (void)pthread_mutex_destroy(&on->lock);
    free(on);
}

static attune_status make_room(at_compilers *on)
{
    if (on->count < on->room) {
        return ATTUNE_OK;
    }
    int room = 2 * on->room + 64;
    job **more = realloc(on->jobs, (size_t)room * sizeof(job *));
    AT_FAIL_IF(more == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d jobs", room);
    on->jobs = more;
    on->room = room;
    return ATTUNE_OK;
}

attune_status at_compilers_add(at_compilers *on, const char *kernel, const attune_problem *problem, bool likely,
                               int *number)
{
    job *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a job");
    (void)snprintf(made->kernel, sizeof made->kernel, "%s", kernel);
    made->problem = *problem;
    made->likely = likely;
    (void)pthread_mutex_lock(&on->lock);
    attune_status status = make_room(on);
    if (status == ATTUNE_OK) {
        *number = on->count;
        on->jobs[on->count++] = made;
        (void)pthread_cond_signal(&on->added);
    } else {
        free(made);
    }
    (void)pthread_mutex_unlock(&on->lock);
    return status;
}

/* A fifth of a second from now: interrupts are looked for that often. */
static struct timespec soon(void)
{
    enum { STEP_NS = 200000000, SECOND_NS = 1000000000 };
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    now.tv_nsec += STEP_NS;
    now.tv_sec += now.tv_nsec / SECOND_NS;
    now.tv_nsec %= SECOND_NS;
    return now;
}

attune_status at_compilers_wait(at_compilers *on, int number, at_compiled *compiled)
{
    (void)pthread_mutex_lock(&on->lock);
    const job *one = number >= 0 && number < on->count ? on->jobs[number] : NULL;
    while (one != NULL && !one->done && !at_file_interrupted()) {
        const struct timespec until = soon();
        (void)pthread_cond_timedwait(&on->done, &on->lock, &until);
    }
    bool done = one != NULL && one->done;
    if (done) {
        *compiled = one->compiled;
    }
    (void)pthread_mutex_unlock(&on->lock);
    AT_FAIL_IF(one == NULL, ATTUNE_INVALID_ARGUMENT, "there is no job %d", number);
    AT_FAIL_IF(!done, ATTUNE_INTERRUPTED, "interrupted");
    return ATTUNE_OK;
}
