/* Evidence that got worse, and what is no step back. */
#include <math.h>
#include <stdlib.h>

#include "evidence/ratchet.h"
#include "judge/verdicts.h"

enum { MOST = 4 };

/* An archive of verdicts on one kernel, from old to new, in memory. */
typedef struct shelf {
    at_archive archive;
    at_evidence_entry entry[MOST];
    at_record record[MOST];
} shelf;

static at_verdict *put_scene(shelf *on, const scene *of)
{
    size_t i = on->archive.count++;
    on->entry[i].verdict = verdicts_make(of);
    assert_ok(at_verdict_judge(on->entry[i].verdict));
    on->record[i] = (at_record){.entry = &on->entry[i]};
    on->archive.record = on->record;
    return on->entry[i].verdict;
}

/* A candidate of so many microseconds beside peers that take the same at all times. */
static at_verdict *put(shelf *on, double us)
{
    scene of = scene_of(15, 14);
    of.us = us;
    return put_scene(on, &of);
}

static at_ratchet turn(shelf *on)
{
    at_ratchet ratchet;
    assert_ok(at_ratchet_run(&on->archive, &ratchet));
    return ratchet;
}

static void clear(shelf *on, at_ratchet *ratchet)
{
    at_ratchet_free(ratchet);
    for (size_t i = 0; i < on->archive.count; ++i) {
        at_verdict_destroy(on->entry[i].verdict);
    }
}

static void slower_than_the_best_is_seen(void **state)
{
    (void)state;
    shelf on = {0};
    put(&on, 12);
    put(&on, 10); /* the best: not the one before the newest */
    put(&on, 12);
    at_ratchet ratchet = turn(&on);
    assert_int_equal(ratchet.compared, 1);
    assert_int_equal(ratchet.count, 4); /* two peers, warm and cold */
    assert_string_equal(ratchet.slip[0].peer, "torch:flash");
    assert_string_equal(ratchet.slip[3].peer, "cudnn");
    assert_int_equal(ratchet.slip[0].mode, AT_MODE_WARM);
    assert_int_equal(ratchet.slip[1].mode, AT_MODE_COLD);
    assert_ptr_equal(ratchet.slip[0].best, &on.record[1]);
    assert_ptr_equal(ratchet.slip[0].newest, &on.record[2]);
    assert_true(ratchet.slip[0].now.high < ratchet.slip[0].then.low);
    assert_int_equal(ratchet.slip[0].unchanged, 3);
    clear(&on, &ratchet);
}

static void noise_and_gains_are_no_steps_back(void **state)
{
    (void)state;
    shelf on = {0};
    put(&on, 12);
    put(&on, 12.05);
    put(&on, 10);
    at_ratchet ratchet = turn(&on);
    assert_int_equal(ratchet.compared, 1);
    assert_int_equal(ratchet.count, 0);
    assert_int_equal(ratchet.excused, 0);
    clear(&on, &ratchet);
}

/* Two sessions beside arms of the same code, which have moved by such factors. */
static size_t slips(double us, double flash, double cudnn, double twin, double *reach)
{
    shelf on = {0};
    scene of = scene_of(15 * flash, 14 * cudnn);
    put(&on, 10);
    of.us = us;
    of.twin = twin;
    put_scene(&on, &of);
    at_ratchet ratchet = turn(&on);
    size_t count = ratchet.count;
    assert_true(count > 0 || ratchet.excused > 0); /* the intervals never touch */
    *reach = count > 0 ? ratchet.slip[0].reach : ratchet.excuse[0].reach;
    assert_true(count > 0 || strcmp(ratchet.excuse[0].peer, "torch:flash") == 0);
    clear(&on, &ratchet);
    return count;
}

/* What sessions do to arms that nobody has touched they may do to the candidate. */
static void what_sessions_do_to_unchanged_arms_is_no_step_back(void **state)
{
    (void)state;
    double reach;
    assert_int_equal(slips(10.5, 1, 1, 1, &reach), 4);
    assert_int_equal(slips(10.5, 1.02, 1.03, 1 / 1.03, &reach), 0); /* 3 % apart: more than anyone is excused by */
    assert_true(reach == AT_RATCHET_REACH_MOST);
    assert_int_equal(slips(11.2, 1.02, 1.03, 1 / 1.03, &reach), 4);
    assert_int_equal(slips(10.5, 1.02, 1.02, 1, &reach), 4); /* all as much: a faster clock, say */
    assert_int_equal(slips(10.5, 1.001, 1, 1, &reach), 4);
    assert_int_equal(slips(15, 1.02, 1.03, 1 / 1.03, &reach), 4); /* so much is no session's doing */
    /* Of three arms one has moved by 1 %: a deviation of log 1.01 / sqrt 3, twice in a ratio, t 4.303. */
    assert_int_equal(slips(15, 1.01, 1, 1, &reach), 4);
    assert_true(fabs(log(reach) - 4.303 * sqrt(2) * log(1.01) / sqrt(3)) < 0.01);
}

static void without_unchanged_arms_the_intervals_alone_count(void **state)
{
    (void)state;
    shelf on = {0};
    put(&on, 10);
    at_verdict *newest = put(&on, 12);
    (void)snprintf(newest->arm[2].account, AT_SENTENCE_MAX, "a newer version");
    (void)snprintf(newest->arm[3].account, AT_SENTENCE_MAX, "a newer version");
    at_ratchet ratchet = turn(&on);
    assert_int_equal(ratchet.count, 2); /* against torch:flash, warm and cold */
    assert_int_equal(ratchet.slip[0].unchanged, 1);
    assert_true(ratchet.slip[0].reach == 1);
    clear(&on, &ratchet);
}

static void another_peer_is_no_comparison(void **state)
{
    (void)state;
    shelf on = {0};
    put(&on, 10);
    at_verdict *newest = put(&on, 12);
    for (int arm = 1; arm < newest->session.arm_count; ++arm) {
        (void)snprintf(newest->arm[arm].account, AT_SENTENCE_MAX, "a newer version");
    }
    at_ratchet ratchet = turn(&on);
    assert_int_equal(ratchet.compared, 1);
    assert_int_equal(ratchet.count, 0);
    clear(&on, &ratchet);
}

static void quick_and_broken_verdicts_do_not_count(void **state)
{
    (void)state;
    shelf on = {0};
    put(&on, 8)->options.quick = true;
    put(&on, 9);
    on.record[1].state = AT_BROKEN;
    put(&on, 10);
    put(&on, 14)->options.quick = true;
    at_ratchet ratchet = turn(&on);
    assert_int_equal(ratchet.compared, 0);
    assert_int_equal(ratchet.count, 0);
    clear(&on, &ratchet);
}

static void no_longer_right_is_worse(void **state)
{
    (void)state;
    shelf on = {0};
    put(&on, 12);
    put(&on, 10)->right = AT_FAIL;
    at_ratchet ratchet = turn(&on);
    assert_int_equal(ratchet.count, 1);
    assert_string_equal(ratchet.slip[0].peer, "");
    clear(&on, &ratchet);
    /* And one that never was right cannot be the best. */
    shelf other = {0};
    put(&other, 8)->right = AT_FAIL;
    put(&other, 12);
    put(&other, 12);
    ratchet = turn(&other);
    assert_int_equal(ratchet.count, 0);
    clear(&other, &ratchet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slower_than_the_best_is_seen),
        cmocka_unit_test(noise_and_gains_are_no_steps_back),
        cmocka_unit_test(another_peer_is_no_comparison),
        cmocka_unit_test(quick_and_broken_verdicts_do_not_count),
        cmocka_unit_test(what_sessions_do_to_unchanged_arms_is_no_step_back),
        cmocka_unit_test(without_unchanged_arms_the_intervals_alone_count),
        cmocka_unit_test(no_longer_right_is_worse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
