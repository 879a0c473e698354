#include "judge/executor.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "core/call.h"
#include "reference/spot.h"
#include "worker/fresh.h"
#include "worker/timing.h"

static const double stage_patience_s = 120, block_patience_s = 60;

double at_timed_seconds(void)
{
    at_clock clock = at_clock_monotonic();
    return 1e-9 * (double)clock.now_ns(clock.self);
}

/* ---- Starting ---------------------------------------------------------------------------------------------------- */

static void forget_outputs(at_timed *timed)
{
    for (int i = 0; i < AT_SESSION_ARMS_MAX; ++i) {
        free(timed->output_at[i]);
        timed->output_at[i] = NULL;
    }
    free(timed->copy);
    timed->copy = NULL;
    for (int role = ATTUNE_Q; role <= ATTUNE_V; ++role) {
        free(timed->fresh[role]);
        timed->fresh[role] = NULL;
    }
    at_pool_destroy(timed->pool);
    timed->pool = NULL;
}

void at_timed_close(at_timed *timed)
{
    if (timed == NULL || timed->device == NULL) {
        return;
    }
    for (int i = 0; i < AT_SESSION_ARMS_MAX; ++i) {
        attune_plan_destroy(timed->opened[i]);
        timed->opened[i] = NULL;
    }
    forget_outputs(timed);
    at_placement_free(&timed->place);
    timed->device = NULL;
}

/* The first arm's result on the base, in the worker and, to be judged, here. */
static attune_status validate(at_timed *timed)
{
    AT_FORWARD(at_placement_run(&timed->place, timed->opened[0], &timed->place.call));
    return timed->judge == NULL ? ATTUNE_OK : timed->judge(timed->self, timed->inputs);
}

/* About what a call takes, the way to the worker included: good enough to size samples by. */
static attune_status time_confined(at_timed *timed)
{
    at_clock clock = at_clock_monotonic();
    int64_t best = INT64_MAX;
    for (int i = 0; i < 3; ++i) {
        int64_t start = clock.now_ns(clock.self);
        AT_FORWARD(attune_plan_execute(timed->opened[0], &timed->place.call));
        int64_t spent = clock.now_ns(clock.self) - start;
        best = spent < best ? spent : best;
    }
    timed->call_us = 1e-3 * (double)best;
    return ATTUNE_OK;
}

static attune_status open_in(at_timed *timed)
{
    for (int i = 0; i < timed->arm_count; ++i) {
        AT_FORWARD(timed->plan != NULL
                       ? timed->plan(timed->self, i, timed->device, &timed->opened[i])
                       : at_remote_plan(timed->device, &timed->problem, timed->arm[i], &timed->opened[i]));
    }
    AT_FORWARD(at_placement_create(timed->device, timed->inputs, &timed->place));
    AT_FORWARD(validate(timed));
    return timed->confined ? time_confined(timed) : ATTUNE_OK;
}

static attune_status start(void *self, int process)
{
    at_timed *timed = self;
    at_timed_close(timed);
    timed->process = process;
    AT_FORWARD(timed->worker(timed->self, process, &timed->device));
    return open_in(timed);
}

/* ---- Staging ----------------------------------------------------------------------------------------------------- */

static attune_status ask(const at_timed *timed, const char *op, json_t *fields, double patience_s, json_t **ok)
{
    AT_FAIL_IF(fields == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to ask for \"%s\"", op);
    return at_channel_ask(at_remote_channel(timed->device), op, fields, patience_s, ok);
}

static attune_status read_calls(const json_t *ok, at_timed *timed, at_staged *staged)
{
    json_t *calls;
    AT_FORWARD(at_json_field(ok, "answer", "calls", JSON_ARRAY, &calls));
    for (int i = 0; i < timed->arm_count; ++i) {
        const json_t *number = json_array_get(calls, (size_t)i);
        json_int_t value = json_is_integer(number) ? json_integer_value(number) : 0;
        AT_FAIL_IF(value < 1 || value > INT32_MAX, ATTUNE_CORRUPT,
                   "answer: calls of arm %d: a number above 0 is needed", i);
        timed->calls[i] = staged->calls[i] = (int)value;
    }
    return ATTUNE_OK;
}

/* Where an arm's outputs are; none is fine. Each must lie in the arena as a whole. */
static attune_status read_places(const json_t *places, at_timed *timed, int arm)
{
    size_t room = 0;
    size_t bytes = timed->transformed.role[ATTUNE_O].bytes;
    size_t count = json_array_size(places);
    (void)at_channel_arena(at_remote_channel(timed->device), &room);
    AT_FAIL_IF(count != 0 && count != (size_t)timed->calls[arm], ATTUNE_CORRUPT,
               "answer: outputs of arm %d: one for each of %d calls is needed", arm, timed->calls[arm]);
    timed->output_at[arm] = count > 0 ? calloc(count, sizeof *timed->output_at[arm]) : NULL;
    AT_FAIL_IF(count > 0 && timed->output_at[arm] == NULL, ATTUNE_OUT_OF_MEMORY,
               "no memory for the places of %zu outputs", count);
    for (size_t i = 0; i < count; ++i) {
        json_int_t at = json_integer_value(json_array_get(places, i));
        AT_FAIL_IF(at < AT_OUTPUTS_AT || (uint64_t)at > room || bytes > room - (size_t)at, ATTUNE_CORRUPT,
                   "answer: output %zu of arm %d: byte %lld of an arena of %zu", i, arm, (long long)at, room);
        timed->output_at[arm][i] = (size_t)at;
    }
    return ATTUNE_OK;
}

/* On a CPU the parent looks at outputs itself: one of each sample, as it is when the clock stops. */
static attune_status prepare_to_look(at_timed *timed, const json_t *ok)
{
    const attune_call *call = &timed->inputs->call;
    const int32_t *cu = call->tensor[ATTUNE_CU_Q].data;
    json_t *outputs;
    at_clock clock = at_clock_monotonic();
    forget_outputs(timed);
    at_transform_describe(&timed->problem, call, cu == NULL ? call->seqlen_q : cu[call->batch], &timed->transformed);
    timed->random = at_random_seed((uint64_t)clock.now_ns(clock.self), 0x6c6f6f6b);
    AT_FORWARD(at_pool_create(1, 0, &timed->pool));
    timed->copy = malloc(timed->transformed.role[ATTUNE_O].bytes + 1);
    AT_FAIL_IF(timed->copy == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to copy an output to");
    for (int role = ATTUNE_Q; role <= ATTUNE_V; ++role) {
        timed->fresh[role] = malloc(timed->transformed.role[role].bytes + 1);
        AT_FAIL_IF(timed->fresh[role] == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to look at a timed call's inputs");
    }
    AT_FORWARD(at_json_field(ok, "answer", "outputs", JSON_ARRAY, &outputs));
    for (int i = 0; i < timed->arm_count; ++i) {
        AT_FORWARD(read_places(json_array_get(outputs, (size_t)i), timed, i));
    }
    return ATTUNE_OK;
}

static json_t *arm_numbers(const at_timed *timed)
{
    json_t *arms = json_array();
    for (int i = 0; i < timed->arm_count; ++i) {
        (void)json_array_append_new(arms, json_integer((json_int_t)at_remote_arm(timed->opened[i])));
    }
    return arms;
}

/* The worker has found an arm wrong: which, and what it saw. */
static attune_status read_wrong(const json_t *ok, const at_timed *timed, at_staged *staged)
{
    const char *why;
    int64_t arm;
    AT_FORWARD(at_json_int(ok, "answer", "wrong", 0, timed->arm_count - 1, &arm));
    AT_FORWARD(at_json_string(ok, "answer", "why", &why));
    staged->wrong[arm] = 1;
    return at_fail(ATTUNE_WRONG_RESULT, "%s", why);
}

static attune_status stage(void *self, at_mode mode, at_staged *staged)
{
    at_timed *timed = self;
    json_t *ok;
    at_clock clock = at_clock_monotonic();
    int64_t seed = clock.now_ns(clock.self);
    json_t *fields =
        json_pack("{s:s,s:I,s:f,s:o,s:o,s:o,s:b}", "mode", at_mode_name(mode), "seed", (json_int_t)seed, "call_us",
                  timed->call_us, "problem", at_wire_from_problem(&timed->problem), "call",
                  at_wire_from_call(&timed->place.call), "arms", arm_numbers(timed), "reverse", timed->process % 2);
    AT_FORWARD(ask(timed, "stage", fields, timed->stage_s > 0 ? timed->stage_s : stage_patience_s, &ok));
    attune_status status =
        json_object_get(ok, "wrong") != NULL ? read_wrong(ok, timed, staged) : read_calls(ok, timed, staged);
    if (status == ATTUNE_OK && timed->device->target.kind == ATTUNE_TARGET_CPU) {
        status = prepare_to_look(timed, ok);
    }
    json_decref(ok);
    return status;
}

static attune_status unstage(void *self)
{
    return ask(self, "unstage", json_object(), stage_patience_s, NULL);
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

/* A transform is a positive number, and cold sets take those that follow it. */
static uint64_t transform_of(const at_block_order *order)
{
    return (order->set >> 2) + 1;
}

static json_t *block_fields(const at_block_order *order)
{
    json_t *arms = json_array();
    for (int i = 0; i < order->count; ++i) {
        (void)json_array_append_new(arms, json_integer(order->arm[i]));
    }
    return json_pack("{s:o,s:I,s:f}", "order", arms, "set", (json_int_t)transform_of(order), "pause_us",
                     order->pause_us);
}

static double patience(const at_timed *timed, const at_block_order *order)
{
    double block_s = timed->block_s > 0 ? timed->block_s : block_patience_s;
    return block_s + 1e-6 * order->pause_us * order->count;
}

static attune_status read_us(const json_t *array, int arm, double us[2])
{
    const json_t *pair = json_array_get(array, (size_t)arm);
    for (size_t i = 0; i < 2; ++i) {
        const json_t *number = json_array_get(pair, i);
        AT_FAIL_IF(!json_is_number(number), ATTUNE_CORRUPT, "answer: us of arm %d: two numbers are needed", arm);
        us[i] = json_number_value(number);
    }
    return ATTUNE_OK;
}

static attune_status read_block(const json_t *ok, int arm_count, at_block *block)
{
    json_t *us, *wrong;
    int64_t mhz, watts, throttle;
    AT_FORWARD(at_json_field(ok, "answer", "us", JSON_ARRAY, &us));
    AT_FORWARD(at_json_field(ok, "answer", "wrong", JSON_ARRAY, &wrong));
    AT_FORWARD(at_json_int(ok, "answer", "sm_mhz", 0, INT32_MAX, &mhz));
    AT_FORWARD(at_json_int(ok, "answer", "power_w", 0, INT32_MAX, &watts));
    AT_FORWARD(at_json_int(ok, "answer", "throttle", 0, UINT32_MAX, &throttle));
    for (int i = 0; i < arm_count; ++i) {
        const json_t *count = json_array_get(wrong, (size_t)i);
        AT_FAIL_IF(!json_is_integer(count), ATTUNE_CORRUPT, "answer: wrong of arm %d: a number is needed", i);
        block->wrong[i] = (int)json_integer_value(count);
        AT_FORWARD(read_us(us, i, block->us[i]));
    }
    block->sm_mhz = (int)mhz;
    block->power_w = (int)watts;
    block->throttle = (unsigned)throttle;
    return ATTUNE_OK;
}

static attune_status ask_for_block(const at_timed *timed, const at_block_order *order, at_block *block)
{
    json_t *ok;
    AT_FORWARD(ask(timed, "block", block_fields(order), patience(timed, order), &ok));
    attune_status status = read_block(ok, timed->arm_count, block);
    json_decref(ok);
    return status;
}

/* ---- Blocks on a CPU: by the parent's clock ---------------------------------------------------------------------- */

/* While a thread waits for the worker's answer, this one takes turns with it. */
typedef struct question {
    at_timed *timed;
    const at_block_order *order;
    at_block *block;
    attune_status status;
    char detail[512];
    atomic_bool answered;
} question;

static void *wait_for_answer(void *context)
{
    question *on = context;
    on->status = ask_for_block(on->timed, on->order, on->block);
    (void)snprintf(on->detail, sizeof on->detail, "%s", attune_last_detail());
    atomic_store(&on->answered, true);
    return NULL;
}

/* Waits until the turn is `wanted`, or beyond, since the worker need not wait for who is looking; false when it has
 * answered instead: it failed. */
static bool wait_for_turn(question *on, at_handoff *turn, uint32_t wanted)
{
    enum { LOOK_NS = 20000000 };
    uint32_t now = atomic_load(&turn->turn);
    while (now < wanted && !atomic_load(&on->answered)) {
        (void)at_handoff_wait(turn, now, LOOK_NS);
        now = atomic_load(&turn->turn);
    }
    return atomic_load(&turn->turn) >= wanted;
}

/* What the samples of a block took: wall time, and the worker's CPU time; and what was seen of their outputs. */
typedef struct taken {
    double wall_us[2 * AT_SESSION_ARMS_MAX];
    double cpu_us[2 * AT_SESSION_ARMS_MAX];
    int wrong[AT_SESSION_ARMS_MAX];
    bool has_keys; /* the block's keys and values are at hand */
} taken;

static double clock_us(clockid_t id)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(id, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

/* Copies one of the sample's outputs, as it is now that the clock has stopped, and gives the turn back. Returns which
 * call's; -1 where there is none to be seen. */
static int take_copy(const question *on, at_handoff *turn, uint32_t sample, int arm)
{
    at_timed *timed = on->timed;
    const size_t *places = timed->output_at[arm];
    int call = -1;
    if (places != NULL) {
        call = (int)at_random_below(&timed->random, (uint64_t)timed->calls[arm]);
        memcpy(timed->copy, (const unsigned char *)turn + places[call], timed->transformed.role[ATTUNE_O].bytes);
    }
    at_handoff_set(turn, 4 * sample + 4);
    return call;
}

/* The inputs of a call of the block, which are made here once more. */
static void make_inputs(at_timed *timed, uint64_t transform, uint32_t sample, int call, bool *has_keys)
{
    for (int role = *has_keys ? ATTUNE_Q : ATTUNE_V; role >= ATTUNE_Q; --role) {
        const at_fresh_key key = at_fresh_key_of(transform, (attune_role)role, (int)sample, call);
        at_fresh_write(&timed->transformed, (attune_role)role, key, timed->fresh[role]);
    }
    *has_keys = true;
}

/* Whether rows of the copy are right. The first arm was judged by the rules before; any other may be as coarse as it or
 * itself says. */
static bool copy_is_right(at_timed *timed, int arm)
{
    uint32_t traits = timed->opened[arm]->loaded->kernel->traits | timed->opened[0]->loaded->kernel->traits;
    const at_spot spot = {.pool = timed->pool,
                          .acc16 = (traits & ATTUNE_TRAIT_ACC16) != 0,
                          .share = arm == 0 ? 0 : at_transform_share(&timed->problem, traits, true)};
    attune_call call = timed->inputs->call;
    attune_args args;
    for (int role = ATTUNE_Q; role <= ATTUNE_V; ++role) {
        call.tensor[role].data = timed->fresh[role];
    }
    call.tensor[ATTUNE_O].data = timed->copy;
    at_call_args(&timed->problem, &call, &args);
    return at_spot_check(&spot, &args, &timed->random) == ATTUNE_OK;
}

/* Threads of a library that has just computed go on waiting busily for up to some 100 ms, and would take processors
 * from whoever is timed next: sleeps until the worker, whose turn it is not, does next to nothing. */
static void let_settle(clockid_t cpu)
{
    enum { SLICE_US = 1000, SLICES_MOST = 300 };
    double before = clock_us(cpu);
    for (int i = 0; i < SLICES_MOST; ++i) {
        (void)usleep(SLICE_US);
        double now = clock_us(cpu);
        if (now - before < SLICE_US / 10) {
            return;
        }
        before = now;
    }
}

static bool worker_clock(const at_timed *timed, clockid_t *cpu)
{
    return clock_getcpuclockid(at_channel_process(at_remote_channel(timed->device)), cpu) == 0;
}

static void take_turns(question *on, at_handoff *turn, taken *by)
{
    clockid_t cpu = CLOCK_MONOTONIC_RAW;
    if (!worker_clock(on->timed, &cpu)) {
        return;
    }
    for (uint32_t i = 0; i < (uint32_t)on->order->count; ++i) {
        int arm = on->order->arm[i];
        if (!wait_for_turn(on, turn, 4 * i + 1)) {
            return;
        }
        let_settle(cpu);
        double cpu_start = clock_us(cpu);
        double start = clock_us(CLOCK_MONOTONIC_RAW);
        at_handoff_set(turn, 4 * i + 2);
        if (!wait_for_turn(on, turn, 4 * i + 3)) {
            return;
        }
        by->wall_us[i] = clock_us(CLOCK_MONOTONIC_RAW) - start;
        by->cpu_us[i] = clock_us(cpu) - cpu_start;
        const int call = take_copy(on, turn, i, arm);
        if (call >= 0) {
            make_inputs(on->timed, transform_of(on->order), i, call, &by->has_keys);
            by->wrong[arm] += !copy_is_right(on->timed, arm);
        }
    }
}

static attune_status time_turns(at_timed *timed, const at_block_order *order, at_block *block, taken *by)
{
    question on = {.timed = timed, .order = order, .block = block};
    size_t bytes;
    pthread_t thread;
    clockid_t cpu;
    at_handoff *turn = (at_handoff *)(void *)at_channel_arena(at_remote_channel(timed->device), &bytes);
    memset(by, 0, sizeof *by);
    AT_FAIL_IF(turn == NULL, ATTUNE_INVALID_ARGUMENT, "timing on a CPU needs an arena");
    atomic_store(&turn->turn, 0);
    AT_FAIL_IF(pthread_create(&thread, NULL, wait_for_answer, &on) != 0, ATTUNE_OUT_OF_MEMORY, "no thread to wait in");
    take_turns(&on, turn, by);
    (void)pthread_join(thread, NULL);
    if (worker_clock(timed, &cpu)) { /* the next sample may be another worker's */
        let_settle(cpu);
    }
    return on.status == ATTUNE_OK ? ATTUNE_OK : at_fail(on.status, "%s", on.detail);
}

static attune_status time_block(at_timed *timed, const at_block_order *order, at_block *block)
{
    int seen[AT_SESSION_ARMS_MAX] = {0};
    taken by;
    AT_FORWARD(time_turns(timed, order, block, &by));
    for (int i = 0; i < order->count; ++i) {
        int arm = order->arm[i];
        block->us[arm][seen[arm]++] = by.wall_us[i] / timed->calls[arm];
    }
    for (int arm = 0; arm < timed->arm_count; ++arm) {
        block->wrong[arm] += by.wrong[arm];
    }
    return ATTUNE_OK;
}

static attune_status run_block(void *self, const at_block_order *order, at_block *block)
{
    at_timed *timed = self;
    bool cpu = timed->device->target.kind == ATTUNE_TARGET_CPU;
    return cpu ? time_block(timed, order, block) : ask_for_block(timed, order, block);
}

/* ---- Two clocks -------------------------------------------------------------------------------------------------- */

/* The worker must not have worked more than its threads can in the time: work outside of the time, or in other threads,
 * shows here. Threads that wait may use less. */
static attune_status cpu_clocks(at_timed *timed, int arm, at_two_clocks *clocks)
{
    const int arms[] = {arm, arm};
    const at_block_order order = {arms, 2, 1, 0};
    at_block block = {.process = 0};
    taken by;
    AT_FORWARD(time_turns(timed, &order, &block, &by));
    int quick = by.wall_us[0] <= by.wall_us[1] ? 0 : 1;
    double calls = timed->calls[arm];
    double by_cpu = by.cpu_us[quick] / timed->device->target.threads / calls;
    clocks->us = by.wall_us[quick] / calls;
    clocks->slope_us = by_cpu > clocks->us ? by_cpu : clocks->us;
    return ATTUNE_OK;
}

static attune_status device_clocks(const at_timed *timed, int arm, double stretch_us, at_two_clocks *clocks)
{
    json_t *ok;
    AT_FORWARD(
        ask(timed, "clocks", json_pack("{s:i,s:f}", "arm", arm, "stretch_us", stretch_us), block_patience_s, &ok));
    attune_status status = at_json_double(ok, "answer", "us", &clocks->us);
    status = status == ATTUNE_OK ? at_json_double(ok, "answer", "slope_us", &clocks->slope_us) : status;
    json_decref(ok);
    return status;
}

static attune_status two_clocks(void *self, int arm, double stretch_us, at_two_clocks *clocks)
{
    at_timed *timed = self;
    bool cpu = timed->device->target.kind == ATTUNE_TARGET_CPU;
    return cpu ? cpu_clocks(timed, arm, clocks) : device_clocks(timed, arm, stretch_us, clocks);
}

at_executor at_timed_executor(at_timed *timed)
{
    return (at_executor){.self = timed,
                         .clock = at_clock_monotonic(),
                         .start = start,
                         .stage = stage,
                         .block = run_block,
                         .two_clocks = two_clocks,
                         .unstage = unstage};
}
