/* attune verify, report and ratchet: what they print, and how they end. */
#include "base/file.h"
#include "base/folder.h"
#include "base/text.h"
#include "cli/command.h"
#include "cpu/cpu.h"
#include "cpu/source.h"
#include "evidence/evidence.h"
#include "judge/verdicts.h"
#include "library/catalogue.h"

static folder f;

static int make(void **state)
{
    (void)state;
    return folder_make(&f);
}

static int clean(void **state)
{
    (void)state;
    folder_remove(&f);
    return 0;
}

/* A verdict of this library's CPU kernel, so that it is fresh wherever the test runs. */
static void keep(double us, const char *when, void (*change)(at_verdict *verdict))
{
    scene of = scene_of(12, 14);
    of.us = us;
    at_verdict *verdict = verdicts_make(&of);
    const attune_kernel *kernel = at_catalogue_find("cpu_tiled");
    attune_problem problem;
    attune_config config;
    char path[PATH_MAX];
    assert_ok(at_cpu_probe(ATTUNE_ISA_BASELINE, 2, &verdict->target));
    (void)snprintf(verdict->target.model, sizeof verdict->target.model, "Some_CPU");
    assert_ok(attune_problem_parse(verdict->problem, &problem));
    assert_true(kernel->heuristic(&problem, &verdict->target, 0, &config));
    at_config_print(kernel, &config, verdict->kernel);
    assert_ok(at_cpu_source_digest("cpu_tiled", verdict->build.source));
    (void)snprintf(verdict->build.compiler, sizeof verdict->build.compiler, "%s", at_cpu_compiler());
    (void)snprintf(verdict->when, sizeof verdict->when, "%s", when);
    if (change != NULL) {
        change(verdict);
    }
    assert_ok(at_verdict_judge(verdict));
    assert_ok(at_evidence_add(folder_path(&f, "cpu_tiled.json", path), verdict));
    at_verdict_destroy(verdict);
}

static void age(at_verdict *verdict)
{
    verdict->build.source[0] = verdict->build.source[0] == '0' ? '1' : '0';
}

static void ends(outcome result, int code, const char *out, const char *err)
{
    if (result.code != code || strstr(result.out, out) == NULL || strstr(result.err, err) == NULL) {
        fail_msg("exit code %d, expected %d; \"%s\" in:\n%s\n\"%s\" in:\n%s", result.code, code, out, result.out, err,
                 result.err);
    }
    outcome_free(&result);
}

static void fresh_evidence_verifies(void **state)
{
    (void)state;
    keep(10, "2026-01-01T00:00:00Z", age);
    keep(10, "2026-01-02T00:00:00Z", NULL);
    ends(COMMAND("verify", f.path), AT_EXIT_OK, "fresh", "1 fresh, 0 stale, 0 unchecked, 0 broken, 1 superseded");
    ends(COMMAND("ratchet", f.path), AT_EXIT_OK, "", "1 newest verdicts have earlier ones; 0 comparisons");
}

static void stale_evidence_fails_unless_it_may(void **state)
{
    (void)state;
    keep(10, "2026-01-02T00:00:00Z", age);
    ends(COMMAND("verify", f.path), AT_EXIT_WRONG, "its source has changed", "1 stale");
    ends(COMMAND("verify", "--allow-stale", f.path), AT_EXIT_OK, "stale", "1 stale");
}

static void broken_evidence_fails(void **state)
{
    (void)state;
    char path[PATH_MAX];
    keep(10, "2026-01-02T00:00:00Z", NULL);
    assert_ok(at_file_write(folder_path(&f, "other.json", path), "{}", 2));
    ends(COMMAND("verify", "--allow-stale", f.path), AT_EXIT_WRONG, "field \"format\" is nothing", "1 broken");
    ends(COMMAND("report", f.path), AT_EXIT_OK, "cpu_tiled", "broken: ");
    ends(COMMAND("report", path), AT_EXIT_USAGE, "", "broken: "); /* that is all there is */
    ends(COMMAND("verify", "/nowhere"), AT_EXIT_USAGE, "", "/nowhere");
    assert_ok(at_directory_make(folder_path(&f, "empty", path)));
    ends(COMMAND("verify", path), AT_EXIT_FAILED, "", "there is no evidence to verify");
    ends(COMMAND("verify", f.path, f.path), AT_EXIT_USAGE, "", "one directory");
}

enum {
    DEVICE,
    PROBLEM,
    KERNEL,
    CONFIG,
    PEER,
    MODE,
    RATIO,
    LOW,
    HIGH,
    US,
    PEER_US,
    TFLOPS,
    RIGHT,
    FASTER,
    FRESHNESS,
    COLUMNS
};

/* The cells of the line at `row`, in place. */
static void cut(char *row, char *cell[COLUMNS])
{
    row[strcspn(row, "\n")] = '\0';
    for (int i = 0; i < COLUMNS; ++i) {
        assert_non_null(row);
        cell[i] = strsep(&row, "\t");
    }
    assert_null(row);
}

static double number(const char *text)
{
    double value = 0;
    assert_ok(at_parse_double("a cell", text, &value));
    return value;
}

static void rows_have_their_columns(void **state)
{
    (void)state;
    keep(10, "2026-01-02T00:00:00Z", NULL);
    outcome result = COMMAND("report", "--format", "tsv", f.path);
    static const char heading[] = "device\tproblem\tkernel\tconfig\tpeer\tmode\tratio\tlo\thi\tcandidate_us\tpeer_"
                                  "us\ttflops\tright\tfaster\tstate\n";
    assert_int_equal(result.code, AT_EXIT_OK);
    assert_memory_equal(result.out, heading, strlen(heading));
    char *cell[COLUMNS];
    cut(result.out + strlen(heading), cell);
    assert_string_equal(cell[PEER], "torch:flash");
    assert_string_equal(cell[MODE], "warm");
    assert_true(fabs(number(cell[RATIO]) - number(cell[PEER_US]) / number(cell[US])) < 1e-3);
    assert_true(number(cell[LOW]) < number(cell[RATIO]) && number(cell[RATIO]) < number(cell[HIGH]));
    assert_true(fabs(number(cell[TFLOPS]) - 4.0 * 8 * 512 * 512 * 64 / number(cell[US]) * 1e-6) < 1e-3);
    assert_string_equal(cell[RIGHT], "pass");
    assert_string_equal(cell[FASTER], "pass");
    assert_string_equal(cell[FRESHNESS], "fresh");
    outcome_free(&result);
    result = COMMAND("report", "--format", "tsv", f.path);
    int rows = 0;
    for (const char *at = result.out; (at = strchr(at, '\n')) != NULL; ++at) {
        ++rows;
    }
    assert_int_equal(rows, 1 + 2 * 2); /* two peers, warm and cold */
    outcome_free(&result);
}

static void people_see_controls_and_failures(void **state)
{
    (void)state;
    keep(10, "2026-01-01T00:00:00Z", age);
    keep(11, "2026-01-02T00:00:00Z", NULL);
    outcome result = COMMAND("report", f.path);
    static const char *const words[] = {"b1,h8,s512,d64,fp16 on Some_CPU", "control twin: pass: A/A",
                                        "control wrong kernel: pass", "speed: against torch:flash: r"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i) {
        assert_non_null(strstr(result.out, words[i]));
    }
    assert_null(strstr(result.out, "2026-01-01"));
    outcome_free(&result);
    ends(COMMAND("report", "--all", f.path), AT_EXIT_OK, "2026-01-01", "");
    ends(COMMAND("ratchet", f.path), AT_EXIT_WRONG,
         "the intervals are further apart than sessions differ, 0.1 % by 3 unchanged arms",
         "4 comparisons show them worse");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fresh_evidence_verifies), TEST(stale_evidence_fails_unless_it_may), TEST(broken_evidence_fails),
        TEST(rows_have_their_columns), TEST(people_see_controls_and_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
