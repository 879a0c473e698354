/* The engine from a search to a row of wisdom, on the CPU: real candidates in real workers, which are this program
 * itself; the gate's clock is simulated, since a real verdict takes minutes. Who wins the race is the machine's
 * business. */
#include <stdlib.h>
#include <unistd.h>

#include "base/cm.h"
#include "base/file.h"
#include "base/folder.h"
#include "core/plan.h"
#include "evidence/evidence.h"
#include "evolve/engine.h"
#include "gate/gate_speed.h"
#include "library/context.h"
#include "measure/simulated.h"
#include "worker/worker.h"

static const char *const worker[] = {"/proc/self/exe", "worker", NULL};

typedef struct scene {
    simulated clock;
    at_gate_timing timing;
    at_evolve_options options;
    at_evolve_result result;
    at_test_problem problem[2];
    folder in;
    char wisdom[PATH_MAX], ledgers[PATH_MAX], evidence[PATH_MAX];
    int rows, refusals; /* of wisdom, as seen_events */
} scene;

static attune_status open_simulated(void *self, at_gate *gate, at_gate_bench *bench, at_executor *executor)
{
    scene *on = self;
    (void)gate, (void)bench;
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

static void on_wisdom(void *self, const at_wisdom_row *row, const char *why_not)
{
    scene *on = self;
    assert_int_equal(row->kind, AT_PROVEN);
    on->rows += why_not == NULL;
    on->refusals += why_not != NULL;
}

static void set(scene *on)
{
    *on = (scene){.clock = {.seed = 3, .calls = 10, .process = 0.002, .block = 0.01}};
    for (int mode = 0; mode < AT_MODE_COUNT; ++mode) {
        const double all[] = {90, 100, 100};
        for (int arm = 0; arm < 3; ++arm) {
            on->clock.us[arm][mode] = all[arm];
        }
    }
    assert_int_equal(folder_make(&on->in), 0);
    (void)folder_path(&on->in, "my.wisdom", on->wisdom);
    (void)folder_path(&on->in, "ledgers", on->ledgers);
    (void)folder_path(&on->in, "evidence", on->evidence);
    assert_ok(at_test_problem_parse("b1,h1,s64,d64,fp32", &on->problem[0]));
    assert_ok(at_test_problem_parse("b1,h2,s128,d32,fp32,causal", &on->problem[1]));
    on->timing = (at_gate_timing){on, open_simulated, leave_simulated, nothing, nothing};
    on->options = (at_evolve_options){.kernel = "cpu_tiled",
                                      .problem = on->problem,
                                      .problem_count = 2,
                                      .refresh = true,
                                      .gate.seed = 1,
                                      .budget_runs = 3,
                                      .budget = "3runs",
                                      .ledger = on->ledgers,
                                      .prove = true,
                                      .gate.must = 0.95,
                                      .gate.cases = 100,
                                      .gate.evidence = on->evidence,
                                      .wisdom = on->wisdom,
                                      .seeds = "none",
                                      .gate.threads = 2,
                                      .gate.worker = worker,
                                      .gate.timing = &on->timing,
                                      .watch = {.self = on, .wisdom = on_wisdom}};
}

static void run(scene *on)
{
    on->rows = on->refusals = 0;
    assert_ok(at_evolve_run(&on->options, &on->result));
}

/* What the planner takes for a problem with what was learned. */
static at_origin planned(const scene *on, const at_test_problem *problem)
{
    attune_options options;
    attune_context *context;
    attune_plan *plan;
    attune_options_init(&options);
    options.target = "cpu";
    options.threads = 2;
    options.wisdom = on->wisdom;
    assert_ok(attune_context_create(&options, &context));
    assert_ok(attune_plan_create(context, &problem->problem, NULL, &plan));
    at_origin origin = plan->origin;
    attune_plan_destroy(plan);
    attune_context_destroy(context);
    return origin;
}

static int count_events(const at_ledger_log *log, at_event_kind kind)
{
    int count = 0;
    for (size_t i = 0; i < log->count; ++i) {
        count += log->event[i].kind == kind;
    }
    return count;
}

/* The ledger of the first problem has the verdict, the row and the end, and the row the digest of the verdict. */
static void look_at_ledger(const scene *on, bool has_row)
{
    char path[PATH_MAX + 64];
    at_ledger_log *log;
    (void)snprintf(path, sizeof path, "%s/cpu_tiled_b1_h1_s64_d64_fp32.jsonl", on->ledgers);
    assert_ok(at_ledger_read(path, &log));
    assert_true(log->ended);
    assert_int_equal(count_events(log, AT_EVENT_GATE), 1);
    assert_int_equal(count_events(log, AT_EVENT_WISDOM), has_row);
    for (size_t i = 0; i < log->count; ++i) {
        if (log->event[i].kind == AT_EVENT_GATE) {
            assert_int_equal(log->event[i].as.gate.right, AT_PASS);
            assert_int_equal(strlen(log->event[i].as.gate.verdict), AT_DIGEST_TEXT_MAX - 1);
            if (has_row) {
                assert_non_null(strstr(log->event[i + 1].as.wisdom.row, log->event[i].as.gate.verdict));
            }
        }
    }
    at_ledger_free(log);
}

/* A search on a machine that others use may be void: it then says nothing, and that is counted. */
static void what_was_found_is_judged_and_learned(void **state)
{
    (void)state;
    scene on;
    set(&on);
    run(&on);
    int found = on.result.gains + on.result.no_gains;
    assert_int_equal(found + on.result.voids, 2);
    assert_int_equal(on.result.right, found);
    assert_int_equal(on.result.wrong, 0);
    assert_int_equal(on.rows + on.refusals, found);
    assert_int_equal(on.result.rows, on.rows);
    if (on.result.voids == 0) {
        assert_int_equal(on.result.exit_code, 0);
        look_at_ledger(&on, on.refusals == 0);
    }
    if (on.result.voids == 0 && on.rows == 2) {
        assert_int_equal(planned(&on, &on.problem[0]), AT_ORIGIN_PROVEN);
        assert_int_equal(planned(&on, &on.problem[1]), AT_ORIGIN_PROVEN);
    }
    on.options.resume = true; /* both have their end */
    run(&on);
    assert_int_equal(on.result.known, 2);
    assert_int_equal(on.rows, 0);
    folder_remove(&on.in);
}

/* A peer that is faster is a finding. The planner cannot choose it: the fastest of ours that is proven is learned. */
static void who_is_slower_than_a_peer_is_learned_all_the_same(void **state)
{
    (void)state;
    static const char *const peer[] = {"cpu_tiled:BLOCK_M=8,BLOCK_N=16"};
    scene on;
    set(&on);
    on.options.problem_count = 1;
    on.options.ledger = NULL;
    on.options.gate.peer = peer;
    on.options.gate.peer_count = 1;
    for (int mode = 0; mode < AT_MODE_COUNT; ++mode) {
        on.clock.us[0][mode] = 130;
    }
    run(&on);
    int found = on.result.gains + on.result.no_gains;
    assert_int_equal(found + on.result.voids, 1);
    assert_int_equal(on.result.right, found);
    assert_int_equal(on.result.slower, found);
    if (found > 0 && on.refusals == 0) { /* nothing else of ours was seen to be faster */
        assert_int_equal(on.rows, 1);
        assert_int_equal(on.result.exit_code, 1);
        assert_int_equal(planned(&on, &on.problem[0]), AT_ORIGIN_PROVEN);
    }
    folder_remove(&on.in);
}

/* What was not judged in earnest, or only found, is not learned. */
static void what_is_not_proven_is_not_learned(void **state)
{
    (void)state;
    scene on;
    set(&on);
    on.options.problem_count = 1;
    on.options.ledger = NULL;
    on.options.prove = false;
    run(&on);
    assert_int_equal(on.result.right + on.rows + on.refusals, 0);
    on.options.prove = true;
    on.options.gate.quick = true;
    on.options.gate.cases = 5;
    run(&on);
    assert_int_equal(on.rows, 0);
    assert_int_equal(on.refusals, on.result.gains + on.result.no_gains);
    assert_int_not_equal(access(on.wisdom, F_OK), 0);
    folder_remove(&on.in);
}

static void what_a_kernel_does_not_support_is_passed_over(void **state)
{
    (void)state;
    scene on;
    set(&on);
    on.options.kernel = "cpu_decode";
    on.options.problem_count = 1;
    assert_ok(at_test_problem_parse("b1,h2,s4000,d64,fp32,bias=1x1,varlen=1", &on.problem[0]));
    run(&on);
    assert_int_equal(on.result.refused, 1);
    assert_int_equal(on.result.exit_code, 3);
    on.options.kernel = "cpu_tilde";
    assert_fails(at_evolve_run(&on.options, &on.result), ATTUNE_NOT_FOUND, "did you mean");
    on.options.kernel = "wmma";
    on.options.gate.target = "cpu";
    assert_fails(at_evolve_run(&on.options, &on.result), ATTUNE_INVALID_ARGUMENT, "wmma is for cuda");
    on.options.problem_count = 0;
    assert_fails(at_evolve_run(&on.options, &on.result), ATTUNE_INVALID_ARGUMENT, "no problem");
    on.options.problem_count = 2; /* the same, however it is said */
    assert_ok(at_test_problem_parse("b1,h2,s64,d64,fp32", &on.problem[0]));
    assert_ok(at_test_problem_parse("b1,h2,hkv2,sq64,skv64,d64,dv64,fp32", &on.problem[1]));
    assert_fails(at_evolve_run(&on.options, &on.result), ATTUNE_INVALID_ARGUMENT,
                 "b1,h2,s64,d64,fp32 is named twice, as number 1 and 2");
    folder_remove(&on.in);
}

/* Scripts take "slower than a peer" for an answer, and call again while something is left: none may hide the other. */
static void the_exit_code_says_what_is_left(void **state)
{
    (void)state;
    static const struct {
        at_evolve_result result;
        int code;
    } cases[] = {
        {{.gains = 1, .right = 1}, 0},
        {{.no_gains = 1, .right = 1, .refused = 1}, 0},
        {{.gains = 1, .right = 1, .slower = 1}, 1},
        {{.gains = 1, .right = 1, .slower = 1, .left = 2}, 4},
        {{.gains = 1, .right = 1, .slower = 1, .voids = 1}, 4},
        {{.gains = 2, .right = 1, .slower = 1, .unproven = 1}, 4},
        {{.gains = 1, .wrong = 1, .left = 2}, 1},
        {{.refused = 1}, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        assert_int_equal(at_evolve_exit_code(&cases[i].result), cases[i].code);
    }
}

/* A process may die when its ledger is there and nothing is in it, or a part of its first line. */
static void a_ledger_without_a_line_is_begun(void **state)
{
    (void)state;
    static const char *const left[] = {"", "{\"seq\":0,\"kind\":\"start\",\"at_s\":0.0,\"attu"};
    scene on;
    char path[PATH_MAX];
    at_ledger_log *log;
    set(&on);
    on.options.problem_count = 1;
    on.options.prove = false;
    on.options.resume = true;
    on.options.ledger = folder_path(&on.in, "search.jsonl", path);
    for (size_t i = 0; i < sizeof left / sizeof left[0]; ++i) {
        assert_ok(at_file_write(path, left[i], strlen(left[i])));
        run(&on);
        assert_ok(at_ledger_read(path, &log));
        assert_true(log->ended);
        at_ledger_free(log);
    }
    assert_ok(at_file_write(path, "notes", 5)); /* no ledger: it stays as it is */
    assert_fails(at_evolve_run(&on.options, &on.result), ATTUNE_CORRUPT, "is no ledger");
    folder_remove(&on.in);
}

/* The ledger of one config says so, and is none of the search that would otherwise have been. */
static void one_config_is_recorded_as_what_it_is(void **state)
{
    (void)state;
    scene on;
    char path[PATH_MAX];
    at_ledger_log *log;
    set(&on);
    on.options.problem_count = 1;
    on.options.prove = false;
    on.options.refresh = false;
    on.options.budget = "60s";
    on.options.budget_s = 2; /* finals are no longer than that */
    on.options.one = "cpu_tiled:BLOCK_M=16,BLOCK_N=32";
    on.options.ledger = folder_path(&on.in, "one.jsonl", path);
    run(&on);
    assert_ok(at_ledger_read(path, &log));
    assert_string_equal(log->event[0].as.start.strategy, "one");
    assert_string_equal(log->event[0].as.start.one, on.options.one);
    assert_string_equal(log->event[0].as.start.budget, "");
    at_ledger_free(log);
    on.options.resume = true;
    run(&on);
    assert_int_equal(on.result.known, 1);
    on.options.one = "cpu_tiled:BLOCK_M=16,BLOCK_N=64";
    assert_fails(at_evolve_run(&on.options, &on.result), ATTUNE_INVALID_ARGUMENT, "its one config is");
    on.options.one = NULL;
    assert_fails(at_evolve_run(&on.options, &on.result), ATTUNE_INVALID_ARGUMENT, "its strategy is one, not surrogate");
    folder_remove(&on.in);
}

/* A search within a part of the space: candidates have the values, the ledger says so, and goes on with no other. */
static void fixed_parameters_stay_as_they_are(void **state)
{
    (void)state;
    scene on;
    char path[PATH_MAX];
    at_ledger_log *log;
    size_t seen = 0;
    set(&on);
    on.options.problem_count = 1;
    on.options.prove = false;
    on.options.refresh = false;
    on.options.strategy = "random";
    on.options.budget_runs = 2;
    on.options.budget_s = 2; /* finals are no longer than that */
    on.options.kernel = "cpu_tiled:BLOCK_M=16,BLOCK_N=32";
    on.options.ledger = folder_path(&on.in, "fixed.jsonl", path);
    run(&on);
    assert_ok(at_ledger_read(path, &log));
    assert_string_equal(log->event[0].as.start.kernel, "cpu_tiled");
    assert_string_equal(log->event[0].as.start.fixed, "BLOCK_M=16,BLOCK_N=32");
    for (size_t i = 0; i < log->count; ++i) {
        if (log->event[i].kind == AT_EVENT_CANDIDATE) {
            assert_non_null(strstr(log->event[i].as.candidate.config, "BLOCK_M=16,"));
            assert_non_null(strstr(log->event[i].as.candidate.config, "BLOCK_N=32,"));
            ++seen;
        }
    }
    assert_true(seen > 1);
    at_ledger_free(log);
    on.options.resume = true;
    on.options.kernel = "cpu_tiled:BLOCK_N=32,BLOCK_M=16";
    run(&on);
    assert_int_equal(on.result.known, 1);
    on.options.kernel = "cpu_tiled";
    assert_fails(at_evolve_run(&on.options, &on.result), ATTUNE_INVALID_ARGUMENT, "its list of fixed parameters is");
    on.options.kernel = "cpu_tiled:BLOCK_M=17";
    assert_fails(at_evolve_run(&on.options, &on.result), ATTUNE_INVALID_ARGUMENT, "BLOCK_M cannot be '17'");
    assert_int_equal(access(folder_path(&on.in, "cpu_tiled_b1_h1_s64_d64_fp32.jsonl", path), F_OK), -1);
    on.options.kernel = "cpu_tiled:BLOCK_M=16,BLOCK_N=32";
    on.options.ledger = on.in.path;
    on.options.refresh = true;
    run(&on);
    assert_int_equal(
        access(folder_path(&on.in, "cpu_tiled_BLOCK_M_16_BLOCK_N_32_b1_h1_s64_d64_fp32.jsonl", path), F_OK), 0);
    folder_remove(&on.in);
}

/* Before the first search, and before a worker is started: ledgers of all problems, and where the rest is kept. */
static void what_cannot_be_kept_is_known_before(void **state)
{
    (void)state;
    static const char *const dies[] = {"/bin/false", NULL};
    scene on;
    char path[PATH_MAX + 64];
    set(&on);
    on.options.gate.worker = dies;
    assert_int_equal(mkdir(on.ledgers, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/cpu_tiled_b1_h2_s128_d32_fp32_causal.jsonl", on.ledgers);
    assert_ok(at_file_write(path, "notes\n", 6));
    assert_fails(at_evolve_run(&on.options, &on.result), ATTUNE_INVALID_ARGUMENT,
                 "none is overwritten: --resume goes on with it");
    assert_false(on.result.begun);
    on.options.resume = true;
    assert_fails(at_evolve_run(&on.options, &on.result), ATTUNE_CORRUPT, path);
    (void)unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_fails(at_evolve_run(&on.options, &on.result), ATTUNE_IO_ERROR, path);
    (void)rmdir(path);
    (void)rmdir(on.ledgers);
    on.options.resume = false;
    on.options.ledger = NULL;
    on.options.wisdom = "/no/such/folder/x.wisdom";
    assert_fails(at_evolve_run(&on.options, &on.result), ATTUNE_NOT_FOUND, "/no/such/folder/x.wisdom");
    on.options.wisdom = NULL;
    on.options.gate.evidence = "/dev/null/here";
    assert_fails(at_evolve_run(&on.options, &on.result), ATTUNE_IO_ERROR, "something else has its name");
    on.options.gate.evidence = NULL;
    on.options.seeds = "/dev/null/x.txt";
    assert_fails(at_evolve_run(&on.options, &on.result), ATTUNE_IO_ERROR, "/dev/null");
    on.options.seeds = "none";
    on.options.gate.peer = (const char *const[]){"cpu_tilde"};
    on.options.gate.peer_count = 1;
    assert_fails(at_evolve_run(&on.options, &on.result), ATTUNE_NOT_FOUND, "peer: there is no kernel cpu_tilde");
    assert_int_equal(folder_count(&on.in), 0);
    folder_remove(&on.in);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        return (int)attune_worker_serve(NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_found_is_judged_and_learned),
        cmocka_unit_test(who_is_slower_than_a_peer_is_learned_all_the_same),
        cmocka_unit_test(what_is_not_proven_is_not_learned),
        cmocka_unit_test(what_a_kernel_does_not_support_is_passed_over),
        cmocka_unit_test(the_exit_code_says_what_is_left),
        cmocka_unit_test(a_ledger_without_a_line_is_begun),
        cmocka_unit_test(one_config_is_recorded_as_what_it_is),
        cmocka_unit_test(fixed_parameters_stay_as_they_are),
        cmocka_unit_test(what_cannot_be_kept_is_known_before),
    };
    return cmocka_run_group_tests_name("evolve.engine", tests, NULL, NULL);
}
