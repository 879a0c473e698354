/* What compute-sanitizer's words are taken for, by a script that speaks like it. */
#include "base/cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/scratch.h"
#include "judge/sanitizer.h"
#include "library/catalogue.h"

static at_scratch folder;
static char script[512];

static int make_folder(void **state)
{
    (void)state;
    return at_scratch_make(&folder) == ATTUNE_OK ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    at_scratch_remove(&folder);
    return 0;
}

/* A sanitizer that finds its log among its words, writes this there as two processes would, runs nothing and ends so.
 */
static void speak(const char *log, const char *last)
{
    (void)snprintf(script, sizeof script, "%s/sanitizer", folder.path);
    FILE *file = fopen(script, "w");
    assert_non_null(file);
    (void)fprintf(file,
                  "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = --log-file ] && log=${2%%%%%%p}; shift; done\n"
                  "echo '========= COMPUTE-SANITIZER' > \"${log}1\"\ncat > \"${log}2\" <<'END'\n%s\nEND\n%s\n",
                  log, last);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(script, 0700), 0);
}

static bool run(at_sanitizer_tool tool, const char *kernel, at_sanitizer_finding *finding)
{
    static const char *const command[] = {"attune", "check", NULL};
    at_sanitizer_run(script, tool, kernel, command, 20, finding);
    return finding->ran;
}

static void is_said(const at_sanitizer_finding *finding, const char *sentence)
{
    char text[AT_SANITIZER_SENTENCE];
    assert_string_equal(at_sanitizer_print(finding, text), sentence);
}

static void silence_is_good(void **state)
{
    at_sanitizer_finding finding;
    (void)state;
    speak("========= ERROR SUMMARY: 0 errors", "exit 0");
    assert_true(run(AT_MEMCHECK, "tiled", &finding));
    assert_int_equal(finding.reports, 0);
    assert_false(at_sanitizer_refutes(&finding));
    is_said(&finding, "memcheck: nothing");
}

static void reports_are_counted(void **state)
{
    at_sanitizer_finding finding;
    (void)state;
    speak("========= Invalid __global__ write of size 4 bytes\n=========     at attend+0x1a0\n"
          "========= Uninitialized __global__ memory read of size 2 bytes\n========= ERROR SUMMARY: 2 errors",
          "exit 86");
    assert_true(run(AT_MEMCHECK, "tiled", &finding));
    assert_int_equal(finding.reports, 2);
    assert_true(at_sanitizer_refutes(&finding));
    is_said(&finding, "memcheck: 2 reports, the first: Invalid __global__ write of size 4 bytes");
    speak("========= a word of its own", "exit 86"); /* which nobody knows here */
    assert_true(run(AT_INITCHECK, "tiled", &finding));
    assert_true(at_sanitizer_refutes(&finding));
    is_said(&finding, "initcheck: 1 reports, the first: it does not say what");
    speak("========= Error: Race reported between Write access and Read access", "exit 1");
    assert_true(run(AT_RACECHECK, "tiled:BLOCK_M=64", &finding));
    assert_int_equal(finding.reports, 1);
    assert_true(at_sanitizer_refutes(&finding));
    assert_true(run(AT_RACECHECK, "wgmma:BLOCK_M=128", &finding));
    assert_int_equal(finding.reports, 1);
    assert_false(at_sanitizer_refutes(&finding));
    assert_non_null(strstr(finding.account, "mbarriers"));
}

static void what_did_not_run_is_no_finding(void **state)
{
    at_sanitizer_finding finding;
    (void)state;
    speak("", "echo no device; exit 3");
    assert_false(run(AT_MEMCHECK, "tiled", &finding));
    assert_false(at_sanitizer_refutes(&finding));
    is_said(&finding, "memcheck: not checked: it ended by itself with exit code 3: no device");
    (void)snprintf(script, sizeof script, "%s/nothing", folder.path);
    assert_false(run(AT_MEMCHECK, "tiled", &finding));
    assert_non_null(strstr(finding.account, "does not start"));
}

/* A program of that name that is something else, and one that dies before it sums up, end well and found nothing. */
static void garbage_is_no_finding(void **state)
{
    at_sanitizer_finding finding;
    (void)state;
    speak("\001\377 ERROR\t=========", "printf '\\000\\377'; exit 0");
    assert_false(run(AT_INITCHECK, "tiled", &finding));
    assert_non_null(strstr(finding.account, "its log has no summary"));
}

static void what_hangs_is_ended(void **state)
{
    static const char *const command[] = {"attune", "check", NULL};
    at_sanitizer_finding finding;
    (void)state;
    speak("========= ERROR SUMMARY: 0 errors", "sleep 3600");
    at_sanitizer_run(script, AT_MEMCHECK, "tiled", command, 0.2, &finding);
    assert_false(finding.ran);
    assert_non_null(strstr(finding.account, "0.2"));
}

/* Exceptions are of kernels that are there, and of the tool that they name alone. */
static void exceptions_are_the_librarys(void **state)
{
    int count = 0;
    (void)state;
    for (; at_sanitizer_excepted(count) != NULL; ++count) {
        assert_non_null(at_catalogue_find(at_sanitizer_excepted(count)));
    }
    assert_true(count > 0);
    assert_null(at_sanitizer_excuse(AT_MEMCHECK, "wgmma"));
    assert_null(at_sanitizer_excuse(AT_RACECHECK, "wgmma_small"));
    assert_null(at_sanitizer_excuse(AT_RACECHECK, "tiled:BLOCK_M=64"));
    assert_non_null(at_sanitizer_excuse(AT_RACECHECK, "./tiled"));
    assert_non_null(at_sanitizer_excuse(AT_RACECHECK, NULL));
    assert_null(at_sanitizer_excuse(AT_INITCHECK, "./tiled"));
}

static void it_is_looked_for(void **state)
{
    char *path;
    (void)state;
    assert_int_equal(setenv("ATTUNE_SANITIZER", "/bin/sh", 1), 0);
    assert_ok(at_sanitizer_find(&path));
    assert_string_equal(path, "/bin/sh");
    free(path);
    assert_int_equal(setenv("ATTUNE_SANITIZER", "/nowhere/at/all", 1), 0);
    assert_fails(at_sanitizer_find(&path), ATTUNE_NOT_FOUND, "ATTUNE_SANITIZER names /nowhere/at/all");
}

static void problems_become_small(void **state)
{
    static const char *const texts[] = {"b8,h32,hkv8,s4096,d128,bf16,causal", "b1,h1,sq1,skv8192,d64,fp16",
                                        "b4,h4,s200,d64,fp16,varlen,seqused", "b1,h8,s512,d64,fp16,window=64:0"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        attune_problem problem;
        assert_ok(attune_problem_parse(texts[i], &problem));
        const attune_problem small = at_sanitizer_problem(&problem);
        assert_ok(attune_problem_check(&small));
        assert_true(attune_problem_flops(&small) < 1e8);
        assert_int_equal(small.heads_q / small.heads_kv, problem.heads_q / problem.heads_kv);
    }
}

/* Kernels for few queries refuse few keys: what a sanitizer looks at is still theirs. */
static void few_queries_keep_long_keys(void **state)
{
    static const struct {
        const char *text;
        int64_t keys;
    } cases[] = {{"b1,h32,hkv8,sq1,skv8192,d128,bf16", 1100},
                 {"b8,h32,hkv8,sq8,skv8192,d128,bf16,causal", 1100},
                 {"b1,h8,sq1,skv700,d64,fp16", 700},
                 {"b1,h8,sq50,skv4096,d64,fp16", 200},
                 {"b1,h8,sq32,skv4096,d64,fp16", 1100},
                 {"b1,h8,sq0,skv4096,d64,fp16", 100},
                 {"b1,h8,s4096,d64,fp16", 100}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        attune_problem problem;
        assert_ok(attune_problem_parse(cases[i].text, &problem));
        assert_int_equal(at_sanitizer_problem(&problem).seqlen_kv, cases[i].keys);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_queries_keep_long_keys),  cmocka_unit_test(silence_is_good),
        cmocka_unit_test(reports_are_counted),         cmocka_unit_test(what_did_not_run_is_no_finding),
        cmocka_unit_test(garbage_is_no_finding),       cmocka_unit_test(what_hangs_is_ended),
        cmocka_unit_test(exceptions_are_the_librarys), cmocka_unit_test(it_is_looked_for),
        cmocka_unit_test(problems_become_small),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
