/* Problems of a batch judged side by side: most of the time goes into copies, digests and comparisons on the host, of
 * which a machine with a GPU has many cores. Each lane is a thread with workers of its own. Events of
 * a problem wait in a queue until all of the problems before it are done. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "gate/gate_parts.h"
#include "judge/verdict_parts.h"

enum { LANES_MOST = 6, THREADS_EACH = 2 };

typedef enum event_kind { EVENT_PROBLEM, EVENT_CANDIDATE, EVENT_STAGE, EVENT_NOTE } event_kind;

/* One call of the watcher, kept. */
typedef struct event {
    event_kind kind;
    at_stage stage;
    const at_verdict *verdict; /* the table's */
    char *text;
    struct event *next;
} event;

/* Events of one problem, in order. */
typedef struct event_queue {
    event *first, **last;
    bool ended;
} event_queue;

typedef struct lanes {
    at_gate *gate;
    at_gate_table *table;
    int count;
    pthread_mutex_t lock; /* of all below */
    int next;             /* the first problem that nobody judges yet */
    int current;          /* whose events are delivered at once */
    event_queue queue[AT_GATE_BATCH];
    attune_status status[AT_GATE_BATCH];
    char detail[AT_GATE_BATCH][AT_SENTENCE_MAX];
} lanes;

typedef struct lane {
    lanes *of;
    int problem; /* of the batch */
    at_gate_options options;
    at_gate gate; /* as the lanes' gate, with workers of its own */
} lane;

/* ---- Events ----------------------------------------------------------------------------------------------------- */

static void deliver(const at_gate_watch *watch, const event *one)
{
    switch (one->kind) {
    case EVENT_PROBLEM:
        if (watch->problem != NULL) {
            watch->problem(watch->self, one->text);
        }
        return;
    case EVENT_CANDIDATE:
        if (watch->candidate != NULL) {
            watch->candidate(watch->self, one->verdict);
        }
        return;
    case EVENT_STAGE:
        if (watch->stage != NULL) {
            watch->stage(watch->self, one->verdict, one->stage);
        }
        return;
    case EVENT_NOTE:
        if (watch->note != NULL) {
            watch->note(watch->self, one->text);
        }
    }
}

static void enqueue(event_queue *in, const event *one)
{
    event *kept = malloc(sizeof *kept);
    if (kept == NULL) {
        return; /* an event is lost, and nothing else */
    }
    *kept = *one;
    kept->text = one->text != NULL ? strdup(one->text) : NULL;
    kept->next = NULL;
    if (one->text != NULL && kept->text == NULL) {
        free(kept);
        return;
    }
    *in->last = kept;
    in->last = &kept->next;
}

static void emit(lane *on, const event *one)
{
    lanes *of = on->of;
    pthread_mutex_lock(&of->lock);
    if (on->problem == of->current) {
        deliver(&of->gate->options->watch, one);
    } else {
        enqueue(&of->queue[on->problem], one);
    }
    pthread_mutex_unlock(&of->lock);
}

static void on_problem(void *self, const char *problem)
{
    emit(self, &(event){.kind = EVENT_PROBLEM, .text = (char *)(uintptr_t)problem});
}

static void on_candidate(void *self, const at_verdict *verdict)
{
    emit(self, &(event){.kind = EVENT_CANDIDATE, .verdict = verdict});
}

static void on_stage(void *self, const at_verdict *verdict, at_stage stage)
{
    emit(self, &(event){.kind = EVENT_STAGE, .verdict = verdict, .stage = stage});
}

static void on_note(void *self, const char *text)
{
    emit(self, &(event){.kind = EVENT_NOTE, .text = (char *)(uintptr_t)text});
}

static bool is_stopped(void *self)
{
    const lane *on = self;
    return at_gate_stopped(on->of->gate);
}

static void clear_queue(event_queue *of)
{
    while (of->first != NULL) {
        event *one = of->first;
        of->first = one->next;
        free(one->text);
        free(one);
    }
    of->last = &of->first;
}

/* A problem is done: delivers the events of those that waited for it. */
static void close_queue(lane *on)
{
    lanes *of = on->of;
    pthread_mutex_lock(&of->lock);
    of->queue[on->problem].ended = true;
    while (of->current < of->count && of->queue[of->current].ended) {
        ++of->current;
        for (const event *one = of->current < of->count ? of->queue[of->current].first : NULL; one != NULL;
             one = one->next) {
            deliver(&of->gate->options->watch, one);
        }
    }
    pthread_mutex_unlock(&of->lock);
}

/* ---- Judging ----------------------------------------------------------------------------------------------------- */

static bool take_problem(lane *on)
{
    lanes *of = on->of;
    pthread_mutex_lock(&of->lock);
    on->problem = of->next++;
    pthread_mutex_unlock(&of->lock);
    return on->problem < of->count;
}

static void *run_lane(void *context)
{
    lane *on = context;
    lanes *of = on->of;
    attune_status status = ATTUNE_OK;
    while (status == ATTUNE_OK && take_problem(on)) {
        const at_test_problem *test = &on->options.problem[on->gate.next_problem + on->problem];
        status = at_gate_start_ahead(&on->gate, AT_WORKER_PEERS);
        status = status == ATTUNE_OK ? at_gate_judge_problem(&on->gate, test, &of->table[on->problem]) : status;
        of->status[on->problem] = status;
        at_sentence_print(of->detail[on->problem], "%s", status == ATTUNE_OK ? "" : attune_last_detail());
        close_queue(on);
    }
    at_gate_close_workers(&on->gate);
    at_gate_close_ahead(&on->gate);
    return NULL;
}

static void open_lane(lanes *of, lane *made)
{
    made->of = of;
    made->gate = *of->gate;
    made->options = *of->gate->options;
    made->options.watch = (at_gate_watch){.self = made,
                                          .problem = on_problem,
                                          .candidate = on_candidate,
                                          .stage = on_stage,
                                          .note = on_note,
                                          .stop = is_stopped};
    made->gate.options = &made->options;
    made->gate.candidate_worker = made->gate.peer_worker = NULL;
    made->gate.confined = NULL;
    memset(made->gate.ahead, 0, sizeof made->gate.ahead);
}

static attune_status run_lanes(lanes *of, lane *all, int wanted)
{
    pthread_t thread[LANES_MOST];
    int started = 0;
    for (int i = 0; i < wanted; ++i) {
        open_lane(of, &all[i]);
    }
    while (started < wanted && pthread_create(&thread[started], NULL, run_lane, &all[started]) == 0) {
        ++started;
    }
    for (int i = 0; i < started; ++i) {
        (void)pthread_join(thread[i], NULL);
    }
    AT_FAIL_IF(started == 0, ATTUNE_OUT_OF_MEMORY, "no thread to judge in");
    for (int i = 0; i < of->count; ++i) {
        AT_FAIL_IF(of->status[i] != ATTUNE_OK, of->status[i], "%s", of->detail[i]);
    }
    return ATTUNE_OK;
}

int at_gate_lanes(const at_gate *gate, int problems)
{
    const at_gate_options *options = gate->options;
    int threads = at_pool_threads(gate->pool) / THREADS_EACH;
    int most = options->lanes > 0 ? options->lanes : threads < LANES_MOST ? threads : LANES_MOST;
    bool apart = gate->target.kind == ATTUNE_TARGET_CUDA || options->lanes > 0; /* a CPU's cores are the target */
    apart = apart && gate->folder_count == 0;
    for (int i = 0; i < options->candidate_count; ++i) {
        apart = apart && gate->candidate[i].stranger == NULL; /* whose child answers one question at a time */
    }
    most = most > LANES_MOST ? LANES_MOST : most > problems ? problems : most;
    return apart && !options->counters && most > 1 ? most : 1;
}

attune_status at_gate_judge_side_by_side(at_gate *gate, at_gate_table *tables, int count)
{
    lanes of = {.gate = gate, .table = tables, .count = count};
    int wanted = at_gate_lanes(gate, count);
    lane *all = calloc((size_t)wanted, sizeof *all);
    AT_FAIL_IF(all == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d lanes", wanted);
    (void)pthread_mutex_init(&of.lock, NULL);
    for (int i = 0; i < count; ++i) {
        of.queue[i].last = &of.queue[i].first;
    }
    attune_status status = run_lanes(&of, all, wanted);
    for (int i = 0; i < count; ++i) {
        clear_queue(&of.queue[i]);
    }
    (void)pthread_mutex_destroy(&of.lock);
    free(all);
    return status;
}
