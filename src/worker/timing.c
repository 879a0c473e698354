/* A worker's ops for timing: stage, block, clocks, unstage. What they do is the target's (timing_cuda.c, timing_cpu.c).
 */
#include "worker/timing.h"

#include <string.h>

#include "base/status.h"

void at_worker_close_timing(at_worker *worker)
{
    at_timing *timing = worker->stage;
    if (timing != NULL) {
        worker->stage = NULL;
        timing->ops->close(timing);
    }
}

/* ---- Stage ------------------------------------------------------------------------------------------------------- */

static attune_status read_mode(const json_t *request, at_mode *mode)
{
    const char *name;
    AT_FORWARD(at_json_string(request, "request", "mode", &name));
    for (int i = 0; i < AT_MODE_COUNT; ++i) {
        if (strcmp(name, at_mode_name((at_mode)i)) == 0) {
            *mode = (at_mode)i;
            return ATTUNE_OK;
        }
    }
    return at_fail(ATTUNE_INVALID_ARGUMENT, "mode \"%.40s\": warm, cold or rested is needed", name);
}

static attune_status read_arms(const at_worker *worker, const json_t *request, at_timing_request *wanted)
{
    json_t *arms;
    AT_FORWARD(at_json_field(request, "request", "arms", JSON_ARRAY, &arms));
    size_t count = json_array_size(arms);
    AT_FAIL_IF(count < 1 || count > AT_SESSION_ARMS_MAX, ATTUNE_INVALID_ARGUMENT, "%zu arms: 1 to %d can be timed",
               count, AT_SESSION_ARMS_MAX);
    for (size_t i = 0; i < count; ++i) {
        const json_t *number = json_array_get(arms, i);
        json_int_t index = json_is_integer(number) ? json_integer_value(number) : -1;
        bool there = index >= 0 && (uint64_t)index < worker->arm_count && worker->arm[index] != NULL;
        AT_FAIL_IF(!there, ATTUNE_INVALID_ARGUMENT, "there is no arm %lld", (long long)index);
        wanted->arm[i] = worker->arm[index];
    }
    wanted->arm_count = (int)count;
    return ATTUNE_OK;
}

static attune_status check_call(const at_timing_request *wanted)
{
    static const attune_role needed[] = {ATTUNE_Q, ATTUNE_K, ATTUNE_V, ATTUNE_O};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; ++i) {
        AT_FAIL_IF(wanted->call.tensor[needed[i]].data == NULL, ATTUNE_INVALID_ARGUMENT,
                   "the call lacks one of Q, K, V and O");
    }
    return ATTUNE_OK;
}

static attune_status put_calls(json_t *answer, const at_timing *timing)
{
    json_t *calls = json_array();
    json_t *outputs = json_array();
    for (int arm = 0; arm < timing->wanted.arm_count; ++arm) {
        json_t *places = json_array();
        for (int i = 0; timing->output_at[arm] != NULL && i < timing->calls[arm]; ++i) {
            (void)json_array_append_new(places, json_integer((json_int_t)timing->output_at[arm][i]));
        }
        (void)json_array_append_new(calls, json_integer(timing->calls[arm]));
        (void)json_array_append_new(outputs, places);
    }
    AT_FORWARD(at_answer_put(answer, "outputs", outputs));
    return at_answer_put(answer, "calls", calls);
}

/* An arm that is wrong is an answer: who asked has to know which. */
static attune_status put_wrong(json_t *answer, int arm)
{
    AT_FORWARD(at_answer_put(answer, "wrong", json_integer(arm)));
    return at_answer_put(answer, "why", json_string(attune_last_detail()));
}

static attune_status stage(at_worker *worker, const json_t *request, json_t *answer)
{
    int wrong = -1;
    at_timing_request wanted = {.wrong = &wrong};
    at_timing *timing;
    json_t *call;
    int64_t seed;
    AT_FAIL_IF(worker->stage != NULL, ATTUNE_INVALID_ARGUMENT, "something is staged already");
    AT_FORWARD(read_mode(request, &wanted.mode));
    AT_FORWARD(at_wire_problem(request, "problem", &wanted.problem));
    AT_FORWARD(at_json_field(request, "request", "call", JSON_OBJECT, &call));
    AT_FORWARD(at_wire_call(call, &wanted.call));
    AT_FORWARD(at_json_bool(request, "request", "reverse", &wanted.reverse));
    AT_FORWARD(at_json_int(request, "request", "seed", 0, INT64_MAX, &seed));
    AT_FORWARD(at_json_double(request, "request", "call_us", &wanted.call_us));
    wanted.seed = (uint64_t)seed;
    AT_FORWARD(read_arms(worker, request, &wanted));
    AT_FORWARD(check_call(&wanted));
    bool cuda = worker->device->target.kind == ATTUNE_TARGET_CUDA;
    attune_status status = (cuda ? at_timing_cuda_open : at_timing_cpu_open)(worker, &wanted, &timing);
    if (status == ATTUNE_WRONG_RESULT && wrong >= 0) {
        return put_wrong(answer, wrong);
    }
    AT_FORWARD(status);
    worker->stage = timing;
    return put_calls(answer, timing);
}

static attune_status unstage(at_worker *worker, const json_t *request, json_t *answer)
{
    (void)request, (void)answer;
    at_worker_close_timing(worker);
    return ATTUNE_OK;
}

static attune_status staged(const at_worker *worker, at_timing **timing)
{
    *timing = worker->stage;
    AT_FAIL_IF(*timing == NULL, ATTUNE_INVALID_ARGUMENT, "nothing is staged");
    return ATTUNE_OK;
}

/* ---- Block ------------------------------------------------------------------------------------------------------- */

/* Arms in order, two of each at most. */
static attune_status read_order(const json_t *request, int arm_count, int order[2 * AT_SESSION_ARMS_MAX], int *count)
{
    int seen[AT_SESSION_ARMS_MAX] = {0};
    json_t *array;
    AT_FORWARD(at_json_field(request, "request", "order", JSON_ARRAY, &array));
    AT_FAIL_IF(json_array_size(array) > 2 * (size_t)arm_count, ATTUNE_INVALID_ARGUMENT,
               "an order of %zu samples: at most two of each of %d arms are taken", json_array_size(array), arm_count);
    *count = (int)json_array_size(array);
    for (int i = 0; i < *count; ++i) {
        const json_t *number = json_array_get(array, (size_t)i);
        json_int_t arm = json_is_integer(number) ? json_integer_value(number) : -1;
        bool fits = arm >= 0 && arm < arm_count && seen[arm] < 2;
        AT_FAIL_IF(!fits, ATTUNE_INVALID_ARGUMENT, "sample %d, arm %lld: two of each of %d arms at most", i,
                   (long long)arm, arm_count);
        ++seen[arm];
        order[i] = (int)arm;
    }
    return ATTUNE_OK;
}

static attune_status put_block(json_t *answer, const at_timing *timing, const at_block *block)
{
    json_t *us = json_array();
    json_t *wrong = json_array();
    for (int arm = 0; arm < timing->wanted.arm_count; ++arm) {
        (void)json_array_append_new(us, json_pack("[f,f]", block->us[arm][0], block->us[arm][1]));
        (void)json_array_append_new(wrong, json_integer(block->wrong[arm]));
    }
    AT_FORWARD(at_answer_put(answer, "us", us));
    AT_FORWARD(at_answer_put(answer, "wrong", wrong));
    AT_FORWARD(at_answer_put(answer, "sm_mhz", json_integer(block->sm_mhz)));
    AT_FORWARD(at_answer_put(answer, "power_w", json_integer(block->power_w)));
    return at_answer_put(answer, "throttle", json_integer((json_int_t)block->throttle));
}

static attune_status run_block(at_worker *worker, const json_t *request, json_t *answer)
{
    int arms[2 * AT_SESSION_ARMS_MAX];
    at_block_order order = {.arm = arms};
    at_block block = {.process = 0};
    at_timing *timing;
    int64_t set;
    AT_FORWARD(staged(worker, &timing));
    AT_FORWARD(read_order(request, timing->wanted.arm_count, arms, &order.count));
    AT_FORWARD(at_json_int(request, "request", "set", 1, INT64_MAX / 2, &set));
    AT_FORWARD(at_json_double(request, "request", "pause_us", &order.pause_us));
    order.set = (uint64_t)set;
    AT_FORWARD(timing->ops->block(timing, &order, &block));
    return put_block(answer, timing, &block);
}

static attune_status clocks(at_worker *worker, const json_t *request, json_t *answer)
{
    static const double most_us = 1e6, usual_us = 2e3;
    at_two_clocks both = {.arm = 0};
    at_timing *timing;
    int64_t arm;
    double stretch_us = usual_us;
    AT_FORWARD(staged(worker, &timing));
    AT_FORWARD(at_json_int(request, "request", "arm", 0, timing->wanted.arm_count - 1, &arm));
    if (json_object_get(request, "stretch_us") != NULL) { /* version 1 of the protocol began without it */
        AT_FORWARD(at_json_double(request, "request", "stretch_us", &stretch_us));
    }
    AT_FAIL_IF(!(stretch_us > 0 && stretch_us <= most_us), ATTUNE_INVALID_ARGUMENT,
               "stretch_us is %g: above 0 and at most %g is needed", stretch_us, most_us);
    AT_FORWARD(timing->ops->clocks(timing, (int)arm, stretch_us, &both));
    AT_FORWARD(at_answer_put(answer, "us", json_real(both.us)));
    return at_answer_put(answer, "slope_us", json_real(both.slope_us));
}

const at_worker_op at_worker_timing_ops[] = {
    {"stage", true, stage},     {"block", true, run_block}, {"clocks", true, clocks},
    {"unstage", true, unstage}, {NULL, false, NULL},
};
