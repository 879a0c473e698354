/* Timing on a CPU, worker and all: are the right things done around what is timed? No verdict here hangs on how long
 * anything takes. */
#include "base/cm.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "judge/executor.h"
#include "measure/speed.h"
#include "reference/draw_text.h"
#include "worker/timing.h"

static const char *const command[] = {"/proc/self/exe", "worker", NULL};
static const char *const names[] = {"cpu_tiled", "cpu_tiled:BLOCK_M=16", "cpu_tiled"};

enum { ARMS = 3 };

static const at_session_part arms[ARMS] = {
    {"cpu_tiled", AT_PART_CANDIDATE, 0}, {"cpu_tiled:BLOCK_M=16", AT_PART_PEER, 0}, {"cpu_tiled", AT_PART_TWIN, 0}};

/* ---- A problem and its workers ----------------------------------------------------------------------------------- */

typedef struct bench {
    at_inputs inputs;
    at_timed timed;
    at_device *device;
    int opened, judged;
} bench;

static attune_status fresh_worker(void *self, int process, at_device **device)
{
    bench *on = self;
    const at_remote_options options = {.command = command, .target = "cpu", .threads = 2, .patience_s = 3600};
    (void)process;
    if (on->device != NULL) {
        on->device->ops->close(on->device);
        on->device = NULL;
    }
    attune_status status = at_remote_open(&options, &on->device);
    *device = on->device;
    ++on->opened;
    return status;
}

/* Rows were written and are finite: rightness is judged elsewhere. */
static attune_status look_at_base(void *self, at_inputs *inputs)
{
    bench *on = self;
    ++on->judged;
    return at_inputs_guards(inputs);
}

static void bench_open(bench *on, const char *text)
{
    const at_draw draw = {.seed = 7, .family = AT_FAMILY_MIXED};
    *on = (bench){.opened = 0};
    draw_text(text, &draw, &on->inputs);
    on->timed = (at_timed){.problem = on->inputs.problem,
                           .inputs = &on->inputs,
                           .arm = names,
                           .arm_count = ARMS,
                           .worker = fresh_worker,
                           .judge = look_at_base,
                           .self = on};
}

static void bench_close(bench *on)
{
    at_timed_close(&on->timed);
    if (on->device != NULL) {
        on->device->ops->close(on->device);
    }
    at_inputs_free(&on->inputs);
}

/* ---- Sessions ---------------------------------------------------------------------------------------------------- */

static void a_session_times_every_arm(void **state)
{
    (void)state;
    bench on;
    at_session session;
    at_session_policy policy;
    at_session_policy_quick(&policy, 5);
    policy.processes = 2;
    policy.pairs = 4;
    policy.warmup_s = policy.warmup_max_s = 0.02;
    policy.hopeless = 1e6;
    policy.modes |= 1U << AT_MODE_RESTED;
    bench_open(&on, "b2,h4,hkv2,s64,d32,fp32");
    at_executor executor = at_timed_executor(&on.timed);
    assert_ok(at_session_open(&policy, arms, ARMS, &session));
    assert_ok(at_session_run(&session, &executor));
    assert_int_equal(on.opened, 2);
    assert_int_equal(on.judged, 2);
    assert_int_equal(session.block_count, 2 * 3 * 2);
    for (size_t i = 0; i < session.block_count; ++i) {
        for (int arm = 0; arm < ARMS; ++arm) {
            assert_true(session.block[i].us[arm][0] > 0 && session.block[i].us[arm][1] > 0);
            assert_int_equal(session.block[i].wrong[arm], 0);
        }
    }
    for (int arm = 0; arm < ARMS; ++arm) {
        assert_true(session.calls[AT_MODE_WARM][arm] >= 1);
        assert_int_equal(session.calls[AT_MODE_COLD][arm], 1);
    }
    assert_int_equal(session.clocks_count, 2 * ARMS);
    at_speed speed;
    assert_ok(at_speed_judge(&session, 0, 1, &speed));
    assert_true(speed.outcome != AT_NOT_RUN && speed.known[AT_MODE_RESTED]);
    at_session_close(&session);
    bench_close(&on);
}

/* Masks and packed batches: transforms leave heads and batches where they are. */
static void every_kind_of_problem_can_be_timed(void **state)
{
    (void)state;
    static const char *const problems[] = {"b2,h2,s32,d16,fp16,causal", "b2,h2,s32,d16,bf16,alibi,sink",
                                           "b3,h2,s32,d16,fp32,varlen=3", "b2,h2,s32,d16,dv24,fp32,mask,seqused",
                                           "b1,h2,sq1,skv64,d16,bf16,bias=1x1"};
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; ++i) {
        bench on;
        at_staged staged;
        const int order[] = {0, 1, 2, 2, 1, 0};
        at_block block = {.process = 0};
        bench_open(&on, problems[i]);
        at_executor executor = at_timed_executor(&on.timed);
        assert_ok(executor.start(executor.self, 1));
        assert_ok(executor.stage(executor.self, AT_MODE_WARM, &staged));
        for (uint64_t set = 0; set < 3; ++set) {
            const at_block_order wanted = {order, 6, set << 40 | 12345, 0};
            assert_ok(executor.block(executor.self, &wanted, &block));
            assert_int_equal(block.wrong[0] + block.wrong[1] + block.wrong[2], 0);
        }
        assert_ok(executor.unstage(executor.self));
        bench_close(&on);
    }
}

/* The base's result does not fit its inputs: nothing is timed. */
static void a_result_that_is_not_the_validated_one_is_seen(void **state)
{
    (void)state;
    bench on;
    at_staged staged;
    bench_open(&on, "b1,h2,s32,d16,fp32");
    at_executor executor = at_timed_executor(&on.timed);
    assert_ok(executor.start(executor.self, 0));
    float other = 3;
    assert_ok(on.device->ops->upload(on.device, on.timed.place.call.tensor[ATTUNE_O].data, &other, sizeof other));
    assert_fails(executor.stage(executor.self, AT_MODE_WARM, &staged), ATTUNE_WRONG_RESULT, "validated result");
    bench_close(&on);
}

/* A peer's result is as far from a coarse kernel's as that kernel is coarse; its own, bit for bit, is another matter.
 */
static void the_coarser_arm_says_how_close_results_lie(void **state)
{
    (void)state;
    at_worker_arm coarse = {.arm = {.traits = ATTUNE_TRAIT_ACC16}};
    at_worker_arm fine = {.arm = {.traits = 0}};
    at_timing timing = {.wanted = {.problem = {.dtype = ATTUNE_FP16}, .arm = {&coarse, &fine}, .arm_count = 2}};
    double generous = at_transform_share(ATTUNE_FP16, ATTUNE_TRAIT_ACC16);
    assert_true(at_timing_share(&timing, &fine.arm) == generous);
    timing.wanted.arm[0] = &fine;
    assert_true(at_timing_share(&timing, &fine.arm) < generous);
    assert_true(at_timing_share(&timing, &coarse.arm) == generous);
}

/* Outputs are looked at here as well, whatever the worker says of them. */
static void the_parent_looks_for_itself(void **state)
{
    (void)state;
    bench on;
    at_staged staged;
    const int order[] = {0, 1, 2, 2, 1, 0};
    const at_block_order wanted = {order, 6, 99, 0};
    at_block right = {.process = 0}, wrong = {.process = 0};
    bench_open(&on, "b1,h2,s32,d16,fp32");
    at_executor executor = at_timed_executor(&on.timed);
    assert_ok(executor.start(executor.self, 0));
    assert_ok(executor.stage(executor.self, AT_MODE_WARM, &staged));
    assert_ok(executor.block(executor.self, &wanted, &right));
    ((float *)on.inputs.call.tensor[ATTUNE_O].data)[17] += 1; /* what is expected, not what is there */
    assert_ok(executor.block(executor.self, &wanted, &wrong));
    for (int arm = 0; arm < ARMS; ++arm) {
        assert_int_equal(right.wrong[arm], 0);
        assert_int_equal(wrong.wrong[arm], 2);
    }
    assert_ok(executor.unstage(executor.self));
    bench_close(&on);
}

typedef struct waker {
    at_handoff turn;
    int wakings;
} waker;

static void *wake_often(void *self)
{
    waker *on = self;
    for (int i = 0; i < on->wakings; ++i) {
        (void)usleep(1000);
        at_handoff_set(&on->turn, 0); /* as it is */
    }
    at_handoff_set(&on->turn, 1);
    return NULL;
}

/* Whoever waits is patient by time: being woken for nothing, a hundred times, is no reason to give up. */
static void patience_is_time_and_not_wakings(void **state)
{
    (void)state;
    static const int64_t slice_ns = (int64_t)20 * 1000000000; /* none of them runs out, however slow the machine is */
    waker on = {.wakings = 100};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wake_often, &on), 0);
    bool came = at_handoff_await(&on.turn, 0, slice_ns, 3);
    (void)pthread_join(thread, NULL);
    assert_true(came);
    assert_false(at_handoff_await(&on.turn, 1, 1000000, 3)); /* nobody sets it any more */
    assert_true(at_handoff_await(&on.turn, 0, 1000000, 0));
    assert_false(at_handoff_await(&on.turn, 1, -1, 3)); /* a time that no kernel waits for */
}

static void a_worker_that_dies_in_a_block_is_reported(void **state)
{
    (void)state;
    bench on;
    at_staged staged;
    const int order[] = {0, 0};
    const at_block_order wanted = {order, 2, 1, 60e6};
    at_block block = {.process = 0};
    bench_open(&on, "b1,h2,s32,d16,fp32");
    at_executor executor = at_timed_executor(&on.timed);
    assert_ok(executor.start(executor.self, 0));
    assert_ok(executor.stage(executor.self, AT_MODE_WARM, &staged));
    assert_ok(on.device->ops->synchronise(on.device, NULL));
    char kill_it[64];
    (void)snprintf(kill_it, sizeof kill_it, "sleep 0.2; kill -9 %d", at_channel_process(at_remote_channel(on.device)));
    FILE *killer = popen(kill_it, "r"); /* within the pause after the first sample */
    assert_non_null(killer);
    assert_fails(executor.block(executor.self, &wanted, &block), ATTUNE_DEVICE_ERROR, "signal 9");
    (void)pclose(killer);
    bench_close(&on);
}

static attune_status ask(bench *on, const char *op, json_t *fields)
{
    return at_channel_ask(at_remote_channel(on->device), op, fields, 3600, NULL);
}

static void requests_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    bench on;
    at_staged staged;
    bench_open(&on, "b1,h2,s32,d16,fp32");
    at_executor executor = at_timed_executor(&on.timed);
    assert_ok(executor.start(executor.self, 0));
    assert_fails(ask(&on, "block", json_pack("{s:[i],s:i,s:f}", "order", 0, "set", 1, "pause_us", 0.0)),
                 ATTUNE_INVALID_ARGUMENT, "nothing is staged");
    assert_fails(ask(&on, "stage", json_pack("{s:s}", "mode", "hot")), ATTUNE_INVALID_ARGUMENT, "warm, cold or rested");
    assert_ok(executor.stage(executor.self, AT_MODE_WARM, &staged));
    assert_fails(executor.stage(executor.self, AT_MODE_WARM, &staged), ATTUNE_INVALID_ARGUMENT, "staged already");
    assert_fails(ask(&on, "block", json_pack("{s:[i,i,i],s:i,s:f}", "order", 0, 0, 0, "set", 1, "pause_us", 0.0)),
                 ATTUNE_INVALID_ARGUMENT, "two of each");
    assert_fails(ask(&on, "block", json_pack("{s:[i],s:i,s:f}", "order", 3, "set", 1, "pause_us", 0.0)),
                 ATTUNE_INVALID_ARGUMENT, "arm 3");
    assert_fails(ask(&on, "block", json_pack("{s:[i],s:i,s:f}", "order", 0, "set", 0, "pause_us", 0.0)), ATTUNE_CORRUPT,
                 "set");
    assert_fails(ask(&on, "clocks", json_pack("{s:i}", "arm", 9)), ATTUNE_CORRUPT, "arm");
    assert_fails(ask(&on, "clocks", json_pack("{s:i,s:s}", "arm", 0, "stretch_us", "long")), ATTUNE_CORRUPT,
                 "stretch_us");
    assert_fails(ask(&on, "clocks", json_pack("{s:i}", "arm", 0)), ATTUNE_UNSUPPORTED, ""); /* as long as is usual */
    assert_fails(ask(&on, "clocks", json_pack("{s:i,s:f}", "arm", 0, "stretch_us", 0.0)), ATTUNE_INVALID_ARGUMENT,
                 "stretch_us is 0");
    assert_fails(ask(&on, "clocks", json_pack("{s:i,s:f}", "arm", 0, "stretch_us", 2e3)), ATTUNE_UNSUPPORTED,
                 "read by the parent");
    assert_ok(executor.unstage(executor.self));
    bench_close(&on);
}

/* ---- Transforms -------------------------------------------------------------------------------------------------- */

static void a_transform_changes_inputs_and_is_known_by_its_result(void **state)
{
    (void)state;
    const at_draw draw = {.seed = 1, .family = AT_FAMILY_NORMAL};
    attune_problem problem;
    at_inputs inputs;
    at_transform_map transformed;
    assert_ok(attune_problem_parse("b2,h4,hkv2,s8,d16,fp16", &problem));
    assert_ok(at_inputs_draw(&problem, &draw, &inputs));
    at_transform_describe(&problem, &inputs.call, 8, &transformed);
    assert_true(transformed.moves);
    size_t bytes = transformed.role[ATTUNE_V].bytes;
    assert_int_equal(bytes, 2 * 2 * 8 * 16 * 2);
    unsigned char *same = malloc(bytes), *mapped = malloc(bytes), *other = malloc(bytes);
    at_transform_apply(&transformed, ATTUNE_V, 0, same);
    at_transform_apply(&transformed, ATTUNE_V, 77, mapped);
    at_transform_apply(&transformed, ATTUNE_V, 78, other);
    assert_memory_equal(same, inputs.call.tensor[ATTUNE_V].data, bytes);
    assert_memory_not_equal(mapped, same, bytes);
    assert_memory_not_equal(mapped, other, bytes);
    /* V replaces O where there are as many heads: the same signs flip, the same heads move. */
    transformed.role[ATTUNE_O] = transformed.role[ATTUNE_V];
    attune_tensor got = transformed.role[ATTUNE_V].tensor;
    got.data = mapped;
    assert_true(at_transform_matches(&transformed, 77, &got, 0));
    assert_false(at_transform_matches(&transformed, 78, &got, 0));
    assert_false(at_transform_matches(&transformed, 0, &got, 0.01));
    uint16_t *element = (uint16_t *)(void *)mapped;
    element[5] ^= 1; /* one unit in the last place */
    assert_false(at_transform_matches(&transformed, 77, &got, 0));
    assert_true(at_transform_matches(&transformed, 77, &got, 0.01));
    element[5] = 0xffff; /* poison */
    assert_false(at_transform_matches(&transformed, 77, &got, 0.01));
    free(same);
    free(mapped);
    free(other);
    at_inputs_free(&inputs);
}

static void tensors_that_tell_heads_apart_hold_them_in_place(void **state)
{
    (void)state;
    static const char *const problems[] = {"b2,h2,s8,d16,fp16,alibi",    "b2,h2,s8,d16,fp16,sink",
                                           "b2,h2,s8,d16,fp16,seqused",  "b2,h2,s8,d16,fp16,varlen=1",
                                           "b2,h2,s8,d16,fp16,bias=1xh", "b2,h2,s8,d16,fp16,mask"};
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; ++i) {
        const at_draw draw = {.seed = 1, .family = AT_FAMILY_NORMAL};
        at_inputs inputs;
        at_transform_map transformed;
        draw_text(problems[i], &draw, &inputs);
        at_transform_describe(&inputs.problem, &inputs.call, 5, &transformed);
        assert_false(transformed.moves);
        assert_int_equal(transformed.role[ATTUNE_O].rows, inputs.problem.varlen ? 5 : 8);
        at_inputs_free(&inputs);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_times_every_arm),
        cmocka_unit_test(every_kind_of_problem_can_be_timed),
        cmocka_unit_test(a_result_that_is_not_the_validated_one_is_seen),
        cmocka_unit_test(the_coarser_arm_says_how_close_results_lie),
        cmocka_unit_test(the_parent_looks_for_itself),
        cmocka_unit_test(patience_is_time_and_not_wakings),
        cmocka_unit_test(a_worker_that_dies_in_a_block_is_reported),
        cmocka_unit_test(requests_that_make_no_sense_are_refused),
        cmocka_unit_test(a_transform_changes_inputs_and_is_known_by_its_result),
        cmocka_unit_test(tensors_that_tell_heads_apart_hold_them_in_place),
    };
    if (argc > 1 && strcmp(argv[1], "worker") == 0) {
        return attune_worker_serve(NULL) == ATTUNE_OK ? 0 : 3;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
