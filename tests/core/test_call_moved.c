/* Calls that differ from one that passed in where their buffers are. */
#include "calls.h"

/* Whatever passes by having moved passes the check, and is told to have moved. */
static void what_moved_passes(void **state)
{
    (void)state;
    int accepted_of[3] = {0, 0, 0};
    for (uint64_t seed = 0; seed < 30000; ++seed) {
        at_random random = at_random_seed(seed, 5);
        attune_problem problem = parse(seed % 3 == 0 ? everything : seed % 3 == 1 ? packed : "b2,h4,s9,d16,fp16");
        attune_call from = whole(&problem);
        at_spans spans;
        uint32_t moved, expected = 0;
        from.workspace = place(40);
        from.workspace_bytes = 512;
        assert_int_equal(at_call_check_spans(&problem, &from, &spans), ATTUNE_OK);
        attune_call to = from;
        for (int edits = 0; edits < 4; ++edits) {
            int role = (int)at_random_below(&random, AT_WORKSPACE + 1);
            /* Next to another one, more often than not; seldom by less than buffers may move by. */
            ptrdiff_t by = ((ptrdiff_t)at_random_below(&random, 65) - 32) * (at_random_below(&random, 8) ? 256 : 16);
            char *at = (char *)place((int)at_random_below(&random, ATTUNE_ROLE_COUNT)) + by;
            if (role == AT_WORKSPACE) {
                to.workspace = at;
            } else if (to.tensor[role].data != NULL) {
                to.tensor[role].data = at;
            }
        }
        for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
            expected |= (uint32_t)(to.tensor[role].data != from.tensor[role].data) << role;
        }
        expected |= (uint32_t)(to.workspace != from.workspace) << AT_WORKSPACE;
        if (at_call_moved(&from, &spans, &to, &moved)) {
            accepted(&problem, &to);
            assert_int_equal(moved, expected);
            ++accepted_of[seed % 3];
        }
    }
    assert_true(accepted_of[0] > 2000 && accepted_of[1] > 2000 && accepted_of[2] > 2000);
}

/* Any other word that differs is for the check to look at. */
static void nothing_else_may_differ(void **state)
{
    (void)state;
    attune_problem problem = parse(everything);
    const attune_call from = whole(&problem);
    at_spans spans;
    uint32_t moved;
    assert_int_equal(at_call_check_spans(&problem, &from, &spans), ATTUNE_OK);
    for (size_t at = 0; at < sizeof from; at += sizeof(uint32_t)) {
        attune_call to = from;
        uint32_t word;
        memcpy(&word, (char *)&to + at, sizeof word);
        word ^= 1;
        memcpy((char *)&to + at, &word, sizeof word);
        bool of_stream = at / sizeof(void *) == offsetof(attune_call, stream) / sizeof(void *);
        bool of_upper = at % sizeof(void *) != 0; /* a pointer may well be 4 GiB away */
        bool of_data = at >= offsetof(attune_call, tensor) &&
                       (at - offsetof(attune_call, tensor)) % sizeof(attune_tensor) < sizeof(void *) &&
                       from.tensor[(at - offsetof(attune_call, tensor)) / sizeof(attune_tensor)].data != NULL;
        bool may = of_stream || (of_data && of_upper);
        if (at_call_moved(&from, &spans, &to, &moved) && !may) {
            fail_msg("byte %zu may not differ", at);
        }
    }
}

/* Which buffers there are is part of what was checked. */
static void none_comes_or_goes(void **state)
{
    (void)state;
    attune_problem problem = parse("b2,h4,s9,d16,fp16");
    attune_call with = whole(&problem), without = with;
    at_spans spans;
    uint32_t moved;
    without.tensor[ATTUNE_LSE].data = NULL;
    assert_int_equal(at_call_check_spans(&problem, &with, &spans), ATTUNE_OK);
    assert_true(at_call_moved(&with, &spans, &with, &moved));
    assert_false(at_call_moved(&with, &spans, &without, &moved));
    assert_int_equal(at_call_check_spans(&problem, &without, &spans), ATTUNE_OK);
    assert_true(at_call_moved(&without, &spans, &without, &moved));
    assert_false(at_call_moved(&without, &spans, &with, &moved));
}

static void the_end_of_memory_is_seen(void **state)
{
    (void)state;
    attune_problem problem = parse("b2,h4,s9,d16,fp16");
    attune_call call = whole(&problem);
    at_spans spans;
    uint32_t moved;
    assert_int_equal(at_call_check_spans(&problem, &call, &spans), ATTUNE_OK);
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        attune_call to = call;
        to.tensor[role].data = (void *)(UINTPTR_MAX - 255); /* NOLINT(performance-no-int-to-ptr): made up */
        assert_int_equal(at_call_check(&problem, &to), ATTUNE_INVALID_ARGUMENT);
        assert_false(at_call_moved(&call, &spans, &to, &moved));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_moved_passes),
        cmocka_unit_test(nothing_else_may_differ),
        cmocka_unit_test(none_comes_or_goes),
        cmocka_unit_test(the_end_of_memory_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
