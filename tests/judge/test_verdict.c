/* Findings from what was seen: every way to fail, and who is at fault. */
#include <math.h>
#include <stdlib.h>

#include "judge/timed_case.h"
#include "judge/verdicts.h"
#include "measure/controls.h"

static at_verdict *judged(const scene *of)
{
    at_verdict *verdict = verdicts_make(of);
    assert_ok(at_verdict_judge(verdict));
    return verdict;
}

static void has_words(const char *text, const char *words)
{
    if (strstr(text, words) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", text, words);
    }
}

static void expect(const at_verdict *verdict, at_outcome right, at_outcome fast, int code, const char *words)
{
    assert_string_equal(at_outcome_name(verdict->right), at_outcome_name(right));
    assert_string_equal(at_outcome_name(verdict->fast), at_outcome_name(fast));
    assert_int_equal(at_verdict_exit(verdict), code);
    has_words(verdict->finding[AT_STAGE_SPEED].sentence, words);
}

static void a_fast_right_candidate_passes(void **state)
{
    (void)state;
    scene of = scene_of(11.5, 12);
    at_verdict *verdict = judged(&of);
    expect(verdict, AT_PASS, AT_PASS, 0, "against torch:flash");
    has_words(verdict->finding[AT_STAGE_BUILD].sentence, "nvrtc 13.0: 96 registers");
    has_words(verdict->finding[AT_STAGE_CORRECTNESS].sentence, "100 of 100 cases right, 40 of them exactly");
    has_words(verdict->finding[AT_STAGE_CORRECTNESS].sentence, "0.00061");
    for (int control = 0; control < AT_CONTROL_COUNT; ++control) {
        assert_string_equal(at_outcome_name(verdict->control[control].outcome), "pass");
    }
    assert_true(verdict->speed[1].ratio[AT_MODE_WARM].median_r > 1.1);
    assert_true(verdict->speed[2].ratio[AT_MODE_WARM].median_r > 1.15);
    at_verdict_destroy(verdict);
}

static void every_peer_must_be_beaten(void **state)
{
    (void)state;
    scene of = scene_of(15, 9);
    at_verdict *verdict = judged(&of);
    expect(verdict, AT_PASS, AT_FAIL, 1, "against cudnn: r 0.8");
    assert_int_equal(verdict->speed[1].outcome, AT_PASS);
    at_verdict_destroy(verdict);
    of = scene_of(15, 10.53);
    verdict = judged(&of);
    expect(verdict, AT_PASS, AT_INCONCLUSIVE, 2, "against cudnn");
    at_verdict_destroy(verdict);
}

static void slower_when_cold_fails(void **state)
{
    (void)state;
    scene of = scene_of(15, 12);
    of.cold = 4;
    at_verdict *verdict = judged(&of);
    expect(verdict, AT_PASS, AT_FAIL, 1, "cold");
    at_verdict_destroy(verdict);
}

static void few_processes_suffice_for_quick_alone(void **state)
{
    (void)state;
    scene of = scene_of(15, 16);
    of.processes = 3;
    at_verdict *verdict = judged(&of);
    expect(verdict, AT_PASS, AT_INCONCLUSIVE, 2, "fewer than 8 processes");
    at_verdict_destroy(verdict);
    of.quick = true;
    verdict = judged(&of);
    expect(verdict, AT_PASS, AT_PASS, 0, "against");
    at_verdict_destroy(verdict);
}

static void a_peer_that_is_not_there_leaves_it_open(void **state)
{
    (void)state;
    scene of = scene_of(15, 16);
    at_verdict *verdict = verdicts_make(&of);
    verdict->absent_count = 1;
    verdict->absent[0] = (at_arm_facts){.name = "openblas", .account = "libopenblas.so.0 is not to be found"};
    assert_ok(at_verdict_judge(verdict));
    expect(verdict, AT_PASS, AT_INCONCLUSIVE, 3, "openblas could not run: libopenblas");
    at_verdict_destroy(verdict);
}

static void timed_outputs_decide_who_is_wrong(void **state)
{
    (void)state;
    scene of = scene_of(15, 16);
    of.wrong_at = 5;
    at_verdict *verdict = judged(&of);
    expect(verdict, AT_FAIL, AT_FAIL, 1, "timed outputs: 1 calls of tiled");
    at_verdict_destroy(verdict);
    of.wrong_arm = 2;
    verdict = judged(&of);
    expect(verdict, AT_PASS, AT_INCONCLUSIVE, 2, "timed outputs: 1 calls of cudnn");
    at_verdict_destroy(verdict);
}

static void impossible_speed_is_wrong(void **state)
{
    (void)state;
    scene of = scene_of(15, 16);
    at_verdict *verdict = verdicts_make(&of);
    verdict->session.policy.floor_us[AT_MODE_WARM] = 11;
    assert_ok(at_verdict_judge(verdict));
    expect(verdict, AT_FAIL, AT_FAIL, 1, "against");
    at_verdict_destroy(verdict);
}

/* Whoever takes longer than the sequences drawn must is honest, though the longest allowed would take longer still. */
static void floors_are_of_the_lengths_drawn(void **state)
{
    (void)state;
    at_test_problem test;
    at_least least;
    assert_ok(at_test_problem_parse("b16,h16,s4096,d128,bf16,varlen=1", &test));
    assert_ok(at_timed_case_least(&test, 1, &least));
    const double longest = attune_problem_flops(&test.problem);
    assert_true(least.flops > 0.05 * longest && least.flops < 0.7 * longest);
    static const double takes_us[] = {9, 11}; /* what was drawn, at the rate; the candidate takes 10 */
    for (int i = 0; i < 2; ++i) {
        scene of = scene_of(15, 16);
        at_verdict *verdict = verdicts_make(&of);
        const double rate = 0.95 * least.flops / (takes_us[i] * 1e-6);
        verdict->session.policy.floor_us[AT_MODE_WARM] = at_floor_us(AT_MODE_WARM, least.flops, rate, 0, 0);
        assert_ok(at_verdict_judge(verdict));
        assert_int_equal(verdict->right, takes_us[i] < of.us ? AT_PASS : AT_FAIL);
        assert_true(at_floor_us(AT_MODE_WARM, longest, rate, 0, 0) > of.us); /* which would refuse both */
        at_verdict_destroy(verdict);
    }
}

/* A rate is of the work that was timed. */
static void rates_are_of_the_lengths_drawn(void **state)
{
    (void)state;
    scene of = scene_of(15, 16);
    at_verdict *verdict = verdicts_make(&of);
    at_test_problem test;
    at_least least;
    (void)snprintf(verdict->problem, sizeof verdict->problem, "b16,h16,s4096,d128,bf16,varlen=1");
    assert_ok(at_test_problem_parse(verdict->problem, &test));
    assert_ok(at_timed_case_least(&test, verdict->options.seed, &least));
    assert_true(fabs(at_verdict_tflops(verdict, 1000) - least.flops * 1e-9) < 1e-9 * least.flops * 1e-9);
    assert_true(at_verdict_tflops(verdict, 1000) < 0.7e-9 * attune_problem_flops(&test.problem));
    at_verdict_destroy(verdict);
}

static void clocks_that_disagree_are_seen(void **state)
{
    (void)state;
    scene of = scene_of(150, 160);
    of.slope_off = 0.2;
    at_verdict *verdict = judged(&of);
    expect(verdict, AT_PASS, AT_INCONCLUSIVE, 2, "against");
    assert_int_equal(verdict->control[AT_CONTROL_CLOCKS].outcome, AT_INCONCLUSIVE);
    at_verdict_destroy(verdict);
}

static void the_control_kernel_must_be_caught(void **state)
{
    (void)state;
    scene of = scene_of(15, 16);
    at_verdict *verdict = verdicts_make(&of);
    verdict->wrong_kernel.status = ATTUNE_OK;
    assert_ok(at_verdict_judge(verdict));
    assert_int_equal(verdict->right, AT_INCONCLUSIVE);
    has_words(verdict->control[AT_CONTROL_WRONG].sentence, "was not caught");
    at_verdict_destroy(verdict);
}

static void who_declares_to_read_clocks_is_never_right(void **state)
{
    (void)state;
    scene of = scene_of(11.5, 12);
    at_verdict *verdict = verdicts_make(&of);
    verdict->traits |= ATTUNE_TRAIT_CLOCKS;
    assert_ok(at_verdict_judge(verdict));
    assert_int_equal(verdict->right, AT_INCONCLUSIVE);
    assert_int_equal(at_verdict_exit(verdict), 2);
    has_words(verdict->finding[AT_STAGE_BUILD].sentence, "never found right");
    at_verdict_destroy(verdict);
}

/* A change of what was seen in correctness, and what must be found. */
static void correct(void (*change)(at_verdict *verdict), at_outcome outcome, const char *words)
{
    scene of = scene_of(15, 16);
    of.processes = 2;
    at_verdict *verdict = verdicts_make(&of);
    change(verdict);
    assert_ok(at_verdict_judge(verdict));
    assert_string_equal(at_outcome_name(verdict->finding[AT_STAGE_CORRECTNESS].outcome), at_outcome_name(outcome));
    assert_int_equal(verdict->right, outcome);
    has_words(verdict->finding[AT_STAGE_CORRECTNESS].sentence, words);
    at_verdict_destroy(verdict);
}

static void fail_cases(at_verdict *verdict)
{
    verdict->suite.failed = 3;
    verdict->suite.failures = 1;
    verdict->suite.failure[0] = (at_failure){.index = 7, .how = "exact, needle inputs", .what = "rule 1: off"};
}

static void run_few(at_verdict *verdict)
{
    verdict->suite.executed = 37;
}

static void exceed_a_margin(at_verdict *verdict)
{
    verdict->suite.margins.l2 = 1.01;
}

static void lose_a_margin(at_verdict *verdict)
{
    verdict->suite.margins.lse = NAN;
}

static void lean_to_one_side(at_verdict *verdict)
{
    verdict->suite.bias.error = 10;
}

static void lose_memory(at_verdict *verdict)
{
    verdict->stage[AT_STAGE_CORRECTNESS].status = ATTUNE_OUT_OF_MEMORY;
    (void)snprintf(verdict->stage[AT_STAGE_CORRECTNESS].detail, AT_SENTENCE_MAX, "no memory for 9 GB");
}

static void correctness_is_judged_from_its_numbers(void **state)
{
    (void)state;
    correct(fail_cases, AT_FAIL, "3 of 100 cases wrong; case 7 (exact, needle inputs): rule 1: off");
    correct(run_few, AT_INCONCLUSIVE, "only 37 of 100 cases");
    correct(exceed_a_margin, AT_FAIL, "L2 1.01");
    correct(lose_a_margin, AT_FAIL, "LSE");
    correct(lean_to_one_side, AT_FAIL, "over all cases");
    correct(lose_memory, AT_INCONCLUSIVE, "no memory for 9 GB");
}

static void a_stage_that_failed_ends_it(void **state)
{
    (void)state;
    at_verdict *verdict;
    assert_ok(at_verdict_create(&verdict));
    verdict->stage[AT_STAGE_BUILD] =
        (at_stage_run){.ran = true, .status = ATTUNE_COMPILE_ERROR, .detail = "line 3: error", .look = "bad.cu"};
    assert_ok(at_verdict_judge(verdict));
    assert_int_equal(verdict->finding[AT_STAGE_BUILD].outcome, AT_FAIL);
    assert_string_equal(verdict->finding[AT_STAGE_BUILD].sentence, "line 3: error");
    assert_string_equal(verdict->finding[AT_STAGE_BUILD].look, "bad.cu");
    assert_int_equal(verdict->finding[AT_STAGE_LAUNCH].outcome, AT_NOT_RUN);
    assert_int_equal(verdict->right, AT_FAIL);
    assert_int_equal(verdict->fast, AT_NOT_RUN);
    assert_int_equal(at_verdict_exit(verdict), 1);
    verdict->stage[AT_STAGE_BUILD].status = ATTUNE_NO_DEVICE;
    assert_ok(at_verdict_judge(verdict));
    assert_int_equal(at_verdict_exit(verdict), 3);
    at_verdict_destroy(verdict);
}

static void judging_twice_changes_nothing(void **state)
{
    (void)state;
    scene of = scene_of(11.5, 12);
    at_verdict *verdict = judged(&of);
    at_verdict *before = malloc(sizeof *before);
    memcpy(before, verdict, sizeof *before);
    assert_ok(at_verdict_judge(verdict));
    assert_memory_equal(before->finding, verdict->finding, sizeof before->finding);
    assert_memory_equal(before->control, verdict->control, sizeof before->control);
    for (int arm = 1; arm < 3; ++arm) {
        assert_memory_equal(&before->speed[arm].ratio[0].r, &verdict->speed[arm].ratio[0].r, sizeof(at_interval));
    }
    free(before);
    at_verdict_destroy(verdict);
}

static void less_than_all_is_not_in_earnest(void **state)
{
    (void)state;
    scene of = scene_of(11.5, 12);
    of.processes = 2;
    at_verdict *verdict = verdicts_make(&of);
    assert_true(at_verdict_is_earnest(verdict));
    verdict->options.quick = true;
    assert_false(at_verdict_is_earnest(verdict));
    verdict->options = (at_verdict_options){.must = 1.05, .cases = 100};
    assert_false(at_verdict_is_earnest(verdict));
    verdict->options = (at_verdict_options){.must = 0.8, .cases = 99};
    assert_false(at_verdict_is_earnest(verdict));
    verdict->options.cases = 1000;
    assert_true(at_verdict_is_earnest(verdict));
    at_verdict_destroy(verdict);
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    scene of = scene_of(11.5, 12);
    of.processes = 2;
    at_verdict *verdict = verdicts_make(&of);
    verdict->session.block[3].us[1][0] = -4;
    assert_fails(at_verdict_judge(verdict), ATTUNE_INVALID_ARGUMENT, "a sample of torch:flash took -4 us");
    verdict->session.block[3].us[1][0] = NAN;
    assert_fails(at_verdict_judge(verdict), ATTUNE_INVALID_ARGUMENT, "a sample of torch:flash");
    at_verdict_destroy(verdict);
}

/* What a verdict says that it asked for is what its session was judged by. */
static void a_session_keeps_to_the_options(void **state)
{
    (void)state;
    scene of = scene_of(11.5, 12);
    of.processes = 2;
    at_verdict *verdict = verdicts_make(&of);
    verdict->session.policy.must = 2;
    assert_fails(at_verdict_judge(verdict), ATTUNE_INVALID_ARGUMENT, "must is 0.95, and the session was judged by 2");
    verdict->session.policy.must = 0.95;
    verdict->session.policy.quick = true;
    assert_fails(at_verdict_judge(verdict), ATTUNE_INVALID_ARGUMENT, "a quick session");
    at_verdict_destroy(verdict);
}

static void shared_sessions_are_split(void **state)
{
    (void)state;
    scene of = scene_of(11.5, 12);
    of.processes = 2;
    at_verdict *whole = verdicts_make(&of), *part;
    assert_ok(at_verdict_create(&part));
    const int arms[] = {0, 2, 3};
    assert_ok(at_verdict_session(part, &whole->session, arms, 3));
    assert_int_equal(part->session.arm_count, 3);
    assert_string_equal(part->arm[1].name, "cudnn");
    assert_int_equal(part->session.arm[2].twin_of, 1);
    assert_int_equal(part->session.block_count, whole->session.block_count);
    assert_true(part->session.block[5].us[1][1] == whole->session.block[5].us[2][1]);
    assert_true(part->session.clocks_count * 4 == whole->session.clocks_count * 3);
    const int backwards[] = {1, 0};
    assert_fails(at_verdict_session(part, &whole->session, backwards, 2), ATTUNE_INVALID_ARGUMENT, "is no candidate");
    const int strange[] = {0, 9};
    assert_fails(at_verdict_session(part, &whole->session, strange, 2), ATTUNE_INVALID_ARGUMENT, "arm 9");
    at_verdict_destroy(whole);
    at_verdict_destroy(part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fast_right_candidate_passes),
        cmocka_unit_test(every_peer_must_be_beaten),
        cmocka_unit_test(slower_when_cold_fails),
        cmocka_unit_test(few_processes_suffice_for_quick_alone),
        cmocka_unit_test(a_peer_that_is_not_there_leaves_it_open),
        cmocka_unit_test(timed_outputs_decide_who_is_wrong),
        cmocka_unit_test(impossible_speed_is_wrong),
        cmocka_unit_test(floors_are_of_the_lengths_drawn),
        cmocka_unit_test(rates_are_of_the_lengths_drawn),
        cmocka_unit_test(clocks_that_disagree_are_seen),
        cmocka_unit_test(the_control_kernel_must_be_caught),
        cmocka_unit_test(who_declares_to_read_clocks_is_never_right),
        cmocka_unit_test(correctness_is_judged_from_its_numbers),
        cmocka_unit_test(a_stage_that_failed_ends_it),
        cmocka_unit_test(judging_twice_changes_nothing),
        cmocka_unit_test(less_than_all_is_not_in_earnest),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(a_session_keeps_to_the_options),
        cmocka_unit_test(shared_sessions_are_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
