/* --sanitize without a GPU: a script plays compute-sanitizer, and runs nothing below itself. */
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
                             "[ \"$tool\" = \"$FINDS\" ] || exit 0\n"
                             "echo '========= Invalid __global__ read of size 2 bytes' > \"${log}1\"; exit 86\n";

typedef struct bench {
    folder here;
    char sanitizer[PATH_MAX], saw[PATH_MAX];
    char notes[4 * AT_SENTENCE_MAX];
    at_test_problem problem;
    at_gate_options options;
    at_gate gate;
    at_gate_candidate candidate;
    at_gate_entry entry;
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
    on->options = (at_gate_options){.seed = 7, .target = "cuda:1", .watch = {.self = on, .note = on_note}};
    on->gate = (at_gate){.options = &on->options, .target = {.kind = kind}};
    on->candidate = (at_gate_candidate){.text = "tiled:BLOCK_M=64"};
    on->entry = (at_gate_entry){.candidate = &on->candidate, .test = &on->problem};
    assert_int_equal(setenv("FINDS", finds, 1), 0);
    return at_gate_sanitize(&on->gate, &on->entry);
}

static void notes(const bench *on, const char *words)
{
    if (strstr(on->notes, words) == NULL) {
        fail_msg("expected \"%s\" in:\n%s", words, on->notes);
    }
}

static void what_is_reported_is_wrong_but_for_races(void **state)
{
    bench on = {.notes = ""};
    void *saw;
    size_t bytes;
    (void)state;
    assert_int_equal(folder_make(&on.here), 0);
    (void)folder_path(&on.here, "sanitizer", on.sanitizer);
    (void)folder_path(&on.here, "saw", on.saw);
    assert_ok(at_file_write(on.sanitizer, script, sizeof script - 1));
    assert_int_equal(chmod(on.sanitizer, 0700), 0);
    assert_int_equal(setenv("ATTUNE_SANITIZER", on.sanitizer, 1) | setenv("SAW", on.saw, 1), 0);
    assert_ok(at_test_problem_parse("b4,h8,s512,d64,fp16", &on.problem));
    assert_ok(sanitized(&on, ATTUNE_TARGET_CUDA, "nothing"));
    notes(&on, "memcheck, b2,h2,s100,d64,fp16: 0 reports");
    notes(&on, "racecheck, b2,h2,s100,d64,fp16: 0 reports");
    assert_ok(at_file_read(on.saw, 4096, &saw, &bytes));
    assert_non_null(strstr(saw, " check --cases 3 --seed 7 --kernel tiled:BLOCK_M=64 --target cuda:1 b2,h2,s100,d64"));
    free(saw);
    assert_fails(sanitized(&on, ATTUNE_TARGET_CUDA, "memcheck"), ATTUNE_WRONG_RESULT,
                 "memcheck of b2,h2,s100,d64,fp16: 1 reports, the first: Invalid __global__ read of size 2 bytes");
    assert_ok(sanitized(&on, ATTUNE_TARGET_CUDA, "racecheck"));
    notes(&on, "racecheck, b2,h2,s100,d64,fp16: 1 reports, the first: Invalid __global__ read of size 2 bytes; decides "
               "nothing: racecheck does not follow mbarriers");
    assert_ok(sanitized(&on, ATTUNE_TARGET_CPU, "memcheck"));
    notes(&on, "not checked: it looks at CUDA devices only");
    assert_int_equal(setenv("ATTUNE_SANITIZER", "/nowhere/at/all", 1), 0);
    assert_ok(sanitized(&on, ATTUNE_TARGET_CUDA, "memcheck"));
    notes(&on, "not checked: ATTUNE_SANITIZER names /nowhere/at/all");
    folder_remove(&on.here);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_reported_is_wrong_but_for_races)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
