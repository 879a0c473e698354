/* What cutlass's descriptor promises and refuses. It is compiled in every build, with an image or without. */
#include "base/cm.h"
#include "core/config.h"
#include "cuda/cuda.h"

extern const attune_kernel at_kernel_cutlass;

static attune_problem problem_of(const char *text)
{
    attune_problem problem;
    assert_ok(attune_problem_parse(text, &problem));
    return problem;
}

static void keeps_the_contract(void **state)
{
    (void)state;
    assert_ok(at_kernel_check(&at_kernel_cutlass));
}

static void refuses_with_reasons(void **state)
{
    static const struct {
        const char *problem;
        int arch;
        const char *words; /* NULL: supported */
    } asked[] = {
        {"b1,h8,s512,d64,fp16", 80, NULL},
        {"b2,h8,hkv2,s300,d80,dv48,bf16,causal", 120, NULL},
        {"b1,h8,s7,d256,fp32", 90, NULL},
        {"b1,h8,s512,d64,fp16", 110, NULL}, /* by way of the PTX */
        {"b1,h8,s512,d64,fp16", 75, "sm_75"},
        {"b1,h8,s512,d60,fp32", 90, "head_dim_qk 60: a multiple of 8"},
        {"b1,h8,s512,d64,fp16,align=8", 90, "align 8"},
        {"b1,h8,s512,d64,fp16,softcap=30", 90, "softcap"},
        {"b1,h8,s512,d64,fp16,alibi", 90, "alibi"},
        {"b1,h8,s512,d64,fp16,sink", 90, "sink"},
        {"b1,h8,s512,d64,fp16,window=64:0", 90, "window"},
        {"b1,h8,s512,d64,fp16,mask", 90, "mask"},
        {"b1,h8,s512,d64,fp16,bias=1x1", 90, "bias"},
        {"b1,h8,s512,d64,fp16,seqused", 90, "seqused"},
        {"b4,h8,s512,d64,fp16,varlen=1", 90, "varlen"},
        {"b1,h8,s512,d64,fp16,causal,offset=tl", 90, "offset"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_reason reason = {""};
        attune_target target;
        attune_problem problem = problem_of(asked[i].problem);
        assert_ok(at_cuda_typical(90, &target));
        target.arch = asked[i].arch;
        bool supported = at_kernel_supports(&at_kernel_cutlass, &problem, &target, &reason);
        if (supported != (asked[i].words == NULL) || (!supported && strstr(reason.text, asked[i].words) == NULL)) {
            fail_msg("%s on sm_%d: \"%s\"", asked[i].problem, asked[i].arch, reason.text);
        }
    }
}

/* The class of arithmetic that a type has no code for is refused, and not proposed. */
static void classes_follow_the_type(void **state)
{
    static const struct {
        const char *problem;
        int32_t first, count;
    } asked[] = {{"b1,h8,s512,d64,fp16", 1, 2}, {"b1,h8,s512,d64,bf16", 1, 1}, {"b1,h8,s512,d64,fp32", 0, 1}};
    attune_target target;
    (void)state;
    assert_ok(at_cuda_typical(90, &target));
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; ++i) {
        attune_problem problem = problem_of(asked[i].problem);
        attune_config config;
        int32_t count = 0;
        int32_t legal = 0;
        while (at_kernel_cutlass.heuristic(&problem, &target, count, &config)) {
            assert_true(at_kernel_cutlass.valid(&problem, &target, &config, NULL));
            assert_true(count > 0 || config.value[0] == asked[i].first);
            ++count;
        }
        for (int32_t class = 0; class < 2; ++class) {
            legal += at_kernel_cutlass.valid(&problem, &target, &(attune_config){{class}}, NULL);
        }
        assert_int_equal(count, asked[i].count);
        assert_int_equal(legal, asked[i].count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_contract),
        cmocka_unit_test(refuses_with_reasons),
        cmocka_unit_test(classes_follow_the_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
