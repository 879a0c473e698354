/* What compute-sanitizer says of a candidate, without a GPU: a script plays it, and runs nothing below itself. */
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cm.h"
#include "base/file.h"
#include "base/folder.h"
#include "gate/gate_parts.h"

/* Keeps what it was to run, and reports what the test wants of the tool that it is. */
static const char script[] = "#!/bin/sh\n"
                             "tool=$2; while [ \"$1\" != --log-file ]; do shift; done\n"
                             "log=${2%%%p}; shift 2; echo \"$@\" > \"$SAW\"\n"
                             "[ \"$tool\" = \"$FINDS\" ] || { echo '==== ERROR SUMMARY: 0' > \"${log}1\"; exit 0; }\n"
                             "echo '========= Invalid __global__ read of size 2 bytes' > \"${log}1\"; exit 86\n";

typedef struct bench {
    folder here;
    char sanitizer[PATH_MAX], saw[PATH_MAX];
    char notes[4 * AT_SENTENCE_MAX];
    const char *kernel;
    at_test_problem problem;
    at_gate_options options;
    at_gate gate;
    at_gate_candidate candidate;
    at_gate_entry entry;
    at_verdict *verdict;
} bench;

static void on_note(void *self, const char *text)
{
    bench *on = self;
    size_t used = strlen(on->notes);
    (void)snprintf(on->notes + used, sizeof on->notes - used, "%s\n", text);
}

static attune_status sanitized(bench *on, attune_target_kind kind, const char *finds)
{
    on->notes[0] = '\0';
    at_verdict_destroy(on->verdict);
    assert_ok(at_verdict_create(&on->verdict));
    (void)snprintf(on->verdict->kernel, sizeof on->verdict->kernel, "%s", on->kernel);
    on->options = (at_gate_options){.seed = 7, .target = "cuda:1", .watch = {.self = on, .note = on_note}};
    on->gate = (at_gate){.options = &on->options, .target = {.kind = kind}};
    on->candidate = (at_gate_candidate){.text = on->kernel};
    on->entry = (at_gate_entry){.candidate = &on->candidate, .test = &on->problem, .verdict = on->verdict};
    assert_int_equal(setenv("FINDS", finds, 1), 0);
    return at_gate_sanitize(&on->gate, &on->entry);
}

static void notes(const bench *on, const char *words)
{
    if (strstr(on->notes, words) == NULL) {
        fail_msg("expected \"%s\" in:\n%s", words, on->notes);
    }
}

static void set_up(bench *on)
{
    *on = (bench){.kernel = "tiled:BLOCK_M=64"};
    assert_int_equal(folder_make(&on->here), 0);
    (void)folder_path(&on->here, "sanitizer", on->sanitizer);
    (void)folder_path(&on->here, "saw", on->saw);
    assert_ok(at_file_write(on->sanitizer, script, sizeof script - 1));
    assert_int_equal(chmod(on->sanitizer, 0700), 0);
    assert_int_equal(setenv("ATTUNE_SANITIZER", on->sanitizer, 1) | setenv("SAW", on->saw, 1), 0);
    assert_ok(at_test_problem_parse("b4,h8,s512,d64,fp16", &on->problem));
}

static void tear_down(bench *on)
{
    at_verdict_destroy(on->verdict);
    folder_remove(&on->here);
}

static void what_is_reported_is_wrong(void **state)
{
    bench on;
    void *saw;
    size_t bytes;
    (void)state;
    set_up(&on);
    assert_ok(sanitized(&on, ATTUNE_TARGET_CUDA, "nothing"));
    notes(&on, "b2,h2,s100,d64,fp16: memcheck: nothing");
    notes(&on, "b2,h2,s100,d64,fp16: racecheck: nothing");
    assert_int_equal(on.verdict->sanitizer_count, AT_SANITIZER_TOOLS);
    assert_ok(at_file_read(on.saw, 4096, &saw, &bytes));
    assert_non_null(strstr(saw, " check --cases 3 --seed 7 --kernel tiled:BLOCK_M=64 --target cuda:1 b2,h2,s100,d64"));
    free(saw);
    assert_fails(sanitized(&on, ATTUNE_TARGET_CUDA, "memcheck"), ATTUNE_WRONG_RESULT,
                 "memcheck: 1 reports, the first: Invalid __global__ read of size 2 bytes");
    assert_int_equal(on.verdict->sanitizer_count, 1);
    assert_fails(sanitized(&on, ATTUNE_TARGET_CUDA, "racecheck"), ATTUNE_WRONG_RESULT, "racecheck: 1 reports");
    tear_down(&on);
}

/* The library's by the table, a folder's whatever it is. */
static void exceptions_decide_nothing(void **state)
{
    bench on;
    (void)state;
    set_up(&on);
    on.kernel = "wgmma:BLOCK_M=128";
    assert_ok(sanitized(&on, ATTUNE_TARGET_CUDA, "racecheck"));
    notes(&on,
          "racecheck: 1 reports, the first: Invalid __global__ read of size 2 bytes; decides nothing: bulk copies");
    assert_int_equal(on.verdict->sanitizer[AT_RACECHECK].reports, 1);
    assert_int_equal(sanitized(&on, ATTUNE_TARGET_CUDA, "initcheck"), ATTUNE_WRONG_RESULT);
    on.kernel = "mine";
    assert_ok(sanitized(&on, ATTUNE_TARGET_CUDA, "racecheck"));
    notes(&on, "decides nothing: racecheck does not follow mbarriers");
    tear_down(&on);
}

static void what_was_not_checked_is_said(void **state)
{
    bench on;
    (void)state;
    set_up(&on);
    assert_ok(sanitized(&on, ATTUNE_TARGET_CPU, "memcheck"));
    notes(&on, "not checked: compute-sanitizer looks at CUDA devices only");
    assert_int_equal(setenv("ATTUNE_SANITIZER", "/nowhere/at/all", 1), 0);
    assert_ok(sanitized(&on, ATTUNE_TARGET_CUDA, "memcheck"));
    notes(&on, "not checked: ATTUNE_SANITIZER names /nowhere/at/all");
    assert_int_equal(on.verdict->sanitizer_count, AT_SANITIZER_TOOLS);
    for (int i = 0; i < AT_SANITIZER_TOOLS; ++i) {
        assert_false(on.verdict->sanitizer[i].ran);
        assert_non_null(strstr(on.verdict->sanitizer[i].account, "/nowhere/at/all"));
    }
    tear_down(&on);
}

/* Without being asked: of the library's own CUDA kernels, where evidence is written. */
static void evidence_of_ours_wants_it(void **state)
{
    at_gate_options options = {.sanitize = false};
    at_verdict *verdict;
    at_gate gate = {.options = &options, .target = {.kind = ATTUNE_TARGET_CUDA}};
    (void)state;
    assert_ok(at_verdict_create(&verdict));
    const at_gate_entry entry = {.verdict = verdict};
    assert_false(at_gate_wants_sanitizer(&gate, &entry));
    options.evidence = "evidence";
    assert_true(at_gate_wants_sanitizer(&gate, &entry));
    verdict->stranger = true;
    assert_false(at_gate_wants_sanitizer(&gate, &entry));
    options.sanitize = true;
    assert_true(at_gate_wants_sanitizer(&gate, &entry));
    options.sanitize = verdict->stranger = false;
    gate.target.kind = ATTUNE_TARGET_CPU;
    assert_false(at_gate_wants_sanitizer(&gate, &entry));
    at_verdict_destroy(verdict);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_reported_is_wrong),
        cmocka_unit_test(exceptions_decide_nothing),
        cmocka_unit_test(what_was_not_checked_is_said),
        cmocka_unit_test(evidence_of_ours_wants_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
