#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/config.h"
#include "sample.h"

static void accepted(const attune_kernel *kernel)
{
    if (at_kernel_check(kernel) != ATTUNE_OK) {
        fail_msg("%s", attune_last_detail());
    }
}

static void refused(const attune_kernel *kernel, const char *words)
{
    assert_int_equal(at_kernel_check(kernel), ATTUNE_INVALID_ARGUMENT);
    if (strstr(attune_last_detail(), words) == NULL || strstr(attune_last_detail(), "kernel") == NULL) {
        fail_msg("the message lacks '%s': %s", words, attune_last_detail());
    }
}

/* The sample with one member changed is refused in these words. */
#define BROKEN(kind, member, bad, words)                                                                               \
    do {                                                                                                               \
        attune_kernel kernel_ = sample_kernel(kind);                                                                   \
        kernel_.member = bad;                                                                                          \
        refused(&kernel_, words);                                                                                      \
    } while (0)

#define CPU ATTUNE_TARGET_CPU
#define CUDA ATTUNE_TARGET_CUDA

static void the_sample_is_accepted(void **state)
{
    (void)state;
    attune_kernel kernel = sample_kernel(CPU);
    accepted(&kernel);
    kernel = sample_kernel(CUDA);
    accepted(&kernel);
    kernel.source = NULL;
    kernel.image = "sample.fatbin";
    accepted(&kernel);
    assert_int_equal(at_kernel_check(NULL), ATTUNE_INVALID_ARGUMENT);
}

static void data(void **state)
{
    (void)state;
    BROKEN(CPU, size, 8, "size is 8");
    BROKEN(CPU, abi, 99, "abi is 99");
    BROKEN(CPU, name, NULL, "name 'NULL'");
    BROKEN(CPU, name, "", "name ''");
    BROKEN(CPU, name, "Sample", "name 'Sample'");
    BROKEN(CPU, name, "9lives", "name '9lives'");
    BROKEN(CPU, name, "a:b", "name 'a:b'");
    BROKEN(CPU, name, "a123456789012345678901234567890123456789012345678901234567890123", "at most 63");
    BROKEN(CPU, summary, NULL, "summary");
    BROKEN(CPU, summary, "two\nlines", "summary");
    BROKEN(CPU, target, (attune_target_kind)2, "target is 2");
    BROKEN(CPU, traits, 1u << 20, "traits are 0x100000");
    BROKEN(CPU, traits, ATTUNE_TRAIT_GENERAL | ATTUNE_TRAIT_NAMED_ONLY, "fallback");
    BROKEN(CPU, abi, 2, "From ABI 2 to 3");
    BROKEN(CPU, can, NULL, "From ABI 2 to 3");
    BROKEN(CPU, can_count, 0, "can: 1 ... 8 rows");
    BROKEN(CPU, can_count, ATTUNE_CAN_MAX + 1, "can: 1 ... 8 rows");
    BROKEN(CPU, valid, NULL, "valid is NULL");
    BROKEN(CPU, resources, NULL, "resources is NULL");
    BROKEN(CPU, heuristic, NULL, "heuristic is NULL");
    BROKEN(CPU, steps, NULL, "steps is NULL");
}

#define BROKEN_ROW(member, bad, words)                                                                                 \
    do {                                                                                                               \
        attune_kernel kernel_ = sample_kernel(CPU);                                                                    \
        attune_capability row_ = sample_can[0];                                                                        \
        row_.member = (bad);                                                                                           \
        kernel_.can = &row_;                                                                                           \
        refused(&kernel_, words);                                                                                      \
    } while (0)

static void capabilities(void **state)
{
    (void)state;
    attune_kernel kernel = sample_kernel(CPU);
    kernel.supports = NULL;
    accepted(&kernel);
    BROKEN_ROW(ops, 0, "can[0]: ops are 0x0");
    BROKEN_ROW(ops, 3, "ops are 0x3"); /* nothing is the second yet */
    BROKEN_ROW(dtypes, 0, "dtypes are none");
    BROKEN_ROW(features, 1u << 14, "features are 0x4000");
    BROKEN_ROW(offsets, 0, "offsets are none, but features");
    BROKEN_ROW(offsets, 1u << 3, "offsets are 0x8");
    BROKEN_ROW(biases, 0, "biases are none, but features");
    BROKEN_ROW(biases, 1, "biases 0x1");
    BROKEN_ROW(layouts, 0, "layouts are none");
    BROKEN_ROW(align, 0, "align is 0");
    BROKEN_ROW(arch_least, -1, "arch_least -1");
    BROKEN_ROW(arch_most, -1, "arch_most -1");
    BROKEN_ROW(head_dim_qk.step, 0, "head_dim_qk: multiples of 0");
    BROKEN_ROW(head_dim_v.most, 0, "head_dim_v: multiples of 1 from 1 to 0");
    BROKEN_ROW(steps, 0, "steps are 0x0");
    BROKEN_ROW(steps, 1u << 3, "steps are 0x8");
    BROKEN_ROW(steps, ATTUNE_BIT(ATTUNE_STEP_FILL), "no steps of kind 0");
}

static void code(void **state)
{
    (void)state;
    BROKEN(CPU, attend[ATTUNE_ISA_BASELINE], NULL, "at least one tier");
    BROKEN(CPU, source, "a.cu", "CUDA kernels");
    BROKEN(CPU, image, "a.fatbin", "CUDA kernels");
    BROKEN(CUDA, source, NULL, "0 are given");
    BROKEN(CUDA, image, "a.fatbin", "2 are given");
    BROKEN(CUDA, source, "", "not an empty text");
    BROKEN(CUDA, attend[ATTUNE_ISA_AVX2], sample_attend, "CPU kernels");
    attune_kernel kernel = sample_kernel(CPU);
    kernel.attend[ATTUNE_ISA_AVX2] = sample_attend;
    kernel.attend[ATTUNE_ISA_BASELINE] = NULL;
    kernel.traits = ATTUNE_TRAIT_GENERAL;
    refused(&kernel, "baseline tier");
}

static void params(void **state)
{
    (void)state;
    static const int32_t falling[] = {2, 1};
    static const int32_t equal[] = {1, 1};
    static const struct {
        attune_param params[2];
        const char *words;
    } bad[] = {
        {{{"lower", sample_block_m, 3, 0}}, "'lower'"},
        {{{NULL, sample_block_m, 3, 0}}, "'NULL'"},
        {{{"A=B", sample_block_m, 3, 0}}, "'A=B'"},
        {{{"BLOCK_M", NULL, 3, 0}}, "at least 1"},
        {{{"BLOCK_M", sample_block_m, 0, 0}}, "at least 1"},
        {{{"BLOCK_M", falling, 2, 0}}, "1 comes after 2"},
        {{{"BLOCK_M", equal, 2, 0}}, "1 comes after 1"},
        {{{"BLOCK_M", sample_block_m, 3, 0}, {"BLOCK_M", sample_block_m, 3, 0}}, "both named BLOCK_M"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        BROKEN(CPU, params, bad[i].params, bad[i].words);
    }
    BROKEN(CPU, params, NULL, "params is NULL");
    BROKEN(CPU, param_count, -1, "param_count is -1");
    BROKEN(CPU, param_count, 17, "param_count is 17");
}

static void text_form_must_fit(void **state)
{
    (void)state;
    attune_kernel kernel = sample_kernel(CPU);
    attune_param many[ATTUNE_PARAMS_MAX];
    char names[ATTUNE_PARAMS_MAX][32];
    for (int i = 0; i < ATTUNE_PARAMS_MAX; ++i) {
        memcpy(names[i], "PARAMETER_OF_A_VERY_LONG_NAME_?", 32);
        names[i][30] = (char)('A' + i);
        many[i] = (attune_param){names[i], sample_block_m, 3, 0};
    }
    kernel.params = many;
    kernel.param_count = ATTUNE_PARAMS_MAX;
    refused(&kernel, "at most 512");
}

/* ---- Answers ---------------------------------------------------------------------------------------------------- */

static bool refuses_all(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    (void)problem;
    (void)target;
    (void)reason;
    return false;
}

static bool no_heuristic(const attune_problem *problem, const attune_target *target, int32_t index,
                         attune_config *config)
{
    (void)problem, (void)target, (void)index, (void)config;
    return false;
}

static bool strange_heuristic(const attune_problem *problem, const attune_target *target, int32_t index,
                              attune_config *config)
{
    (void)problem, (void)target;
    *config = (attune_config){{48, 2}};
    return index == 0;
}

static bool untidy_heuristic(const attune_problem *problem, const attune_target *target, int32_t index,
                             attune_config *config)
{
    (void)problem, (void)target;
    *config = (attune_config){{64, 2, 5}};
    return index == 0;
}

static bool silent_valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                         attune_reason *reason)
{
    (void)problem, (void)target, (void)config, (void)reason;
    return false;
}

static void shrinking_workspace(const attune_problem *problem, const attune_target *target, const attune_config *config,
                                attune_resources *resources)
{
    sample_resources(problem, target, config, resources);
    resources->workspace =
        attune_term_join(attune_term_const(1000), ATTUNE_TERM_SUB, attune_term_size(ATTUNE_SIZE_SEQLEN_Q));
}

static void answers(void **state)
{
    (void)state;
    BROKEN(CPU, supports, refuses_all, "without a reason");
    BROKEN(CPU, traits, ATTUNE_TRAIT_GENERAL, "head_dim_qk 1: a multiple of 8");
    BROKEN(CPU, heuristic, no_heuristic, "no config of index 0");
    BROKEN(CPU, heuristic, strange_heuristic, "BLOCK_M 48");
    BROKEN(CPU, heuristic, untidy_heuristic, "place 2 is 5");
    BROKEN(CPU, valid, silent_valid, "without a reason");
    BROKEN(CPU, resources, shrinking_workspace, "must not decrease");
}

static void shipped(void **state)
{
    (void)state;
    static const attune_shipped good[] = {{"b1,h8,s512,d64,fp16", "BLOCK_M=64"}, {"b1,h8,s512,d8,fp16", ""}, {0}};
    static const attune_shipped garbled[] = {{"b1,h8,s512", ""}, {0}};
    static const attune_shipped unknown[] = {{"b1,h8,s512,d64,fp16", "BLOCK=64"}, {0}};
    static const attune_shipped unsupported[] = {{"b1,h8,s512,d9,fp16", ""}, {0}};
    static const attune_shipped half[] = {{"b1,h8,s512,d64,fp16", NULL}, {0}};
    attune_kernel kernel = sample_kernel(CUDA);
    kernel.shipped = good;
    accepted(&kernel);
    BROKEN(CUDA, shipped, unknown, "'BLOCK'");
    BROKEN(CUDA, shipped, unsupported, "no target supports it");
    BROKEN(CUDA, shipped, half, "config is NULL");
    kernel.shipped = garbled;
    assert_int_equal(at_kernel_check(&kernel), ATTUNE_INVALID_PROBLEM);
}

/* ---- Steps ------------------------------------------------------------------------------------------------------ */

static attune_steps steps_of(const attune_kernel *kernel)
{
    attune_steps steps;
    memset(&steps, 0, sizeof steps);
    kernel->steps(NULL, NULL, &(attune_config){{64, 2}}, &steps);
    return steps;
}

static void bad_steps(const attune_kernel *kernel, const attune_steps *steps, const char *words)
{
    assert_int_equal(at_steps_check(kernel, steps), ATTUNE_INVALID_ARGUMENT);
    if (strstr(attune_last_detail(), words) == NULL) {
        fail_msg("the message lacks '%s': %s", words, attune_last_detail());
    }
}

#define BROKEN_STEP(kind_, member, bad, words)                                                                         \
    do {                                                                                                               \
        attune_kernel kernel_ = sample_kernel(kind_);                                                                  \
        attune_steps steps_ = steps_of(&kernel_);                                                                      \
        steps_.member = bad;                                                                                           \
        bad_steps(&kernel_, &steps_, words);                                                                           \
    } while (0)

static void kernel_steps(void **state)
{
    (void)state;
    attune_term empty = {{0}, {0}};
    BROKEN_STEP(CPU, count, 0, "has 0 steps");
    BROKEN_STEP(CPU, count, 9, "has 9 steps");
    BROKEN_STEP(CPU, step[0].kind, (attune_step_kind)7, "kind 7");
    BROKEN_STEP(CPU, step[0].as.kernel.grid[1], empty, "grid[1]");
    BROKEN_STEP(CUDA, step[0].as.kernel.entry, NULL, "entry");
    BROKEN_STEP(CUDA, step[0].as.kernel.entry, "", "entry");
    BROKEN_STEP(CUDA, step[0].as.kernel.block[0], 0, "block[0] is 0");
    BROKEN_STEP(CUDA, step[0].as.kernel.block[2], 1025, "block[2] is 1025");
    BROKEN_STEP(CUDA, step[0].as.kernel.cluster[1], 0, "cluster[1] is 0");
    BROKEN_STEP(CUDA, step[0].as.kernel.programmatic, 2, "programmatic is 2");
    BROKEN_STEP(CUDA, step[0].as.kernel.map_count, 13, "map_count is 13");
    BROKEN_STEP(CUDA, step[0].as.kernel.smem, empty, "smem");
    attune_kernel kernel = sample_kernel(CUDA);
    attune_steps steps = steps_of(&kernel);
    steps.step[0].as.kernel.block[0] = 512;
    steps.step[0].as.kernel.block[1] = 4;
    bad_steps(&kernel, &steps, "2048 threads");
    steps = steps_of(&kernel);
    steps.step[0].as.kernel.cluster[0] = 8;
    steps.step[0].as.kernel.cluster[1] = 4;
    bad_steps(&kernel, &steps, "32 blocks");
}

static void maps(void **state)
{
    (void)state;
    attune_kernel kernel = sample_kernel(CUDA);
    attune_steps steps = steps_of(&kernel);
    attune_map good = {.role = ATTUNE_K, .swizzle = ATTUNE_SWIZZLE_128B, .box = {64, 128, 1, 1}, .l2_bytes = 256};
    attune_map *map = &steps.step[0].as.kernel.map[0];
    steps.step[0].as.kernel.map_count = 1;
    *map = good;
    assert_int_equal(at_steps_check(&kernel, &steps), ATTUNE_OK);
    map->role = ATTUNE_SINK;
    bad_steps(&kernel, &steps, "role 7 (SINK)");
    map->role = ATTUNE_ROLE_COUNT;
    bad_steps(&kernel, &steps, "role 31");
    *map = good;
    memcpy(map->name, "K_of_new", sizeof "K_of_new");
    bad_steps(&kernel, &steps, "name 'K_of_new'");
    memset(map->name, 'A', sizeof map->name);
    bad_steps(&kernel, &steps, "at most 15");
    *map = good;
    map->swizzle = (attune_swizzle)9;
    bad_steps(&kernel, &steps, "swizzle 9");
    *map = good;
    map->box[0] = 0;
    bad_steps(&kernel, &steps, "box[0] is 0");
    *map = good;
    map->box[1] = 257;
    bad_steps(&kernel, &steps, "box[1] is 257");
    *map = good;
    map->l2_bytes = 100;
    bad_steps(&kernel, &steps, "l2_bytes is 100");
}

/* A source has one macro for a map's name. */
static void map_names(void **state)
{
    (void)state;
    attune_kernel kernel = sample_kernel(CUDA);
    attune_steps steps = steps_of(&kernel);
    attune_map *map = steps.step[0].as.kernel.map;
    steps.step[1] = steps.step[0];
    steps.count = 2;
    for (int i = 0; i < 3; ++i) {
        map[i] = (attune_map){.role = ATTUNE_K, .box = {64, 1, 1, 1}, .name = {(char)('A' + i)}};
    }
    steps.step[0].as.kernel.map_count = 3;
    assert_int_equal(at_steps_check(&kernel, &steps), ATTUNE_OK);
    steps.step[1] = steps.step[0];
    assert_int_equal(at_steps_check(&kernel, &steps), ATTUNE_OK);
    steps.step[1].as.kernel.map[2].name[0] = 'A';
    bad_steps(&kernel, &steps, "step 1: map A is number 2 here and 0 elsewhere");
    steps.step[1].as.kernel.map_count = 0;
    map[1] = (attune_map){.role = ATTUNE_V, .box = {64, 1, 1, 1}};
    map[2] = map[1];
    bad_steps(&kernel, &steps, "map V is number 2 here and 1 elsewhere");
}

static attune_step gemm_step(void)
{
    attune_term one = attune_term_const(1);
    attune_step step;
    memset(&step, 0, sizeof step);
    step.kind = ATTUNE_STEP_GEMM;
    step.as.gemm.a.role = ATTUNE_Q;
    step.as.gemm.b.role = ATTUNE_K;
    step.as.gemm.c = (attune_operand){-1, ATTUNE_FP32, one, one, one, one};
    step.as.gemm.m = step.as.gemm.n = step.as.gemm.k = one;
    return step;
}

static void fills_and_gemms(void **state)
{
    (void)state;
    attune_kernel kernel = sample_kernel(CUDA);
    attune_steps steps = steps_of(&kernel);
    attune_term empty = {{0}, {0}};
    steps.count = 2;
    steps.step[1].kind = ATTUNE_STEP_FILL;
    steps.step[1].as.fill = (attune_step_fill){attune_term_const(0), attune_term_const(64), 0};
    assert_int_equal(at_steps_check(&kernel, &steps), ATTUNE_OK);
    steps.step[1].as.fill.bytes = empty;
    bad_steps(&kernel, &steps, "step 1: bytes");
    steps.step[1] = gemm_step();
    assert_int_equal(at_steps_check(&kernel, &steps), ATTUNE_OK);
    steps.step[1].as.gemm.a.role = ATTUNE_LSE;
    bad_steps(&kernel, &steps, "operand a: role 4");
    steps.step[1] = gemm_step();
    steps.step[1].as.gemm.c.role = ATTUNE_K;
    bad_steps(&kernel, &steps, "operand c is K");
    steps.step[1] = gemm_step();
    steps.step[1].as.gemm.c.head_stride = empty;
    bad_steps(&kernel, &steps, "head_stride");
    steps.step[1] = gemm_step();
    steps.step[1].as.gemm.b.dtype = ATTUNE_BOOL;
    bad_steps(&kernel, &steps, "operand b: dtype bool");
    attune_kernel cpu = sample_kernel(CPU);
    steps.step[1] = gemm_step();
    bad_steps(&cpu, &steps, "gemm steps are of CUDA kernels");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sample_is_accepted),
        cmocka_unit_test(data),
        cmocka_unit_test(capabilities),
        cmocka_unit_test(code),
        cmocka_unit_test(params),
        cmocka_unit_test(text_form_must_fit),
        cmocka_unit_test(answers),
        cmocka_unit_test(shipped),
        cmocka_unit_test(kernel_steps),
        cmocka_unit_test(maps),
        cmocka_unit_test(map_names),
        cmocka_unit_test(fills_and_gemms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
