/* Everything about caches through the gate's own suite, on every tier this machine runs: pages, drafts, caches in
 * another type, append and merge. */
#include "base/cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/target.h"
#include "cpu/cpu.h"
#include "judge/suite.h"
#include "library/context.h"

#ifdef ATTUNE_SANITIZED
enum { CASES = 12 };
#else
enum { CASES = 40 };
#endif

static const struct {
    const char *kernel, *problem;
} right[] = {
    {"cpu_decode", "b3,h8,hkv2,sq1,skv300,d64,fp32,seqused,page=16"},
    {"cpu_decode", "b2,h4,hkv2,sq5,skv200,d40,dv24,bf16,seqused,page=64,vtable,draft"},
    {"cpu_decode", "b2,h8,hkv2,sq2,skv400,d64,fp32,k=bf16,v=fp16,window=50:0,seqused,page=1,sink"},
    {"cpu_tiled", "b2,h4,hkv2,s100,d32,fp16,causal,seqused,page=8,varlen=3"},
    {"cpu_tiled", "b2,h3,sq32,skv90,d48,fp32,alibi,softcap=5,seqused,page=100,draft"},
    {"cpu_tiled", "b1,h2,sq70,skv130,d33,dv17,fp32,k=fp16,v=fp16,o=bf16,mask,seqused,page=3"},
    {"cpu_bf16", "b2,h4,hkv2,s100,d64,bf16,causal,seqused,page=16,varlen=3"},
    {"cpu_bf16", "b2,h4,hkv1,sq40,skv200,d40,bf16,window=60:0,seqused,page=24"},
    {"cpu_append", "append:b3,h4,sq2,skv100,d64,dv40,bf16,page=16,slots"},
    {"cpu_append", "append:b3,h2,sq5,skv60,d33,fp32,k=fp16,slots"},
    {"cpu_append", "append:b4,h2,sq7,skv90,d16,fp16,page=5,vtable,seqused,varlen=2"},
    {"cpu_append", "append:b2,h3,sq3,skv40,d24,fp32,seqused"},
    {"cpu_merge", "merge:b2,h4,sq13,d64,fp32,o=bf16,states=4,sink"},
    {"cpu_merge", "merge:b1,h3,sq70,d33,fp16,states=17"},
};

static attune_status plan_named(void *self, const attune_problem *problem, attune_plan **plan)
{
    attune_plan_options options;
    attune_plan_options_init(&options);
    attune_context *context = ((void **)self)[0];
    options.kernel = ((void **)self)[1];
    return attune_plan_create(context, problem, &options, plan);
}

static void expect_right(attune_isa isa, const char *kernel, const char *text)
{
    attune_options options;
    attune_context *context;
    at_suite_result result;
    at_test_problem problem;
    char name[64];
    (void)snprintf(name, sizeof name, "%s", kernel);
    attune_options_init(&options);
    options.target = "cpu";
    options.isa = at_isa_name(isa);
    options.threads = 2;
    assert_ok(attune_context_create(&options, &context));
    void *self[] = {context, name};
    const at_suite suite = {.device = at_context_device(context),
                            .pool = at_context_pool(context),
                            .plan = plan_named,
                            .self = self,
                            .seed = 11,
                            .cases = CASES,
                            .only = -1,
                            .command = ""};
    assert_ok(at_test_problem_parse(text, &problem));
    assert_ok(at_suite_run(&suite, &problem, &result));
    if (result.failures > 0) {
        fail_msg("%s, %s, %s: case %lld (%s): %s", kernel, options.isa, result.failure[0].problem,
                 (long long)result.failure[0].index, result.failure[0].how, result.failure[0].what);
    }
    assert_true(at_suite_right(&result));
    assert_int_equal(result.executed, CASES);
    attune_context_destroy(context);
}

static void every_tier_passes_the_suite(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof right[0]; ++i) {
        const bool of_bf16 = strcmp(right[i].kernel, "cpu_bf16") == 0;
        for (int isa = of_bf16 ? ATTUNE_ISA_AVX512_BF16 : ATTUNE_ISA_BASELINE; isa <= (int)at_cpu_best_isa(); ++isa) {
            expect_right((attune_isa)isa, right[i].kernel, right[i].problem);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_tier_passes_the_suite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
