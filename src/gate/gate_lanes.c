/* Problems of a batch judged side by side: most of the time goes into copies, digests and comparisons on the host, of
 * which a machine with a GPU has many cores. Each lane is a thread with workers of its own. What is told of a problem
 * waits until all of the problems before it have been told. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "gate/gate_parts.h"
#include "judge/verdict_parts.h"

enum { LANES_MOST = 6, THREADS_EACH = 2 };

typedef enum told_kind { TOLD_PROBLEM, TOLD_CANDIDATE, TOLD_STAGE, TOLD_NOTE } told_kind;

/* One thing told. */
typedef struct told {
    told_kind kind;
    at_stage stage;
    const at_verdict *verdict; /* the table's */
    char *text;
    struct told *next;
} told;

/* What is told of one problem. */
typedef struct story {
    told *first, **last;
    bool ended;
} story;

typedef struct lanes {
    at_gate *gate;
    at_gate_table *table;
    int count;
    pthread_mutex_t lock; /* of all below */
    int next;             /* the first problem that nobody judges yet */
    int turn;             /* whose story is told as it goes */
    story story[AT_GATE_BATCH];
    attune_status status[AT_GATE_BATCH];
    char detail[AT_GATE_BATCH][AT_SENTENCE_MAX];
} lanes;

typedef struct lane {
    lanes *of;
    int problem; /* of the batch */
    at_gate_options options;
    at_gate gate; /* as the lanes' gate, with workers of its own */
} lane;

/* ---- Telling ----------------------------------------------------------------------------------------------------- */

static void say(const at_gate_watch *watch, const told *one)
{
    switch (one->kind) {
    case TOLD_PROBLEM:
        if (watch->problem != NULL) {
            watch->problem(watch->self, one->text);
        }
        return;
    case TOLD_CANDIDATE:
        if (watch->candidate != NULL) {
            watch->candidate(watch->self, one->verdict);
        }
        return;
    case TOLD_STAGE:
        if (watch->stage != NULL) {
            watch->stage(watch->self, one->verdict, one->stage);
        }
        return;
    case TOLD_NOTE:
        if (watch->note != NULL) {
            watch->note(watch->self, one->text);
        }
    }
}

static void remember(story *in, const told *one)
{
    told *kept = malloc(sizeof *kept);
    if (kept == NULL) {
        return; /* a line of the account is lost, and nothing else */
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

static void tell(lane *on, const told *one)
{
    lanes *of = on->of;
    pthread_mutex_lock(&of->lock);
    if (on->problem == of->turn) {
        say(&of->gate->options->watch, one);
    } else {
        remember(&of->story[on->problem], one);
    }
    pthread_mutex_unlock(&of->lock);
}

static void on_problem(void *self, const char *problem)
{
    tell(self, &(told){.kind = TOLD_PROBLEM, .text = (char *)(uintptr_t)problem});
}

static void on_candidate(void *self, const at_verdict *verdict)
{
    tell(self, &(told){.kind = TOLD_CANDIDATE, .verdict = verdict});
}

static void on_stage(void *self, const at_verdict *verdict, at_stage stage)
{
    tell(self, &(told){.kind = TOLD_STAGE, .verdict = verdict, .stage = stage});
}

static void on_note(void *self, const char *text)
{
    tell(self, &(told){.kind = TOLD_NOTE, .text = (char *)(uintptr_t)text});
}

static bool is_stopped(void *self)
{
    const lane *on = self;
    return at_gate_stopped(on->of->gate);
}

static void free_story(story *of)
{
    while (of->first != NULL) {
        told *one = of->first;
        of->first = one->next;
        free(one->text);
        free(one);
    }
    of->last = &of->first;
}

/* Ends a problem's story, and tells those that waited for it. */
static void end_story(lane *on)
{
    lanes *of = on->of;
    pthread_mutex_lock(&of->lock);
    of->story[on->problem].ended = true;
    while (of->turn < of->count && of->story[of->turn].ended) {
        ++of->turn;
        for (const told *one = of->turn < of->count ? of->story[of->turn].first : NULL; one != NULL; one = one->next) {
            say(&of->gate->options->watch, one);
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
        const attune_problem *problem = &on->options.problem[on->gate.next_problem + on->problem];
        status = at_gate_start_ahead(&on->gate, AT_WORKER_COURT);
        status = status == ATTUNE_OK ? at_gate_judge_problem(&on->gate, problem, &of->table[on->problem]) : status;
        of->status[on->problem] = status;
        at_verdict_say(of->detail[on->problem], "%s", status == ATTUNE_OK ? "" : attune_last_detail());
        end_story(on);
    }
    at_gate_close_workers(&on->gate);
    at_gate_close_coming(&on->gate);
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
    made->gate.judge = made->gate.court = NULL;
    made->gate.guest = NULL;
    memset(made->gate.coming, 0, sizeof made->gate.coming);
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
        of.story[i].last = &of.story[i].first;
    }
    attune_status status = run_lanes(&of, all, wanted);
    for (int i = 0; i < count; ++i) {
        free_story(&of.story[i]);
    }
    (void)pthread_mutex_destroy(&of.lock);
    free(all);
    return status;
}
