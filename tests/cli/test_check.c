/* attune check: what it prints, and its exit codes. That it tells right from wrong is tests/gate's. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/file.h"
#include "cli/command.h"

static void ends(outcome result, int code, const char *said)
{
    assert_int_equal(result.code, code);
    if (strstr(result.err, said) == NULL) {
        fail_msg("expected \"%s\" in \"%s\"", said, result.err);
    }
    outcome_free(&result);
}

static void right_is_said(void **state)
{
    (void)state;
    outcome result = COMMAND("check", "--cases", "10", "b1,h2,s40,d16,fp16,causal", "--target", "cpu");
    assert_int_equal(result.code, AT_EXIT_OK);
    assert_non_null(strstr(result.out, "right"));
    assert_null(strstr(result.out, "WRONG"));
    outcome_free(&result);
}

static void tables_are_for_tools(void **state)
{
    (void)state;
    outcome result = COMMAND("check", "--cases", "5", "--format", "json", "--target", "cpu", "b1,h2,s40,d16,fp16",
                             "b2,h2,s20,d8,fp32");
    assert_int_equal(result.code, AT_EXIT_OK);
    json_t *table = json_loads(result.out, 0, NULL);
    assert_int_equal(json_array_size(table), 2);
    json_t *row = json_array_get(table, 1);
    assert_string_equal(json_string_value(json_object_get(row, "problem")), "b2,h2,s20,d8,fp32");
    assert_int_equal(json_integer_value(json_object_get(row, "cases")), 5);
    assert_int_equal(json_integer_value(json_object_get(row, "exact")), 2);
    assert_int_equal(json_integer_value(json_object_get(row, "failed")), 0);
    assert_string_equal(json_string_value(json_object_get(row, "verdict")), "right");
    double error = json_number_value(json_object_get(row, "error"));
    assert_true(error > 0.0 && error <= 1.0);
    json_decref(table);
    outcome_free(&result);
}

static void a_sanitizer_is_for_gpus(void **state)
{
    (void)state;
    ends(COMMAND("check", "--sanitize", "--cases", "2", "--target", "cpu", "b1,h1,s8,d8,fp32"), AT_EXIT_USAGE,
         "--sanitize: compute-sanitizer looks at GPUs only");
}

static void one_case_alone(void **state)
{
    (void)state;
    outcome result =
        COMMAND("check", "--case", "7", "--seed", "3", "--format", "tsv", "--target", "cpu", "b1,h2,s40,d16,fp16");
    assert_int_equal(result.code, AT_EXIT_OK);
    assert_non_null(strstr(result.out, "\t1\t"));
    outcome_free(&result);
}

static void bad_usage(void **state)
{
    (void)state;
    ends(COMMAND("check", "b1,h2,s40,d16"), AT_EXIT_USAGE, "b1,h2,s40,d16");
    ends(COMMAND("check", "--case", "3"), AT_EXIT_USAGE, "--case belongs to one PROBLEM");
    ends(COMMAND("check", "--case", "3", "--cases", "5", "b1,h1,s8,d8,fp32"), AT_EXIT_USAGE, "give one of them");
    ends(COMMAND("check", "--cases", "0", "b1,h1,s8,d8,fp32"), AT_EXIT_USAGE, "--cases");
    ends(COMMAND("check", "--cases", "many", "b1,h1,s8,d8,fp32"), AT_EXIT_USAGE, "--cases");
    ends(COMMAND("check", "--seed", "-1", "b1,h1,s8,d8,fp32"), AT_EXIT_USAGE, "--seed");
    ends(COMMAND("check", "--kernel", "nonesuch", "--target", "cpu", "b1,h1,s8,d8,fp32"), AT_EXIT_USAGE, "nonesuch");
}

static void *interrupt_soon(void *unused)
{
    (void)unused;
    (void)usleep(200000);
    at_file_interrupt();
    return NULL;
}

/* However far it came, the problem was not checked to the end. */
static void an_interrupt_is_no_verdict(void **state)
{
    (void)state;
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, interrupt_soon, NULL), 0);
    outcome result = COMMAND("check", "--cases", "1000000", "b1,h2,s40,d16,fp16", "--target", "cpu");
    at_file_resume();
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_null(strstr(result.out, "right"));
    ends(result, AT_EXIT_INTERRUPTED, "interrupted: 0 of 1 problems were checked to the end");
}

/* Its processes are this program itself. */
static void a_strangers_folder(void **state)
{
    static const char zoo[] = ATTUNE_BINARY_DIR "/zoo/cpu/";
    char folder[400];
    (void)state;
    (void)snprintf(folder, sizeof folder, "%shonest_plain", zoo);
    outcome result = COMMAND("check", "--kernel", folder, "--cases", "10", "b1,h2,s40,d16,fp16,causal");
    assert_int_equal(result.code, AT_EXIT_OK);
    assert_non_null(strstr(result.out, "honest_plain"));
    outcome_free(&result);
    (void)snprintf(folder, sizeof folder, "%sscale_off", zoo);
    result = COMMAND("check", "--kernel", folder, "--case", "0", "b1,h2,s40,d16,fp16,causal");
    assert_int_equal(result.code, AT_EXIT_WRONG);
    assert_non_null(strstr(result.out, "WRONG: rule 1"));
    assert_non_null(strstr(result.out, "scale_off --seed 1 --case 0"));
    outcome_free(&result);
    ends(COMMAND("check", "--kernel", "/no/such/folder"), AT_EXIT_USAGE, "there is no folder");
    ends(COMMAND("check", "--kernel", folder, "--target", "cuda:7"), AT_EXIT_FAILED, "");
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        return at_cli_main(argc, (const char *const *)argv, stdout, stderr);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_is_said),      cmocka_unit_test(tables_are_for_tools),
        cmocka_unit_test(one_case_alone),     cmocka_unit_test(a_sanitizer_is_for_gpus),
        cmocka_unit_test(bad_usage),          cmocka_unit_test(an_interrupt_is_no_verdict),
        cmocka_unit_test(a_strangers_folder),
    };
    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
