/* An engine with threads of its own: each call's items are shared among them, and they meet between its steps. attune
 * starts no thread here and takes no lock.
 *
 * All keys are alike here and row j of V is j, so each row of O is the mean of the rows that it sees. */
#define _POSIX_C_SOURCE 200809L
#include <attune/attune.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, CALLS = 20, HEADS = 8, LENGTH = 256, DIM = 64, ELEMENTS = HEADS * LENGTH * DIM };

typedef struct engine {
    attune_context *context;
    attune_plan *plan;
    attune_call call;
    pthread_barrier_t meet;
    float *tensor[4]; /* Q, K, V, O: [HEADS, LENGTH, DIM] */
    void *workspace;
} engine;

typedef struct worker {
    engine *of;
    pthread_t thread;
    int index;
    attune_status status;
    char detail[256];
} worker;

static void *memory(size_t bytes)
{
    void *taken = aligned_alloc(256, (bytes / 256 + 1) * 256);
    if (taken == NULL) {
        abort();
    }
    return taken;
}

/* This thread's share of one step. */
static attune_status do_step(worker *w, int32_t step, void *scratch, size_t bytes)
{
    const engine *e = w->of;
    int64_t items = 0;
    attune_status status = attune_plan_items(e->plan, &e->call, step, &items);
    int64_t first = items * w->index / THREADS, end = items * (w->index + 1) / THREADS;
    return status ? status : attune_execute_items(e->plan, &e->call, step, first, end - first, scratch, bytes);
}

static void *work(void *argument)
{
    worker *w = (worker *)argument;
    engine *e = w->of;
    size_t bytes = 0;
    int32_t steps = 0;
    w->status = attune_plan_scratch(e->plan, &bytes);
    w->status = w->status ? w->status : attune_plan_steps(e->plan, &e->call, &steps);
    void *scratch = memory(bytes);
    for (int call = 0; call < CALLS; ++call) {
        for (int32_t step = 0; step < steps; ++step) {
            w->status = w->status ? w->status : do_step(w, step, scratch, bytes);
            (void)pthread_barrier_wait(&e->meet); /* who failed comes too, or the others would wait for ever */
        }
    }
    free(scratch);
    (void)snprintf(w->detail, sizeof w->detail, "%s", w->status ? attune_last_detail() : "");
    return NULL;
}

static attune_status open_engine(engine *e)
{
    attune_options options;
    attune_problem problem;
    size_t bytes = 0;
    attune_options_init(&options);
    options.target = "cpu";
    options.threads = 1; /* of its own, and the caller's is that one */
    attune_status status = attune_context_create(&options, &e->context);
    status = status ? status : attune_problem_parse("b1,h8,s256,d64,fp32,causal", &problem);
    status = status ? status : attune_plan_create(e->context, &problem, NULL, &e->plan);
    status = status ? status : attune_call_init(&e->call, &problem);
    status = status ? status : attune_plan_workspace(e->plan, NULL, &bytes);
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        e->tensor[role] = (float *)memory(ELEMENTS * sizeof(float));
        e->call.tensor[role].data = e->tensor[role];
        for (int i = 0; i < ELEMENTS; ++i) {
            e->tensor[role][i] = role == ATTUNE_V ? (float)(i / DIM % LENGTH) : 0;
        }
    }
    e->workspace = memory(bytes);
    e->call.workspace = e->workspace;
    e->call.workspace_bytes = bytes;
    (void)pthread_barrier_init(&e->meet, NULL, THREADS);
    return status;
}

static void close_engine(engine *e)
{
    (void)pthread_barrier_destroy(&e->meet);
    free(e->workspace);
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        free(e->tensor[role]);
    }
    attune_plan_destroy(e->plan);
    attune_context_destroy(e->context);
}

static int count_wrong(const engine *e)
{
    int wrong = 0;
    for (int i = 0; i < ELEMENTS; ++i) {
        const float mean = (float)(i / DIM % LENGTH) / 2;
        wrong += !(fabsf(e->tensor[ATTUNE_O][i] - mean) <= 1e-4F * (1 + mean));
    }
    return wrong;
}

int main(void)
{
    engine e = {.context = NULL};
    worker workers[THREADS];
    attune_status status = open_engine(&e);
    if (status) {
        (void)printf("%s\n", attune_last_detail());
        close_engine(&e);
        return 1;
    }
    for (int i = 0; i < THREADS; ++i) {
        workers[i] = (worker){.of = &e, .index = i};
        (void)pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < THREADS; ++i) {
        (void)pthread_join(workers[i].thread, NULL);
        status = status ? status : workers[i].status;
        (void)fputs(workers[i].detail, stdout);
    }
    int wrong = count_wrong(&e);
    (void)printf("%s on %d threads of the caller's: %d of %d wrong\n", attune_plan_kernel(e.plan), THREADS, wrong,
                 ELEMENTS);
    close_engine(&e);
    return status || wrong;
}
