/* A disturbed block costs a wait and another block, not the search. */
#include "base/cm.h"

#include "base/status.h"
#include "evolve/patience.h"
#include "evolve/race.h"

typedef struct device {
    int disturbed; /* so many blocks, counted down */
    unsigned throttle;
    attune_status status;
    int blocks, pauses;
    double waited_s, longest_s;
} device;

static attune_status time_block(void *self, at_block *block)
{
    device *on = self;
    assert_int_equal(block->throttle, 0);
    ++on->blocks;
    block->us[0][0] = on->blocks;
    block->throttle = on->disturbed-- > 0 ? on->throttle : 0;
    return on->status;
}

static void pause_for(void *self, double seconds)
{
    device *on = self;
    ++on->pauses;
    on->waited_s += seconds;
    on->longest_s = seconds > on->longest_s ? seconds : on->longest_s;
}

static attune_status take(device *on, at_block *block)
{
    const at_patience patience = {on, time_block, pause_for};
    return at_patience_block(&patience, block);
}

static void a_good_block_is_not_waited_for(void **state)
{
    (void)state;
    at_block block;
    device on = {.disturbed = 3, .throttle = AT_THROTTLE_POWER | AT_THROTTLE_COMPANY};
    assert_ok(take(&on, &block));
    assert_int_equal(on.blocks, 1);
    assert_int_equal(on.pauses, 0);
}

static void a_disturbed_one_is_timed_again_later(void **state)
{
    (void)state;
    static const unsigned reasons[] = {AT_THROTTLE_THERMAL, AT_THROTTLE_HARDWARE, AT_THROTTLE_OTHER};
    for (int i = 0; i < 3; ++i) {
        at_block block;
        device on = {.disturbed = 9, .throttle = reasons[i]};
        assert_ok(take(&on, &block));
        assert_int_equal(on.blocks, 10);
        assert_int_equal(on.pauses, 9);
        assert_int_equal(block.throttle, 0);
        assert_true(block.us[0][0] == 10);
        assert_true(on.waited_s > 5 && on.longest_s <= 4);
    }
}

static void patience_ends(void **state)
{
    (void)state;
    at_block block;
    device on = {.disturbed = 1 << 20, .throttle = AT_THROTTLE_OTHER};
    assert_fails(take(&on, &block), AT_DISTURBED, "60 s");
    assert_true(on.waited_s >= AT_PATIENCE_S && on.waited_s < AT_PATIENCE_S + on.longest_s);
    assert_int_equal(on.blocks, on.pauses + 1);
}

static void what_fails_is_not_tried_again(void **state)
{
    (void)state;
    at_block block;
    device on = {.disturbed = 9, .throttle = AT_THROTTLE_OTHER, .status = ATTUNE_DEVICE_ERROR};
    assert_int_equal(take(&on, &block), ATTUNE_DEVICE_ERROR);
    assert_int_equal(on.blocks, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_block_is_not_waited_for),
        cmocka_unit_test(a_disturbed_one_is_timed_again_later),
        cmocka_unit_test(patience_ends),
        cmocka_unit_test(what_fails_is_not_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
