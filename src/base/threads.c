#include "base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

/* How a run works. The caller writes the job, opens the gate, and claims items like every worker. A worker takes part
 * by entering the open gate; one that comes late finds it closed and goes back to waiting, so a run never waits for a
 * thread that the system has not scheduled yet. When nothing is left to claim the caller closes the gate and waits for
 * those inside to leave; then nobody reads the job any more.
 *
 * The gate is one atomic word: a phase in the upper half (odd: open) and the number of workers inside in the lower. */

enum {
    THREADS_MAX = 1024,
    SCRATCH_ALIGN = 64,
    /* NOTE: a pause takes about 40 cycles on Zen and 140 on Skylake and later, so this is 50 to 200 us: about what it
     * costs, on many processors of a virtual machine, to put threads to sleep and wake them again. Who waits less pays
     * that for every run whose items do not end together. Counted, for in a sandbox no clock may be read. */
    SPINS = 4000,
    /* Each claim takes this share of what an even split of the remaining items would give a thread. */
    CLAIMS_PER_SHARE = 4
};

#define PHASE_ONE ((uint64_t)1 << 32)

typedef struct worker {
    at_pool *pool;
    void *scratch;
    pthread_t thread;
} worker;

struct at_pool {
    /* Written before the gate opens, read by those inside. */
    at_work work;
    void *context;
    int64_t items;
    int threads;
    int spins;
    unsigned char *scratch;
    worker *workers;
    pthread_mutex_t run;   /* held by the one caller that has the pool */
    pthread_mutex_t sleep; /* guards both conditions */
    pthread_cond_t opened;
    pthread_cond_t left;
    _Alignas(64) atomic_uint_least64_t gate;
    _Atomic int sleepers;
    atomic_bool caller_sleeps;
    atomic_bool stop;
    _Alignas(64) atomic_int_least64_t next; /* first item not yet claimed */
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

int at_cpu_count(void)
{
    /* The set must be as large as the kernel's own, which is not known: grow it until the call accepts it. */
    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (set == NULL) {
            break;
        }
        size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0) {
            return count;
        }
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

/* Takes the next few items; false when none are left. */
static bool claim(at_pool *pool, int64_t *first, int64_t *last)
{
    int_least64_t next = atomic_load_explicit(&pool->next, memory_order_relaxed);
    int64_t take;
    do {
        int64_t remaining = pool->items - next;
        if (remaining <= 0) {
            return false;
        }
        take = remaining / (CLAIMS_PER_SHARE * (int64_t)pool->threads);
        take = take > 0 ? take : 1;
    } while (!atomic_compare_exchange_weak_explicit(&pool->next, &next, next + take, memory_order_relaxed,
                                                    memory_order_relaxed));
    *first = next;
    *last = next + take;
    return true;
}

static void work_items(at_pool *pool, void *scratch)
{
    int64_t item, last;
    while (claim(pool, &item, &last)) {
        for (; item < last; ++item) {
            pool->work(pool->context, item, scratch);
        }
    }
}

static uint32_t phase_of(uint64_t gate)
{
    return (uint32_t)(gate >> 32);
}

static uint32_t inside_of(uint64_t gate)
{
    return (uint32_t)gate;
}

/* Whether there is something to do for a worker that last saw the phase `seen`. */
static bool called(at_pool *pool, uint32_t seen)
{
    uint32_t phase = phase_of(atomic_load(&pool->gate));
    return atomic_load(&pool->stop) || ((phase & 1u) != 0 && phase != seen);
}

static void wait_for_call(at_pool *pool, uint32_t seen)
{
    for (int spin = 0; spin < pool->spins; ++spin) {
        if (called(pool, seen)) {
            return;
        }
        relax();
    }
    /* The count of sleepers rises before the last look at the gate, and the caller opens the gate before it reads the
     * count: one of the two sees the other. */
    pthread_mutex_lock(&pool->sleep);
    atomic_fetch_add(&pool->sleepers, 1);
    while (!called(pool, seen)) {
        pthread_cond_wait(&pool->opened, &pool->sleep);
    }
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->sleep);
}

/* Enters the gate if it is still open; *seen becomes the phase that was found. */
static bool enter(at_pool *pool, uint32_t *seen)
{
    uint64_t gate = atomic_load(&pool->gate);
    do {
        *seen = phase_of(gate);
        if ((*seen & 1u) == 0) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(&pool->gate, &gate, gate + 1));
    return true;
}

static void leave(at_pool *pool)
{
    uint64_t gate = atomic_fetch_sub(&pool->gate, 1) - 1;
    if (inside_of(gate) == 0 && (phase_of(gate) & 1u) == 0 && atomic_load(&pool->caller_sleeps)) {
        pthread_mutex_lock(&pool->sleep);
        pthread_cond_signal(&pool->left);
        pthread_mutex_unlock(&pool->sleep);
    }
}

static void *worker_main(void *argument)
{
    const worker *self = argument;
    at_pool *pool = self->pool;
    uint32_t seen = 0;
    for (;;) {
        wait_for_call(pool, seen);
        if (atomic_load(&pool->stop)) {
            return NULL;
        }
        if (enter(pool, &seen)) {
            work_items(pool, self->scratch);
            leave(pool);
        }
    }
}

static void open_gate(at_pool *pool, int64_t wanted)
{
    atomic_fetch_add(&pool->gate, PHASE_ONE);
    int sleepers = atomic_load(&pool->sleepers);
    if (sleepers == 0) {
        return;
    }
    pthread_mutex_lock(&pool->sleep);
    if (wanted >= sleepers) {
        pthread_cond_broadcast(&pool->opened);
    } else {
        for (int64_t i = 0; i < wanted; ++i) {
            pthread_cond_signal(&pool->opened);
        }
    }
    pthread_mutex_unlock(&pool->sleep);
}

static void close_gate(at_pool *pool)
{
    uint64_t gate = atomic_fetch_add(&pool->gate, PHASE_ONE) + PHASE_ONE;
    for (int spin = 0; inside_of(gate) != 0 && spin < pool->spins; ++spin) {
        relax();
        gate = atomic_load(&pool->gate);
    }
    if (inside_of(gate) == 0) {
        return;
    }
    pthread_mutex_lock(&pool->sleep);
    atomic_store(&pool->caller_sleeps, true);
    while (inside_of(atomic_load(&pool->gate)) != 0) {
        pthread_cond_wait(&pool->left, &pool->sleep);
    }
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->sleep);
}

void at_pool_run(at_pool *pool, int64_t items, at_work work, void *context)
{
    if (items <= 0) {
        return;
    }
    pthread_mutex_lock(&pool->run);
    if (items == 1 || pool->threads == 1) {
        for (int64_t item = 0; item < items; ++item) {
            work(context, item, pool->scratch);
        }
    } else {
        pool->work = work;
        pool->context = context;
        pool->items = items;
        atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
        open_gate(pool, items - 1);
        work_items(pool, pool->scratch);
        close_gate(pool);
    }
    pthread_mutex_unlock(&pool->run);
}

/* Ends the first `started` workers and frees everything. */
static void dismantle(at_pool *pool, int started)
{
    pthread_mutex_lock(&pool->sleep);
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->opened);
    pthread_mutex_unlock(&pool->sleep);
    for (int i = 0; i < started; ++i) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    pthread_cond_destroy(&pool->left);
    pthread_cond_destroy(&pool->opened);
    pthread_mutex_destroy(&pool->sleep);
    pthread_mutex_destroy(&pool->run);
    free(pool->workers);
    free(pool->scratch);
    free(pool);
}

/* Starts the workers, all signals blocked so that the program's handlers run on the program's threads. Returns how many
 * started; *error is why not all did. */
static int start_workers(at_pool *pool, size_t stride, int *error)
{
    sigset_t all, before;
    sigfillset(&all);
    *error = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (*error != 0) {
        return 0;
    }
    int started = 0;
    for (; started < pool->threads - 1; ++started) {
        worker *one = &pool->workers[started];
        one->pool = pool;
        one->scratch = pool->scratch + (size_t)(started + 1) * stride;
        *error = pthread_create(&one->thread, NULL, worker_main, one);
        if (*error != 0) {
            break;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static at_pool *allocate_pool(int threads, size_t stride)
{
    at_pool *pool = aligned_alloc(_Alignof(at_pool), sizeof *pool);
    if (pool == NULL) {
        return NULL;
    }
    memset(pool, 0, sizeof *pool);
    pool->scratch = aligned_alloc(SCRATCH_ALIGN, (size_t)threads * stride);
    pool->workers = calloc((size_t)threads, sizeof *pool->workers);
    if (pool->scratch == NULL || pool->workers == NULL) {
        free(pool->workers);
        free(pool->scratch);
        free(pool);
        return NULL;
    }
    return pool;
}

attune_status at_pool_create(int threads, size_t scratch_bytes, at_pool **pool)
{
    *pool = NULL;
    AT_FAIL_IF(threads < 1 || threads > THREADS_MAX, ATTUNE_INVALID_ARGUMENT, "threads %d: 1 to %d are possible",
               threads, (int)THREADS_MAX);
    AT_FAIL_IF(scratch_bytes > SIZE_MAX / THREADS_MAX - SCRATCH_ALIGN, ATTUNE_INVALID_ARGUMENT,
               "%zu bytes of scratch a thread: too many", scratch_bytes);
    size_t stride = (scratch_bytes / SCRATCH_ALIGN + 1) * SCRATCH_ALIGN;
    at_pool *made = allocate_pool(threads, stride);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "a pool of %d threads with %zu bytes of scratch each: out of memory",
               threads, scratch_bytes);
    made->threads = threads;
    /* Spinning while another thread of the pool waits for the processor only delays that thread. */
    made->spins = threads <= at_cpu_count() ? SPINS : 0;
    pthread_mutex_init(&made->run, NULL);
    pthread_mutex_init(&made->sleep, NULL);
    pthread_cond_init(&made->opened, NULL);
    pthread_cond_init(&made->left, NULL);
    int error;
    int started = start_workers(made, stride, &error);
    if (started < threads - 1) {
        dismantle(made, started);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "thread %d of %d could not be started: %s", started + 2, threads,
                       strerror(error));
    }
    *pool = made;
    return ATTUNE_OK;
}

void at_pool_destroy(at_pool *pool)
{
    if (pool != NULL) {
        dismantle(pool, pool->threads - 1);
    }
}

int at_pool_threads(const at_pool *pool)
{
    return pool->threads;
}
