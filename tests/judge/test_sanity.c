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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(honest_kernels_pass),
        cmocka_unit_test(numbers_are_the_next_stages),
        cmocka_unit_test(each_test_catches_its_own),
        cmocka_unit_test(what_is_declared_is_excused),
    };
    return cmocka_run_group_tests_name("sanity", tests, pool_open, pool_close);
}
