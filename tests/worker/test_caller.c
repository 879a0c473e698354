/* Arms that a program brings: the example as a worker, and what is said of arms that are not as they must be. */
#include "base/cm.h"

#include "judge/sanity.h"
#include "library/context.h"
#include "worker/arms.h"
#include "worker/remote.h"

/* ---- The example ------------------------------------------------------------------------------------------------ */

static at_device *device;

static attune_status plan_mine(void *self, const attune_problem *problem, attune_plan **plan)
{
    (void)self;
    return at_remote_plan(device, problem, "mine", plan);
}

static void judge(at_pool *pool, const char *text)
{
    at_test_problem problem;
    at_finding finding;
    const at_suite suite = {.device = device, .pool = pool, .plan = plan_mine, .seed = 3, .command = ""};
    assert_ok(at_test_problem_parse(text, &problem));
    assert_ok(at_sanity_judge(&suite, &problem, &finding));
}

static void the_example_is_a_worker(void **state)
{
    static const char *const command[] = {ATTUNE_EXAMPLE, NULL};
    const at_remote_options options = {.command = command, .target = "cpu", .threads = 1};
    at_pool *pool;
    attune_problem problem;
    attune_plan *plan;
    (void)state;
    assert_ok(at_pool_create(2, 0, &pool));
    assert_ok(at_remote_open(&options, &device));
    judge(pool, "b2,h4,hkv2,s40,d24,dv40,fp32");
    judge(pool, "b1,h2,sq30,skv70,d32,fp32,causal,layout=bshd");
    assert_ok(attune_problem_parse("b1,h2,s40,d32,fp32", &problem));
    assert_ok(at_remote_plan(device, &problem, "mine", &plan));
    assert_string_equal(at_remote_account(plan), "an example, one thread");
    attune_plan_destroy(plan);
    assert_ok(at_remote_plan(device, &problem, "cpu_tiled", &plan)); /* attune's arms are there as well */
    attune_plan_destroy(plan);
    assert_ok(attune_problem_parse("b1,h2,s40,d32,fp16", &problem));
    assert_fails(at_remote_plan(device, &problem, "mine", &plan), ATTUNE_UNSUPPORTED, "mine computes fp32 on a CPU");
    assert_fails(at_remote_plan(device, &problem, "yours", &plan), ATTUNE_NOT_FOUND, "there is no kernel yours");
    device->ops->close(device);
    at_pool_destroy(pool);
}

/* ---- Arms as they come ------------------------------------------------------------------------------------------ */

/* What the hook answers, and what it saw. */
typedef struct stage {
    attune_arm arm;
    attune_status status;
    const char *report;
    int closed, opened, threads, device;
    attune_tensor output;
} stage;

static attune_status answer(void *self, const char *name, const attune_problem *problem, int32_t of, int32_t threads,
                            attune_arm *arm)
{
    stage *on = self;
    assert_string_equal(name, "given");
    assert_int_equal(problem->seqlen_q, 16);
    assert_int_equal(arm->size, sizeof *arm);
    on->threads = threads;
    on->device = of;
    ++on->opened;
    *arm = on->arm;
    return on->report != NULL ? attune_report(on->status, on->report) : on->status;
}

static attune_status fine(void *self, const attune_call *call)
{
    (void)self;
    (void)call;
    return ATTUNE_OK;
}

static attune_status strange(void *self, const attune_call *call)
{
    (void)self;
    (void)call;
    return (attune_status)77;
}

static attune_status silent(void *self, const attune_call *call)
{
    (void)self;
    (void)call;
    return ATTUNE_DEVICE_ERROR;
}

static attune_status own(void *self, const attune_call *call, attune_tensor *output)
{
    (void)call;
    *output = ((stage *)self)->output;
    return ATTUNE_OK;
}

static attune_status capture(void *self, const attune_call *calls, int32_t count, void **graph, attune_tensor *output)
{
    (void)self;
    (void)calls;
    (void)count;
    (void)graph;
    (void)output;
    return ATTUNE_OK;
}

static void count_close(void *self)
{
    ++((stage *)self)->closed;
}

static attune_context *context;
static attune_problem problem;

static int open_context(void **state)
{
    const attune_options options = {.size = sizeof options, .target = "cpu", .threads = 2};
    (void)state;
    return attune_context_create(&options, &context) == ATTUNE_OK &&
                   attune_problem_parse("b1,h1,s16,d8,fp32", &problem) == ATTUNE_OK
               ? 0
               : -1;
}

static int close_context(void **state)
{
    (void)state;
    attune_context_destroy(context);
    return 0;
}

static attune_status open_arm(stage *on, attune_arm *arm)
{
    const attune_arm_hooks hooks = {.size = sizeof hooks, .self = on, .open = answer};
    on->arm.self = on;
    on->arm.close = count_close;
    return at_arms_open(context, "given", &problem, &hooks, arm);
}

static void arms_come_as_they_are(void **state)
{
    attune_arm arm;
    attune_tensor output;
    float data[16 * 8];
    (void)state;
    stage on = {.arm = {.size = sizeof on.arm, .run = fine, .run_own = own, .traits = 2, .account = "version 3"},
                .output = {.data = data}};
    assert_ok(open_arm(&on, &arm));
    assert_int_equal(on.threads, 2);
    assert_int_equal(on.device, -1);
    assert_string_equal(arm.name, "given");
    assert_string_equal(arm.account, "version 3");
    assert_int_equal(arm.traits, 2);
    assert_null(arm.workspace);
    assert_null(arm.capture);
    assert_ok(arm.run(arm.self, NULL));
    assert_ok(arm.run_own(arm.self, NULL, &output));
    assert_ptr_equal(output.data, data);
    at_arm_close(&arm);
    assert_int_equal(on.closed, 1);
    at_arm_close(&arm);
    assert_int_equal(on.closed, 1);
}

static void failures_are_reported(void **state)
{
    attune_arm arm;
    attune_tensor output;
    (void)state;
    stage on = {.arm = {.size = sizeof on.arm, .run = strange, .run_own = own}};
    assert_ok(open_arm(&on, &arm));
    assert_fails(arm.run(arm.self, NULL), ATTUNE_INVALID_ARGUMENT, "run returned 77, no status");
    assert_fails(arm.run_own(arm.self, NULL, &output), ATTUNE_INVALID_ARGUMENT, "did not say where its output lies");
    at_arm_close(&arm);
    on.arm.run = silent;
    assert_ok(open_arm(&on, &arm));
    assert_fails(arm.run(arm.self, NULL), ATTUNE_DEVICE_ERROR, "nothing was reported of it");
    at_arm_close(&arm);
}

static void arms_must_be_whole(void **state)
{
    attune_arm arm;
    (void)state;
    stage nothing = {.arm = {.size = sizeof nothing.arm}};
    assert_fails(open_arm(&nothing, &arm), ATTUNE_INVALID_ARGUMENT, "on a CPU an arm has run or run_own");
    assert_int_equal(nothing.closed, 1);
    stage half = {.arm = {.size = sizeof half.arm, .run = fine, .capture = capture}};
    assert_fails(open_arm(&half, &arm), ATTUNE_INVALID_ARGUMENT, "capture and release go together");
    stage small = {.arm = {.size = 8, .run = fine}};
    assert_fails(open_arm(&small, &arm), ATTUNE_INVALID_ARGUMENT, "arm.size is 8");
    assert_int_equal(small.closed, 0); /* nothing of it can be believed */
    stage busy = {.arm = {.size = sizeof busy.arm}, .status = ATTUNE_UNSUPPORTED, .report = "given: not today"};
    assert_fails(open_arm(&busy, &arm), ATTUNE_UNSUPPORTED, "given: not today");
    assert_int_equal(busy.closed, 0);
}

static void hooks_are_asked_for_what_is_not_known(void **state)
{
    attune_arm arm;
    stage on = {.arm = {.size = sizeof on.arm}, .status = ATTUNE_NOT_FOUND};
    const attune_arm_hooks hooks = {.size = sizeof hooks, .self = &on, .open = answer};
    const attune_arm_hooks empty = {.size = sizeof empty};
    const attune_arm_hooks tiny = {.size = 1};
    (void)state;
    assert_fails(at_arms_open(context, "given", &problem, &hooks, &arm), ATTUNE_NOT_FOUND, "there is no kernel given");
    assert_int_equal(on.opened, 1);
    assert_ok(at_arms_open(context, "auto", &problem, &hooks, &arm));
    assert_non_null(at_arm_plan(&arm));
    at_arm_close(&arm);
    assert_int_equal(on.opened, 1);
    assert_fails(at_arms_open(context, "given", &problem, &empty, &arm), ATTUNE_INVALID_ARGUMENT, "hooks.open is NULL");
    assert_fails(at_arms_open(context, "given", &problem, &tiny, &arm), ATTUNE_INVALID_ARGUMENT, "hooks.size is 1");
    assert_fails(at_arms_open(context, "torch:flash", &problem, NULL, &arm), ATTUNE_NOT_FOUND,
                 "only a worker in Python has it");
    assert_fails(at_arms_open(context, "cudnn", &problem, NULL, &arm), ATTUNE_UNSUPPORTED,
                 "cuDNN runs on CUDA devices only");
}

static void best_is_pytorch(void **state)
{
    (void)state;
    assert_string_equal(at_arms_best(ATTUNE_TARGET_CPU)[0], "torch:cpu");
    for (const char *const *name = at_arms_best(ATTUNE_TARGET_CUDA); *name != NULL; ++name) {
        assert_true(at_arms_python(*name));
    }
    assert_false(at_arms_python("cudnn"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_is_a_worker),
        cmocka_unit_test(arms_come_as_they_are),
        cmocka_unit_test(failures_are_reported),
        cmocka_unit_test(arms_must_be_whole),
        cmocka_unit_test(hooks_are_asked_for_what_is_not_known),
        cmocka_unit_test(best_is_pytorch),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
