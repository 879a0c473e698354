/* attune gate on the command line: what it takes, what it prints, how it ends. Its workers are this program itself. */
#include <stdlib.h>
#include <unistd.h>

#include "base/cm.h"
#include "base/file.h"
#include "base/folder.h"
#include "cli/command.h"
#include "evidence/evidence.h"
#include "evidence/zip.h"

static const char peer[] = "cpu_tiled:BLOCK_M=16,BLOCK_N=48";

static void what_is_refused(void **state)
{
    (void)state;
    outcome_expect(COMMAND("gate"), AT_EXIT_USAGE, "a candidate is needed");
    outcome_expect(COMMAND("gate", "cpu_tilde"), AT_EXIT_USAGE, "did you mean \"cpu_tiled\"?");
    outcome_expect(COMMAND("gate", "cpu_tiled:BLOCK_M=7"), AT_EXIT_USAGE, "BLOCK_M");
    outcome_expect(COMMAND("gate", "cpu_tiled", "b1,h8,s512,d64,fp61"), AT_EXIT_USAGE, "fp61");
    outcome_expect(COMMAND("gate", "cpu_tiled", "--must", "nought"), AT_EXIT_USAGE, "--must");
    outcome_expect(COMMAND("gate", "cpu_tiled", "--limit", "0"), AT_EXIT_USAGE, "--limit is 0, allowed are 1");
    outcome_expect(COMMAND("gate", "cpu_tiled", "--against", "cudnn,,openblas"), AT_EXIT_USAGE, "a name is missing");
    outcome_expect(COMMAND("gate", "./no/such/folder"), AT_EXIT_USAGE, "there is no folder");
    outcome_expect(COMMAND("gate", "cpu_tiled", "--against", "cudnn,openblass"), AT_EXIT_USAGE,
                   "peer: there is no kernel openblass: did you mean openblas?");
    outcome_expect(COMMAND("gate", "cpu_tiled", "--against", "torch:flush"), AT_EXIT_USAGE, "peer: torch:flush");
    outcome_expect(COMMAND("gate", "cpu_tiled", "--wisdom", "/no/such/folder/x.wisdom"), AT_EXIT_USAGE,
                   "/no/such/folder/x.wisdom");
    outcome_expect(COMMAND("gate", "cpu_tiled", "--wisdom", "/"), AT_EXIT_FAILED, "/");
    outcome_expect(COMMAND("gate", "cpu_tiled", "--worker", "/no/such/program"), AT_EXIT_FAILED, "/no/such/program");
    outcome_expect(COMMAND("gate", "cpu_tiled", "--against", "mine", "--worker", "/no/such/program"), AT_EXIT_FAILED,
                   "/no/such/program"); /* whose arms nobody else knows */
    outcome_expect(COMMAND("gate", "cpu_tiled", "--evidence", "/dev/null/here"), AT_EXIT_FAILED,
                   "something else has its name");
    outcome_expect(COMMAND("gate", "b1,h8,s512,d64,fp16"), AT_EXIT_USAGE, "no candidate is given");
}

/* Where a Python peer's file lies is no business of evidence, whether there is a PyTorch to run it or not. */
static void evidence_names_no_folders(void **state)
{
    (void)state;
    folder here;
    char **files = NULL;
    void *data = NULL;
    at_text text;
    size_t count = 0, bytes = 0;
    (void)setenv("PYTHONPATH", ATTUNE_SOURCE_DIR "/python", 1);
    (void)setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    assert_int_equal(folder_make(&here), 0);
    outcome got = COMMAND("gate", "cpu_tiled", "b1,h1,s16,d16,fp32", "--against",
                          "py:" ATTUNE_SOURCE_DIR "/tests/worker/python_arms.py:plain", "--quick", "--cases", "3",
                          "--evidence", here.path);
    assert_true(got.code >= 0 && got.code <= 3);
    assert_ok(at_evidence_find(here.path, &files, &count));
    assert_int_equal(count, 1);
    at_text_init(&text);
    assert_ok(at_file_read(files[0], 1 << 26, &data, &bytes));
    assert_ok(at_zip_open(files[0], data, bytes, 1 << 26, &text));
    assert_non_null(strstr(text.data, "\"py:python_arms.py:plain\""));
    assert_null(strstr(text.data, ATTUNE_SOURCE_DIR));
    assert_non_null(strstr(text.data, "\"code_sha256\"")); /* what evidence is bound to */
    at_text_free(&text);
    free(data);
    assert_int_equal(unlink(files[0]), 0);
    *strrchr(files[0], '/') = '\0';
    assert_int_equal(rmdir(files[0]), 0);
    free(files[0]);
    free(files);
    outcome_free(&got);
    folder_remove(&here);
}

/* A machine without it could not run the gate, which was asked for rightly, and leaves no folder for its evidence. */
static void a_device_that_is_not_there(void **state)
{
    (void)state;
    folder here;
    assert_int_equal(folder_make(&here), 0);
    const char *kept = folder_file(&here, "below/evidence");
    assert_int_equal(setenv("ATTUNE_LIBCUDA", ATTUNE_FAKE_DRIVER, 1), 0);
    outcome_expect(COMMAND("gate", "minimal", "--target", "cuda:99", "--evidence", kept), AT_EXIT_FAILED,
                   "CUDA device 99: the driver shows 2");
    assert_int_equal(unsetenv("ATTUNE_LIBCUDA"), 0);
    assert_int_equal(folder_count(&here), 0);
    folder_remove(&here);
}

/* What has not begun has no account, and no rows for a program either. */
static void what_is_refused_counts_nothing(void **state)
{
    (void)state;
    const char *const formats[] = {"text", "tsv"};
    for (int i = 0; i < 2; ++i) {
        outcome got = COMMAND("gate", "cpu_tiled", "--against", "openblass", "--format", formats[i]);
        assert_int_equal(got.code, AT_EXIT_USAGE);
        assert_string_equal(got.out, "");
        outcome_free(&got);
        got = COMMAND("evolve", "cpu_tiled", "--against", "openblass", "--format", formats[i]);
        assert_int_equal(got.code, AT_EXIT_USAGE);
        assert_string_equal(got.out, "");
        outcome_free(&got);
    }
}

static void help(void **state)
{
    (void)state;
    outcome got = COMMAND("gate", "--help");
    assert_int_equal(got.code, AT_EXIT_OK);
    assert_non_null(strstr(got.out, "--against"));
    assert_non_null(strstr(got.out, "Exit codes: 0 right and faster"));
    outcome_free(&got);
}

/* Every stage is printed, and that it could not be timed against a peer that is not here. */
static void the_account(void **state)
{
    (void)state;
    outcome got = COMMAND("gate", "cpu_tiled", "b1,h1,s40,d64,fp32", "--against", "cudnn", "--cases", "10");
    static const char *const lines[] = {"device ",
                                        "memory ",
                                        "b1,h1,s40,d64,fp32\n",
                                        "  cpu_tiled\n",
                                        "build        pass",
                                        "launch       pass",
                                        "sanity       pass",
                                        "correctness  pass",
                                        "10 of 10 cases right",
                                        "cudnn cannot be a peer here",
                                        "speed        inconclusive",
                                        "by the origin's definition: not known, no back end of PyTorch was timed",
                                        "right: pass   faster: inconclusive",
                                        "0 pass, 0 fail, 0 inconclusive, 1 could not run"};
    assert_int_equal(got.code, 3);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; ++i) {
        if (strstr(got.out, lines[i]) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", got.out, lines[i]);
        }
    }
    assert_null(strchr(got.out, '\033')); /* colours are for terminals */
    outcome_free(&got);
}

/* Really timed, whatever comes of it. */
static void ratios_for_programs(void **state)
{
    (void)state;
    outcome got = COMMAND("gate", "cpu_tiled", "b1,h1,s64,d64,fp32", "--against", peer, "--quick", "--cases", "5",
                          "--threads", "1", "--format", "tsv");
    static const char header[] =
        "device\tproblem\tkernel\tconfig\tpeer\tmode\tratio\tlo\thi\tcandidate_us\tpeer_us\ttflops\tright\t"
        "faster\tstate\n";
    assert_true(got.code >= 0 && got.code <= 2);
    assert_memory_equal(got.out, header, sizeof header - 1);
    const char *row = got.out + sizeof header - 1;
    assert_non_null(strstr(row, "\tb1,h1,s64,d64,fp32\tcpu_tiled\tBLOCK_M="));
    assert_non_null(strstr(row, peer));
    assert_non_null(strstr(row, "\twarm\t"));
    assert_non_null(strstr(row, "\tpass\t"));
    assert_non_null(strstr(got.err, "correctness  pass"));
    outcome_free(&got);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(a_device_that_is_not_there),
        cmocka_unit_test(what_is_refused_counts_nothing),
        cmocka_unit_test(help),
        cmocka_unit_test(the_account),
        cmocka_unit_test(ratios_for_programs),
        cmocka_unit_test(evidence_names_no_folders),
    };
    if (argc > 1 && strcmp(argv[1], "worker") == 0) {
        return at_cli_main(argc, (const char *const *)argv, stdout, stderr);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
