/* Evidence that got worse, and what is no step back. */
#include <stdlib.h>

#include "gate/ratchet.h"
#include "gate/verdicts.h"

enum { MOST = 4 };

/* An archive of verdicts on one kernel, from old to new, in memory. */
typedef struct shelf {
    at_archive archive;
    at_exhibit exhibit[MOST];
    at_record record[MOST];
} shelf;

static at_verdict *put(shelf *on, double flash_us)
{
    scene of = scene_of(flash_us, 14);
    size_t i = on->archive.count++;
    on->exhibit[i].verdict = verdicts_make(&of);
    assert_ok(at_verdict_judge(on->exhibit[i].verdict));
    on->record[i] = (at_record){.exhibit = &on->exhibit[i]};
    on->archive.record = on->record;
    return on->exhibit[i].verdict;
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
        at_verdict_destroy(on->exhibit[i].verdict);
    }
}

static void slower_than_the_best_is_seen(void **state)
{
    (void)state;
    shelf on = {0};
    put(&on, 12);
    put(&on, 15); /* the best: not the one before the newest */
    put(&on, 12);
    at_ratchet ratchet = turn(&on);
    assert_int_equal(ratchet.compared, 1);
    assert_int_equal(ratchet.count, 2); /* warm and cold */
    assert_string_equal(ratchet.slip[0].peer, "torch:flash");
    assert_int_equal(ratchet.slip[0].mode, AT_MODE_WARM);
    assert_int_equal(ratchet.slip[1].mode, AT_MODE_COLD);
    assert_ptr_equal(ratchet.slip[0].best, &on.record[1]);
    assert_ptr_equal(ratchet.slip[0].newest, &on.record[2]);
    assert_true(ratchet.slip[0].now.high < ratchet.slip[0].then.low);
    clear(&on, &ratchet);
}

static void noise_and_gains_are_no_steps_back(void **state)
{
    (void)state;
    shelf on = {0};
    put(&on, 12);
    put(&on, 11.95);
    put(&on, 15);
    at_ratchet ratchet = turn(&on);
    assert_int_equal(ratchet.compared, 1);
    assert_int_equal(ratchet.count, 0);
    clear(&on, &ratchet);
}

static void another_peer_is_no_comparison(void **state)
{
    (void)state;
    shelf on = {0};
    put(&on, 15);
    at_verdict *newest = put(&on, 12);
    (void)snprintf(newest->arm[1].account, AT_SENTENCE_MAX, "a newer version");
    at_ratchet ratchet = turn(&on);
    assert_int_equal(ratchet.compared, 1);
    assert_int_equal(ratchet.count, 0);
    clear(&on, &ratchet);
}

static void quick_and_broken_verdicts_do_not_count(void **state)
{
    (void)state;
    shelf on = {0};
    put(&on, 20)->options.quick = true;
    put(&on, 18);
    on.record[1].standing = AT_BROKEN;
    put(&on, 15);
    put(&on, 11)->options.quick = true;
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
    put(&on, 15)->right = AT_FAIL;
    at_ratchet ratchet = turn(&on);
    assert_int_equal(ratchet.count, 1);
    assert_string_equal(ratchet.slip[0].peer, "");
    clear(&on, &ratchet);
    /* And one that never was right cannot be the best. */
    shelf other = {0};
    put(&other, 20)->right = AT_FAIL;
    put(&other, 12);
    put(&other, 12);
    ratchet = turn(&other);
    assert_int_equal(ratchet.count, 0);
    clear(&other, &ratchet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slower_than_the_best_is_seen),  cmocka_unit_test(noise_and_gains_are_no_steps_back),
        cmocka_unit_test(another_peer_is_no_comparison), cmocka_unit_test(quick_and_broken_verdicts_do_not_count),
        cmocka_unit_test(no_longer_right_is_worse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
