/* --counters from end to end, without a GPU: a script replaces ncu, and below it a worker runs a CPU kernel. */
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cm.h"
#include "base/file.h"
#include "base/folder.h"
#include "gate/gate_parts.h"
#include "judge/counters.h"
#include "worker/worker.h"

static const char *const worker[] = {"/proc/self/exe", "worker", NULL};
static const char *const dies[] = {"/proc/self/exe", "die", NULL};

/* Answers the query, and leaves a table where the log is wanted before it becomes the worker. */
static const char script[] = "#!/bin/sh\n"
                             "if [ \"$1\" = --query-metrics ]; then echo 'gpu__time_duration Counter'; exit 0; fi\n"
                             "while [ \"$1\" != --log-file ]; do shift; done\n"
                             "cp \"$NCU_TABLE\" \"$2\"; shift 2\n"
                             "exec \"$@\"\n";

typedef struct bench {
    folder here;
    char ncu[PATH_MAX], table[PATH_MAX], note[AT_SENTENCE_MAX];
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
    (void)snprintf(on->note, sizeof on->note, "%s", text);
}

static void write_table(const bench *on, const char *text)
{
    assert_ok(at_file_write(on->table, text, strlen(text)));
}

static void bench_open(bench *on, const char *const *command)
{
    *on = (bench){.candidate = {.text = "cpu_tiled"}};
    assert_int_equal(folder_make(&on->here), 0);
    (void)folder_path(&on->here, "ncu", on->ncu);
    (void)folder_path(&on->here, "table", on->table);
    assert_ok(at_file_write(on->ncu, script, sizeof script - 1));
    assert_int_equal(chmod(on->ncu, 0700), 0);
    assert_int_equal(setenv("ATTUNE_NCU", on->ncu, 1) | setenv("NCU_TABLE", on->table, 1), 0);
    assert_ok(at_test_problem_parse("b1,h1,s16,d16,fp32", &on->problem));
    assert_ok(at_verdict_create(&on->verdict));
    on->options = (at_gate_options){.seed = 1, .threads = 1, .worker = command, .watch = {.self = on, .note = on_note}};
    on->gate = (at_gate){.options = &on->options, .target_text = "cpu", .target = {.kind = ATTUNE_TARGET_CUDA}};
    on->entry = (at_gate_entry){.candidate = &on->candidate, .test = &on->problem, .verdict = on->verdict};
}

static void bench_close(bench *on)
{
    at_verdict_destroy(on->verdict);
    folder_remove(&on->here);
    assert_int_equal(unsetenv("ATTUNE_NCU") | unsetenv("NCU_TABLE"), 0);
}

static void what_ncu_saw_is_read(void **state)
{
    (void)state;
    bench on;
    bench_open(&on, worker);
    write_table(&on, "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\"\n\"\",\"\",\"ns\"\n\"0\",\"k\",\"4,500\"\n");
    assert_ok(at_gate_counters(&on.gate, &on.entry));
    const at_counters *counters = &on.verdict->counters;
    assert_true(counters->asked);
    assert_string_equal(counters->why_not, "");
    assert_true(at_counters_value(counters, "duration_us") == 4.5);
    assert_string_not_equal(counters->diagnosis, "");
    assert_non_null(strstr(on.note, counters->diagnosis));
    bench_close(&on);
}

/* Its own words are nearer to the reason than what its end looks like from here. */
static void what_ncu_says_is_why_not(void **state)
{
    (void)state;
    const char *const *const commands[] = {worker, dies};
    for (int i = 0; i < 2; ++i) {
        bench on;
        bench_open(&on, commands[i]);
        write_table(&on, "==ERROR== ERR_NVGPUCTRPERM - no permission\n");
        assert_ok(at_gate_counters(&on.gate, &on.entry));
        assert_non_null(strstr(on.verdict->counters.why_not, "ERR_NVGPUCTRPERM"));
        assert_non_null(strstr(on.note, "ERR_NVGPUCTRPERM"));
        assert_int_equal(on.verdict->counters.count, 0);
        bench_close(&on);
    }
}

/* A table does not make up for a call that did not come to its end. */
static void a_worker_that_died_is_why_not(void **state)
{
    (void)state;
    bench on;
    bench_open(&on, dies);
    write_table(&on, "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\"\n\"\",\"\",\"ns\"\n\"0\",\"k\",\"4,500\"\n");
    assert_ok(at_gate_counters(&on.gate, &on.entry));
    assert_non_null(strstr(on.verdict->counters.why_not, "ended by itself with exit code 5"));
    assert_non_null(strstr(on.note, "ended by itself"));
    bench_close(&on);
}

/* Asked for without a gate, of a candidate by its text. */
static void a_call_is_counted_without_a_gate(void **state)
{
    (void)state;
    bench on;
    at_counters counters;
    const char *const candidates[] = {"cpu_tiled"};
    bench_open(&on, worker);
    write_table(&on, "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\"\n\"\",\"\",\"ns\"\n\"0\",\"k\",\"4,500\"\n");
    on.options.candidate = candidates;
    on.options.candidate_count = 1;
    on.options.problem = &on.problem;
    on.options.problem_count = 1;
    assert_ok(at_gate_count(&on.options, &on.gate.target, &counters));
    assert_true(at_counters_value(&counters, "duration_us") == 4.5);
    bench_close(&on);
}

static void other_targets_have_none(void **state)
{
    (void)state;
    bench on;
    bench_open(&on, worker);
    on.gate.target.kind = ATTUNE_TARGET_CPU;
    assert_ok(at_gate_counters(&on.gate, &on.entry));
    assert_string_equal(on.verdict->counters.why_not, "counters are read on CUDA devices only");
    bench_close(&on);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        return strcmp(argv[1], "worker") == 0 && attune_worker_serve(NULL) == ATTUNE_OK ? 0 : 5;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ncu_saw_is_read),          cmocka_unit_test(what_ncu_says_is_why_not),
        cmocka_unit_test(a_worker_that_died_is_why_not), cmocka_unit_test(a_call_is_counted_without_a_gate),
        cmocka_unit_test(other_targets_have_none),
    };
    return cmocka_run_group_tests_name("gate.gate_counters", tests, NULL, NULL);
}
