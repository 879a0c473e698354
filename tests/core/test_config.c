#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/config.h"
#include "sample.h"

static void has_words(const char *text, const char *first, const char *second)
{
    if (strstr(text, first) == NULL || strstr(text, second) == NULL) {
        fail_msg("the message lacks '%s' or '%s': %s", first, second, text);
    }
}

static void splits_names(void **state)
{
    (void)state;
    char name[8] = "";
    const char *params = NULL;
    assert_int_equal(at_kernel_text_split("tiled:A=1,B=2", name, sizeof name, &params), ATTUNE_OK);
    assert_string_equal(name, "tiled");
    assert_string_equal(params, "A=1,B=2");
    assert_int_equal(at_kernel_text_split("tiled", name, sizeof name, &params), ATTUNE_OK);
    assert_string_equal(params, "");
    assert_int_equal(at_kernel_text_split("tiled:", name, sizeof name, &params), ATTUNE_OK);
    assert_string_equal(params, "");
    assert_int_equal(at_kernel_text_split("seven_c", name, sizeof name, &params), ATTUNE_OK);
    assert_int_equal(at_kernel_text_split("eight_ch", name, sizeof name, &params), ATTUNE_INVALID_ARGUMENT);
    has_words(attune_last_detail(), "8", "at most 7");
    assert_int_equal(at_kernel_text_split("", name, sizeof name, &params), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(at_kernel_text_split(":A=1", name, sizeof name, &params), ATTUNE_INVALID_ARGUMENT);
    has_words(attune_last_detail(), "':A=1'", "NAME:PARAM=VALUE");
    assert_int_equal(at_kernel_text_split(NULL, name, sizeof name, &params), ATTUNE_INVALID_ARGUMENT);
    assert_string_equal(name, "seven_c");
}

static void parses_over_what_is_there(void **state)
{
    (void)state;
    attune_kernel kernel = sample_kernel(ATTUNE_TARGET_CPU);
    attune_config config = {{16, 2}};
    assert_int_equal(at_config_parse(&kernel, "", &config), ATTUNE_OK);
    assert_true(config.value[0] == 16 && config.value[1] == 2);
    assert_int_equal(at_config_parse(&kernel, "BLOCK_M=64", &config), ATTUNE_OK);
    assert_true(config.value[0] == 64 && config.value[1] == 2);
    assert_int_equal(at_config_parse(&kernel, "STAGES=-1,BLOCK_M=32", &config), ATTUNE_OK);
    assert_true(config.value[0] == 32 && config.value[1] == -1);
}

static void equal_lists_settle_to_equal_texts(void **state)
{
    (void)state;
    attune_kernel kernel = sample_kernel(ATTUNE_TARGET_CPU);
    char text[AT_KERNEL_TEXT_MAX];
    assert_int_equal(at_config_settle(&kernel, "STAGES=-1,BLOCK_M=32", text), ATTUNE_OK);
    assert_string_equal(text, "BLOCK_M=32,STAGES=-1");
    assert_int_equal(at_config_settle(&kernel, "STAGES=2", text), ATTUNE_OK);
    assert_string_equal(text, "STAGES=2");
    assert_int_equal(at_config_settle(&kernel, "", text), ATTUNE_OK);
    assert_string_equal(text, "");
    assert_int_equal(at_config_settle(&kernel, "STAGES=7", text), ATTUNE_INVALID_ARGUMENT);
}

static void refuses_bad_params(void **state)
{
    (void)state;
    static const struct {
        const char *params, *first, *second;
    } bad[] = {
        {"BLOCK_N=16", "'BLOCK_N'", "BLOCK_M, STAGES"},
        {"block_m=16", "'block_m'", "BLOCK_M, STAGES"},
        {"=16", "''", "BLOCK_M, STAGES"},
        {"BLOCK_M=48", "'48'", "16, 32, 64"},
        {"BLOCK_M=", "''", "16, 32, 64"},
        {"BLOCK_M=16x", "'16x'", "16, 32, 64"},
        {"BLOCK_M=4294967312", "'4294967312'", "16, 32, 64"},
        {"BLOCK_M=99999999999999999999999", "'99999999999999999999999'", "16, 32, 64"},
        {"BLOCK_M", "'BLOCK_M'", "PARAM=VALUE"},
        {"BLOCK_M=16,", "after the last comma", ""},
        {",BLOCK_M=16", "''", "PARAM=VALUE"},
        {"BLOCK_M=16,,STAGES=2", "''", "PARAM=VALUE"},
        {"BLOCK_M=16,STAGES=2,BLOCK_M=16", "BLOCK_M", "second time"},
        {"STAGES=2,BLOCK_M=64,STAGES=3", "STAGES", "second time"},
        {"A_NAME_OF_MANY_CHARACTERS_THAT_NO_PARAMETER_HAS_EVER_HAD_SO_FAR=1", "...", "at most 63"},
    };
    attune_kernel kernel = sample_kernel(ATTUNE_TARGET_CPU);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        attune_config config = {{16, -1}};
        if (at_config_parse(&kernel, bad[i].params, &config) != ATTUNE_INVALID_ARGUMENT) {
            fail_msg("'%s' was not refused", bad[i].params);
        }
        has_words(attune_last_detail(), bad[i].first, bad[i].second);
        has_words(attune_last_detail(), "kernel sample", "");
        assert_true(config.value[0] == 16 && config.value[1] == -1);
    }
    attune_config none = {{0}};
    kernel.param_count = 0;
    assert_int_equal(at_config_parse(&kernel, "A=1", &none), ATTUNE_INVALID_ARGUMENT);
    has_words(attune_last_detail(), "its parameters: none", "");
}

static void prints_back(void **state)
{
    (void)state;
    char text[AT_KERNEL_TEXT_MAX];
    attune_kernel kernel = sample_kernel(ATTUNE_TARGET_CPU);
    int64_t count = at_config_count(&kernel);
    assert_int_equal(count, 6);
    for (int64_t index = 0; index < count; ++index) {
        char name[16];
        const char *params;
        attune_config config;
        attune_config read = {{0}};
        at_config_at(&kernel, index, &config);
        assert_int_equal(config.value[0], sample_block_m[index / 2]);
        assert_int_equal(config.value[1], sample_stages[index % 2]);
        assert_int_equal(config.value[2], 0);
        at_config_print(&kernel, &config, text);
        assert_int_equal(at_kernel_text_split(text, name, sizeof name, &params), ATTUNE_OK);
        assert_string_equal(name, "sample");
        assert_int_equal(at_config_parse(&kernel, params, &read), ATTUNE_OK);
        assert_memory_equal(&read, &config, sizeof read);
    }
    assert_string_equal(text, "sample:BLOCK_M=64,STAGES=2");
    kernel.param_count = 0;
    assert_int_equal(at_config_count(&kernel), 1);
    at_config_print(&kernel, &(attune_config){{7}}, text);
    assert_string_equal(text, "sample");
}

static void a_huge_space_saturates(void **state)
{
    (void)state;
    static int32_t many[1000];
    attune_param params[ATTUNE_PARAMS_MAX];
    attune_kernel kernel = sample_kernel(ATTUNE_TARGET_CPU);
    for (int i = 0; i < ATTUNE_PARAMS_MAX; ++i) {
        params[i] = (attune_param){"P", many, 1000, 0};
    }
    kernel.params = params;
    kernel.param_count = ATTUNE_PARAMS_MAX;
    assert_int_equal(at_config_count(&kernel), INT64_MAX);
}

/* ---- Fit -------------------------------------------------------------------------------------------------------- */

static attune_problem parse(const char *text)
{
    attune_problem problem;
    assert_int_equal(attune_problem_parse(text, &problem), ATTUNE_OK);
    return problem;
}

static const attune_target cpu = {.kind = ATTUNE_TARGET_CPU, .isa = ATTUNE_ISA_AVX2, .threads = 2};
static const attune_target cuda = {.kind = ATTUNE_TARGET_CUDA, .arch = 89, .sm_count = 128, .smem_optin_bytes = 60000};

static void fits(void **state)
{
    (void)state;
    attune_reason reason = {""};
    attune_problem problem = parse("b1,h8,s512,d64,fp16");
    attune_kernel kernel = sample_kernel(ATTUNE_TARGET_CPU);
    attune_config config = {{64, 2}};
    assert_true(at_kernel_fits(&kernel, &problem, &cpu, &config, &reason));
    assert_true(at_kernel_fits(&kernel, &problem, &cpu, &config, NULL));
    assert_false(at_kernel_fits(&kernel, &problem, &cuda, &config, NULL));
    assert_false(at_kernel_fits(&kernel, &problem, &cuda, &config, &reason));
    has_words(reason.text, "target cuda", "runs on cpu");
    problem = parse("b1,h8,s512,d63,fp16");
    assert_false(at_kernel_fits(&kernel, &problem, &cpu, &config, &reason));
    has_words(reason.text, "head_dim_qk 63", "multiple of 8");
    problem = parse("b1,h8,s512,d64,fp16");
    config.value[0] = 48;
    assert_false(at_kernel_fits(&kernel, &problem, &cpu, &config, &reason));
    has_words(reason.text, "BLOCK_M 48", "16, 32, 64");
    config = (attune_config){{16, -1}};
    assert_false(at_kernel_fits(&kernel, &problem, &cpu, &config, &reason));
    has_words(reason.text, "STAGES -1", "32 or more");
}

static void fits_resources(void **state)
{
    (void)state;
    attune_reason reason = {""};
    attune_problem problem = parse("b1,h8,s512,d64,fp16");
    attune_kernel kernel = sample_kernel(ATTUNE_TARGET_CUDA);
    attune_config config = {{32, 2}};
    assert_true(at_kernel_fits(&kernel, &problem, &cuda, &config, &reason));
    config.value[0] = 64;
    assert_false(at_kernel_fits(&kernel, &problem, &cuda, &config, &reason));
    has_words(reason.text, "needs 64000 B of shared memory", "gives 60000");
    kernel = sample_kernel(ATTUNE_TARGET_CPU);
    kernel.attend[ATTUNE_ISA_AVX512] = kernel.attend[ATTUNE_ISA_BASELINE];
    kernel.attend[ATTUNE_ISA_BASELINE] = NULL;
    assert_false(at_kernel_fits(&kernel, &problem, &cpu, &config, &reason));
    has_words(reason.text, "isa", "sample");
}

static void greedy(const attune_problem *problem, const attune_target *target, const attune_config *config,
                   attune_resources *resources)
{
    sample_resources(problem, target, config, resources);
    resources->scratch_bytes = ATTUNE_SCRATCH_MAX + 1;
    resources->threads = 2048;
}

static void malformed(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *resources)
{
    sample_resources(problem, target, config, resources);
    resources->workspace.op[0] = 99;
}

static void refuses_greed(void **state)
{
    (void)state;
    attune_reason reason = {""};
    attune_problem problem = parse("b1,h8,s512,d64,fp16");
    attune_config config = {{32, 2}};
    attune_kernel kernel = sample_kernel(ATTUNE_TARGET_CPU);
    kernel.resources = greedy;
    assert_false(at_kernel_fits(&kernel, &problem, &cpu, &config, &reason));
    has_words(reason.text, "scratch 131073", "131072");
    kernel.resources = malformed;
    assert_false(at_kernel_fits(&kernel, &problem, &cpu, &config, &reason));
    has_words(reason.text, "workspace", "99");
    kernel = sample_kernel(ATTUNE_TARGET_CUDA);
    kernel.resources = greedy;
    assert_false(at_kernel_fits(&kernel, &problem, &cuda, &config, &reason));
    has_words(reason.text, "threads 2048", "1024");
}

/* The sample has no stages with blocks of 16. */
static void finds_the_nearest_config_of_a_value(void **state)
{
    (void)state;
    attune_kernel kernel = sample_kernel(ATTUNE_TARGET_CPU);
    attune_problem problem = parse("b1,h8,s512,d64,fp16");
    const attune_config likeliest = {{64, -1}};
    attune_config config;
    assert_true(at_config_nearest(&kernel, &problem, &cpu, &likeliest, 0, 1, &config));
    assert_true(config.value[0] == 32 && config.value[1] == -1);
    assert_true(at_config_nearest(&kernel, &problem, &cpu, &likeliest, 0, 0, &config));
    assert_true(config.value[0] == 16 && config.value[1] == 2);
    problem = parse("b1,h8,s512,d63,fp16"); /* not supported */
    assert_false(at_config_nearest(&kernel, &problem, &cpu, &likeliest, 0, 0, &config));
    assert_true(config.value[0] == 16 && config.value[1] == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_names),
        cmocka_unit_test(parses_over_what_is_there),
        cmocka_unit_test(equal_lists_settle_to_equal_texts),
        cmocka_unit_test(refuses_bad_params),
        cmocka_unit_test(prints_back),
        cmocka_unit_test(a_huge_space_saturates),
        cmocka_unit_test(fits),
        cmocka_unit_test(fits_resources),
        cmocka_unit_test(refuses_greed),
        cmocka_unit_test(finds_the_nearest_config_of_a_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
