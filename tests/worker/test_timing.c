/* Timing on a CPU, worker and all: are the right things done around what is timed? No verdict here hangs on how long
 * anything takes. */
#include "base/cm.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "attune/gate.h"
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
    at_staged staged = {.calls = {0}};
    bench_open(&on, "b1,h2,s32,d16,fp32");
    at_executor executor = at_timed_executor(&on.timed);
    assert_ok(executor.start(executor.self, 0));
    float other = 3;
    assert_ok(on.device->ops->upload(on.device, on.timed.place.call.tensor[ATTUNE_O].data, &other, sizeof other));
    assert_fails(executor.stage(executor.self, AT_MODE_WARM, &staged), ATTUNE_WRONG_RESULT, "validated result");
    assert_int_equal(staged.wrong[0], 1); /* and whose it is */
    assert_int_equal(staged.wrong[1], 0);
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
    const attune_problem *fp16 = &timing.wanted.problem, fp32 = {.dtype = ATTUNE_FP32},
                         tf32 = {.dtype = ATTUNE_FP32, .tf32 = 1};
    double generous = at_transform_share(fp16, ATTUNE_TRAIT_ACC16, true);
    assert_true(at_transform_share(&tf32, 0, false) == at_transform_share(fp16, 0, false));
    assert_true(at_transform_share(&tf32, 0, true) > 126 * 0x1p-11 && at_transform_share(&tf32, 0, true) < generous);
    assert_true(at_transform_share(&fp32, 0, true) == 0x1p-10);
    assert_true(at_timing_share(&timing, &fine.arm) == generous);
    timing.wanted.arm[0] = &fine;
    assert_true(at_timing_share(&timing, &fine.arm) < generous);
    assert_true(at_timing_share(&timing, &coarse.arm) == generous);
}

/* Outputs are looked at here as well, whatever the worker says of them: what it computed from other values than these
 * is wrong. */
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
    float *values = on.inputs.call.tensor[ATTUNE_V].data;
    for (int i = 0; i < 2 * 32 * 16; ++i) {
        values[i] += 1 + fabsf(values[i]);
    }
    assert_ok(executor.block(executor.self, &wanted, &wrong));
    for (int arm = 0; arm < ARMS; ++arm) {
        assert_int_equal(right.wrong[arm], 0);
        assert_int_equal(wrong.wrong[arm], 2);
    }
    assert_ok(executor.unstage(executor.self));
    bench_close(&on);
}

/* ---- What a kernel could remember -------------------------------------------------------------------------------- */

/* In the worker: an arm that is cpu_tiled, and writes down what each row of each call asks: its scores with the first
 * keys, whatever the signs and the order of columns that lead to them. */
static const char *const diary = "ATTUNE_TEST_DIARY"; /* an environment variable: the file */

enum { KEPT_DIM = 64 };

typedef struct keeper {
    attune_context *context;
    attune_plan *plan;
    FILE *file;
} keeper;

static double score_of(const attune_call *call, int64_t head, int64_t row, int64_t key)
{
    const attune_tensor *q = &call->tensor[ATTUNE_Q], *k = &call->tensor[ATTUNE_K];
    const float *of_q = (const float *)q->data + head * q->stride[1] + row * q->stride[2];
    const float *of_k = (const float *)k->data + head * k->stride[1] + key * k->stride[2];
    double sum = 0;
    for (int c = 0; c < KEPT_DIM; ++c) {
        sum += (double)of_q[c] * (double)of_k[c];
    }
    return sum;
}

static attune_status keep(void *self, const attune_call *call)
{
    keeper *on = self;
    for (int64_t i = 0; i < call->heads_q * call->seqlen_q; ++i) {
        double asked[3];
        for (int64_t key = 0; key < 3; ++key) {
            asked[key] = score_of(call, i / call->seqlen_q, i % call->seqlen_q, key);
        }
        (void)fwrite(asked, sizeof asked, 1, on->file);
    }
    (void)fflush(on->file);
    return attune_plan_execute(on->plan, call);
}

static attune_status needs(void *self, const attune_call *call, size_t *bytes)
{
    const keeper *on = self;
    return attune_plan_workspace(on->plan, call, bytes);
}

static void close_keeper(void *self)
{
    keeper *on = self;
    attune_plan_destroy(on->plan);
    attune_context_destroy(on->context);
    (void)fclose(on->file);
    free(on);
}

static attune_status open_keeper(void *self, const char *name, const attune_problem *problem, int32_t of,
                                 int32_t threads, attune_arm *arm)
{
    (void)self, (void)of, (void)threads;
    if (strcmp(name, "keeper") != 0) {
        return ATTUNE_NOT_FOUND;
    }
    keeper *made = calloc(1, sizeof *made);
    attune_options options;
    attune_options_init(&options);
    options.target = "cpu";
    made->file = fopen(getenv(diary), "ab");
    attune_status status = attune_context_create(&options, &made->context);
    status = status == ATTUNE_OK ? attune_plan_create(made->context, problem, NULL, &made->plan) : status;
    arm->self = made;
    arm->workspace = needs;
    arm->run = keep;
    arm->close = close_keeper;
    return status;
}

static int compare_rows(const void *a, const void *b)
{
    return memcmp(a, b, 3 * sizeof(double));
}

/* Sorted rows that are equal to the one before. */
static int64_t count_twice(double (*row)[3], int64_t count)
{
    int64_t twice = 0;
    qsort(row, (size_t)count, sizeof *row, compare_rows);
    for (int64_t i = 1; i < count; ++i) {
        twice += memcmp(row[i - 1], row[i], sizeof *row) == 0;
    }
    return twice;
}

static void no_row_is_asked_twice_while_calls_are_timed(void **state)
{
    (void)state;
    static const char *const keepers[] = {"keeper", "keeper", "cpu_tiled"};
    const int order[] = {0, 1, 2, 2, 1, 0};
    char path[] = "/tmp/attune-diary-XXXXXX";
    bench on;
    at_staged staged;
    at_block block = {.process = 0};
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(setenv(diary, path, 1), 0);
    bench_open(&on, "b1,h2,s32,d64,fp32");
    on.timed.arm = keepers;
    /* Rows that differ, whatever the family. */
    at_random random = at_random_seed(3, 3);
    for (int role = ATTUNE_Q; role <= ATTUNE_V; ++role) {
        for (int i = 0; i < 2 * 32 * KEPT_DIM; ++i) {
            ((float *)on.inputs.call.tensor[role].data)[i] = (float)at_random_normal(&random);
        }
    }
    at_executor executor = at_timed_executor(&on.timed);
    assert_ok(executor.start(executor.self, 0));
    assert_ok(executor.stage(executor.self, AT_MODE_WARM, &staged));
    const off_t staged_bytes = lseek(file, 0, SEEK_END);
    for (uint64_t set = 0; set < 3; ++set) {
        const at_block_order wanted = {order, 6, set << 40 | 12345, 0};
        assert_ok(executor.block(executor.self, &wanted, &block));
    }
    const off_t bytes = lseek(file, 0, SEEK_END) - staged_bytes;
    assert_int_equal(bytes, 3 * 2 * (staged.calls[0] + staged.calls[1]) * 64 * (int64_t)sizeof(double[3]));
    double(*row)[3] = malloc((size_t)bytes);
    assert_int_equal(pread(file, row, (size_t)bytes, staged_bytes), bytes);
    assert_true(staged.calls[0] > 1);
    assert_int_equal(count_twice(row, bytes / (off_t)sizeof *row), 0);
    free(row);
    assert_ok(executor.unstage(executor.self));
    bench_close(&on);
    (void)close(file);
    (void)unlink(path);
}

/* ---- Turns ------------------------------------------------------------------------------------------------------- */

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
        cmocka_unit_test(no_row_is_asked_twice_while_calls_are_timed),
        cmocka_unit_test(patience_is_time_and_not_wakings),
        cmocka_unit_test(a_worker_that_dies_in_a_block_is_reported),
        cmocka_unit_test(requests_that_make_no_sense_are_refused),
        cmocka_unit_test(a_transform_changes_inputs_and_is_known_by_its_result),
        cmocka_unit_test(tensors_that_tell_heads_apart_hold_them_in_place),
    };
    if (argc > 1 && strcmp(argv[1], "worker") == 0) {
        const attune_arm_hooks hooks = {.size = sizeof hooks, .open = open_keeper};
        return attune_worker_serve(&hooks) == ATTUNE_OK ? 0 : 3;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
