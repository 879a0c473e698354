/* Sanity: an honest kernel passes it, what is wrong with numbers alone is left to the next stage, and the rest is
 * caught by the test that is meant for it. */
#include "base/cm.h"

#include "base/pool.h"
#include "gate/zoo_device.h"
#include "judge/sanity.h"

enum { REPEATS = 3 };

static attune_status sanity(zoo_flaw flaw, attune_target_kind kind, uint32_t traits, const char *text)
{
    zoo_device zoo;
    at_test_problem problem;
    const char *done;
    zoo_open(&zoo, flaw, kind, traits);
    const at_suite suite = {.device = &zoo.device, .pool = pool, .plan = zoo_plan, .self = &zoo, .seed = 1, .only = -1};
    assert_ok(at_test_problem_parse(text, &problem));
    attune_status status = at_sanity_run(&suite, &problem, REPEATS, &done);
    for (int k = 0; k < ZOO_HELD; ++k) {
        assert_null(zoo.held[k].data);
    }
    return status;
}

static void honest_kernels_pass(void **state)
{
    (void)state;
    assert_ok(sanity(ZOO_HONEST, ATTUNE_TARGET_CPU, 0, "b2,h2,s40,d16,fp16"));
    assert_ok(sanity(ZOO_HONEST, ATTUNE_TARGET_CPU, 0, "b2,h2,s70,d32,fp16,mask,bias=bxh,sink,alibi"));
    assert_ok(sanity(ZOO_HONEST, ATTUNE_TARGET_CUDA, 0, "b2,h4,hkv2,sq9,skv70,d16,fp32,causal,seqused"));
    assert_ok(sanity(ZOO_HONEST, ATTUNE_TARGET_CPU, 0, "b3,h2,s30,d16,bf16,varlen=3,causal,strict"));
}

static void numbers_are_the_next_stages(void **state)
{
    (void)state;
    assert_ok(sanity(ZOO_SCALE_OFF, ATTUNE_TARGET_CPU, 0, "b1,h2,s70,d32,fp16"));
    assert_ok(sanity(ZOO_BIASED, ATTUNE_TARGET_CPU, 0, "b1,h4,hkv2,s70,d32,bf16"));
}

static void each_test_catches_its_own(void **state)
{
    (void)state;
    static const struct {
        zoo_flaw flaw;
        const char *problem, *words;
    } bad[] = {
        {ZOO_SKIPS_ROW, "b1,h2,s100,d32,fp16", "was not written"},
        {ZOO_WRITES_PAST, "b1,h2,s40,d32,fp16", "guard"},
        {ZOO_CHANGES_INPUT, "b1,h2,s40,d32,fp16", "inputs"},
        {ZOO_RANDOM_BITS, "b1,h2,s100,d32,bf16", "two poisons"},
        {ZOO_LEAKS, "b2,h2,s70,d32,fp16,mask", "hidden non-finite values"},
        {ZOO_LEAKS, "b1,h1,sq16,skv300,d32,fp16,causal", "visible non-finite values"},
        {ZOO_ZEROS, "b1,h2,s70,d32,fp16,causal", "visible non-finite values"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        assert_fails(sanity(bad[i].flaw, ATTUNE_TARGET_CPU, 0, bad[i].problem), ATTUNE_WRONG_RESULT, bad[i].words);
    }
}

/* Who may give other bits must still write all of them. */
static void what_is_declared_is_excused(void **state)
{
    (void)state;
    const uint32_t varies = ATTUNE_TRAIT_NONDETERMINISTIC;
    assert_ok(sanity(ZOO_RANDOM_BITS, ATTUNE_TARGET_CPU, varies, "b1,h2,s100,d32,bf16"));
    assert_fails(sanity(ZOO_SKIPS_ROW, ATTUNE_TARGET_CPU, varies, "b1,h2,s100,d32,fp16"), ATTUNE_WRONG_RESULT,
                 "outputs");
}

/* ---- Delays ------------------------------------------------------------------------------------------------------ */

static struct {
    zoo_flaw when_late;     /* what shows then */
    attune_status possible; /* whether there is code with delays */
    int began, ended;
} delays;

static attune_status delay(at_device *device, const at_loaded *loaded, bool on)
{
    zoo_device *zoo = (zoo_device *)device;
    assert_ptr_equal(loaded, &zoo->loaded);
    if (on && delays.possible != ATTUNE_OK) {
        return at_fail(delays.possible, "no code with delays");
    }
    zoo->flaw = on ? delays.when_late : ZOO_HONEST;
    ++*(on ? &delays.began : &delays.ended);
    return ATTUNE_OK;
}

static attune_status sanity_late_of(attune_target_kind kind, uint32_t traits, const char **done)
{
    at_device_ops ops = zoo_ops;
    zoo_device zoo;
    at_test_problem problem;
    zoo_open(&zoo, ZOO_HONEST, kind, traits);
    ops.delay = delay;
    zoo.device.ops = &ops;
    const at_suite suite = {.device = &zoo.device, .pool = pool, .plan = zoo_plan, .self = &zoo, .seed = 1, .only = -1};
    assert_ok(at_test_problem_parse("b1,h2,s160,d32,bf16", &problem));
    return at_sanity_run(&suite, &problem, REPEATS, done);
}

static attune_status sanity_late(uint32_t traits, const char **done)
{
    return sanity_late_of(ATTUNE_TARGET_CUDA, traits, done);
}

/* A kernel that is right only as long as no warp is late; and it is asked for no more than it can have. */
static void what_is_right_by_luck_is_late(void **state)
{
    const char *done = "";
    (void)state;
    memset(&delays, 0, sizeof delays);
    delays.when_late = ZOO_RANDOM_BITS;
    assert_fails(sanity_late(0, &done), ATTUNE_WRONG_RESULT, "with delays behind barriers");
    assert_int_equal(delays.began, 1);
    assert_int_equal(delays.ended, 1);
    assert_ok(sanity_late(ATTUNE_TRAIT_NONDETERMINISTIC, &done)); /* whose other bits are right */
    delays.when_late = ZOO_DROPS_TAIL;
    assert_fails(sanity_late(ATTUNE_TRAIT_NONDETERMINISTIC, &done), ATTUNE_WRONG_RESULT, "with delays behind barriers");
    assert_fails(sanity_late(0, &done), ATTUNE_WRONG_RESULT, "with delays behind barriers");
    delays.when_late = ZOO_HONEST;
    assert_ok(sanity_late(0, &done));
    assert_non_null(strstr(done, "delays"));
    assert_int_equal(delays.began, 5);
    assert_int_equal(delays.ended, 5);
    delays.possible = ATTUNE_UNSUPPORTED;
    assert_ok(sanity_late(0, &done));
    assert_non_null(strstr(done, "not checked: delays"));
    assert_ok(sanity_late_of(ATTUNE_TARGET_CPU, 0, &done)); /* where there is nothing to delay */
    assert_null(strstr(done, "delays"));
    delays.possible = ATTUNE_DEVICE_ERROR;
    assert_fails(sanity_late(0, &done), ATTUNE_DEVICE_ERROR, "no code");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(honest_kernels_pass),           cmocka_unit_test(numbers_are_the_next_stages),
        cmocka_unit_test(each_test_catches_its_own),     cmocka_unit_test(what_is_declared_is_excused),
        cmocka_unit_test(what_is_right_by_luck_is_late),
    };
    return cmocka_run_group_tests_name("sanity", tests, pool_open, pool_close);
}
