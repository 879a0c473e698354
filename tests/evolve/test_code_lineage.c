/* Which source a search for code goes on from. */
#include "base/cm.h"

#include <stdio.h>

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

/* The champion (60 %), an elite (25 %), a loser with an idea of its own (15 %). */
static void parents_are_drawn_by_their_shares(void **state)
{
    enum { DRAWS = 4000, CHAMPION = 1, ELITE = 2, LOSER = 3 };
    (void)state;
    int drawn[4] = {0};
    at_lineage lineage;
    at_lineage_init(&lineage);
    add_program(&lineage, -1, AT_CODE_ACCEPTED, 0);
    add_program(&lineage, 0, AT_CODE_ACCEPTED, -0.2);
    add_program(&lineage, 1, AT_CODE_TIED, -0.19);
    add_program(&lineage, 1, AT_CODE_SLOWER, 0.1);
    (void)snprintf(lineage.program[ELITE].binds, sizeof lineage.program[ELITE].binds, "memory");
    (void)snprintf(lineage.program[LOSER].idea, sizeof lineage.program[LOSER].idea, "another way");
    for (uint64_t seed = 0; seed < DRAWS; ++seed) {
        at_random random = at_random_seed(seed, 1);
        const at_next next = at_lineage_next(&lineage, AT_ARM_ENGINE, true, &random);
        assert_int_equal(next.kind, AT_CODE_IMPROVE);
        ++drawn[next.parent];
    }
    assert_int_equal(drawn[0], 0);
    assert_in_range(drawn[CHAMPION], 57 * DRAWS / 100, 63 * DRAWS / 100);
    assert_in_range(drawn[ELITE], 22 * DRAWS / 100, 28 * DRAWS / 100);
    assert_in_range(drawn[LOSER], 12 * DRAWS / 100, 18 * DRAWS / 100);
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
        cmocka_unit_test(crosses_are_of_improved_lineages),
        cmocka_unit_test(parents_are_drawn_by_their_shares),
        cmocka_unit_test(alarms_are_repaired),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
