#include "base/cm.h"

#include <jansson.h>

#include "cli/command.h"
#include "cli/info_facts.h"
#include "core/config.h"
#include "cpu/cpu.h"
#include "library/catalogue.h"

static void shows(const outcome *result, const char *words)
{
    if (strstr(result->out, words) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", result->out, words);
    }
}

static void the_machine_and_every_kernel_are_shown(void **state)
{
    (void)state;
    outcome result = COMMAND("info", "--target", "cpu", "--threads", "1", "--isa", "baseline", "--format", "tsv");
    assert_int_equal(result.code, AT_EXIT_OK);
    shows(&result, "subject\tname\tproperty\tvalue\nmachine\t\t");
    shows(&result, "machine\t\tisa in use\tbaseline\n");
    shows(&result, "machine\t\tthreads\t1 of ");
    shows(&result, "machine\t\tgpus\t");
    for (const attune_kernel *const *kernel = at_catalogue; *kernel != NULL; ++kernel) {
        char row[128];
        (void)snprintf(row, sizeof row, "kernel\t%s\ttarget\t", (*kernel)->name);
        shows(&result, row);
        shows(&result, (*kernel)->summary);
    }
    assert_null(strstr(result.out, "\nproblem\t"));
    outcome_free(&result);
}

static void a_problem_is_explained(void **state)
{
    (void)state;
    outcome result = COMMAND("info", "--target", "cpu", "--format", "tsv", "fp32,d72,b1,h8,s80");
    assert_int_equal(result.code, AT_EXIT_OK);
    shows(&result, "problem\t\ttext\tb1,h8,s80,d72,fp32\n");
    shows(&result, "problem\t\tplan\tcpu_tiled:");
    shows(&result, "problem\t\tchosen\theuristic\n");
    shows(&result, "problem\t\tworkspace bytes\t");
    shows(&result, "kernel\tcpu_tiled\tfor the problem\truns it\n");
    for (const attune_kernel *const *kernel = at_catalogue; *kernel != NULL; ++kernel) {
        char row[128];
        (void)snprintf(row, sizeof row, "kernel\t%s\tfor the problem\tcannot: it is for cuda", (*kernel)->name);
        if ((*kernel)->target == ATTUNE_TARGET_CUDA) {
            shows(&result, row);
        }
    }
    outcome_free(&result);
}

/* Operations have the names of the kernels that do them. */
static void an_operations_problem_is_explained(void **state)
{
    (void)state;
    outcome result =
        COMMAND("info", "--target", "cpu", "--format", "tsv", "append:b2,h4,sq2,skv100,d64,bf16,page=16,slots");
    assert_int_equal(result.code, AT_EXIT_OK);
    shows(&result, "problem\t\tplan\tcpu_append\n");
    outcome_free(&result);
    outcome_expect(COMMAND("info", "--target", "cpu", "append:b2,h4,sq2,skv100,d64,bf16"), AT_EXIT_USAGE,
                   "append needs one of them");
    outcome_expect(COMMAND("info", "--target", "cpu", "append:TOKEN=4"), AT_EXIT_USAGE, "TOKEN");
}

static void a_kernels_configs_are_listed_with_what_they_need(void **state)
{
    (void)state;
    outcome result =
        COMMAND("info", "--target", "cpu", "--format", "tsv", "--kernel", "cpu_tiled", "b1,h8,s512,d256,fp32");
    assert_int_equal(result.code, AT_EXIT_OK);
    shows(&result, "problem\t\tchosen\tnamed\n");
    shows(&result, "parameter\tBLOCK_M\tvalues\t");
    shows(&result, "\tfits\tyes\nconfig\tcpu_tiled:");
    shows(&result, "\tfits\tno\nconfig\tcpu_tiled:");
    shows(&result, "\twhy not\tEXP 4: ");
    shows(&result, "\tscratch bytes a thread\t");
    outcome_free(&result);
}

static bool shows_value(const char *out, const char *name, int32_t value)
{
    char text[64];
    (void)snprintf(text, sizeof text, "%s=%d", name, (int)value);
    for (const char *at = strstr(out, text); at != NULL; at = strstr(at + 1, text)) {
        const char after = at[strlen(text)];
        if (after == ',' || after == '\t') {
            return true;
        }
    }
    return false;
}

/* For each value there is a config that fits, or one that says why not. */
static void of_very_many_configs_each_value_is_listed(void **state)
{
    extern const attune_kernel at_kernel_wgmma_small;
    const attune_kernel *kernel = &at_kernel_wgmma_small;
    int rows = 0, fit = 0;
    (void)state;
    assert_int_equal(setenv("ATTUNE_LIBCUDA", ATTUNE_FAKE_DRIVER, 1), 0);
    outcome result = COMMAND("info", "--target", "cuda", "--format", "tsv", "--all-configs", "--kernel", "wgmma_small",
                             "b1,h4,s2048,d128,fp16");
    assert_int_equal(unsetenv("ATTUNE_LIBCUDA"), 0);
    assert_int_equal(result.code, AT_EXIT_OK);
    for (int i = 0; i < kernel->param_count; ++i) {
        for (int v = 0; v < kernel->params[i].count; ++v) {
            if (!shows_value(result.out, kernel->params[i].name, kernel->params[i].values[v])) {
                fail_msg("%s %d is not listed", kernel->params[i].name, (int)kernel->params[i].values[v]);
            }
        }
    }
    for (const char *at = result.out; (at = strstr(at, "\tfits\t")) != NULL; ++at) {
        ++rows;
        fit += strncmp(at, "\tfits\tyes\n", 10) == 0;
    }
    assert_true(fit > 10 && rows > fit && rows < 64);
    char row[96];
    (void)snprintf(row, sizeof row, "kernel\twgmma_small\tconfigs\t%lld, of which %d are listed\n",
                   (long long)at_config_count(kernel), rows);
    shows(&result, row);
    shows(&result, "\tSTAGES\tvalues\t");
    outcome_free(&result);
}

/* Who does not ask for all waits for few. */
static void likely_configs_are_listed(void **state)
{
    int rows = 0;
    (void)state;
    outcome result = COMMAND("info", "--format", "tsv", "--arch", "90a", "--kernel", "wgmma", "b1,h8,s512,d64,fp16");
    if (strstr(result.err, "NVRTC") != NULL) {
        outcome_free(&result);
        skip();
    }
    assert_int_equal(result.code, AT_EXIT_OK);
    for (const char *at = result.out; (at = strstr(at, "\tfits\t")) != NULL; ++at) {
        ++rows;
    }
    assert_in_range(rows, 1, 4);
    shows(&result, "of which 4 are listed\n");
    outcome_free(&result);
}

static void formats_agree(void **state)
{
    (void)state;
    outcome json = COMMAND("info", "--target", "cpu", "--format", "json");
    json_t *array = json_loads(json.out, 0, NULL);
    assert_true(json_array_size(array) > 10);
    assert_string_equal(json_string_value(json_object_get(json_array_get(array, 0), "subject")), "machine");
    json_decref(array);
    outcome_free(&json);
    outcome text = COMMAND("info", "--target", "cpu");
    shows(&text, "machine\n");
    shows(&text, "\n\nkernel ");
    outcome_free(&text);
}

static void fails_with(outcome result, int code, const char *said)
{
    if (result.code != code || strstr(result.err, said) == NULL) {
        fail_msg("code %d, \"%s\" lacks \"%s\"", result.code, result.err, said);
    }
    outcome_free(&result);
}

static void bad_command_lines(void **state)
{
    (void)state;
    fails_with(COMMAND("info", "b1,h8,wrong"), AT_EXIT_USAGE, "wrong");
    fails_with(COMMAND("info", "d64,s4,fp32", "d64,s4,fp32"), AT_EXIT_USAGE, "one problem at a time");
    fails_with(COMMAND("info", "--kernel", "cpu_tild"), AT_EXIT_USAGE, "did you mean \"cpu_tiled\"?");
    fails_with(COMMAND("info", "--isa", "sse9"), AT_EXIT_USAGE,
               "--isa sse9: one of baseline avx2 avx512 avx512_bf16 amx is needed");
    fails_with(COMMAND("info", "--target", "cuda:99"), AT_EXIT_FAILED, "attune: info: ");
    if (at_cpu_best_isa() < ATTUNE_ISA_AVX512) {
        fails_with(COMMAND("info", "--isa", "avx512"), AT_EXIT_USAGE, "avx512");
    }
}

static void facts_become_lists_and_grids(void **state)
{
    (void)state;
    at_facts *facts = NULL;
    assert_ok(at_facts_create(&facts));
    at_facts_add(facts, "thing", "", "size", "%d", 3);
    at_facts_add(facts, "cat", "Tom", "colour", "%s", "grey");
    at_facts_add(facts, "thing", "", "weight", "heavy");
    at_facts_add(facts, "cat", "Kit", "age", "%d", 7);
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_ok(at_facts_print(facts, AT_FORMAT_TEXT, out));
    (void)fclose(out);
    assert_string_equal(text, "thing\nsize    3\nweight  heavy\n\ncat  colour  age\nTom  grey\nKit          7\n");
    free(text);
    at_facts_destroy(facts);
    at_facts_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_machine_and_every_kernel_are_shown),
        cmocka_unit_test(a_problem_is_explained),
        cmocka_unit_test(an_operations_problem_is_explained),
        cmocka_unit_test(a_kernels_configs_are_listed_with_what_they_need),
        cmocka_unit_test(likely_configs_are_listed),
        cmocka_unit_test(of_very_many_configs_each_value_is_listed),
        cmocka_unit_test(formats_agree),
        cmocka_unit_test(bad_command_lines),
        cmocka_unit_test(facts_become_lists_and_grids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
