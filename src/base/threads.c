#include "base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/slots.h"
#include "base/status.h"

/* How a run works. The caller takes the workers, which serve one run at a time, writes the job, opens the gate, and
 * claims items like every worker. A worker takes part by entering the open gate; one that comes late finds it closed
 * and goes back to waiting, so a run never waits for a thread that the system has not scheduled yet. When nothing is
 * left to claim the caller closes the gate and waits for those inside to leave; then nobody reads the job any more. A
 * caller that finds the workers taken does items alone, and looks again before each.
 *
 * The gate is one atomic word: a phase in the upper half (odd: open) and the number of workers inside in the lower. */

enum {
    THREADS_MAX = 1024,
    /* NOTE: a pause takes about 40 cycles on Zen and 140 on Skylake and later, so this is 50 to 200 us: about what it
     * costs, on many processors of a virtual machine, to put threads to sleep and wake them again. Who waits less pays
     * that for every run whose items do not end together. Counted, for in a sandbox no clock may be read. */
    SPINS = 4000,
    /* Who spins gives way this often to whatever else wants the processor: threads of the program's other pools, which
     * may spin as well. On a processor that nobody else wants that costs some 200 ns. */
    SPINS_PER_YIELD = 256,
    /* Each claim takes this share of what an even split of the remaining items would give a thread. */
    CLAIMS_PER_SHARE = 4
};

_Static_assert((int)AT_CALLERS_MAX == (int)AT_SLOTS, "each has a slot");

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
    int started; /* workers */
    bool lost;   /* this process was forked: the workers are the parent's */
    worker *workers;
    unsigned char *scratch; /* of the workers */
    size_t stride;
    int *cpus;
    int cpu_count;
    at_memory memory;
    attune_parallel_for parallel_for;
    void *parallel_user;
    at_fork_watch watch;
    at_slots slots;        /* of the callers */
    pthread_mutex_t sleep; /* guards both conditions */
    pthread_cond_t opened;
    pthread_cond_t left;
    _Alignas(64) atomic_uint_least64_t gate;
    _Atomic int sleepers;
    atomic_bool caller_sleeps;
    atomic_bool stop;
    _Alignas(64) atomic_bool taken;         /* by the one caller that the workers serve */
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

/* The spin-th of a row. */
static void wait_a_moment(int spin)
{
    if (spin % SPINS_PER_YIELD == SPINS_PER_YIELD - 1) {
        (void)sched_yield();
    } else {
        relax();
    }
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
        wait_a_moment(spin);
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
        wait_a_moment(spin);
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

/* A thread that cannot have its CPU, as where the program's affinity changed, has any. */
static void pin(const at_pool *pool, int index, pthread_t thread)
{
    if (pool->cpu_count == 0) {
        return;
    }
    const int cpu = pool->cpus[index % pool->cpu_count];
    cpu_set_t *set = CPU_ALLOC((size_t)cpu + 1);
    if (set != NULL) {
        const size_t bytes = CPU_ALLOC_SIZE((size_t)cpu + 1);
        CPU_ZERO_S(bytes, set);
        CPU_SET_S((size_t)cpu, bytes, set);
        (void)pthread_setaffinity_np(thread, bytes, set);
        CPU_FREE(set);
    }
}

/* A worker's, with AT_SCRATCH_FRONT bytes in front. */
static unsigned char *scratch_of(const at_pool *pool, int of)
{
    return pool->scratch + (size_t)of * (AT_SCRATCH_FRONT + pool->stride) + AT_SCRATCH_FRONT;
}

/* Starts the workers, all signals blocked so that the program's handlers run on the program's threads. Returns how many
 * started; *error is why not all did. */
static int start_workers(at_pool *pool, int *error)
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
        one->scratch = scratch_of(pool, started);
        *error = pthread_create(&one->thread, NULL, worker_main, one);
        if (*error != 0) {
            break;
        }
        pin(pool, started, one->thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* ---- Running ---------------------------------------------------------------------------------------------------- */

void at_pool_each_scratch(at_pool *pool, void (*see)(void *context, unsigned char *scratch), void *context)
{
    const int workers = pool->parallel_for == NULL ? pool->threads - 1 : 0;
    for (int i = 0; i < workers; ++i) {
        see(context, scratch_of(pool, i));
    }
    for (int i = 0; i < AT_SLOTS; ++i) {
        unsigned char *scratch = pool->slots.slot[i].scratch;
        if (scratch != NULL) {
            see(context, scratch);
        }
    }
}

/* The workers, where nobody else has them. */
static bool take_workers(at_pool *pool)
{
    if (atomic_load_explicit(&pool->taken, memory_order_relaxed) || atomic_exchange(&pool->taken, true)) {
        return false;
    }
    if (pool->lost) { /* with fewer than before, or none, the run only takes longer */
        int error;
        pool->lost = false;
        pool->started = start_workers(pool, &error);
    }
    return true;
}

static void run_together(at_pool *pool, int64_t first, int64_t items, at_work work, void *context, void *scratch)
{
    pool->work = work;
    pool->context = context;
    pool->items = items;
    atomic_store_explicit(&pool->next, first, memory_order_relaxed);
    open_gate(pool, items - first - 1);
    work_items(pool, scratch);
    close_gate(pool);
    atomic_store(&pool->taken, false);
}

static void run_here(at_pool *pool, int64_t items, at_work work, void *context)
{
    at_slot *slot = at_slots_take(&pool->slots);
    const bool may_share = pool->threads > 1 && pool->parallel_for == NULL;
    for (int64_t item = 0; item < items; ++item) {
        if (may_share && items - item > 1 && take_workers(pool)) {
            run_together(pool, item, items, work, context, slot->scratch);
            break;
        }
        work(context, item, slot->scratch);
    }
    at_slots_give(&pool->slots, slot);
}

/* A run on threads of the caller's. */
typedef struct piece {
    at_pool *pool;
    at_work work;
    void *context;
} piece;

static void run_piece(void *context, int64_t first, int64_t count)
{
    const piece *of = context;
    at_slot *slot = at_slots_take(&of->pool->slots);
    for (int64_t item = first; item < first + count; ++item) {
        of->work(of->context, item, slot->scratch);
    }
    at_slots_give(&of->pool->slots, slot);
}

void at_pool_run(at_pool *pool, int64_t items, at_work work, void *context)
{
    if (items > 1 && pool->threads > 1 && pool->parallel_for != NULL) {
        piece of = {pool, work, context};
        pool->parallel_for(pool->parallel_user, items, run_piece, &of);
    } else if (items > 0) {
        run_here(pool, items, work, context);
    }
}

/* ---- Making and ending ------------------------------------------------------------------------------------------ */

static void init_sleep(at_pool *pool)
{
    /* With default attributes these cannot fail on Linux. */
    (void)pthread_mutex_init(&pool->sleep, NULL);
    (void)pthread_cond_init(&pool->opened, NULL);
    (void)pthread_cond_init(&pool->left, NULL);
    atomic_store(&pool->gate, 0);
    atomic_store(&pool->sleepers, 0);
    atomic_store(&pool->caller_sleeps, false);
    atomic_store(&pool->taken, false);
}

/* Here no worker runs, and no caller: whatever they held is free. */
static void become_child(void *self)
{
    at_pool *pool = self;
    init_sleep(pool);
    at_slots_forget(&pool->slots);
    pool->lost = pool->parallel_for == NULL && pool->threads > 1;
    pool->started = 0;
}

static void free_pool(at_pool *pool)
{
    at_slots_free(&pool->slots);
    at_memory_give(&pool->memory, pool->scratch);
    free(pool->cpus);
    free(pool->workers);
    free(pool);
}

/* Ends the workers and frees everything. */
static void dismantle(at_pool *pool)
{
    at_fork_remove(&pool->watch);
    pthread_mutex_lock(&pool->sleep);
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->opened);
    pthread_mutex_unlock(&pool->sleep);
    for (int i = 0; i < pool->started; ++i) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    pthread_cond_destroy(&pool->left);
    pthread_cond_destroy(&pool->opened);
    pthread_mutex_destroy(&pool->sleep);
    free_pool(pool);
}

/* All that lies in memory of its own; what was taken is in the pool, whether it was enough or not. */
static bool take_memory(at_pool *pool, const at_pool_options *options)
{
    const size_t workers = options->parallel_for == NULL ? (size_t)options->threads - 1 : 0;
    pool->workers = calloc(workers + 1, sizeof *pool->workers);
    pool->scratch =
        workers == 0 ? NULL : at_memory_take(&pool->memory, workers * (AT_SCRATCH_FRONT + pool->stride), AT_SLOT_ALIGN);
    pool->cpus = calloc((size_t)options->cpu_count + 1, sizeof *pool->cpus);
    if (pool->workers == NULL || (workers > 0 && pool->scratch == NULL) || pool->cpus == NULL) {
        return false;
    }
    if (options->cpu_count > 0) {
        memcpy(pool->cpus, options->cpus, (size_t)options->cpu_count * sizeof *pool->cpus);
    }
    return true;
}

static attune_status make(const at_pool_options *options, size_t stride, at_pool **pool)
{
    at_pool *made = aligned_alloc(_Alignof(at_pool), sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "a pool of threads: out of memory");
    memset(made, 0, sizeof *made);
    made->threads = options->threads;
    made->stride = stride;
    made->cpu_count = options->cpu_count;
    made->memory = options->memory;
    made->parallel_for = options->parallel_for;
    made->parallel_user = options->parallel_user;
    /* Spinning while another thread of the pool waits for the processor only delays that thread. */
    made->spins = !options->sleeps && options->threads <= at_cpu_count() ? SPINS : 0;
    made->watch = (at_fork_watch){.child = become_child, .self = made};
    attune_status status =
        at_slots_init(&made->slots, options->callers > 0 ? options->callers : 1, stride, &options->memory);
    if (status != ATTUNE_OK) {
        free(made);
        return status;
    }
    if (!take_memory(made, options)) {
        free_pool(made);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "a pool of %d threads with %zu bytes of scratch each: out of memory",
                       options->threads, stride);
    }
    init_sleep(made);
    *pool = made;
    return ATTUNE_OK;
}

attune_status at_pool_create_with(const at_pool_options *options, at_pool **pool)
{
    const int threads = options->threads;
    at_pool *made = NULL;
    *pool = NULL;
    AT_FAIL_IF(threads < 1 || threads > THREADS_MAX, ATTUNE_INVALID_ARGUMENT, "threads %d: 1 to %d are possible",
               threads, (int)THREADS_MAX);
    AT_FAIL_IF(options->callers < 0 || options->callers > AT_CALLERS_MAX, ATTUNE_INVALID_ARGUMENT,
               "callers %d: 0 to %d are possible", options->callers, (int)AT_CALLERS_MAX);
    AT_FAIL_IF(options->scratch_bytes > SIZE_MAX / THREADS_MAX - AT_SLOT_ALIGN - AT_SCRATCH_FRONT,
               ATTUNE_INVALID_ARGUMENT, "%zu bytes of scratch a thread: too many", options->scratch_bytes);
    AT_FORWARD(make(options, (options->scratch_bytes / AT_SLOT_ALIGN + 1) * AT_SLOT_ALIGN, &made));
    at_fork_add(&made->watch);
    int error = 0;
    const int wanted = options->parallel_for == NULL ? threads - 1 : 0;
    made->started = wanted == 0 ? 0 : start_workers(made, &error);
    if (made->started < wanted) {
        const int missing = made->started + 2;
        dismantle(made);
        return at_fail(ATTUNE_OUT_OF_MEMORY, "thread %d of %d could not be started: %s", missing, threads,
                       strerror(error));
    }
    *pool = made;
    return ATTUNE_OK;
}

attune_status at_pool_create(int threads, size_t scratch_bytes, at_pool **pool)
{
    const at_pool_options options = {.threads = threads, .scratch_bytes = scratch_bytes};
    return at_pool_create_with(&options, pool);
}

void at_pool_destroy(at_pool *pool)
{
    if (pool != NULL) {
        dismantle(pool);
    }
}

int at_pool_threads(const at_pool *pool)
{
    return pool->threads;
}
