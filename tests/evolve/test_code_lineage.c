/* Which source a search for code goes on from. */
#include "base/cm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "evolve/code_lineage.h"

static void add_program(at_lineage *to, int parent, at_code_verdict verdict, double log_time)
{
    at_program *added = at_lineage_add(to, AT_ARM_ENGINE, AT_CODE_IMPROVE, parent);
    assert_non_null(added);
    added->verdict = verdict;
    added->log_time = log_time;
    at_lineage_judged(to, added->id);
}

/* Lineages that are crossed have both improved what they came from. */
static void crosses_are_of_improved_lineages(void **state)
{
    enum { STAGNATION = 8, DRAWS = 20, CHAMPION = 2, MATE = 6 };
    (void)state;
    at_lineage lineage;
    at_lineage_init(&lineage);
    add_program(&lineage, -1, AT_CODE_ACCEPTED, 0);
    add_program(&lineage, 0, AT_CODE_ACCEPTED, -0.2);
    add_program(&lineage, 1, AT_CODE_ACCEPTED, -0.3);
    add_program(&lineage, 1, AT_CODE_SLOWER, -0.1);       /* 3: slower than 1, which both came from */
    add_program(&lineage, CHAMPION, AT_CODE_TIED, -0.31); /* 4: the champion's own */
    add_program(&lineage, 0, AT_CODE_REFUSED, -0.5);      /* 5 */
    for (int mates = 0; mates < 2; ++mates) {
        for (uint64_t seed = 0; seed < DRAWS; ++seed) {
            at_random random = at_random_seed(seed, 1);
            lineage.since[AT_ARM_ENGINE] = STAGNATION;
            const at_next next = at_lineage_next(&lineage, AT_ARM_ENGINE, false, &random);
            assert_int_equal(next.kind, mates > 0 ? AT_CODE_CROSS : AT_CODE_NEW);
            assert_int_equal(next.parent, CHAMPION);
            assert_int_equal(next.other, mates > 0 ? MATE : -1);
        }
        add_program(&lineage, 1, AT_CODE_SLOWER, -0.25); /* 6: slower than the champion, and faster than 1 */
    }
    at_lineage_free(&lineage);
}

/* The champion (50 %), one that tied with it (25 %), an elite (15 %), a loser with an idea of its own (10 %). */
static void parents_are_drawn_by_their_shares(void **state)
{
    enum { DRAWS = 4000, CHAMPION = 1, ELITE = 2, LOSER = 3, PEER = 4 };
    (void)state;
    int drawn[7] = {0};
    at_lineage lineage;
    at_lineage_init(&lineage);
    add_program(&lineage, -1, AT_CODE_ACCEPTED, 0);
    add_program(&lineage, 0, AT_CODE_ACCEPTED, -0.6);
    add_program(&lineage, 1, AT_CODE_TIED, -0.55); /* not with today's champion */
    add_program(&lineage, 1, AT_CODE_SLOWER, -0.3);
    add_program(&lineage, 1, AT_CODE_TIED, -0.615);
    (void)snprintf(lineage.program[ELITE].binds, sizeof lineage.program[ELITE].binds, "memory");
    (void)snprintf(lineage.program[LOSER].idea, sizeof lineage.program[LOSER].idea, "another way");
    lineage.program[PEER].against = lineage.program[LOSER].against = CHAMPION;
    add_program(&lineage, 0, AT_CODE_TIED, 0.01); /* whose children could not win */
    (void)snprintf(lineage.program[PEER + 1].binds, sizeof lineage.program[0].binds, "scalar code");
    add_program(&lineage, 1, AT_CODE_SLOWER, 0.3);
    (void)snprintf(lineage.program[PEER + 2].idea, sizeof lineage.program[0].idea, "far slower");
    lineage.program[PEER + 2].against = CHAMPION;
    for (uint64_t seed = 0; seed < DRAWS; ++seed) {
        at_random random = at_random_seed(seed, 1);
        const at_next next = at_lineage_next(&lineage, AT_ARM_ENGINE, true, &random);
        assert_int_equal(next.kind, AT_CODE_IMPROVE);
        ++drawn[next.parent];
    }
    assert_int_equal(drawn[0], 0);
    assert_in_range(drawn[CHAMPION], 47 * DRAWS / 100, 53 * DRAWS / 100);
    assert_in_range(drawn[ELITE], 12 * DRAWS / 100, 18 * DRAWS / 100);
    assert_in_range(drawn[LOSER], 7 * DRAWS / 100, 13 * DRAWS / 100);
    assert_in_range(drawn[PEER], 22 * DRAWS / 100, 28 * DRAWS / 100);
    at_lineage_free(&lineage);
}

/* Of those that tied, who was surely a little faster is drawn more often than who was much faster by chance, and who is
 * surely no faster is not. */
static void peers_are_drawn_by_what_is_known(void **state)
{
    enum { DRAWS = 2000, SURE = 1, VAGUE = 2, SLOW = 3 };
    (void)state;
    int drawn[4] = {0};
    at_lineage lineage;
    at_lineage_init(&lineage);
    add_program(&lineage, -1, AT_CODE_ACCEPTED, 0);
    add_program(&lineage, 0, AT_CODE_TIED, -0.02);
    add_program(&lineage, 0, AT_CODE_TIED, -0.10);
    add_program(&lineage, 0, AT_CODE_TIED, 0.015);
    const double spread[] = {0, 0.005, 0.10, 0.003};
    for (int i = SURE; i <= SLOW; ++i) {
        lineage.program[i].against = 0;
        lineage.program[i].spread = spread[i];
    }
    lineage.since[AT_ARM_ENGINE] = 0;
    for (uint64_t seed = 0; seed < DRAWS; ++seed) {
        at_random random = at_random_seed(seed, 1);
        ++drawn[at_lineage_next(&lineage, AT_ARM_ENGINE, true, &random).parent];
    }
    assert_true(drawn[SURE] > drawn[VAGUE] && drawn[VAGUE] > 0);
    assert_true(drawn[SLOW] < DRAWS / 100);
    at_lineage_free(&lineage);
}

/* Without another branch two that tied with the champion are crossed, and none twice. */
static void peers_are_crossed_once(void **state)
{
    enum { STAGNATION = 8 };
    (void)state;
    at_lineage lineage;
    at_lineage_init(&lineage);
    add_program(&lineage, -1, AT_CODE_ACCEPTED, 0);
    for (int i = 1; i <= 2; ++i) {
        add_program(&lineage, 0, AT_CODE_TIED, -0.018);
        lineage.program[i].against = 0;
        lineage.program[i].spread = 0.002;
    }
    at_random random = at_random_seed(5, 1);
    lineage.since[AT_ARM_ENGINE] = STAGNATION;
    const at_next next = at_lineage_next(&lineage, AT_ARM_ENGINE, false, &random);
    assert_int_equal(next.kind, AT_CODE_CROSS);
    assert_int_equal(next.parent + next.other, 1 + 2);
    at_program *child = at_lineage_add(&lineage, AT_ARM_ENGINE, AT_CODE_CROSS, next.parent);
    assert_non_null(child);
    child->other = next.other;
    child->verdict = AT_CODE_SLOWER;
    assert_int_equal(at_lineage_next(&lineage, AT_ARM_ENGINE, false, &random).kind, AT_CODE_NEW);
    at_lineage_free(&lineage);
}

static void tag(at_lineage *lineage, int id, const char *tags, int against, double spread)
{
    at_program *one = &lineage->program[id];
    (void)snprintf(one->tags, sizeof one->tags, "%s", tags);
    one->against = against;
    one->spread = spread;
}

/* What a change saved is given as a share of what the champion takes today, however slow its parent was. */
static void trials_are_shares_of_todays_time(void **state)
{
    (void)state;
    at_lineage lineage;
    at_trial *trial;
    int count;
    at_lineage_init(&lineage);
    add_program(&lineage, -1, AT_CODE_ACCEPTED, 0);
    add_program(&lineage, 0, AT_CODE_TIED, log(0.97));
    add_program(&lineage, 0, AT_CODE_ACCEPTED, log(0.1));
    add_program(&lineage, 2, AT_CODE_SLOWER, 0); /* far slower: not timed to the end */
    add_program(&lineage, 2, AT_CODE_REFUSED, 0);
    add_program(&lineage, 2, AT_CODE_ALARM, 0);
    tag(&lineage, 1, "jam f", 0, 0.005);
    tag(&lineage, 2, "exp g swap h", 0, 0.01);
    tag(&lineage, 3, "unroll f", -1, 0);
    tag(&lineage, 4, "swap f", -1, 0);
    tag(&lineage, 5, "exp f", -1, 0);
    assert_ok(at_lineage_trials(&lineage, AT_ARM_ENGINE, &trial, &count));
    assert_int_equal(count, 5); /* who gave precision away is judged when that was had back */
    assert_string_equal(trial[0].rule, "jam");
    assert_string_equal(trial[0].place, "f");
    assert_float_equal(trial[0].saved, 0.3, 1e-9);
    assert_float_equal(trial[0].spread, 0.005 * 9.7, 1e-9);
    assert_string_equal(trial[2].rule, "swap");
    assert_string_equal(trial[2].place, "h");
    assert_float_equal(trial[1].saved, 9, 1e-9);
    assert_float_equal(trial[1].share, 0.5, 1e-9);
    assert_true(trial[3].timed && trial[3].saved <= -1);
    assert_false(trial[4].timed);
    free(trial);
    assert_ok(at_lineage_trials(&lineage, AT_ARM_REFINEMENT, &trial, &count));
    assert_int_equal(count, 0);
    free(trial);
    at_lineage_free(&lineage);
}

/* What gave precision away is asked for with more of it, twice at most, also of who repairs nothing else. */
static void alarms_are_repaired(void **state)
{
    (void)state;
    at_lineage lineage;
    at_random random = at_random_seed(1, 1);
    at_lineage_init(&lineage);
    add_program(&lineage, -1, AT_CODE_ACCEPTED, 0);
    add_program(&lineage, 0, AT_CODE_REFUSED, 0);
    assert_int_equal(at_lineage_next(&lineage, AT_ARM_ENGINE, false, &random).kind, AT_CODE_IMPROVE);
    add_program(&lineage, 0, AT_CODE_ALARM, 0);
    for (int repairs = 1; repairs <= 2; ++repairs) {
        const at_next next = at_lineage_next(&lineage, AT_ARM_ENGINE, false, &random);
        assert_int_equal(next.kind, AT_CODE_REPAIR);
        assert_int_equal(next.parent, lineage.count - 1);
        assert_int_equal(at_lineage_next(&lineage, AT_ARM_SAMPLES, false, &random).kind, AT_CODE_IMPROVE);
        at_program *added = at_lineage_add(&lineage, AT_ARM_ENGINE, AT_CODE_REPAIR, next.parent);
        assert_non_null(added);
        added->verdict = AT_CODE_ALARM;
        at_lineage_judged(&lineage, added->id);
    }
    assert_int_equal(at_lineage_next(&lineage, AT_ARM_ENGINE, false, &random).kind, AT_CODE_IMPROVE);
    at_lineage_free(&lineage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crosses_are_of_improved_lineages), cmocka_unit_test(parents_are_drawn_by_their_shares),
        cmocka_unit_test(peers_are_drawn_by_what_is_known), cmocka_unit_test(peers_are_crossed_once),
        cmocka_unit_test(trials_are_shares_of_todays_time), cmocka_unit_test(alarms_are_repaired),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
