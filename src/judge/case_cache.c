#include "judge/case_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

/* All members are of one size, so that keys compare as bytes. What outputs held before is made anew for each borrower.
 */
typedef struct key {
    uint64_t problem, seed, length_seed;
    int64_t family, gaps, repeats, far;
    int64_t is_truth, acc16, wanted, tile;
} key;

/* Inputs, or a truth. */
typedef struct kept {
    key of;
    int scope;
    bool making; /* by some thread: nobody else may look at it */
    bool lent;   /* inputs */
    at_inputs inputs;
    at_truth truth;
    struct kept *next;
} kept;

typedef struct prefetch_job {
    at_prefetch wanted;
    int scope;
    struct prefetch_job *next;
} prefetch_job;

struct at_case_cache {
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    kept *first;
    prefetch_job *jobs, **last;
    size_t bytes, most_bytes, found;
    int scope;
    bool stop, runs;
    pthread_t thread;
    at_pool *pool; /* the thread's own */
};

/* ---- Keys -------------------------------------------------------------------------------------------------------- */

static key key_of_inputs(const attune_problem *problem, const at_draw *draw)
{
    return (key){.problem = attune_problem_hash(problem),
                 .seed = draw->seed,
                 .length_seed = draw->length_seed,
                 .family = (int64_t)draw->family,
                 .gaps = draw->gaps,
                 .repeats = draw->repeats,
                 .far = draw->far};
}

static key key_of_truth(const attune_problem *problem, const at_draw *draw, const at_truth_want *want)
{
    key of = key_of_inputs(problem, draw);
    of.is_truth = 1;
    of.acc16 = want->acc16;
    of.wanted = want->wanted;
    of.tile = want->tile;
    return of;
}

/* ---- What is kept, under the lock -------------------------------------------------------------------------------- */

static kept *find(const at_case_cache *cache, const key *of)
{
    kept *at = cache->first;
    while (at != NULL && memcmp(&at->of, of, sizeof *of) != 0) {
        at = at->next;
    }
    return at;
}

/* Waits for whoever is making it; NULL where there is none. */
static kept *find_made(at_case_cache *cache, const key *of)
{
    kept *one = find(cache, of);
    while (one != NULL && one->making) {
        pthread_cond_wait(&cache->changed, &cache->lock);
        one = find(cache, of);
    }
    return one;
}

/* A place for what the caller is about to make; NULL where there is no room. */
static kept *claim(at_case_cache *cache, const key *of, int scope)
{
    kept *one = cache->bytes < cache->most_bytes ? calloc(1, sizeof *one) : NULL;
    if (one != NULL) {
        one->of = *of;
        one->scope = scope;
        one->making = true;
        one->next = cache->first;
        cache->first = one;
    }
    return one;
}

static size_t bytes_of(const kept *one)
{
    size_t bytes = one->of.is_truth ? at_truth_bytes(&one->truth) : 0;
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        bytes += one->inputs.buffer[role].total;
    }
    return bytes;
}

static void discard(at_case_cache *cache, kept *one)
{
    kept **at = &cache->first;
    while (*at != one) {
        at = &(*at)->next;
    }
    *at = one->next;
    at_truth_free(&one->truth);
    at_inputs_free(&one->inputs);
    free(one);
}

/* Ends a claim. */
static void settle(at_case_cache *cache, kept *one, attune_status status)
{
    one->making = false;
    if (status == ATTUNE_OK) {
        cache->bytes += bytes_of(one);
    } else {
        discard(cache, one);
    }
    pthread_cond_broadcast(&cache->changed);
}

static void forget(at_case_cache *cache, kept *one)
{
    cache->bytes -= bytes_of(one);
    discard(cache, one);
}

/* ---- Inputs ------------------------------------------------------------------------------------------------------ */

/* Far ones are mostly addresses, and are drawn each time. */
static attune_status claim_inputs(at_case_cache *cache, const attune_problem *problem, const at_draw *draw, kept **one,
                                  bool *made)
{
    const key of = key_of_inputs(problem, draw);
    *one = find_made(cache, &of);
    *made = *one != NULL;
    if (*made) {
        return ATTUNE_OK;
    }
    *one = draw->far ? NULL : claim(cache, &of, cache->scope);
    if (*one == NULL) {
        return ATTUNE_OK;
    }
    pthread_mutex_unlock(&cache->lock);
    attune_status status = at_inputs_draw(problem, draw, &(*one)->inputs);
    pthread_mutex_lock(&cache->lock);
    settle(cache, *one, status);
    return status;
}

/* What is lent has its outputs poisoned again. */
static void lend(kept *one, const at_draw *draw, at_inputs *inputs)
{
    *inputs = one->inputs;
    inputs->draw.pool = draw->pool;
    at_inputs_poison(inputs, draw->poison);
}

attune_status at_case_cache_inputs(at_case_cache *cache, const attune_problem *problem, const at_draw *draw,
                                   at_inputs *inputs)
{
    kept *one = NULL;
    bool found = false;
    memset(inputs, 0, sizeof *inputs);
    if (cache == NULL) {
        return at_inputs_draw(problem, draw, inputs);
    }
    pthread_mutex_lock(&cache->lock);
    attune_status status = claim_inputs(cache, problem, draw, &one, &found);
    bool lent = status == ATTUNE_OK && one != NULL && !one->lent;
    if (lent) {
        one->lent = true;
        cache->found += found;
    }
    pthread_mutex_unlock(&cache->lock);
    AT_FORWARD(status);
    if (!lent) {
        return at_inputs_draw(problem, draw, inputs);
    }
    lend(one, draw, inputs);
    return ATTUNE_OK;
}

static kept *find_lent(const at_case_cache *cache, const at_inputs *inputs)
{
    kept *at = cache->first;
    while (at != NULL && !(at->lent && at->inputs.buffer[ATTUNE_Q].base == inputs->buffer[ATTUNE_Q].base)) {
        at = at->next;
    }
    return at;
}

void at_case_cache_return(at_case_cache *cache, at_inputs *inputs, bool changed)
{
    kept *one = NULL;
    if (cache != NULL && inputs->buffer[ATTUNE_Q].base != NULL) {
        pthread_mutex_lock(&cache->lock);
        one = find_lent(cache, inputs);
        if (one != NULL) {
            one->lent = false;
        }
        if (one != NULL && changed) {
            forget(cache, one);
        }
        pthread_mutex_unlock(&cache->lock);
    }
    if (one == NULL) {
        at_inputs_free(inputs);
    }
    memset(inputs, 0, sizeof *inputs);
}

/* ---- Truths ------------------------------------------------------------------------------------------------------ */

attune_status at_case_cache_truth(at_case_cache *cache, at_pool *pool, const at_inputs *inputs,
                                  const at_truth_want *want, at_truth *truth)
{
    attune_status status = ATTUNE_OK;
    memset(truth, 0, sizeof *truth);
    if (cache == NULL) {
        return at_truth_compute(pool, inputs, want, truth);
    }
    const key of = key_of_truth(&inputs->problem, &inputs->draw, want);
    pthread_mutex_lock(&cache->lock);
    kept *one = find_made(cache, &of);
    cache->found += one != NULL;
    if (one == NULL && (one = claim(cache, &of, cache->scope)) != NULL) {
        pthread_mutex_unlock(&cache->lock);
        status = at_truth_compute(pool, inputs, want, &one->truth);
        pthread_mutex_lock(&cache->lock);
        settle(cache, one, status);
    }
    pthread_mutex_unlock(&cache->lock);
    AT_FORWARD(status);
    if (one == NULL) {
        return at_truth_compute(pool, inputs, want, truth);
    }
    at_truth_view(&one->truth, inputs, truth);
    return ATTUNE_OK;
}

/* ---- Ahead ------------------------------------------------------------------------------------------------------- */

/* Places for what an prefetch_job makes; those that exist already, or have no room, stay NULL. */
static void claim_job(at_case_cache *cache, const prefetch_job *to, kept **drawn, kept **judged)
{
    const at_prefetch *wanted = &to->wanted;
    const key inputs = key_of_inputs(&wanted->problem, &wanted->draw);
    const key truth = key_of_truth(&wanted->problem, &wanted->draw, &wanted->want);
    *drawn = !wanted->draw.far && find(cache, &inputs) == NULL ? claim(cache, &inputs, to->scope) : NULL;
    *judged = wanted->judged && find(cache, &truth) == NULL ? claim(cache, &truth, to->scope) : NULL;
}

/* Without the lock: nobody looks at what is being made. */
static attune_status make(at_case_cache *cache, const at_prefetch *wanted, kept *drawn, kept *judged)
{
    at_inputs own = {.draw = {.seed = 0}};
    at_inputs *inputs = drawn != NULL ? &drawn->inputs : &own;
    at_draw draw = wanted->draw;
    draw.pool = cache->pool;
    attune_status status = at_inputs_draw(&wanted->problem, &draw, inputs);
    if (status == ATTUNE_OK && judged != NULL) {
        status = at_truth_compute(cache->pool, inputs, &wanted->want, &judged->truth);
    }
    at_inputs_free(&own);
    return status;
}

/* Under the lock, which it gives away meanwhile. */
static void run_job(at_case_cache *cache, const prefetch_job *to)
{
    kept *drawn, *judged;
    claim_job(cache, to, &drawn, &judged);
    if (drawn == NULL && judged == NULL) {
        return;
    }
    pthread_mutex_unlock(&cache->lock);
    attune_status status = make(cache, &to->wanted, drawn, judged);
    pthread_mutex_lock(&cache->lock);
    if (drawn != NULL) {
        settle(cache, drawn, status);
    }
    if (judged != NULL) {
        settle(cache, judged, status);
    }
}

static void *run_jobs(void *context)
{
    at_case_cache *cache = context;
    pthread_mutex_lock(&cache->lock);
    while (!cache->stop) {
        prefetch_job *next = cache->jobs;
        if (next == NULL) {
            pthread_cond_wait(&cache->changed, &cache->lock);
            continue;
        }
        cache->jobs = next->next;
        cache->last = next->next == NULL ? &cache->jobs : cache->last;
        run_job(cache, next);
        free(next);
    }
    pthread_mutex_unlock(&cache->lock);
    return NULL;
}

static attune_status start_thread(at_case_cache *cache, int threads)
{
    if (cache->runs) {
        return ATTUNE_OK;
    }
    if (cache->pool == NULL) {
        AT_FORWARD(at_pool_create(threads > 0 ? threads : 1, 0, &cache->pool));
    }
    AT_FAIL_IF(pthread_create(&cache->thread, NULL, run_jobs, cache) != 0, ATTUNE_OUT_OF_MEMORY,
               "no thread to look ahead with");
    cache->runs = true;
    return ATTUNE_OK;
}

attune_status at_case_cache_ahead(at_case_cache *cache, int scope, int threads, const at_prefetch *wanted)
{
    if (cache == NULL) {
        return ATTUNE_OK;
    }
    AT_FORWARD(start_thread(cache, threads));
    prefetch_job *one = malloc(sizeof *one);
    AT_FAIL_IF(one == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to look ahead with");
    *one = (prefetch_job){*wanted, scope, NULL};
    pthread_mutex_lock(&cache->lock);
    *cache->last = one;
    cache->last = &one->next;
    pthread_cond_broadcast(&cache->changed);
    pthread_mutex_unlock(&cache->lock);
    return ATTUNE_OK;
}

/* ---- Scopes ------------------------------------------------------------------------------------------------------ */

void at_case_cache_enter(at_case_cache *cache, int scope)
{
    pthread_mutex_lock(&cache->lock);
    cache->scope = scope;
    pthread_mutex_unlock(&cache->lock);
}

static void drop_jobs(at_case_cache *cache, int scope)
{
    prefetch_job **at = &cache->jobs;
    while (*at != NULL) {
        prefetch_job *one = *at;
        if (one->scope == scope) {
            *at = one->next;
            free(one);
        } else {
            at = &one->next;
        }
    }
    cache->last = at;
}

static kept *find_in_scope(const at_case_cache *cache, int scope)
{
    kept *at = cache->first;
    while (at != NULL && at->scope != scope) {
        at = at->next;
    }
    return at;
}

void at_case_cache_drop(at_case_cache *cache, int scope)
{
    pthread_mutex_lock(&cache->lock);
    drop_jobs(cache, scope);
    for (kept *one = find_in_scope(cache, scope); one != NULL; one = find_in_scope(cache, scope)) {
        if (one->making) {
            pthread_cond_wait(&cache->changed, &cache->lock);
        } else {
            forget(cache, one);
        }
    }
    pthread_mutex_unlock(&cache->lock);
}

size_t at_case_cache_found(const at_case_cache *cache)
{
    return cache->found;
}

/* ---- Opening and closing ----------------------------------------------------------------------------------------- */

attune_status at_case_cache_create(size_t most_bytes, at_case_cache **cache)
{
    *cache = calloc(1, sizeof **cache);
    AT_FAIL_IF(*cache == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to keep references in");
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    size_t quarter = pages > 0 && page > 0 ? (size_t)pages / 4 * (size_t)page : 0;
    (*cache)->most_bytes = most_bytes > 0 ? most_bytes : quarter;
    (*cache)->last = &(*cache)->jobs;
    (void)pthread_mutex_init(&(*cache)->lock, NULL);
    (void)pthread_cond_init(&(*cache)->changed, NULL);
    return ATTUNE_OK;
}

static void end_thread(at_case_cache *cache)
{
    if (cache->runs) {
        pthread_mutex_lock(&cache->lock);
        cache->stop = true;
        pthread_cond_broadcast(&cache->changed);
        pthread_mutex_unlock(&cache->lock);
        (void)pthread_join(cache->thread, NULL);
    }
    at_pool_destroy(cache->pool);
}

void at_case_cache_destroy(at_case_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    end_thread(cache);
    while (cache->jobs != NULL) {
        prefetch_job *next = cache->jobs->next;
        free(cache->jobs);
        cache->jobs = next;
    }
    while (cache->first != NULL) {
        discard(cache, cache->first);
    }
    (void)pthread_cond_destroy(&cache->changed);
    (void)pthread_mutex_destroy(&cache->lock);
    free(cache);
}
