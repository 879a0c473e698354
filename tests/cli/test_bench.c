#include "base/cm.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/bench_arms.h"
#include "cli/command.h"

#define HEADER "problem\tarm\tmedian_us\tlo_us\thi_us\tgflops\tratio\tpeak_share\n"
#define TINY "b1,h2,s16,d16,fp32"
#define CAPPED "b1,h2,s16,d16,fp32,softcap=20"
#define SINKING "b1,h2,s16,d16,fp32,sink"

/* The column-th field of the line-th line of a TSV text, copied into `field`. */
static const char *field_of(const char *text, int line, int column, char field[128])
{
    for (; line > 0; --line) {
        text = strchr(text, '\n');
        assert_non_null(text);
        ++text;
    }
    for (; column > 0; --column) {
        text += strcspn(text, "\t\n");
        assert_int_equal(*text, '\t');
        ++text;
    }
    (void)snprintf(field, 128, "%.*s", (int)strcspn(text, "\t\n"), text);
    return field;
}

static double number_of(const char *text, int line, int column)
{
    char field[128];
    return strtod(field_of(text, line, column, field), NULL);
}

static int lines_of(const char *text)
{
    int lines = 0;
    for (; *text != '\0'; ++text) {
        lines += *text == '\n';
    }
    return lines;
}

static void the_columns_are_exact_and_agree(void **state)
{
    (void)state;
    outcome result = COMMAND("bench", "--target", "cpu", "--seconds", "0.05", "--format", "tsv", "--arms",
                             "auto,cpu_tiled,openblas", TINY, "b1,h1,s8,d8,fp16,causal");
    assert_int_equal(result.code, AT_EXIT_OK);
    assert_ptr_equal(strstr(result.out, HEADER), result.out);
    assert_int_equal(lines_of(result.out), 7);
    static const char *const arms[] = {"auto", "cpu_tiled", "openblas"};
    for (int line = 1; line < 7; ++line) {
        char field[128];
        assert_string_equal(field_of(result.out, line, 0, field), line < 4 ? TINY : "b1,h1,s8,d8,fp16,causal");
        assert_string_equal(field_of(result.out, line, 1, field), arms[(line - 1) % 3]);
        double median = number_of(result.out, line, 2);
        assert_true(median > 0);
        assert_true(number_of(result.out, line, 3) <= median && median <= number_of(result.out, line, 4));
        double flops = line < 4 ? 4.0 * 2 * 16 * 16 * 16 : 4.0 * 8 * 36; /* 36 of 64 pairs are seen */
        assert_true(fabs(number_of(result.out, line, 5) / (flops / median * 1e-3) - 1) < 1e-4);
        double first = number_of(result.out, line < 4 ? 1 : 4, 2);
        assert_true(fabs(number_of(result.out, line, 6) / (first / median) - 1) < 1e-4);
        assert_true(number_of(result.out, line, 7) > 0);
    }
    assert_true(number_of(result.out, 1, 6) == 1);
    outcome_free(&result);
}

static void text_and_json_have_the_same_rows(void **state)
{
    (void)state;
    outcome text = COMMAND("bench", "--target", "cpu", "--seconds", "0", "--arms", "auto", TINY);
    assert_int_equal(text.code, AT_EXIT_OK);
    assert_int_equal(lines_of(text.out), 2);
    assert_ptr_equal(strstr(text.out, "problem "), text.out);
    outcome_free(&text);
    outcome json = COMMAND("bench", "--target", "cpu", "--seconds", "0", "--arms", "auto", "--format", "json", TINY);
    json_t *rows = json_loads(json.out, 0, NULL);
    json_t *row = json_array_get(rows, 0);
    assert_int_equal(json_array_size(rows), 1);
    assert_string_equal(json_string_value(json_object_get(row, "problem")), TINY);
    assert_true(json_real_value(json_object_get(row, "median_us")) > 0);
    assert_true(json_is_real(json_object_get(row, "peak_share")));
    json_decref(rows);
    outcome_free(&json);
}

static void an_arm_that_cannot_run_is_named_with_the_reason(void **state)
{
    (void)state;
    outcome result = COMMAND("bench", "--target", "cpu", "--seconds", "0", "--format", "tsv", CAPPED);
    assert_int_equal(result.code, AT_EXIT_OK);
    assert_non_null(strstr(result.err, "openblas: cannot run: openblas: softcap"));
    assert_int_equal(lines_of(result.out), 2); /* no row, and nothing that is no number */
    assert_null(strstr(result.out, "nan"));
    assert_true(number_of(result.out, 1, 2) > 0);
    outcome_free(&result);
    /* What the others are compared with is then the first that ran. */
    result =
        COMMAND("bench", "--target", "cpu", "--seconds", "0", "--format", "tsv", "--arms", "openblas,auto", CAPPED);
    assert_int_equal(lines_of(result.out), 2);
    assert_true(number_of(result.out, 1, 6) == 1);
    outcome_free(&result);
}

static void a_problem_that_no_arm_runs_is_bad_input(void **state)
{
    (void)state;
    outcome result =
        COMMAND("bench", "--target", "cpu", "--seconds", "0", "--format", "tsv", "--arms", "openblas", TINY, SINKING);
    assert_int_equal(result.code, AT_EXIT_USAGE);
    assert_int_equal(lines_of(result.out), 2);
    assert_true(number_of(result.out, 1, 2) > 0);
    outcome_free(&result);
}

static void a_missing_library_is_a_reason(void **state)
{
    (void)state;
    assert_int_equal(setenv("ATTUNE_OPENBLAS", "/nonexistent/blas.so", 1), 0);
    outcome result = COMMAND("bench", "--target", "cpu", "--seconds", "0", "--format", "tsv", TINY);
    assert_int_equal(unsetenv("ATTUNE_OPENBLAS"), 0);
    assert_int_equal(result.code, AT_EXIT_OK);
    assert_non_null(strstr(result.err, "openblas: cannot run: OpenBLAS is not available: /nonexistent/blas.so"));
    outcome_free(&result);
}

static void a_wrong_arm_is_wrong_and_not_fast(void **state)
{
    (void)state;
    assert_int_equal(setenv("ATTUNE_OPENBLAS", ATTUNE_BINARY_DIR "/tests/liblazy_blas.so", 1), 0);
    outcome result = COMMAND("bench", "--target", "cpu", "--seconds", "0", "--format", "tsv", TINY);
    assert_int_equal(unsetenv("ATTUNE_OPENBLAS"), 0);
    assert_int_equal(result.code, AT_EXIT_WRONG);
    assert_non_null(strstr(result.err, "openblas: wrong, and therefore not timed: openblas: rule "));
    assert_int_equal(lines_of(result.out), 2);
    assert_true(number_of(result.out, 1, 2) > 0);
    outcome_free(&result);
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
    fails_with(COMMAND("bench", "b1,h8"), AT_EXIT_USAGE, "attune: bench: ");
    fails_with(COMMAND("bench", TINY, "d64,fp32,frobnicate"), AT_EXIT_USAGE, "frobnicate");
    fails_with(COMMAND("bench", "--arms", "auto,,openblas", TINY), AT_EXIT_USAGE, "a name is missing");
    fails_with(COMMAND("bench", "--arms", "auto,", TINY), AT_EXIT_USAGE, "a name is missing");
    fails_with(COMMAND("bench", "--arms", "openblsa", TINY), AT_EXIT_USAGE, "did you mean openblas?");
    fails_with(COMMAND("bench", "--arms", "cpu_tild", TINY), AT_EXIT_USAGE, "did you mean cpu_tiled?");
    fails_with(COMMAND("bench", "--arms", "cpu_tiled:BLOCK_Q=1", TINY), AT_EXIT_USAGE, "BLOCK_Q");
    fails_with(COMMAND("bench", "--arms", "cpu_tiled:BLOCK_M=7", TINY), AT_EXIT_USAGE, "BLOCK_M");
    fails_with(COMMAND("bench", "--seconds", "-1", TINY), AT_EXIT_USAGE, "--seconds is -1");
    fails_with(COMMAND("bench", "--seed", "x", TINY), AT_EXIT_USAGE, "--seed is \"x\"");
    fails_with(COMMAND("bench", "--threads", "0", TINY), AT_EXIT_USAGE, "--threads is 0");
    fails_with(COMMAND("bench", "--wisdom", "/nonexistent", TINY), AT_EXIT_USAGE, "/nonexistent");
}

static void cold_runs_too(void **state)
{
    (void)state;
    outcome result = COMMAND("bench", "--target", "cpu", "--seconds", "0", "--cold", "--arms", "auto", TINY);
    assert_int_equal(result.code, AT_EXIT_OK);
    outcome_free(&result);
}

static void lists_of_arms_split_at_the_right_commas(void **state)
{
    (void)state;
    at_arm_names names;
    assert_ok(at_arm_names_read("auto,cpu_tiled:BLOCK_M=32,BLOCK_N=64,openblas,cpu_tiled,auto", &names));
    static const char *const wanted[] = {"auto", "cpu_tiled:BLOCK_M=32,BLOCK_N=64", "openblas", "cpu_tiled", "auto"};
    assert_int_equal(names.count, 5);
    for (int i = 0; i < 5; ++i) {
        assert_string_equal(names.name[i], wanted[i]);
    }
    at_arm_names_free(&names);
    assert_fails(at_arm_names_read("", &names), ATTUNE_INVALID_ARGUMENT, "missing");
    at_arm_names_free(&names);
    char many[5 * (AT_ARMS_MAX + 1)] = "auto";
    for (int i = 0; i < AT_ARMS_MAX; ++i) {
        (void)strcat(many, ",auto"); /* NOLINT: room for as many */
    }
    assert_fails(at_arm_names_read(many, &names), ATTUNE_INVALID_ARGUMENT, "at most 31");
    at_arm_names_free(&names);
}

/* Whether the process has a handler of this signal by now. */
static bool catches(pid_t process, int signal)
{
    char path[64], line[256];
    unsigned long long caught = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)process);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "SigCgt:", 7) == 0) {
            caught = strtoull(line + 7, NULL, 16);
        }
    }
    (void)fclose(file);
    return (caught >> (signal - 1) & 1) != 0;
}

/* The process that was forked ends by itself in time, or becomes one that has handlers. */
static void await_handler(pid_t process)
{
    while (!catches(process, SIGINT) && waitpid(process, NULL, WNOHANG) == 0) {
        (void)usleep(1000);
    }
    (void)usleep(100000); /* into its work, most likely; the end is the same before */
}

/* An interrupt in the middle: a clean end, and the rows that were done. */
static void an_interrupt_ends_with_130(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)freopen("/dev/null", "w", stdout);
        (void)freopen("/dev/null", "w", stderr);
        (void)execl(ATTUNE_BINARY_DIR "/bin/attune", "attune", "bench", "--target", "cpu", "--seconds", "200",
                    "b1,h8,s1024,d64,fp32", (char *)NULL);
        _exit(99);
    }
    await_handler(child);
    assert_int_equal(kill(child, SIGINT), 0);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), AT_EXIT_INTERRUPTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_columns_are_exact_and_agree),
        cmocka_unit_test(text_and_json_have_the_same_rows),
        cmocka_unit_test(an_arm_that_cannot_run_is_named_with_the_reason),
        cmocka_unit_test(a_problem_that_no_arm_runs_is_bad_input),
        cmocka_unit_test(a_missing_library_is_a_reason),
        cmocka_unit_test(a_wrong_arm_is_wrong_and_not_fast),
        cmocka_unit_test(bad_command_lines),
        cmocka_unit_test(cold_runs_too),
        cmocka_unit_test(lists_of_arms_split_at_the_right_commas),
        cmocka_unit_test(an_interrupt_ends_with_130),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
