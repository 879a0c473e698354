/* Sessions timed by workers: a fresh one for each process, which all benches share. A stranger's CPU kernel has a
 * worker of its own beside it, locked for that kernel; samples of a block then go to and fro between them. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "gate/gate_speed.h"
#include "judge/executor.h"
#include "judge/timed_case.h"
#include "measure/others.h"
#include "worker/timing.h"

/* The arms of a bench that one worker has. */
typedef struct part {
    struct run_state *of;
    at_timed timed;
    at_executor executor;
    const char *name[AT_SESSION_ARMS_MAX];
    int arm[AT_SESSION_ARMS_MAX]; /* their numbers in the bench */
    const at_gate_candidate *confined;
    at_device *worker; /* the confined's */
} part;

/* What benches of one problem are timed on: the same inputs in every process, under ever other transforms. */
typedef struct timed_case {
    const at_test_problem *test;
    bool acc16;
    at_timed_case of;
    struct timed_case *next;
} timed_case;

/* Seconds so far: of work of everyone on our processors, of our own, and by the clock. */
typedef struct company {
    double busy_s, own_s, wall_s;
} company;

typedef struct run_state {
    struct timing *timing;
    at_gate_bench *bench;
    timed_case *timed_case;
    int parts;
    part part[AT_SESSION_ARMS_MAX];
    company before;                                                  /* the part that a process runs */
    int part_of[AT_SESSION_ARMS_MAX], place_of[AT_SESSION_ARMS_MAX]; /* by the bench's numbers */
} run_state;

typedef struct timing {
    at_gate *gate;
    at_device *worker; /* of this process; NULL before the first bench, and after one that broken it */
    run_state *current;
    timed_case *timed_cases;
    pthread_t closer; /* sees the process before this one to its end, */
    bool closing;     /* where there is one */
} timing;

static void close_worker(at_device **worker)
{
    if (*worker != NULL) {
        (*worker)->ops->close(*worker);
        *worker = NULL;
    }
}

static void *close_aside(void *context)
{
    at_device *worker = context;
    close_worker(&worker);
    return NULL;
}

static void wait_for_closer(timing *on)
{
    if (on->closing) {
        (void)pthread_join(on->closer, NULL);
        on->closing = false;
    }
}

/* ---- What the executor of a part asks --------------------------------------------------------------------------- */

static attune_status get_worker(void *self, int process, at_device **device)
{
    part *on = self;
    at_gate *gate = on->of->timing->gate;
    bool confined = on->confined != NULL;
    at_gate_worker which = confined ? AT_WORKER_CANDIDATES : AT_WORKER_TIMER;
    at_device **worker = confined ? &on->worker : &on->of->timing->worker;
    at_remote_options options;
    at_gate_remote_options(gate, which, &options);
    options.confined = confined;
    attune_status status = *worker != NULL ? ATTUNE_OK : at_gate_open_worker(gate, which, &options, worker);
    bool more = process + 1 < on->of->bench->session.policy.processes;
    /* On a CPU an interpreter that loads would take time from what is measured. */
    if (status == ATTUNE_OK && !confined && more && gate->target.kind == ATTUNE_TARGET_CUDA) {
        status = at_gate_start_ahead(gate, AT_WORKER_TIMER);
    }
    *device = *worker;
    return status;
}

/* The candidate, or a peer that is a folder; NULL for peers that a worker knows by name. */
static const at_gate_candidate *candidate_of(const run_state *on, int arm)
{
    return arm == 0 ? on->bench->entry->candidate : at_gate_peer_folder(on->timing->gate, on->bench->arm[arm].name);
}

static attune_status open_arm(void *self, int index, at_device *device, attune_plan **plan)
{
    const part *on = self;
    const at_gate_bench *bench = on->of->bench;
    const at_gate_candidate *candidate = candidate_of(on->of, on->arm[index]);
    return candidate != NULL ? at_gate_plan(candidate, device, &bench->table->test->problem, plan)
                             : at_remote_plan(device, &bench->table->test->problem, on->name[index], plan);
}

static attune_status judge(void *self, at_inputs *inputs)
{
    const part *on = self;
    (void)inputs;                    /* they are the timed_case's own */
    wait_for_closer(on->of->timing); /* what is timed next has the device for itself */
    attune_status status = at_timed_case_judge(&on->of->timed_case->of);
    on->of->bench->session.wrong[on->arm[0]] = status == ATTUNE_WRONG_RESULT;
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "before it was timed, %s", on->name[0]);
}

/* ---- Parts as one ----------------------------------------------------------------------------------------------- */

static attune_status start_parts(void *self, int process)
{
    run_state *on = self;
    for (int i = 0; i < on->parts; ++i) {
        AT_FORWARD(on->part[i].executor.start(on->part[i].executor.self, process));
    }
    return ATTUNE_OK;
}

static attune_status stage_parts(void *self, at_mode mode, at_staged *staged)
{
    run_state *on = self;
    for (int i = 0; i < on->parts; ++i) {
        at_staged own = {.calls = {0}};
        part *one = &on->part[i];
        attune_status status = one->executor.stage(one->executor.self, mode, &own);
        for (int k = 0; k < one->timed.arm_count; ++k) {
            staged->calls[one->arm[k]] = own.calls[k];
            staged->wrong[one->arm[k]] = own.wrong[k];
        }
        AT_FORWARD(status);
    }
    return ATTUNE_OK;
}

/* One sample after the other, each in the worker that has its arm, and on inputs of its own. */
static attune_status run_samples(void *self, const at_block_order *order, at_block *block)
{
    run_state *on = self;
    int seen[AT_SESSION_ARMS_MAX] = {0};
    at_random sets = at_random_seed(order->set, 0x73616d706c65);
    for (int i = 0; i < order->count; ++i) {
        int arm = order->arm[i];
        int place = on->place_of[arm];
        const part *one = &on->part[on->part_of[arm]];
        const at_block_order alone = {&place, 1, at_random_next(&sets), order->pause_us};
        at_block sample = {.mode = block->mode, .process = block->process};
        AT_FORWARD(one->executor.block(one->executor.self, &alone, &sample));
        block->us[arm][seen[arm]++] = sample.us[place][0];
        block->wrong[arm] += sample.wrong[place];
        block->throttle |= sample.throttle;
    }
    return ATTUNE_OK;
}

static attune_status read_clocks(void *self, int arm, double stretch_us, at_two_clocks *clocks)
{
    run_state *on = self;
    const part *one = &on->part[on->part_of[arm]];
    return one->executor.two_clocks(one->executor.self, on->place_of[arm], stretch_us, clocks);
}

static attune_status unstage_parts(void *self)
{
    run_state *on = self;
    for (int i = 0; i < on->parts; ++i) {
        AT_FORWARD(on->part[i].executor.unstage(on->part[i].executor.self));
    }
    return ATTUNE_OK;
}

static double process_s(clockid_t clock)
{
    struct timespec now = {0, 0};
    return clock_gettime(clock, &now) == 0 ? (double)now.tv_sec + 1e-9 * (double)now.tv_nsec : 0;
}

static double worker_s(const at_device *worker)
{
    clockid_t clock;
    int process = worker != NULL ? at_channel_process(at_remote_channel(worker)) : 0;
    return process > 0 && clock_getcpuclockid(process, &clock) == 0 ? process_s(clock) : 0;
}

/* Processor time of this process and of its workers. */
static double own_s(const run_state *on)
{
    double seconds = process_s(CLOCK_PROCESS_CPUTIME_ID) + worker_s(on->timing->worker);
    for (int i = 0; i < on->parts; ++i) {
        seconds += worker_s(on->part[i].worker);
    }
    return seconds;
}

static company look_around(const run_state *on)
{
    return (company){at_busy_s(), own_s(on), process_s(CLOCK_MONOTONIC_RAW)};
}

static bool is_disturbed(void *observer)
{
    const run_state *on = observer;
    const company now = look_around(on), before = on->before;
    double wall_s = now.wall_s - before.wall_s;
    if (now.busy_s < 0 || before.busy_s < 0 || !(wall_s > 0)) {
        return false;
    }
    double others = (now.busy_s - before.busy_s - (now.own_s - before.own_s)) / wall_s;
    return at_others_disturb(others, at_cpu_count());
}

static at_executor parts_of(run_state *on)
{
    return on->parts == 1 ? on->part[0].executor
                          : (at_executor){.self = on,
                                          .clock = at_clock_monotonic(),
                                          .start = start_parts,
                                          .stage = stage_parts,
                                          .block = run_samples,
                                          .two_clocks = read_clocks,
                                          .unstage = unstage_parts};
}

/* A GPU is distinguished from its host, and NVML says who else is there. */
static at_executor executor_of(run_state *on)
{
    at_executor made = parts_of(on);
    if (on->timing->gate->target.kind == ATTUNE_TARGET_CPU) {
        on->before = look_around(on);
        made.sample_us = AT_TIMING_CPU_SAMPLE_US;
        made.disturbed = is_disturbed;
        made.observer = on;
    }
    return made;
}

/* ---- Courses ---------------------------------------------------------------------------------------------------- */

static void leave_run(run_state *on)
{
    for (int i = 0; i < on->parts; ++i) {
        at_timed_close(&on->part[i].timed);
        close_worker(&on->part[i].worker);
    }
}

static void close_run(void *data)
{
    leave_run(data);
    free(data);
}

static void free_timed_case(timed_case *one)
{
    at_timed_case_free(&one->of);
    free(one);
}

static attune_status find_timed_case(timing *on, const at_test_problem *test, bool acc16, timed_case **found)
{
    *found = on->timed_cases;
    while (*found != NULL && ((*found)->test != test || (*found)->acc16 != acc16)) {
        *found = (*found)->next;
    }
    if (*found != NULL) {
        return ATTUNE_OK;
    }
    timed_case *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to time with");
    *made = (timed_case){.test = test, .acc16 = acc16, .next = on->timed_cases};
    attune_status status =
        at_timed_case_draw(test, on->gate->options->seed, acc16, on->gate->pool, on->gate->cache, &made->of);
    if (status != ATTUNE_OK) {
        free_timed_case(made);
        return status;
    }
    *found = on->timed_cases = made;
    return ATTUNE_OK;
}

static void free_timed_cases(timing *on)
{
    while (on->timed_cases != NULL) {
        timed_case *next = on->timed_cases->next;
        free_timed_case(on->timed_cases);
        on->timed_cases = next;
    }
}

/* The part that an arm belongs to, made where there is none: each confined its own, all others one. */
static part *part_for(run_state *on, const at_gate_candidate *confined)
{
    int i = 0;
    while (i < on->parts && on->part[i].confined != confined) {
        ++i;
    }
    part *one = &on->part[i];
    if (i == on->parts) {
        ++on->parts;
        one->of = on;
        one->confined = confined;
        one->timed = (at_timed){.problem = on->bench->table->test->problem,
                                .inputs = &on->timed_case->of.inputs,
                                .arm = one->name,
                                .worker = get_worker,
                                .plan = open_arm,
                                .judge = judge,
                                .self = one,
                                .confined = confined != NULL};
        one->executor = at_timed_executor(&one->timed);
    }
    return one;
}

static void divide(run_state *on)
{
    for (int arm = 0; arm < on->bench->arm_count; ++arm) {
        const at_gate_candidate *candidate = candidate_of(on, arm);
        part *one = part_for(on, candidate != NULL && at_gate_is_confined(candidate) ? candidate : NULL);
        on->part_of[arm] = (int)(one - on->part);
        on->place_of[arm] = one->timed.arm_count;
        one->arm[one->timed.arm_count] = arm;
        one->name[one->timed.arm_count] = on->bench->arm[arm].name;
        ++one->timed.arm_count;
    }
}

static attune_status make_run(timing *by, at_gate_bench *bench)
{
    run_state *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to time with");
    bench->run_state = made;
    bench->close_run = close_run;
    made->bench = bench;
    made->timing = by;
    bool acc16 = (bench->entry->verdict->traits & ATTUNE_TRAIT_ACC16) != 0;
    AT_FORWARD(find_timed_case(by, bench->table->test, acc16, &made->timed_case));
    divide(made);
    return ATTUNE_OK;
}

/* ---- The timing ------------------------------------------------------------------------------------------------- */

static attune_status open_part(void *self, at_gate *gate, at_gate_bench *bench, at_executor *executor)
{
    timing *on = self;
    (void)gate;
    AT_FORWARD(bench->run_state == NULL ? make_run(on, bench) : ATTUNE_OK);
    on->current = bench->run_state;
    *executor = executor_of(on->current);
    return ATTUNE_OK;
}

static void leave_part(void *self, attune_status status)
{
    timing *on = self;
    if (on->current != NULL) {
        leave_run(on->current);
        on->current = NULL;
    }
    /* What a session that failed has left staged goes with its worker. */
    if (on->worker != NULL && (status != ATTUNE_OK || at_remote_is_broken(on->worker))) {
        close_worker(&on->worker);
    }
}

/* A driver takes its leave of a process in a third of a second, in which the next one makes itself ready. On a CPU that
 * would be time of whoever is timed. */
static void end_process(void *self)
{
    timing *on = self;
    wait_for_closer(on);
    on->closing = on->gate->target.kind == ATTUNE_TARGET_CUDA && on->worker != NULL &&
                  pthread_create(&on->closer, NULL, close_aside, on->worker) == 0;
    if (on->closing) {
        on->worker = NULL;
    }
    close_worker(&on->worker);
}

static void close_timing(void *self)
{
    end_process(self);
    wait_for_closer(self);
    free_timed_cases(self);
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
