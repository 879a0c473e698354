/* Sessions timed by workers: a fresh one for each process, which all benches share. */
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "gate/executor.h"
#include "gate/gate_speed.h"
#include "gate/trial.h"

/* What a bench is timed on: the same inputs in every process, in ever other guises. */
typedef struct course {
    at_timed timed;
    at_inputs inputs;
    at_truth truth;
    const char *name[AT_SESSION_ARMS_MAX];
    const at_gate_bench *bench;
    struct timing *timing;
} course;

typedef struct timing {
    at_gate *gate;
    at_device *worker; /* of this process; NULL before the first bench, and after one that spoilt it */
    course *current;
} timing;

static void close_worker(timing *on)
{
    if (on->worker != NULL) {
        on->worker->ops->close(on->worker);
        on->worker = NULL;
    }
}

/* ---- What an executor asks -------------------------------------------------------------------------------------- */

static attune_status get_worker(void *self, int process, at_device **device)
{
    timing *on = ((course *)self)->timing;
    at_remote_options options;
    (void)process;
    at_gate_remote_options(on->gate, true, &options);
    attune_status status = on->worker != NULL ? ATTUNE_OK : at_remote_open(&options, &on->worker);
    *device = on->worker;
    return status;
}

static attune_status judge(void *self, at_inputs *inputs)
{
    course *on = self;
    at_finding finding;
    (void)inputs; /* they are the truth's own */
    attune_status status = at_judge_case(&on->truth.one, &finding, NULL);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "before it was timed, %s", on->name[0]);
}

/* ---- Courses ---------------------------------------------------------------------------------------------------- */

static void close_course(void *data)
{
    course *on = data;
    if (on != NULL) {
        at_timed_close(&on->timed);
        at_truth_free(&on->truth);
        at_inputs_free(&on->inputs);
        free(on);
    }
}

/* Heads of every kind, so that who looks for a short cut in the inputs finds none that serves all of them. */
static attune_status draw(const at_gate *gate, const at_gate_bench *bench, course *made)
{
    const attune_problem *problem = bench->table->problem;
    const at_suite suite = {.device = NULL};
    at_truth_want want = at_trial_rows(&suite, problem);
    at_draw drawn = {.seed = gate->options->seed ^ attune_problem_hash(problem), .poison = 0xff};
    drawn.family = at_family_applies(AT_FAMILY_MIXED, problem) ? AT_FAMILY_MIXED : AT_FAMILY_NORMAL;
    want.acc16 = (bench->entry[0]->verdict->traits & ATTUNE_TRAIT_ACC16) != 0;
    AT_FORWARD(at_inputs_draw(problem, &drawn, &made->inputs));
    return at_truth_compute(gate->pool, &made->inputs, &want, &made->truth);
}

static attune_status make_course(timing *on, at_gate_bench *bench)
{
    course *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to time with");
    bench->course = made;
    bench->close_course = close_course;
    made->bench = bench;
    made->timing = on;
    for (int i = 0; i < bench->arm_count; ++i) {
        made->name[i] = bench->arm[i].name;
    }
    made->timed = (at_timed){.problem = *bench->table->problem,
                             .inputs = &made->inputs,
                             .arm = made->name,
                             .arm_count = bench->arm_count,
                             .worker = get_worker,
                             .judge = judge,
                             .self = made};
    return draw(on->gate, bench, made);
}

/* ---- The timing ------------------------------------------------------------------------------------------------- */

static attune_status open_part(void *self, at_gate *gate, at_gate_bench *bench, at_executor *executor)
{
    timing *on = self;
    (void)gate;
    AT_FORWARD(bench->course == NULL ? make_course(on, bench) : ATTUNE_OK);
    on->current = bench->course;
    *executor = at_timed_executor(&on->current->timed);
    return ATTUNE_OK;
}

static void leave_part(void *self, attune_status status)
{
    timing *on = self;
    if (on->current != NULL) {
        at_timed_close(&on->current->timed);
        on->current = NULL;
    }
    /* What a session that failed has left staged goes with its worker. */
    if (on->worker != NULL && (status != ATTUNE_OK || at_remote_spoilt(on->worker))) {
        close_worker(on);
    }
}

static void end_process(void *self)
{
    close_worker(self);
}

static void close_timing(void *self)
{
    close_worker(self);
    free(self);
}

attune_status at_gate_timing_workers(at_gate *gate, at_gate_timing *made)
{
    timing *on = calloc(1, sizeof *on);
    AT_FAIL_IF(on == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to time with");
    on->gate = gate;
    *made = (at_gate_timing){on, open_part, leave_part, end_process, close_timing};
    return ATTUNE_OK;
}

attune_status at_gate_timing_open(at_gate *gate, at_gate_timing *made)
{
    if (gate->options->timing != NULL) {
        *made = *gate->options->timing;
        return ATTUNE_OK;
    }
    return at_gate_timing_workers(gate, made);
}
