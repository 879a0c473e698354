/* A device in another process: it behaves like the device at home, and what breaks there stays there. The workers are
 * this program itself. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/threads.h"
#include "core/target.h"
#include "judge/suite.h"
#include "worker/remote.h"
#include "worker/worker.h"

static const char *const worker[] = {"/proc/self/exe", "worker", NULL};
static at_pool *pool;

static at_device *opened(const char *const *command)
{
    const at_remote_options options = {.command = command, .target = "cpu", .threads = 2, .patience_s = 3600};
    at_device *device;
    assert_int_equal(at_remote_open(&options, &device), ATTUNE_OK);
    return device;
}

static attune_problem parsed(const char *text)
{
    attune_problem problem;
    assert_int_equal(attune_problem_parse(text, &problem), ATTUNE_OK);
    return problem;
}

static void test_target(void **state)
{
    (void)state;
    char here[AT_TARGET_TEXT_MAX], there[AT_TARGET_TEXT_MAX];
    attune_context *context;
    const attune_options options = {.size = sizeof options, .target = "cpu", .threads = 2};
    at_device *device = opened(worker);
    assert_int_equal(attune_context_create(&options, &context), ATTUNE_OK);
    const attune_target *at_home = &at_context_device(context)->target;
    at_target_print(at_home, here);
    at_target_print(&device->target, there);
    assert_string_equal(here, there);
    assert_memory_equal(at_home, &device->target, sizeof *at_home);
    assert_true(device->apart);
    device->ops->close(device);
    attune_context_destroy(context);
}

static void test_memory(void **state)
{
    (void)state;
    enum { BYTES = 70 << 20 }; /* more than the arena has */
    at_device *device = opened(worker);
    void *data;
    unsigned char *sent = malloc(BYTES), *back = calloc(BYTES, 1);
    for (size_t i = 0; i < BYTES; ++i) {
        sent[i] = (unsigned char)(i * 7 + i / 1000);
    }
    assert_int_equal(device->ops->allocate(device, BYTES, &data), ATTUNE_OK);
    assert_int_equal(device->ops->upload(device, data, sent, BYTES), ATTUNE_OK);
    assert_int_equal(device->ops->download(device, back, data, BYTES), ATTUNE_OK);
    assert_memory_equal(sent, back, BYTES);
    assert_int_equal(device->ops->synchronise(device, NULL), ATTUNE_OK);
    device->ops->release(device, data);
    assert_int_equal(device->ops->allocate(device, SIZE_MAX / 4, &data), ATTUNE_OUT_OF_MEMORY);
    assert_null(data);
    assert_false(at_remote_is_broken(device));
    free(sent);
    free(back);
    device->ops->close(device);
}

static attune_status plan_tiled(void *self, const attune_problem *problem, attune_plan **plan)
{
    return at_remote_plan(self, problem, "cpu_tiled", plan);
}

/* Every feature once, through the whole suite. */
static void test_suite(void **state)
{
    (void)state;
    static const char *const problems[] = {
        "b1,h4,s128,d64,fp32", "b2,h4,hkv2,s90,d64,fp16,causal",
        "b3,h6,hkv2,sq33,skv90,d64,bf16,causal,window=40:5,softcap=8,bias=bx1,mask,alibi,sink,seqused,strict",
        "b4,h2,s70,d64,fp16,causal,varlen=3"};
    at_device *device = opened(worker);
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; ++i) {
        at_test_problem problem;
        assert_int_equal(at_test_problem_parse(problems[i], &problem), ATTUNE_OK);
        const at_suite suite = {.device = device,
                                .pool = pool,
                                .plan = plan_tiled,
                                .self = device,
                                .seed = 1,
                                .cases = 20,
                                .only = -1,
                                .command = "attune check"};
        at_suite_result result;
        assert_int_equal(at_suite_run(&suite, &problem, &result), ATTUNE_OK);
        if (result.failures > 0) {
            print_message("%s\n", result.failure[0].what);
        }
        assert_int_equal(result.executed, 20);
        assert_true(at_suite_right(&result));
        assert_memory_equal(result.kernel, "cpu_tiled:", 10);
    }
    device->ops->close(device);
}

static void test_started_ahead(void **state)
{
    (void)state;
    const at_remote_options options = {.command = worker, .target = "cpu", .threads = 1, .patience_s = 3600};
    at_device *used, *unused;
    void *data;
    assert_int_equal(at_remote_start(&options, &used), ATTUNE_OK);
    assert_int_equal(at_remote_start(&options, &unused), ATTUNE_OK);
    assert_int_equal(at_remote_begin(used, &options), ATTUNE_OK);
    assert_int_equal(used->ops->allocate(used, 100, &data), ATTUNE_OK);
    used->ops->release(used, data);
    used->ops->close(used);
    unused->ops->close(unused);
}

static void test_refusals(void **state)
{
    (void)state;
    const attune_problem problem = parsed("b1,h1,s16,d64,fp32");
    attune_plan *plan;
    at_device *device = opened(worker);
    assert_int_equal(at_remote_plan(device, &problem, "cpu_tilde", &plan), ATTUNE_NOT_FOUND);
    assert_non_null(strstr(attune_last_detail(), "did you mean cpu_tiled?"));
    assert_null(plan);
    assert_int_equal(at_remote_plan(device, &problem, "cpu_tiled:BLOCK_M=7", &plan), ATTUNE_INVALID_ARGUMENT);
    assert_non_null(strstr(attune_last_detail(), "BLOCK_M"));
    assert_int_equal(at_remote_plan(device, &problem, "wmma", &plan), ATTUNE_UNSUPPORTED);
    assert_false(at_remote_is_broken(device));
    device->ops->close(device);
}

static void test_plans_of_one_arm_share_it(void **state)
{
    (void)state;
    const attune_problem problem = parsed("b1,h1,s16,d64,fp32"), other = parsed("b1,h1,s17,d64,fp32");
    attune_plan *plan[3];
    at_device *device = opened(worker);
    assert_int_equal(at_remote_plan(device, &problem, "cpu_tiled", &plan[0]), ATTUNE_OK);
    assert_int_equal(at_remote_plan(device, &problem, "cpu_tiled", &plan[1]), ATTUNE_OK);
    assert_int_equal(at_remote_plan(device, &other, "cpu_tiled", &plan[2]), ATTUNE_OK);
    assert_int_equal(at_remote_arm(plan[0]), at_remote_arm(plan[1]));
    assert_int_not_equal(at_remote_arm(plan[0]), at_remote_arm(plan[2]));
    assert_string_equal(at_remote_account(plan[0]), "");
    for (int i = 0; i < 3; ++i) {
        attune_plan_destroy(plan[i]);
    }
    device->ops->close(device);
}

/* ---- Bad workers ------------------------------------------------------------------------------------------------ */

/* Speaks another version. */
static void speak_another(void)
{
    char line[4096];
    while (fgets(line, sizeof line, stdin) != NULL) {
        (void)puts("{\"id\":1,\"ok\":{\"protocol\":2,\"attune\":\"9.9.9\"}}");
        (void)fflush(stdout);
    }
}

/* Greets, then dies at whatever comes first. */
static void die_at_open(void)
{
    char line[4096];
    if (fgets(line, sizeof line, stdin) != NULL) {
        (void)puts("{\"id\":1,\"ok\":{\"protocol\":1,\"attune\":\"0.1.0\"}}");
        (void)fflush(stdout);
        (void)fgets(line, sizeof line, stdin);
        (void)fputs("driver: bye\n", stderr);
        (void)raise(SIGKILL);
    }
}

/* Works until it is asked to run something; its device then reports an error, again and again. */
static void poison(void)
{
    char line[65536];
    long long id = 0;
    while (fgets(line, sizeof line, stdin) != NULL) {
        ++id;
        if (id == 1) {
            (void)puts("{\"id\":1,\"ok\":{\"protocol\":1,\"attune\":\"0.1.0\"}}");
        } else if (strstr(line, "\"open\"") != NULL) {
            attune_target target = {.size = sizeof target, .model = "Paper", .threads = 1};
            json_t *facts = at_wire_from_target(&target);
            char *text = json_dumps(facts, JSON_COMPACT);
            (void)printf("{\"id\":2,\"ok\":{\"facts\":%s}}\n", text);
        } else {
            (void)printf("{\"id\":%lld,\"error\":{\"status\":\"%s\",\"detail\":\"error 700: an illegal address\"}}\n",
                         id, attune_status_string(ATTUNE_DEVICE_ERROR));
        }
        (void)fflush(stdout);
    }
}

static void test_other_version(void **state)
{
    (void)state;
    static const char *const command[] = {"/proc/self/exe", "another", NULL};
    const at_remote_options options = {.command = command};
    at_device *device;
    assert_int_equal(at_remote_open(&options, &device), ATTUNE_UNSUPPORTED);
    assert_string_equal(attune_last_detail(), "the worker speaks protocol 2, this attune 1");
    assert_null(device);
}

static void test_death_at_open(void **state)
{
    (void)state;
    static const char *const command[] = {"/proc/self/exe", "die", NULL};
    const at_remote_options options = {.command = command};
    at_device *device;
    assert_int_equal(at_remote_open(&options, &device), ATTUNE_DEVICE_ERROR);
    assert_non_null(strstr(attune_last_detail(), "signal 9"));
    assert_non_null(strstr(attune_last_detail(), "its last line was: driver: bye"));
    assert_null(device);
}

static void test_poisoned(void **state)
{
    (void)state;
    static const char *const command[] = {"/proc/self/exe", "poison", NULL};
    at_device *device = opened(command);
    assert_string_equal(device->target.model, "Paper");
    assert_false(at_remote_is_broken(device));
    assert_int_equal(device->ops->synchronise(device, NULL), ATTUNE_DEVICE_ERROR);
    assert_string_equal(attune_last_detail(), "error 700: an illegal address");
    assert_true(at_remote_is_broken(device));
    assert_null(at_channel_death(at_remote_channel(device))); /* it answers; what it says is worthless */
    device->ops->close(device);
}

static int set_up(void **state)
{
    (void)state;
    (void)setenv("ASAN_OPTIONS", "allocator_may_return_null=1", 0); /* too much memory is refused, not a crash */
    return at_pool_create(2, 0, &pool);
}

static int tear_down(void **state)
{
    (void)state;
    at_pool_destroy(pool);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_target),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_suite),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_started_ahead),
        cmocka_unit_test(test_other_version),
        cmocka_unit_test(test_death_at_open),
        cmocka_unit_test(test_poisoned),
        cmocka_unit_test(test_plans_of_one_arm_share_it),
    };
    if (argc > 1) {
        if (strcmp(argv[1], "worker") == 0) {
            return attune_worker_serve(NULL) == ATTUNE_OK ? 0 : 3;
        }
        strcmp(argv[1], "another") == 0 ? speak_another() : strcmp(argv[1], "die") == 0 ? die_at_open() : poison();
        return 0;
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
