/* Capability tables: what a row does not say is refused, in words that name it. */
#include "base/cm.h"
#include "core/config.h"
#include "core/problem.h"
#include "sample.h"

static const attune_capability narrow = {.ops = ATTUNE_BIT(ATTUNE_FORWARD),
                                         .dtypes = ATTUNE_DTYPES_HALF,
                                         .dtypes_k = ATTUNE_BIT(ATTUNE_FP32),
                                         .features = ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_SINK,
                                         .offsets = ATTUNE_BIT(ATTUNE_OFFSET_BOTTOM_RIGHT),
                                         .layouts = ATTUNE_BIT(ATTUNE_BHSD),
                                         .head_dim_qk = {64, 128, 32},
                                         .head_dim_v = {64, 64, 1},
                                         .align = 16,
                                         .arch_least = 80,
                                         .arch_most = 90,
                                         .steps = ATTUNE_BIT(ATTUNE_STEP_KERNEL)};

static attune_kernel kernel_of(const attune_capability *can, int32_t count)
{
    attune_kernel kernel = sample_kernel(ATTUNE_TARGET_CUDA);
    kernel.can = can;
    kernel.can_count = count;
    kernel.supports = NULL;
    return kernel;
}

static attune_target target_of(int32_t arch, int32_t features)
{
    return (attune_target){
        .size = sizeof(attune_target), .kind = ATTUNE_TARGET_CUDA, .arch = arch, .arch_features = features};
}

static attune_problem problem_of(const char *text)
{
    attune_problem problem;
    assert_ok(attune_problem_parse(text, &problem));
    return problem;
}

static void asks(const attune_kernel *kernel, const char *text, const attune_target *target, const char *why)
{
    attune_problem problem = problem_of(text);
    attune_reason reason = {""};
    const bool can = at_kernel_supports(kernel, &problem, target, &reason);
    if (can != (why == NULL) || (why != NULL && strcmp(reason.text, why) != 0)) {
        fail_msg("%s: \"%s\", expected \"%s\"", text, can ? "yes" : reason.text, why == NULL ? "yes" : why);
    }
    assert_true(at_kernel_supports(kernel, &problem, target, NULL) == can);
}

static void what_a_row_says(void **state)
{
    static const struct {
        const char *problem, *why;
    } rows[] = {
        {"b1,h1,s8,d64,fp16", NULL},
        {"b1,h1,s8,d128,dv64,bf16,causal,sink", NULL},
        {"b1,h1,s8,d96,dv64,bf16,k=fp32", NULL},
        {"b1,h1,s8,d64,fp32", "dtype fp32: fp16 or bf16 is needed"},
        {"b1,h1,s8,d64,fp16,k=bf16", "K in bf16: kernel sample has no code for it beside fp16"},
        {"b1,h1,s8,d64,fp16,v=fp32", "V in fp32: kernel sample has no code for it beside fp16"},
        {"b1,h1,s8,d64,fp16,o=fp32", "O in fp32: kernel sample has no code for it beside fp16"},
        {"b1,h1,s8,d64,fp16,softcap=30", "softcap 30: kernel sample does not compute it"},
        {"b1,h1,s8,d64,fp16,window=3:-1", "window 3:-1: kernel sample does not compute it"},
        {"b1,h1,s8,d64,fp16,bias=1xh", "bias 1xh: kernel sample does not compute it"},
        {"b1,h1,s8,d64,fp16,alibi", "alibi: kernel sample does not compute it"},
        {"b1,h1,s8,d64,fp16,strict", "strict: a non-finite key or value may reach rows that do not see it"},
        {"b1,h1,s8,d72,dv64,fp16", "head_dim_qk 72: a multiple of 32 from 64 to 128 is needed"},
        {"b1,h1,s8,d32,dv64,fp16", "head_dim_qk 32: a multiple of 32 from 64 to 128 is needed"},
        {"b1,h1,s8,d160,dv64,fp16", "head_dim_qk 160: a multiple of 32 from 64 to 128 is needed"},
        {"b1,h1,s8,d64,dv128,fp16", "head_dim_v 128: 64 is needed"},
        {"b1,h1,s8,d64,fp16,offset=tl", NULL}, /* nothing asks where queries are */
        {"b1,h1,s8,d64,fp16,causal,offset=tl", "offset tl: br is needed"},
        {"b1,h1,s8,d64,fp16,causal,offset=-3", "offset -3: br is needed"},
        {"b1,h1,s8,d64,fp16,layout=bshd", "layout bshd: kernel sample does not take it"},
        {"b1,h1,s8,d64,fp16,align=8", "align 8: 16 bytes are needed"},
    };
    const attune_kernel kernel = kernel_of(&narrow, 1);
    const attune_target target = target_of(90, 0);
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        asks(&kernel, rows[i].problem, &target, rows[i].why);
    }
}

static void where_it_runs(void **state)
{
    attune_capability can = narrow;
    attune_kernel kernel = kernel_of(&can, 1);
    attune_target target = target_of(75, 0);
    (void)state;
    asks(&kernel, "b1,h1,s8,d64,fp16", &target, "arch sm_75: sm_80 to sm_90 is needed");
    target = target_of(100, 1);
    asks(&kernel, "b1,h1,s8,d64,fp16", &target, "arch sm_100a: sm_80 to sm_90 is needed");
    can.arch_most = ATTUNE_ANY;
    asks(&kernel, "b1,h1,s8,d64,fp16", &target, NULL);
    can.arch_least = can.arch_most = 90;
    can.arch_features = 1;
    target = target_of(90, 0);
    asks(&kernel, "b1,h1,s8,d64,fp16", &target, "arch sm_90: sm_90a is needed");
    target = target_of(90, 1);
    asks(&kernel, "b1,h1,s8,d64,fp16", &target, NULL);
    kernel.target = ATTUNE_TARGET_CPU;
    can.arch_least = ATTUNE_ISA_AVX512;
    can.arch_most = ATTUNE_ANY;
    target = (attune_target){.size = sizeof target, .kind = ATTUNE_TARGET_CPU, .isa = ATTUNE_ISA_AVX2};
    asks(&kernel, "b1,h1,s8,d64,fp16", &target, "isa avx2: avx512 or higher is needed");
    target.isa = ATTUNE_ISA_AMX;
    asks(&kernel, "b1,h1,s8,d64,fp16", &target, NULL);
}

/* One row has to say all of it; the reason is that of the row that comes nearest. */
static void rows_are_asked_one_by_one(void **state)
{
    attune_capability can[2] = {narrow, narrow};
    attune_kernel kernel = kernel_of(can, 2);
    const attune_target target = target_of(90, 0);
    (void)state;
    can[0].dtypes = ATTUNE_BIT(ATTUNE_FP32);
    can[0].head_dim_qk = (attune_dims){4, 256, 4};
    asks(&kernel, "b1,h1,s8,d64,fp16", &target, NULL);
    asks(&kernel, "b1,h1,s8,d20,dv64,fp32", &target, NULL);
    asks(&kernel, "b1,h1,s8,d20,dv64,fp16", &target, "head_dim_qk 20: a multiple of 32 from 64 to 128 is needed");
    asks(&kernel, "b1,h1,s8,d22,dv64,fp32", &target, "head_dim_qk 22: a multiple of 4 from 4 to 256 is needed");
    can[1].dims_equal = 1;
    asks(&kernel, "b1,h1,s8,d128,dv64,fp16", &target, "head_dim_v 64: as head_dim_qk, 128, is needed");
    kernel.can_count = 0;
    asks(&kernel, "b1,h1,s8,d64,fp16", &target, "kernel sample states nothing that it can");
}

/* Beside the feature its shapes, and where queries are, to whatever looks at positions. */
static void shapes_of_a_bias_and_offsets(void **state)
{
    attune_capability can = narrow;
    const attune_kernel kernel = kernel_of(&can, 1);
    const attune_target target = target_of(90, 0);
    (void)state;
    can.features |= ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_ALIBI;
    asks(&kernel, "b1,h1,s8,d64,fp16,bias=1x1", &target, "bias 1x1: another is needed");
    can.biases = ATTUNE_BIT(ATTUNE_BIAS_1X1) | ATTUNE_BIT(ATTUNE_BIAS_BX1) | ATTUNE_BIT(ATTUNE_BIAS_1XH);
    asks(&kernel, "b1,h1,s8,d64,fp16,bias=1xh", &target, NULL);
    asks(&kernel, "b1,h1,s8,d64,fp16,bias=bxh", &target, "bias bxh: 1x1, bx1 or 1xh is needed");
    can.offsets |= ATTUNE_BIT(ATTUNE_OFFSET_NUMBER);
    asks(&kernel, "b1,h1,s8,d64,fp16,alibi,offset=7", &target, NULL);
    asks(&kernel, "b1,h1,s8,d64,fp16,alibi,offset=tl", &target, "offset tl: br or a number is needed");
    asks(&kernel, "b1,h1,s8,d64,fp16,window=3:2,offset=tl", &target, "offset tl: br or a number is needed");
    can.offsets = 0;
    asks(&kernel, "b1,h1,s8,d64,fp16,causal", &target, "offset br: another is needed");
}

static bool refuses(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)target;
    return problem->seqlen_q < 8 || attune_refuse(reason, "seqlen_q %lld: too long", (long long)problem->seqlen_q);
}

static void the_function_is_asked_last(void **state)
{
    attune_kernel kernel = kernel_of(&narrow, 1);
    const attune_target target = target_of(90, 0);
    (void)state;
    kernel.supports = refuses;
    asks(&kernel, "b1,h1,s7,d64,fp16", &target, NULL);
    asks(&kernel, "b1,h1,s8,d64,fp16", &target, "seqlen_q 8: too long");
    asks(&kernel, "b1,h1,s8,d64,fp32", &target, "dtype fp32: fp16 or bf16 is needed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_row_says),
        cmocka_unit_test(where_it_runs),
        cmocka_unit_test(rows_are_asked_one_by_one),
        cmocka_unit_test(shapes_of_a_bias_and_offsets),
        cmocka_unit_test(the_function_is_asked_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
