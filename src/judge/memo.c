#include "judge/memo.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

/* All members are of one size, so that keys compare as bytes. */
typedef struct key {
    uint64_t problem, seed;
    int64_t family, gaps, far, poison;
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

struct at_memo {
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
                 .family = (int64_t)draw->family,
                 .gaps = draw->gaps,
                 .far = draw->far,
                 .poison = draw->poison};
}

/* Poison does not reach a truth. */
static key key_of_truth(const attune_problem *problem, const at_draw *draw, const at_truth_want *want)
{
    key of = key_of_inputs(problem, draw);
    of.poison = 0;
    of.is_truth = 1;
    of.acc16 = want->acc16;
    of.wanted = want->wanted;
    of.tile = want->tile;
    return of;
}

/* ---- What is kept, under the lock -------------------------------------------------------------------------------- */

static kept *find(const at_memo *memo, const key *of)
{
    kept *at = memo->first;
    while (at != NULL && memcmp(&at->of, of, sizeof *of) != 0) {
        at = at->next;
    }
    return at;
}

/* Waits for whoever is making it; NULL where there is none. */
static kept *find_made(at_memo *memo, const key *of)
{
    kept *one = find(memo, of);
    while (one != NULL && one->making) {
        pthread_cond_wait(&memo->changed, &memo->lock);
        one = find(memo, of);
    }
    return one;
}

/* A place for what the caller is about to make; NULL where there is no room. */
static kept *claim(at_memo *memo, const key *of, int scope)
{
    kept *one = memo->bytes < memo->most_bytes ? calloc(1, sizeof *one) : NULL;
    if (one != NULL) {
        one->of = *of;
        one->scope = scope;
        one->making = true;
        one->next = memo->first;
        memo->first = one;
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

static void discard(at_memo *memo, kept *one)
{
    kept **at = &memo->first;
    while (*at != one) {
        at = &(*at)->next;
    }
    *at = one->next;
    at_truth_free(&one->truth);
    at_inputs_free(&one->inputs);
    free(one);
}

/* Ends a claim. */
static void settle(at_memo *memo, kept *one, attune_status status)
{
    one->making = false;
    if (status == ATTUNE_OK) {
        memo->bytes += bytes_of(one);
    } else {
        discard(memo, one);
    }
    pthread_cond_broadcast(&memo->changed);
}

static void forget(at_memo *memo, kept *one)
{
    memo->bytes -= bytes_of(one);
    discard(memo, one);
}

/* ---- Inputs ------------------------------------------------------------------------------------------------------ */

/* Far ones are mostly addresses, and are drawn each time. */
static attune_status claim_inputs(at_memo *memo, const attune_problem *problem, const at_draw *draw, kept **one,
                                  bool *made)
{
    const key of = key_of_inputs(problem, draw);
    *one = find_made(memo, &of);
    *made = *one != NULL;
    if (*made) {
        return ATTUNE_OK;
    }
    *one = draw->far ? NULL : claim(memo, &of, memo->scope);
    if (*one == NULL) {
        return ATTUNE_OK;
    }
    pthread_mutex_unlock(&memo->lock);
    attune_status status = at_inputs_draw(problem, draw, &(*one)->inputs);
    pthread_mutex_lock(&memo->lock);
    settle(memo, *one, status);
    return status;
}

/* What is lent has its outputs poisoned again. */
static void lend(kept *one, const at_draw *draw, at_inputs *inputs)
{
    *inputs = one->inputs;
    inputs->draw.pool = draw->pool;
    at_inputs_poison(inputs, draw->poison);
}

attune_status at_memo_inputs(at_memo *memo, const attune_problem *problem, const at_draw *draw, at_inputs *inputs)
{
    kept *one = NULL;
    bool found = false;
    memset(inputs, 0, sizeof *inputs);
    if (memo == NULL) {
        return at_inputs_draw(problem, draw, inputs);
    }
    pthread_mutex_lock(&memo->lock);
    attune_status status = claim_inputs(memo, problem, draw, &one, &found);
    bool lent = status == ATTUNE_OK && one != NULL && !one->lent;
    if (lent) {
        one->lent = true;
        memo->found += found;
    }
    pthread_mutex_unlock(&memo->lock);
    AT_FORWARD(status);
    if (!lent) {
        return at_inputs_draw(problem, draw, inputs);
    }
    lend(one, draw, inputs);
    return ATTUNE_OK;
}

static kept *find_lent(const at_memo *memo, const at_inputs *inputs)
{
    kept *at = memo->first;
    while (at != NULL && !(at->lent && at->inputs.buffer[ATTUNE_Q].base == inputs->buffer[ATTUNE_Q].base)) {
        at = at->next;
    }
    return at;
}

void at_memo_return(at_memo *memo, at_inputs *inputs, bool changed)
{
    kept *one = NULL;
    if (memo != NULL && inputs->buffer[ATTUNE_Q].base != NULL) {
        pthread_mutex_lock(&memo->lock);
        one = find_lent(memo, inputs);
        if (one != NULL) {
            one->lent = false;
        }
        if (one != NULL && changed) {
            forget(memo, one);
        }
        pthread_mutex_unlock(&memo->lock);
    }
    if (one == NULL) {
        at_inputs_free(inputs);
    }
    memset(inputs, 0, sizeof *inputs);
}

/* ---- Truths ------------------------------------------------------------------------------------------------------ */

attune_status at_memo_truth(at_memo *memo, at_pool *pool, const at_inputs *inputs, const at_truth_want *want,
                            at_truth *truth)
{
    attune_status status = ATTUNE_OK;
    memset(truth, 0, sizeof *truth);
    if (memo == NULL) {
        return at_truth_compute(pool, inputs, want, truth);
    }
    const key of = key_of_truth(&inputs->problem, &inputs->draw, want);
    pthread_mutex_lock(&memo->lock);
    kept *one = find_made(memo, &of);
    memo->found += one != NULL;
    if (one == NULL && (one = claim(memo, &of, memo->scope)) != NULL) {
        pthread_mutex_unlock(&memo->lock);
        status = at_truth_compute(pool, inputs, want, &one->truth);
        pthread_mutex_lock(&memo->lock);
        settle(memo, one, status);
    }
    pthread_mutex_unlock(&memo->lock);
    AT_FORWARD(status);
    if (one == NULL) {
        return at_truth_compute(pool, inputs, want, truth);
    }
    at_truth_view(&one->truth, inputs, truth);
    return ATTUNE_OK;
}

/* ---- Ahead ------------------------------------------------------------------------------------------------------- */

/* Places for what an prefetch_job makes; those that exist already, or have no room, stay NULL. */
static void claim_job(at_memo *memo, const prefetch_job *to, kept **drawn, kept **judged)
{
    const at_prefetch *wanted = &to->wanted;
    const key inputs = key_of_inputs(&wanted->problem, &wanted->draw);
    const key truth = key_of_truth(&wanted->problem, &wanted->draw, &wanted->want);
    *drawn = !wanted->draw.far && find(memo, &inputs) == NULL ? claim(memo, &inputs, to->scope) : NULL;
    *judged = wanted->judged && find(memo, &truth) == NULL ? claim(memo, &truth, to->scope) : NULL;
}

/* Without the lock: nobody looks at what is being made. */
static attune_status make(at_memo *memo, const at_prefetch *wanted, kept *drawn, kept *judged)
{
    at_inputs own = {.draw = {.seed = 0}};
    at_inputs *inputs = drawn != NULL ? &drawn->inputs : &own;
    at_draw draw = wanted->draw;
    draw.pool = memo->pool;
    attune_status status = at_inputs_draw(&wanted->problem, &draw, inputs);
    if (status == ATTUNE_OK && judged != NULL) {
        status = at_truth_compute(memo->pool, inputs, &wanted->want, &judged->truth);
    }
    at_inputs_free(&own);
    return status;
}

/* Under the lock, which it gives away meanwhile. */
static void run_job(at_memo *memo, const prefetch_job *to)
{
    kept *drawn, *judged;
    claim_job(memo, to, &drawn, &judged);
    if (drawn == NULL && judged == NULL) {
        return;
    }
    pthread_mutex_unlock(&memo->lock);
    attune_status status = make(memo, &to->wanted, drawn, judged);
    pthread_mutex_lock(&memo->lock);
    if (drawn != NULL) {
        settle(memo, drawn, status);
    }
    if (judged != NULL) {
        settle(memo, judged, status);
    }
}

static void *run_jobs(void *context)
{
    at_memo *memo = context;
    pthread_mutex_lock(&memo->lock);
    while (!memo->stop) {
        prefetch_job *next = memo->jobs;
        if (next == NULL) {
            pthread_cond_wait(&memo->changed, &memo->lock);
            continue;
        }
        memo->jobs = next->next;
        memo->last = next->next == NULL ? &memo->jobs : memo->last;
        run_job(memo, next);
        free(next);
    }
    pthread_mutex_unlock(&memo->lock);
    return NULL;
}

static attune_status start_thread(at_memo *memo, int threads)
{
    if (memo->runs) {
        return ATTUNE_OK;
    }
    if (memo->pool == NULL) {
        AT_FORWARD(at_pool_create(threads > 0 ? threads : 1, 0, &memo->pool));
    }
    AT_FAIL_IF(pthread_create(&memo->thread, NULL, run_jobs, memo) != 0, ATTUNE_OUT_OF_MEMORY,
               "no thread to look ahead with");
    memo->runs = true;
    return ATTUNE_OK;
}

attune_status at_memo_ahead(at_memo *memo, int scope, int threads, const at_prefetch *wanted)
{
    if (memo == NULL) {
        return ATTUNE_OK;
    }
    AT_FORWARD(start_thread(memo, threads));
    prefetch_job *one = malloc(sizeof *one);
    AT_FAIL_IF(one == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to look ahead with");
    *one = (prefetch_job){*wanted, scope, NULL};
    pthread_mutex_lock(&memo->lock);
    *memo->last = one;
    memo->last = &one->next;
    pthread_cond_broadcast(&memo->changed);
    pthread_mutex_unlock(&memo->lock);
    return ATTUNE_OK;
}

/* ---- Chapters ---------------------------------------------------------------------------------------------------- */

void at_memo_enter(at_memo *memo, int scope)
{
    pthread_mutex_lock(&memo->lock);
    memo->scope = scope;
    pthread_mutex_unlock(&memo->lock);
}

static void drop_jobs(at_memo *memo, int scope)
{
    prefetch_job **at = &memo->jobs;
    while (*at != NULL) {
        prefetch_job *one = *at;
        if (one->scope == scope) {
            *at = one->next;
            free(one);
        } else {
            at = &one->next;
        }
    }
    memo->last = at;
}

static kept *find_in_scope(const at_memo *memo, int scope)
{
    kept *at = memo->first;
    while (at != NULL && at->scope != scope) {
        at = at->next;
    }
    return at;
}

void at_memo_drop(at_memo *memo, int scope)
{
    pthread_mutex_lock(&memo->lock);
    drop_jobs(memo, scope);
    for (kept *one = find_in_scope(memo, scope); one != NULL; one = find_in_scope(memo, scope)) {
        if (one->making) {
            pthread_cond_wait(&memo->changed, &memo->lock);
        } else {
            forget(memo, one);
        }
    }
    pthread_mutex_unlock(&memo->lock);
}

size_t at_memo_found(const at_memo *memo)
{
    return memo->found;
}

/* ---- Opening and closing ----------------------------------------------------------------------------------------- */

attune_status at_memo_create(size_t most_bytes, at_memo **memo)
{
    *memo = calloc(1, sizeof **memo);
    AT_FAIL_IF(*memo == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to keep references in");
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    size_t quarter = pages > 0 && page > 0 ? (size_t)pages / 4 * (size_t)page : 0;
    (*memo)->most_bytes = most_bytes > 0 ? most_bytes : quarter;
    (*memo)->last = &(*memo)->jobs;
    (void)pthread_mutex_init(&(*memo)->lock, NULL);
    (void)pthread_cond_init(&(*memo)->changed, NULL);
    return ATTUNE_OK;
}

static void end_thread(at_memo *memo)
{
    if (memo->runs) {
        pthread_mutex_lock(&memo->lock);
        memo->stop = true;
        pthread_cond_broadcast(&memo->changed);
        pthread_mutex_unlock(&memo->lock);
        (void)pthread_join(memo->thread, NULL);
    }
    at_pool_destroy(memo->pool);
}

void at_memo_destroy(at_memo *memo)
{
    if (memo == NULL) {
        return;
    }
    end_thread(memo);
    while (memo->jobs != NULL) {
        prefetch_job *next = memo->jobs->next;
        free(memo->jobs);
        memo->jobs = next;
    }
    while (memo->first != NULL) {
        discard(memo, memo->first);
    }
    (void)pthread_cond_destroy(&memo->changed);
    (void)pthread_mutex_destroy(&memo->lock);
    free(memo);
}
