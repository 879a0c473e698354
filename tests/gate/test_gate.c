/* The gate from end to end, on the CPU: real workers judge a real kernel, a machine made of numbers says what time it
 * takes. The workers are this program itself. */
#include "base/cm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "attune/gate.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/text.h"
#include "evidence/evidence.h"
#include "gate/gate_speed.h"
#include "library/wisdom.h"
#include "measure/simulated.h"

static const char candidate[] = "cpu_tiled:BLOCK_M=64,BLOCK_N=48", other[] = "cpu_tiled:BLOCK_M=32,BLOCK_N=48";
static const char peer[] = "cpu_tiled:BLOCK_M=16,BLOCK_N=48";
static const char *const worker[] = {"/proc/self/exe", "worker", NULL};

/* ---- A gate whose clock is simulated ---------------------------------------------------------------------------- */

/* What the watch saw. */
typedef struct seen {
    int problems, candidates, stages, verdicts, notes;
    char last_note[AT_SENTENCE_MAX], look[AT_SENTENCE_MAX];
    at_outcome right[16], fast[16];
    char sentence[16][AT_SENTENCE_MAX]; /* of the speed stage */
} seen;

typedef struct scene {
    simulated clock;
    double other_us; /* of `other`; 0: as the first candidate */
    at_gate_timing timing;
    at_gate_options options;
    at_gate_result result;
    at_test_problem problem[2];
    const char *candidate[2], *peer[2];
    seen seen;
} scene;

static attune_status open_simulated(void *self, at_gate *gate, at_gate_bench *bench, at_executor *executor)
{
    scene *on = self;
    (void)gate;
    for (int mode = 0; mode < AT_MODE_COUNT && on->other_us > 0; ++mode) {
        on->clock.us[0][mode] = strcmp(bench->entry->candidate->text, other) == 0 ? on->other_us : 90;
    }
    *executor = simulated_executor(&on->clock);
    return ATTUNE_OK;
}

static void leave_simulated(void *self, attune_status status)
{
    (void)self, (void)status;
}

static void nothing(void *self)
{
    (void)self;
}

static void on_problem(void *self, const char *problem)
{
    (void)problem;
    ++((seen *)self)->problems;
}

static void on_candidate(void *self, const at_verdict *verdict)
{
    (void)verdict;
    ++((seen *)self)->candidates;
}

static void on_stage(void *self, const at_verdict *verdict, at_stage stage)
{
    seen *on = self;
    ++on->stages;
    (void)snprintf(on->look, sizeof on->look, "%s", verdict->finding[stage].look);
}

static void on_verdict(void *self, const at_verdict *verdict)
{
    seen *on = self;
    on->right[on->verdicts] = verdict->right;
    on->fast[on->verdicts] = verdict->fast;
    (void)snprintf(on->sentence[on->verdicts], AT_SENTENCE_MAX, "%s", verdict->finding[AT_STAGE_SPEED].sentence);
    ++on->verdicts;
}

static void on_note(void *self, const char *text)
{
    seen *on = self;
    ++on->notes;
    (void)snprintf(on->last_note, sizeof on->last_note, "%s", text);
}

/* One candidate of so many microseconds against a peer of 100, on a quiet machine; arm 2 is the peer's twin. */
static void set(scene *on, double us)
{
    *on = (scene){.clock = {.seed = 3, .calls = 10, .process = 0.002, .block = 0.01},
                  .candidate = {candidate, other},
                  .peer = {peer, "cudnn"}};
    for (int mode = 0; mode < AT_MODE_COUNT; ++mode) {
        const double all[] = {us, 100, 100};
        for (int arm = 0; arm < 3; ++arm) {
            on->clock.us[arm][mode] = all[arm];
        }
    }
    assert_int_equal(at_test_problem_parse("b1,h2,s64,d64,fp32", &on->problem[0]), ATTUNE_OK);
    assert_int_equal(at_test_problem_parse("b1,h2,s96,d64,fp16,causal", &on->problem[1]), ATTUNE_OK);
    on->timing = (at_gate_timing){on, open_simulated, leave_simulated, nothing, nothing};
    on->options = (at_gate_options){.candidate = on->candidate,
                                    .candidate_count = 1,
                                    .problem = on->problem,
                                    .problem_count = 1,
                                    .peer = on->peer,
                                    .peer_count = 1,
                                    .must = 0.95,
                                    .cases = 10,
                                    .seed = 1,
                                    .threads = 2,
                                    .worker = worker,
                                    .timing = &on->timing,
                                    .watch = {.self = &on->seen,
                                              .problem = on_problem,
                                              .candidate = on_candidate,
                                              .stage = on_stage,
                                              .verdict = on_verdict,
                                              .note = on_note}};
}

static void run(scene *on)
{
    on->seen = (seen){0};
    attune_status status = at_gate_run(&on->options, &on->result);
    if (status != ATTUNE_OK) {
        print_message("%s\n", attune_last_detail());
    }
    assert_int_equal(status, ATTUNE_OK);
}

/* ---- Verdicts --------------------------------------------------------------------------------------------------- */

static void expect(scene *on, at_outcome right, at_outcome fast, int exit_code)
{
    run(on);
    assert_int_equal(on->seen.verdicts, 1);
    if (on->seen.fast[0] != fast) {
        print_message("%s\n", on->seen.sentence[0]);
    }
    assert_int_equal(on->seen.right[0], right);
    assert_int_equal(on->seen.fast[0], fast);
    assert_int_equal(on->result.exit_code, exit_code);
}

static void test_all_is_reported(void **state)
{
    (void)state;
    scene on;
    set(&on, 90);
    expect(&on, AT_PASS, AT_PASS, 0);
    assert_int_equal(on.result.passed, 1);
    assert_int_equal(on.seen.problems, 1);
    assert_int_equal(on.seen.candidates, 1);
    assert_int_equal(on.seen.stages, AT_STAGE_COUNT);
}

static void test_cold_must_not_be_slower(void **state)
{
    (void)state;
    scene on;
    set(&on, 80);
    on.clock.us[0][AT_MODE_COLD] = 104;
    expect(&on, AT_PASS, AT_FAIL, 1);
    assert_non_null(strstr(on.seen.sentence[0], "cold"));
}

static void test_a_wrong_timed_output_fails(void **state)
{
    (void)state;
    scene on;
    set(&on, 80);
    on.clock.wrong_arm = 0;
    on.clock.wrong_at = 150;
    run(&on);
    assert_int_equal(on.seen.right[0], AT_FAIL);
    assert_int_equal(on.result.exit_code, 1);
}

static void test_quick(void **state)
{
    (void)state;
    scene on;
    set(&on, 80);
    on.options.quick = true;
    expect(&on, AT_PASS, AT_PASS, 0);
}

static void test_absent_peer(void **state)
{
    (void)state;
    scene on;
    set(&on, 90);
    on.options.peer_count = 2; /* cuDNN, on a CPU */
    expect(&on, AT_PASS, AT_INCONCLUSIVE, 3);
    assert_non_null(strstr(on.seen.sentence[0], "cudnn could not run"));
    assert_int_equal(on.result.not_run, 1);
    on.peer[0] = "cudnn";
    on.options.peer_count = 1;
    expect(&on, AT_PASS, AT_INCONCLUSIVE, 3);
}

static void test_candidate_that_cannot(void **state)
{
    (void)state;
    scene on;
    set(&on, 90);
    on.candidate[0] = "wmma";
    on.options.target = "cpu";
    run(&on);
    assert_int_equal(on.seen.verdicts, 1);
    assert_int_equal(on.seen.stages, 1);                 /* it ends at the first */
    assert_int_equal(on.seen.right[0], AT_INCONCLUSIVE); /* which is no fault of its */
    assert_int_equal(on.result.exit_code, 3);
}

/* ---- Many at once ----------------------------------------------------------------------------------------------- */

static void test_candidates_and_problems(void **state)
{
    (void)state;
    scene on;
    set(&on, 90);
    on.options.candidate_count = on.options.problem_count = 2;
    on.other_us = 110;
    run(&on);
    assert_int_equal(on.seen.problems, 2);
    assert_int_equal(on.seen.verdicts, 4);
    assert_int_equal(on.result.passed, 2);
    assert_int_equal(on.result.failed, 2);
    for (int i = 0; i < 4; ++i) {
        assert_int_equal(on.seen.right[i], AT_PASS);
        assert_int_equal(on.seen.fast[i], i % 2 == 0 ? AT_PASS : AT_FAIL);
    }
    assert_int_equal(on.result.exit_code, 1);
    assert_int_equal(on.result.faster, 2);
    assert_int_equal(on.result.faster_among, 2); /* 10 % faster is no luck of four questions */
}

static void on_keep(void *keeper, const at_verdict *verdict)
{
    seen *on = keeper;
    (void)snprintf(on->last_note, sizeof on->last_note, "%.200s on %.200s", verdict->kernel, verdict->problem);
    ++on->notes;
}

/* Each candidate on its own problem; who keeps what is found sees old verdicts like new ones. */
static void test_pairs(void **state)
{
    (void)state;
    scene on;
    folder here;
    assert_int_equal(folder_make(&here), 0);
    set(&on, 90);
    on.options.candidate_count = on.options.problem_count = 2;
    on.options.paired = true;
    on.options.evidence = here.path;
    on.options.watch.note = NULL;
    on.options.watch.keeper = &on.seen;
    on.options.watch.keep = on_keep;
    on.other_us = 110;
    for (int i = 0; i < 2; ++i) {
        run(&on);
        assert_int_equal(on.seen.problems, 2);
        assert_int_equal(on.seen.verdicts, i == 0 ? 2 : 0);
        assert_int_equal(on.result.known, i == 0 ? 0 : 2);
        assert_int_equal(on.seen.notes, 2);
        assert_ptr_equal(strstr(on.seen.last_note, other), on.seen.last_note);
        assert_non_null(strstr(on.seen.last_note, " on b1,h2,s96,d64,fp16,causal"));
        assert_int_equal(on.result.passed, 1);
        assert_int_equal(on.result.failed, 1);
    }
    on.options.candidate_count = 1;
    seen none = {0};
    on.seen = none;
    assert_int_equal(at_gate_run(&on.options, &on.result), ATTUNE_INVALID_ARGUMENT);
    assert_non_null(strstr(attune_last_detail(), "pairs are wanted"));
    folder_remove(&here);
}

/* Each watch's words, in the order in which they came. */
static void on_problem_text(void *self, const char *problem)
{
    at_text_add(self, "%s\n", problem);
}

static void on_stage_text(void *self, const at_verdict *verdict, at_stage stage)
{
    at_text_add(self, "%s of %s: %s\n", at_stage_name(stage), verdict->problem,
                at_outcome_name(verdict->finding[stage].outcome));
}

static void on_note_text(void *self, const char *text)
{
    at_text_add(self, "note: %s\n", text);
}

/* Problems that are judged side by side are reported one after the other, and found as by themselves. */
static void test_side_by_side(void **state)
{
    (void)state;
    scene on;
    at_test_problem many[5];
    at_text printed[2];
    for (int turn = 0; turn < 2; ++turn) {
        set(&on, 90);
        at_text_init(&printed[turn]);
        for (int i = 0; i < 5; ++i) {
            char text[64];
            (void)snprintf(text, sizeof text, "b1,h1,s%d,d64,fp32", 64 - 8 * i);
            assert_int_equal(at_test_problem_parse(text, &many[i]), ATTUNE_OK);
        }
        on.options.problem = many;
        on.options.problem_count = 5;
        on.options.candidate_count = 2;
        on.options.peer_count = 2; /* cuDNN is none on a CPU, which a note says */
        on.options.lanes = turn == 0 ? 1 : 3;
        on.options.watch = (at_gate_watch){
            .self = &printed[turn], .problem = on_problem_text, .stage = on_stage_text, .note = on_note_text};
        assert_int_equal(at_gate_run(&on.options, &on.result), ATTUNE_OK);
        assert_int_equal(on.result.not_run, 10);
    }
    assert_string_equal(printed[0].data, printed[1].data);
    assert_non_null(strstr(printed[0].data, "note: cudnn cannot be a peer here"));
    at_text_free(&printed[0]);
    at_text_free(&printed[1]);
}

/* What ends a gate ends it from within any lane. */
static bool stops(void *self)
{
    const at_text *printed = self;
    return strstr(printed->data, "correctness of") != NULL;
}

static void test_side_by_side_interrupted(void **state)
{
    (void)state;
    scene on;
    at_text printed;
    set(&on, 90);
    at_text_init(&printed);
    on.options.problem_count = 2;
    on.options.lanes = 2;
    on.options.watch = (at_gate_watch){.self = &printed, .stage = on_stage_text, .stop = stops};
    assert_int_equal(at_gate_run(&on.options, &on.result), ATTUNE_INTERRUPTED);
    at_text_free(&printed);
}

static void test_limit_leaves_the_rest(void **state)
{
    (void)state;
    scene on;
    at_test_problem many[12];
    set(&on, 90);
    for (int i = 0; i < 12; ++i) {
        char text[64];
        (void)snprintf(text, sizeof text, "b1,h1,s%d,d64,fp32", 40 + i);
        assert_int_equal(at_test_problem_parse(text, &many[i]), ATTUNE_OK);
    }
    on.options.problem = many;
    on.options.problem_count = 12;
    on.options.limit_s = 1e-3; /* one is always done */
    run(&on);
    assert_int_equal(on.seen.verdicts, 1);
    assert_int_equal(on.result.left, 11);
    assert_int_equal(on.result.exit_code, 4);
}

/* ---- What it leaves --------------------------------------------------------------------------------------------- */

static void test_evidence_is_kept_and_found(void **state)
{
    (void)state;
    scene on;
    char **files;
    size_t count;
    folder here;
    assert_int_equal(folder_make(&here), 0);
    set(&on, 90);
    on.options.evidence = here.path;
    expect(&on, AT_PASS, AT_PASS, 0);
    assert_int_equal(at_evidence_find(here.path, &files, &count), ATTUNE_OK);
    assert_int_equal(count, 1);
    assert_non_null(strstr(files[0], "/cpu_tiled.json"));
    free(files[0]);
    free(files);
    char path[PATH_MAX];
    assert_int_equal(at_file_write(folder_path(&here, "tiled.json", path), "{", 1), ATTUNE_OK); /* another's, broken */
    on.options.problem_count = 2; /* the call that was interrupted goes on */
    run(&on);
    assert_int_equal(on.result.known, 1);
    assert_int_equal(on.seen.verdicts, 1);
    run(&on);
    assert_int_equal(on.result.known, 2);
    assert_int_equal(on.seen.verdicts, 0);
    assert_int_equal(on.result.exit_code, 0);
    on.options.seed = 2; /* another question */
    on.clock.us[0][AT_MODE_WARM] = on.clock.us[0][AT_MODE_COLD] = 120;
    run(&on);
    assert_int_equal(on.result.known, 0);
    assert_int_equal(on.result.exit_code, 1);
    run(&on); /* what was found stays found */
    assert_int_equal(on.result.known, 2);
    assert_int_equal(on.result.failed, 2);
    assert_int_equal(on.result.exit_code, 1);
    on.options.again = true;
    run(&on);
    assert_int_equal(on.seen.verdicts, 2);
    folder_remove(&here);
}

/* Makes the one verdict kept there one of before an A/A was weighed. */
static void make_older(const char *dir)
{
    char **files;
    size_t count;
    at_evidence evidence;
    assert_int_equal(at_evidence_find(dir, &files, &count), ATTUNE_OK);
    assert_int_equal(count, 1);
    assert_int_equal(at_evidence_read(files[0], &evidence), ATTUNE_OK);
    evidence.entry[0].verdict->session.policy.twin_by_reach = false;
    assert_int_equal(at_verdict_judge(evidence.entry[0].verdict), ATTUNE_OK);
    assert_int_equal(unlink(files[0]), 0);
    assert_int_equal(at_evidence_add(files[0], evidence.entry[0].verdict), ATTUNE_OK);
    at_evidence_close(&evidence);
    free(files[0]);
    free(files);
}

/* A verdict of the rule of before answers, but where its A/A did not hold, which that rule took for more. */
static void test_what_an_older_rule_left_open(void **state)
{
    (void)state;
    static const double twin_us[] = {100, 102};
    for (int i = 0; i < 2; ++i) {
        scene on;
        folder here;
        assert_int_equal(folder_make(&here), 0);
        set(&on, 70);
        on.clock.us[2][AT_MODE_WARM] = twin_us[i];
        on.options.evidence = here.path;
        expect(&on, AT_PASS, AT_PASS, 0);
        make_older(here.path);
        run(&on);
        assert_int_equal(on.result.known, i == 0);
        assert_int_equal(on.result.exit_code, 0);
        folder_remove(&here);
    }
}

/* With `aged` the row is afterwards as of before its kernel had its last parameter. */
static size_t rows_of(const char *path, char kernel[AT_KERNEL_TEXT_MAX], bool aged)
{
    at_wisdom *wisdom;
    assert_int_equal(at_wisdom_create(&wisdom), ATTUNE_OK);
    attune_status status = at_wisdom_file_read(path, wisdom);
    assert_true(status == ATTUNE_OK || status == ATTUNE_NOT_FOUND);
    size_t count = at_wisdom_count(wisdom);
    if (count > 0) {
        at_wisdom_row row = *at_wisdom_at(wisdom, 0);
        assert_true(row.kind == AT_PROVEN && strlen(row.verdict) == 64);
        (void)snprintf(kernel, AT_KERNEL_TEXT_MAX, "%s", row.kernel_text);
        if (aged) {
            *strrchr(kernel, ',') = '\0';
            row.kernel_text = kernel;
            assert_int_equal(at_wisdom_file_add(path, &row), ATTUNE_OK);
        }
    }
    at_wisdom_destroy(wisdom);
    return count;
}

static void test_wisdom(void **state)
{
    (void)state;
    scene on;
    folder here;
    char path[PATH_MAX], kernel[AT_KERNEL_TEXT_MAX];
    assert_int_equal(folder_make(&here), 0);
    (void)folder_path(&here, "x.wisdom", path);
    set(&on, 300); /* beating a peer is not asked for */
    on.options.wisdom = path;
    on.options.quick = true;
    run(&on);
    assert_int_equal(rows_of(path, kernel, false), 0);
    on.options.quick = false;
    run(&on);
    assert_int_equal(rows_of(path, kernel, false), 1);
    assert_memory_equal(kernel, candidate, strlen(candidate)); /* the row names all parameters */
    on.candidate[0] = other;                                   /* it did not race against who is there */
    run(&on);
    assert_int_equal(rows_of(path, kernel, true), 1);
    assert_memory_equal(kernel, candidate, strlen(candidate)); /* the row names all parameters */
    assert_non_null(strstr(on.seen.last_note, "has the row of"));
    on.candidate[1] = candidate;
    on.options.candidate_count = 2;
    on.other_us = 80;
    run(&on);
    assert_int_equal(rows_of(path, kernel, false), 1);
    assert_memory_equal(kernel, other, strlen(other));
    folder_remove(&here);
}

/* ---- What cannot run -------------------------------------------------------------------------------------------- */

static void expect_error(scene *on, attune_status status, const char *what)
{
    assert_int_equal(at_gate_run(&on->options, &on->result), status);
    if (strstr(attune_last_detail(), what) == NULL) {
        print_message("%s\n", attune_last_detail());
    }
    assert_non_null(strstr(attune_last_detail(), what));
    assert_int_equal(on->seen.verdicts, 0);
}

static void test_bad_candidates(void **state)
{
    (void)state;
    scene on;
    set(&on, 90);
    on.candidate[0] = "cpu_tilde";
    expect_error(&on, ATTUNE_NOT_FOUND, "did you mean \"cpu_tiled\"?");
    on.candidate[0] = "cpu_tiled:BLOCK_M=7";
    expect_error(&on, ATTUNE_INVALID_ARGUMENT, "BLOCK_M");
    on.candidate[0] = "./no/such/folder";
    expect_error(&on, ATTUNE_NOT_FOUND, "there is no folder \"./no/such/folder\"");
    on.candidate[0] = "wmma";
    on.candidate[1] = candidate;
    on.options.candidate_count = 2;
    expect_error(&on, ATTUNE_INVALID_ARGUMENT, "different targets");
}

/* What a reader pastes is one word for a shell, whatever a folder is called. */
static void test_hints_can_be_pasted(void **state)
{
    (void)state;
    scene on;
    folder here;
    char path[PATH_MAX], a[PATH_MAX + 8], b[PATH_MAX + 8], expected[PATH_MAX + 80];
    assert_int_equal(folder_make(&here), 0);
    (void)folder_path(&here, "it's $HOME", path);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(a, sizeof a, "%s/a.c", path);
    (void)snprintf(b, sizeof b, "%s/b.c", path);
    assert_int_equal(at_file_write(a, "", 0), ATTUNE_OK); /* of two descriptors none is the one */
    assert_int_equal(at_file_write(b, "", 0), ATTUNE_OK);
    set(&on, 90);
    on.candidate[0] = path;
    on.options.target = "cpu";
    run(&on);
    assert_int_equal(on.seen.right[0], AT_FAIL);
    (void)snprintf(expected, sizeof expected, "attune check --kernel '%s/it'\\''s $HOME' b1,h2,s64,d64,fp32",
                   here.path);
    assert_string_equal(on.seen.look, expected);
    (void)unlink(a);
    (void)unlink(b);
    (void)rmdir(path);
    folder_remove(&here);
}

/* Before anything is started: nothing is reported, and no worker lives. */
static void test_bad_peers(void **state)
{
    (void)state;
    static const char *const dies[] = {"/proc/self/exe", "die", NULL};
    scene on;
    set(&on, 90);
    on.options.worker = dies;
    on.options.peer_count = 2;
    on.peer[1] = "cpu_tilde";
    expect_error(&on, ATTUNE_NOT_FOUND, "peer: there is no kernel cpu_tilde: did you mean cpu_tiled?");
    assert_false(on.result.begun);
    on.peer[1] = "cpu_tiled:BLOCK_M=7";
    expect_error(&on, ATTUNE_INVALID_ARGUMENT, "BLOCK_M");
    on.peer[1] = "torch:flush";
    expect_error(&on, ATTUNE_NOT_FOUND, "torch:flush: PyTorch's back ends are torch:flash");
    on.peer[1] = "py:nothing";
    expect_error(&on, ATTUNE_INVALID_ARGUMENT, "py:nothing: py:FILE:FUNCTION is needed");
    on.peer[1] = "py:/no/such/file.py:mine";
    expect_error(&on, ATTUNE_NOT_FOUND, "its file cannot be read: No such file");
    on.peer[1] = "mine";
    on.options.own_arms = true; /* the program that dies may know it */
    expect_error(&on, ATTUNE_DEVICE_ERROR, "pre-flight: the worker ended by itself");
}

static void test_bad_places(void **state)
{
    (void)state;
    scene on;
    folder here;
    char path[PATH_MAX], model[PATH_MAX + 32], file[PATH_MAX + 32];
    assert_int_equal(folder_make(&here), 0);
    set(&on, 90);
    on.options.wisdom = "/no/such/folder/x.wisdom";
    expect_error(&on, ATTUNE_NOT_FOUND, "/no/such/folder/x.wisdom");
    assert_false(on.result.begun);
    on.options.wisdom = folder_path(&here, "x.wisdom", path);
    assert_int_equal(at_file_write(path, "something else\n", 15), ATTUNE_OK);
    expect_error(&on, ATTUNE_CORRUPT, path);
    (void)unlink(path);
    on.options.wisdom = NULL;
    on.options.evidence = here.path;
    on.options.quick = true;
    run(&on);
    assert_true(on.result.begun);
    /* A folder where the kernel's evidence was, below the device's name. */
    char **files;
    size_t count;
    assert_int_equal(at_evidence_find(here.path, &files, &count), ATTUNE_OK);
    assert_int_equal(count, 1);
    (void)snprintf(file, sizeof file, "%s", files[0]);
    free(files[0]);
    free(files);
    (void)unlink(file);
    assert_int_equal(mkdir(file, 0700), 0);
    on.seen = (seen){0};
    expect_error(&on, ATTUNE_IO_ERROR, "it is a directory");
    assert_int_equal(on.seen.candidates, 0);
    (void)rmdir(file);
    (void)snprintf(model, sizeof model, "%s", file);
    *strrchr(model, '/') = '\0';
    (void)rmdir(model);
    folder_remove(&here);
}

static void test_bad_options(void **state)
{
    (void)state;
    scene on;
    set(&on, 90);
    on.options.must = 0;
    expect_error(&on, ATTUNE_INVALID_ARGUMENT, "must is 0");
    on.options.must = 0.95;
    on.options.cases = 0;
    expect_error(&on, ATTUNE_INVALID_ARGUMENT, "cases is 0");
    on.options.cases = 1;
    on.options.problem_count = 0;
    expect_error(&on, ATTUNE_INVALID_ARGUMENT, "no problem");
}

static void test_no_worker(void **state)
{
    (void)state;
    static const char *const dies[] = {"/proc/self/exe", "die", NULL};
    static const char *const missing[] = {"/no/such/program", NULL};
    scene on;
    set(&on, 90);
    on.options.worker = dies;
    expect_error(&on, ATTUNE_DEVICE_ERROR, "pre-flight: the worker ended by itself with exit code 5");
    on.options.worker = missing;
    expect_error(&on, ATTUNE_IO_ERROR, "/no/such/program");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_reported),
        cmocka_unit_test(test_cold_must_not_be_slower),
        cmocka_unit_test(test_a_wrong_timed_output_fails),
        cmocka_unit_test(test_quick),
        cmocka_unit_test(test_absent_peer),
        cmocka_unit_test(test_candidate_that_cannot),
        cmocka_unit_test(test_candidates_and_problems),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_side_by_side_interrupted),
        cmocka_unit_test(test_limit_leaves_the_rest),
        cmocka_unit_test(test_evidence_is_kept_and_found),
        cmocka_unit_test(test_what_an_older_rule_left_open),
        cmocka_unit_test(test_wisdom),
        cmocka_unit_test(test_bad_candidates),
        cmocka_unit_test(test_hints_can_be_pasted),
        cmocka_unit_test(test_bad_peers),
        cmocka_unit_test(test_bad_places),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_no_worker),
    };
    if (argc > 1) {
        return strcmp(argv[1], "worker") == 0 && attune_worker_serve(NULL) == ATTUNE_OK ? 0 : 5;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
