/* What the final of a search for code says, and the gate after it. */
#include "evolve/fake_code.h"

static const char *const lucky[] = {"time 60\nlucky 100\n", NULL};
static const char *const cheats[] = {"time 60\ncheat\n", NULL};

/* What was fast in heats alone is not in the final; what the gate refuses is wrong. */
static void the_final_and_the_gate_have_the_last_words(void **state)
{
    (void)state;
    scene on;
    set(&on, lucky);
    run(&on);
    assert_int_equal(on.result.verdicts[AT_CODE_ACCEPTED], 2);
    assert_int_equal(on.result.winner, 0);
    clear(&on);
    set(&on, cheats);
    run(&on);
    assert_true(on.result.wrong);
    assert_false(on.result.proven);
    clear(&on);
}

static const char *const cheats_first[] = {"time 90", "time 80", "time 70\ncheat", "time 60\ncheat", NULL};
static const char *const cheats_all[] = {"time 90\ncheat", "time 80\ncheat", "time 70\ncheat", "time 60\ncheat", NULL};

/* Whether a ledger, gone through again, ends alike. */
static void expect_the_same_again(scene *on)
{
    const at_code_result first = on->result;
    on->untouchable = true;
    on->options.replay = on->folder;
    on->options.folder = on->other;
    run(on);
    assert_true(on->result.replayed);
    assert_int_equal(on->result.winner, first.winner);
    assert_int_equal(on->result.refuted, first.refuted);
    char *was = ledger_of(on->folder), *is = ledger_of(on->other);
    assert_string_equal(was, is);
    free(was);
    free(is);
}

/* Whom the gate calls wrong makes room for the next best, and has no gain; three at most. */
static void the_next_best_takes_a_wrong_ones_place(void **state)
{
    (void)state;
    scene on;
    set(&on, cheats_first);
    on.options.budget.proposals = 4;
    run(&on);
    assert_int_equal(on.result.winner, 2);
    assert_int_equal(on.result.refuted, 2);
    assert_true(on.result.proven && !on.result.wrong);
    assert_true(on.result.gain > 1.2 && on.result.gain < 1.3 && on.result.gain_of[AT_ARM_ENGINE] == on.result.gain);
    assert_string_equal(at_sources_find(&on.winner, "k.kernel.c")->data, "time 80");
    char *ledger = ledger_of(on.folder);
    assert_non_null(strstr(ledger, "which holds among all finalists; the gate calls it wrong: judged"));
    assert_non_null(strstr(ledger, "\"gain\""));
    free(ledger);
    expect_the_same_again(&on);
    clear(&on);
    set(&on, cheats_all);
    on.options.budget.proposals = 4;
    run(&on);
    assert_int_equal(on.result.winner, 0);
    assert_int_equal(on.result.refuted, AT_CODE_GATES_MAX);
    assert_true(on.result.wrong && !on.result.proven && on.result.gain == 1);
    assert_string_equal(at_sources_find(&on.winner, "k.kernel.c")->data, "time 100\n");
    expect_the_same_again(&on);
    clear(&on);
}

/* As above, ended at each question: what the gate said is not asked again. */
static void who_is_ended_at_the_gate_goes_on(void **state)
{
    (void)state;
    scene whole, on;
    set(&whole, cheats_first);
    whole.options.budget.proposals = 4;
    run(&whole);
    char *expected = ledger_of(whole.folder);
    for (int at = whole.machined - 3; at <= whole.machined; ++at) {
        set(&on, cheats_first);
        on.options.budget.proposals = 4;
        on.stop_at = at;
        assert_fails(at_code_run(&on.options, &on.result, NULL), ATTUNE_INTERRUPTED, "interrupted");
        on.options.resume = true;
        on.restarted = on.answered;
        run(&on);
        assert_int_equal(on.machined, whole.machined + 1);
        char *found = ledger_of(on.folder);
        assert_string_equal(found, expected);
        free(found);
        clear(&on);
    }
    free(expected);
    clear(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_final_and_the_gate_have_the_last_words),
        cmocka_unit_test(the_next_best_takes_a_wrong_ones_place),
        cmocka_unit_test(who_is_ended_at_the_gate_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
