/* cuDNN on a real device: right by attune's own rules, in either order of choosing, run and captured. */
#include "base/cm.h"

#include "library/workload.h"
#include "worker/arms.h"

static attune_context *context;
static bool has_cudnn;

static int open_device(void **state)
{
    const attune_options options = {.size = sizeof options, .target = "cuda"};
    attune_problem problem;
    attune_arm arm;
    (void)state;
    if (attune_context_create(&options, &context) != ATTUNE_OK) {
        print_error("%s\n", attune_last_detail());
        return -1;
    }
    assert_ok(attune_problem_parse("b1,h1,s64,d64,fp16", &problem));
    attune_status status = at_arms_open(context, "cudnn", &problem, NULL, &arm);
    has_cudnn = status != ATTUNE_NOT_FOUND;
    print_message("%s\n", status == ATTUNE_OK ? arm.account : attune_last_detail());
    at_arm_close(&arm);
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    attune_context_destroy(context);
    return 0;
}

static void is_right(const char *name, const char *text)
{
    at_test_problem test;
    attune_arm arm;
    at_workload work;
    at_binding binding;
    int64_t ns;
    assert_ok(at_test_problem_parse(text, &test));
    attune_status status = at_arms_open(context, name, &test.problem, NULL, &arm);
    if (!has_cudnn) {
        assert_int_equal(status, ATTUNE_NOT_FOUND);
        return;
    }
    assert_ok(status);
    assert_ok(at_workload_open(context, &test, &work));
    assert_ok(at_workload_reserve(&work, &arm));
    assert_ok(at_workload_judge(&work, &arm, &ns));
    assert_ok(at_bind(work.place.device, &arm, &work.place.call, ns, &binding));
    attune_arm replayed = binding.arm;
    replayed.traits = arm.traits;
    assert_ok(at_workload_judge(&work, &replayed, &ns));
    at_unbind(&binding);
    at_workload_close(&work);
    at_arm_close(&arm);
}

static void cudnn_is_right(void **state)
{
    static const char *const problems[] = {
        "b2,h3,s65,d64,fp16",
        "b2,h3,sq33,skv129,d128,bf16,causal",
        "b2,h3,sq100,skv77,d64,fp16,causal,offset=tl",
        "b1,h8,hkv2,s100,d40,dv56,fp16,causal",
        "b2,h2,s300,d256,fp16,causal",
        "b2,h4,s257,d96,bf16,causal,layout=bshd",
        "b3,h8,hkv2,sq1,skv1000,d128,bf16,causal",
        "b1,h2,s1,d8,fp16",
        "b1,h4,s700,d128,fp16,scale=0.3",
    };
    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; ++i) {
        is_right("cudnn", problems[i]);
        is_right("cudnn:fastest", problems[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cudnn_is_right)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
