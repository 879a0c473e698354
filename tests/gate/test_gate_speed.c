/* Verdicts on speed through the whole gate, by a clock made of numbers: candidates are built, launched and judged by
 * real workers, and timed by a machine whose truth is known. */
#include "base/cm.h"

#include "gate/gate_speed.h"
#include "measure/simulated.h"
#include "worker/worker.h"

static const char *const worker[] = {"/proc/self/exe", "worker", NULL};

enum { CANDIDATE = 0, PEER = 1 };

/* ---- The clock --------------------------------------------------------------------------------------------------- */

typedef struct numbers {
    simulated machine;
    int parts, processes;
} numbers;

static attune_status open_part(void *self, at_gate *gate, at_gate_bench *bench, at_executor *executor)
{
    numbers *on = self;
    (void)gate, (void)bench;
    *executor = simulated_executor(&on->machine);
    ++on->parts;
    return ATTUNE_OK;
}

static void leave_part(void *self, attune_status status)
{
    (void)self, (void)status;
}

static void end_process(void *self)
{
    ++((numbers *)self)->processes;
}

static void close_timing(void *self)
{
    (void)self;
}

/* The candidate is `gain` times faster than the peer; the last arm is the peer's twin. */
static numbers machine(double gain)
{
    numbers on = {.machine = {.seed = 9, .calls = 32, .process = 0.003, .block = 0.01, .outliers = 0.02}};
    for (int mode = 0; mode < AT_MODE_COUNT; ++mode) {
        on.machine.us[CANDIDATE][mode] = 100 / gain;
        on.machine.us[PEER][mode] = on.machine.us[PEER + 1][mode] = 100;
    }
    return on;
}

/* ---- The gate ---------------------------------------------------------------------------------------------------- */

typedef struct seen {
    at_outcome right, fast;
    size_t blocks;
    double r;
    char sentence[AT_SENTENCE_MAX];
} seen;

static void keep(void *self, const at_verdict *verdict)
{
    seen *last = self;
    last->right = verdict->right;
    last->fast = verdict->fast;
    last->blocks = verdict->session.block_count;
    (void)snprintf(last->sentence, sizeof last->sentence, "%s", verdict->finding[AT_STAGE_SPEED].sentence);
}

static int gate(numbers *on, double must, seen *last)
{
    static const char *const candidates[] = {"cpu_tiled"};
    static const char *const peers[] = {"cpu_tiled:BLOCK_M=8,BLOCK_N=16"};
    const at_gate_timing timing = {on, open_part, leave_part, end_process, close_timing};
    at_test_problem problem;
    at_gate_result result;
    assert_ok(at_test_problem_parse("b1,h2,s24,d16,fp32", &problem));
    const at_gate_options options = {.candidate = candidates,
                                     .candidate_count = 1,
                                     .problem = &problem,
                                     .problem_count = 1,
                                     .peer = peers,
                                     .peer_count = 1,
                                     .must = must,
                                     .cases = 6,
                                     .seed = 4,
                                     .target = "cpu",
                                     .threads = 2,
                                     .worker = worker,
                                     .timing = &timing,
                                     .watch = {.self = last, .verdict = keep}};
    memset(last, 0, sizeof *last);
    assert_ok(at_gate_run(&options, &result));
    return result.exit_code;
}

static void faster_slower_and_neither(void **state)
{
    (void)state;
    static const struct {
        double gain, must;
        at_outcome fast;
        int code;
    } wanted[] = {{1.10, 0.95, AT_PASS, 0},
                  {1.00, 0.95, AT_FAIL, 1},
                  {1 / 0.95, 0.95, AT_INCONCLUSIVE, 2},
                  {1.00, 1.05, AT_PASS, 0}, /* asked for is: no slower by 5 % */
                  {0.30, 0.95, AT_FAIL, 1}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; ++i) {
        numbers on = machine(wanted[i].gain);
        seen last;
        int code = gate(&on, wanted[i].must, &last);
        if (last.fast != wanted[i].fast || code != wanted[i].code) {
            fail_msg("gain %g against %g: %s, code %d: %s", wanted[i].gain, 1 / wanted[i].must,
                     at_outcome_name(last.fast), code, last.sentence);
        }
        assert_int_equal(last.right, AT_PASS);
        assert_true(last.blocks > 0);
        assert_int_equal(on.processes, wanted[i].gain < 0.5 ? 1 : 8);
    }
}

static void the_instruments_faults_are_no_verdict(void **state)
{
    (void)state;
    seen last;
    numbers throttled = machine(1.2);
    throttled.machine.bursts = 0.2;
    assert_int_equal(gate(&throttled, 0.95, &last), 2);
    assert_int_equal(last.fast, AT_INCONCLUSIVE);
    assert_int_equal(last.right, AT_PASS);
    numbers biased = machine(1.2);
    biased.machine.first = 0.05;
    assert_int_equal(gate(&biased, 0.95, &last), 2);
    numbers clocks = machine(1.2);
    clocks.machine.slope_off = 0.2;
    assert_int_equal(gate(&clocks, 0.95, &last), 2);
}

static void a_wrong_timed_output_is_not_right(void **state)
{
    (void)state;
    seen last;
    numbers on = machine(1.2);
    on.machine.wrong_arm = CANDIDATE;
    on.machine.wrong_at = 50;
    assert_int_equal(gate(&on, 0.95, &last), 1);
    assert_int_equal(last.right, AT_FAIL);
    assert_non_null(strstr(last.sentence, "timed outputs"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faster_slower_and_neither),
        cmocka_unit_test(the_instruments_faults_are_no_verdict),
        cmocka_unit_test(a_wrong_timed_output_is_not_right),
    };
    if (argc > 1 && strcmp(argv[1], "worker") == 0) {
        return attune_worker_serve(NULL) == ATTUNE_OK ? 0 : 3;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
