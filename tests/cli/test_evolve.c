/* attune evolve on the command line, on a real machine: what it takes, what it prints, what it keeps. What it finds is
 * the machine's business; no test judges by the clock. Its workers are this program itself. */
#include <stdlib.h>
#include <unistd.h>

#include "base/cm.h"
#include "base/folder.h"
#include "cli/command.h"
#include "evolve/ledger.h"

static void what_is_refused(void **state)
{
    (void)state;
    outcome_expect(COMMAND("evolve"), AT_EXIT_USAGE, "a kernel is needed");
    outcome_expect(COMMAND("evolve", "cpu_tilde"), AT_EXIT_USAGE, "did you mean \"cpu_tiled\"?");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--isa", "avx1024"), AT_EXIT_USAGE, "avx512 avx512_bf16 amx");
    outcome_expect(COMMAND("evolve", "cpu_tilde", "--isa", "amx"), AT_EXIT_USAGE, "did you mean \"cpu_tiled\"?");
    outcome_expect(COMMAND("evolve", "cpu_tiled:BLOCK_M=17"), AT_EXIT_USAGE, "BLOCK_M cannot be '17'");
    outcome_expect(COMMAND("evolve", "cpu_tiled:BLOCK=8"), AT_EXIT_USAGE, "no parameter 'BLOCK'");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "b1,h8,s512,d64,fp61"), AT_EXIT_USAGE, "fp61");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--budget", "10"), AT_EXIT_USAGE, "a number and a unit are needed");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--budget", "1.5runs"), AT_EXIT_USAGE, "a whole number of runs");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--budget", "99999999999runs"), AT_EXIT_USAGE, "at most 1e6");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--budget", "0s"), AT_EXIT_USAGE, "above 0");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--repeat", "3"), AT_EXIT_USAGE, "--repeat belongs to");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--blind"), AT_EXIT_USAGE,
                   "--blind belongs to `attune evolve replay`");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--strategy", "luck"), AT_EXIT_USAGE, "luck");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--resume"), AT_EXIT_USAGE, "--ledger names it");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--against", "torch:flush"), AT_EXIT_USAGE, "peer: torch:flush");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--wisdom", "/no/such/folder/x.wisdom"), AT_EXIT_USAGE,
                   "/no/such/folder/x.wisdom");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--evidence", "/dev/null/here"), AT_EXIT_FAILED,
                   "something else has its name");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--ledger", "/no/such/folder/x.jsonl"), AT_EXIT_USAGE,
                   "/no/such/folder/x.jsonl");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--seeds", "/dev/null/x.txt"), AT_EXIT_FAILED,
                   "something else has its name");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--target", "cuda", "--worker", "/no/such/program"), AT_EXIT_FAILED,
                   "/no/such/program");
    outcome_expect(COMMAND("evolve", "--one", "cpu_tiled:BLOCK_M=8", "--strategy", "random"), AT_EXIT_USAGE,
                   "--strategy says nothing to it");
    outcome_expect(COMMAND("evolve", "--one", "cpu_tiled:BLOCK_M=8", "--budget", "10s"), AT_EXIT_USAGE,
                   "--budget says nothing to it");
    outcome_expect(COMMAND("evolve", "--one", "cpu_tiled:EXP=4", "b1,h1,s64,d128,fp32"), AT_EXIT_FAILED,
                   "EXP 4: fp32 needs at least degree 5");
}

static void what_is_refused_of_searches_for_code(void **state)
{
    (void)state;
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--proposals", "3"), AT_EXIT_USAGE, "--proposals belongs to");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--proposer", "x", "--refresh"), AT_EXIT_USAGE,
                   "--refresh says nothing to it");
    outcome_expect(COMMAND("evolve", "cpu_tiled:EXP=5", "--proposer", "x"), AT_EXIT_USAGE,
                   "searched for each source anew");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--proposer", "x", "--proposals", "0"), AT_EXIT_USAGE,
                   "--proposals is 0");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--proposer", "x", "--proposer-budget", "5eur"), AT_EXIT_USAGE,
                   "2h, 90m, 30s, 5usd, 2Mtok");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--proposer", "x", "--budget", "200runs"), AT_EXIT_USAGE,
                   "--budget 200runs: numbers with units");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--proposer", "x", "--budget", "5usd"), AT_EXIT_USAGE,
                   "a time is needed");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--proposer", "x", "--limit", "5"), AT_EXIT_USAGE,
                   "--ledger names its folder");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--proposer", ""), AT_EXIT_USAGE, "a command is needed");
    outcome_expect(COMMAND("evolve", "cpu_tiled", "--proposer", "x", "--resume"), AT_EXIT_USAGE, "names its folder");
    outcome_expect(COMMAND("evolve", "cpu_tilde", "--proposer", "x"), AT_EXIT_USAGE, "cpu_tilde");
    outcome_expect(COMMAND("evolve", "replay", "/tmp"), AT_EXIT_USAGE, "about.json");
}

static void holds(const char *text, const char *words)
{
    if (strstr(text, words) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", text, words);
    }
}

/* A bounded search from its first candidate to a quick gate, with everything that it says of itself. The machine may be
 * busy: a void search is then an answer, and is said to be one. */
static void a_small_search(void **state)
{
    (void)state;
    folder in;
    char ledger[PATH_MAX], seeds[PATH_MAX];
    assert_int_equal(folder_make(&in), 0);
    (void)folder_path(&in, "search.jsonl", ledger);
    (void)folder_path(&in, "micro.txt", seeds);
    outcome got = COMMAND("evolve", "cpu_tiled", "b1,h2,s96,d64,fp32", "--budget", "4runs", "--quick", "--cases", "5",
                          "--ledger", ledger, "--seeds", seeds);
    assert_true(got.code == 0 || got.code == 4);
    holds(got.out, "b1,h2,s96,d64,fp32\n");
    holds(got.out, "candidates of");
    holds(got.out, "left out before they were made: scratch");
    holds(got.out, "check        mutant holds");
    if (strstr(got.out, "\n  void") == NULL) {
        holds(got.out, "check        placebo holds");
        holds(got.out, "correctness  pass");
        holds(got.out, "right: pass");
        holds(got.out, "1 right, 0 wrong");
        assert_int_equal(access(seeds, R_OK), 0);
    }
    outcome_free(&got);
    at_ledger_log *log;
    assert_ok(at_ledger_read(ledger, &log));
    assert_true(log->ended && log->space != NULL);
    assert_string_equal(log->event[0].as.start.kernel, "cpu_tiled");
    assert_string_equal(log->event[0].as.start.budget, "4runs");
    at_ledger_free(log);
    outcome_expect(COMMAND("evolve", "cpu_tiled", "b1,h2,s96,d64,fp32", "--ledger", ledger), AT_EXIT_USAGE,
                   "none is overwritten: --resume goes on with it");
    got = COMMAND("evolve", "cpu_tiled", "b1,h2,s96,d64,fp32", "--budget", "4runs", "--ledger", ledger, "--resume");
    holds(got.out, "its ledger has an end already");
    assert_int_equal(got.code, 0);
    outcome_free(&got);
    outcome_expect(COMMAND("evolve", "cpu_tiled", "b1,h2,s97,d64,fp32", "--ledger", ledger, "--resume"), AT_EXIT_USAGE,
                   "it is of another search");
    folder_remove(&in);
}

/* A search for code by a command, from a new kernel to the page about it, and through its record again. A busy machine
 * may have its first source void: that is then said. */
static void a_command_proposes(void **state)
{
    (void)state;
    folder in;
    char mine[PATH_MAX], record[PATH_MAX], page[PATH_MAX];
    assert_int_equal(folder_make(&in), 0);
    (void)folder_path(&in, "mine", mine);
    (void)folder_path(&in, "run", record);
    (void)folder_path(&in, "run/report.html", page);
    outcome got = COMMAND("new", mine);
    assert_int_equal(got.code, AT_EXIT_OK);
    outcome_free(&got);
    got = COMMAND("evolve", mine, "b1,h1,s64,d32,fp32", "--target", "cpu", "--proposer",
                  ATTUNE_SOURCE_DIR "/examples/proposers/five_lines.sh", "--proposals", "2", "--tune", "1",
                  "--no-controls", "--no-gate", "--ledger", record);
    if (strstr(got.err, "cannot be timed") == NULL) {
        assert_int_equal(got.code, AT_EXIT_OK);
        holds(got.out, "your own rights");
        holds(got.out, "loops over columns unrolled: ");
        assert_int_equal(access(page, R_OK), 0);
        outcome again = COMMAND("evolve", "replay", record);
        assert_int_equal(again.code, AT_EXIT_OK);
        holds(again.out, "every decision is the recorded one");
        outcome_free(&again);
    }
    outcome_free(&got);
    folder_remove(&in);
}

/* What ends a search, here that answers cannot be kept, leaves a page and a ledger to go on with. */
static void who_is_ended_has_what_there_is(void **state)
{
    (void)state;
    folder in;
    char mine[PATH_MAX], record[PATH_MAX], page[PATH_MAX], answers[PATH_MAX], proposer[2 * PATH_MAX + 64];
    assert_int_equal(folder_make(&in), 0);
    (void)folder_path(&in, "mine", mine);
    (void)folder_path(&in, "run", record);
    (void)folder_path(&in, "run/report.html", page);
    (void)folder_path(&in, "run/answers", answers);
    (void)snprintf(proposer, sizeof proposer, "rm -rf %s; : >%s; echo // >>candidate/mine.kernel.c", answers, answers);
    outcome got = COMMAND("new", mine);
    assert_int_equal(got.code, AT_EXIT_OK);
    outcome_free(&got);
    got = COMMAND("evolve", mine, "b1,h1,s64,d32,fp32", "--target", "cpu", "--proposer", proposer, "--proposals", "2",
                  "--tune", "1", "--no-controls", "--no-gate", "--ledger", record);
    if (strstr(got.err, "cannot be timed") == NULL) {
        assert_true(got.code != AT_EXIT_OK);
        holds(got.err, "--resume goes on");
        assert_int_equal(access(page, R_OK), 0);
    }
    outcome_free(&got);
    folder_remove(&in);
}

static void one_config_alone(void **state)
{
    (void)state;
    outcome got = COMMAND("evolve", "--one", "cpu_tiled:BLOCK_M=16,BLOCK_N=32", "b1,h1,s64,d64,fp32", "--each",
                          "--format", "tsv");
    assert_true(got.code == 0 || got.code == 4);
    holds(got.err, "BLOCK_M=16,BLOCK_N=32,");
    holds(got.err, "of the champion's time");
    holds(got.out, "problem\tkernel\toutcome\twinner\t");
    holds(got.out, "b1,h1,s64,d64,fp32\tcpu_tiled\t");
    outcome_free(&got);
}

int main(int argc, char **argv)
{
    if (argc > 1) { /* a worker, started by one of the commands below */
        return at_cli_main(argc, (const char *const *)argv, stdout, stderr);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_refused),  cmocka_unit_test(what_is_refused_of_searches_for_code),
        cmocka_unit_test(a_small_search),   cmocka_unit_test(a_command_proposes),
        cmocka_unit_test(one_config_alone), cmocka_unit_test(who_is_ended_has_what_there_is),
    };
    return cmocka_run_group_tests_name("cli.evolve", tests, NULL, NULL);
}
