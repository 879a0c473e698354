/* The suite: an honest kernel passes on every device, and each animal of the zoo is rejected for the right reason. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/pool.h"
#include "gate/zoo_device.h"
#include "judge/suite.h"

static at_suite suite_of(zoo_device *on, int64_t cases)
{
    return (at_suite){.device = &on->device,
                      .pool = pool,
                      .plan = zoo_plan,
                      .self = on,
                      .seed = 1,
                      .cases = cases,
                      .only = -1,
                      .command = "attune check --kernel zoo"};
}

static at_test_problem parsed(const char *text)
{
    at_test_problem problem;
    assert_int_equal(at_test_problem_parse(text, &problem), ATTUNE_OK);
    return problem;
}

static at_suite_result run(const at_suite *suite, const char *text)
{
    at_suite_result result;
    const at_test_problem problem = parsed(text);
    if (at_suite_run(suite, &problem, &result) != ATTUNE_OK) {
        fail_msg("%s: %s", text, attune_last_detail());
    }
    return result;
}

static void assert_right(const at_suite_result *result, const char *text)
{
    if (result->failures > 0) {
        fail_msg("%s: %s: case %lld (%s): %s", text, result->failure[0].problem, (long long)result->failure[0].index,
                 result->failure[0].how, result->failure[0].what);
    }
    if (result->bias_status != ATTUNE_OK) {
        fail_msg("%s: %s", text, result->bias_what);
    }
    assert_true(at_suite_right(result));
}

/* ---- Honest ----------------------------------------------------------------------------------------------------- */

static const char *const honest[] = {
    "b2,h2,s40,d16,fp16",
    "b1,h2,s66,d32,bf16,causal",
    "b2,h4,hkv2,sq9,skv70,d16,fp32,causal,seqused",
    "b3,h2,s30,d16,fp16,varlen=3,causal",
    "b2,h2,sq20,skv70,d16,fp16,window=9:9,softcap=4,bias=bxh,mask,alibi,sink,seqused",
};

static void test_honest_passes(void **state)
{
    (void)state;
    const attune_target_kind kinds[] = {ATTUNE_TARGET_CPU, ATTUNE_TARGET_CUDA};
    for (size_t i = 0; i < sizeof honest / sizeof *honest; ++i) {
        zoo_device zoo;
        zoo_open(&zoo, ZOO_HONEST, kinds[i % 2], 0);
        at_suite suite = suite_of(&zoo, 25);
        at_suite_result result = run(&suite, honest[i]);
        assert_right(&result, honest[i]);
        assert_int_equal(result.executed, 25);
        assert_true(result.exact >= 10);
        assert_string_equal(result.kernel, "zoo");
        for (int k = 0; k < ZOO_HELD; ++k) {
            assert_null(zoo.held[k].data);
        }
    }
}

/* ---- The zoo ---------------------------------------------------------------------------------------------------- */

typedef struct bad {
    const char *name;
    zoo_flaw flaw;
    const char *problem;
    const char *reason; /* in some failure's text */
} bad;

static const bad animals[] = {
    {"scale off by one per cent", ZOO_SCALE_OFF, "b1,h2,s150,d64,fp16", "rule "},
    {"P in fp8", ZOO_FP8_P, "b1,h2,s150,d64,bf16", "rule "},
    {"last 64 keys dropped", ZOO_DROPS_TAIL, "b1,h1,s200,d64,fp16", "rule "},
    {"mean of V", ZOO_MEAN_OF_V, "b1,h2,s100,d64,fp32", "rule "},
    {"causal off by one", ZOO_CAUSAL_OFF, "b1,h2,s100,d64,fp16,causal", "rule "},
    {"swapped heads", ZOO_SWAPPED_HEADS, "b1,h4,hkv2,s70,d32,fp16", "rule "},
    {"NaN rows", ZOO_NAN_ROW, "b1,h2,s100,d32,fp16", "rule 3, inf and NaN"},
    {"zeros", ZOO_ZEROS, "b1,h2,s100,d32,fp16", "rule "},
    {"rows never written", ZOO_SKIPS_ROW, "b1,h2,s100,d32,fp16", "rule "},
    {"a write past the row", ZOO_WRITES_PAST, "b1,h2,s40,d32,fp16", "guards"},
    {"inputs changed", ZOO_CHANGES_INPUT, "b1,h2,s40,d32,fp16", "inputs"},
    {"random bits", ZOO_RANDOM_BITS, "b1,h2,s100,d32,bf16", "rule 5, determinism"},
    {"reads its neighbour", ZOO_READS_NEIGHBOUR, "b2,h2,s100,d32,bf16", "rule 5, batch invariance"},
    {"asks its packed neighbour", ZOO_ASKS_NEIGHBOUR, "b4,h2,s60,d16,bf16,varlen=3", "rule 5, batch invariance"},
    {"LSE in base 2", ZOO_LSE_OFF, "b1,h2,s100,d32,fp16", "rule 4"},
    {"empty rows are NaN", ZOO_EMPTY_NAN, "b1,h2,sq70,skv40,d32,fp16,causal", "rule 3, inf and NaN"},
    {"maximum not subtracted", ZOO_NO_MAXIMUM, "b1,h2,s70,d32,fp16", "rule "},
    {"hidden NaN leaks", ZOO_LEAKS, "b2,h2,s70,d32,fp16,mask", "rule 3, inf and NaN"},
    {"P in fp8 without LSE", ZOO_BARE_FP8, "b1,h2,s100,d32,bf16", "rule 5, without LSE"},
    {"nothing written over zeros", ZOO_KEEPS_ZEROS, "b1,h2,s100,d32,fp16", "rule "},
    {"knows a projection", ZOO_BETWEEN, "b1,h2,s60,d32,fp16", "inputs that lie between one another"},
    {"knows rows of sequences", ZOO_IN_ROWS, "b2,h2,s60,d32,fp16", "rule "},
    {"knows shared keys", ZOO_SHARED, "b2,h2,s60,d32,bf16", "rule "},
    {"keys twice", ZOO_TWINS, "b1,h2,s60,d32,fp16", "rule "},
    {"rounded towards zero", ZOO_BIASED, "b1,h2,s100,d32,bf16", "rule 2, bias over the suite"},
};

#ifdef ATTUNE_SANITIZED
enum { ANIMAL_STEP = 5 };
#else
enum { ANIMAL_STEP = 1 };
#endif

static bool mentions(const at_suite_result *result, const char *reason)
{
    for (int i = 0; i < result->failures; ++i) {
        if (strstr(result->failure[i].what, reason) != NULL) {
            return true;
        }
    }
    return result->bias_status != ATTUNE_OK && strstr(result->bias_what, reason) != NULL;
}

static void test_animals_are_rejected(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof animals / sizeof *animals; i += ANIMAL_STEP) {
        const bad *animal = &animals[i];
        zoo_device zoo;
        zoo_open(&zoo, animal->flaw, i % 2 ? ATTUNE_TARGET_CPU : ATTUNE_TARGET_CUDA, 0);
        at_suite suite = suite_of(&zoo, 30);
        at_suite_result result = run(&suite, animal->problem);
        if (at_suite_right(&result)) {
            fail_msg("%s passes", animal->name);
        }
        if (!mentions(&result, animal->reason)) {
            fail_msg("%s: not \"%s\", but: %s", animal->name, animal->reason,
                     result.failures > 0 ? result.failure[0].what : result.bias_what);
        }
    }
}

/* What is reported only, as PyTorch would ask. */
static void test_allclose_is_counted(void **state)
{
    (void)state;
    zoo_device zoo;
    zoo_open(&zoo, ZOO_HONEST, ATTUNE_TARGET_CPU, 0);
    at_suite suite = suite_of(&zoo, 10);
    at_suite_result result = run(&suite, "b1,h2,s40,d32,fp32");
    assert_int_equal(result.margins.allclose_missed, 0);
    zoo.flaw = ZOO_ZEROS;
    result = run(&suite, "b1,h2,s40,d32,fp32");
    assert_true(result.margins.allclose_missed > 5);
}

/* Wrapped offsets land on other rows of the same buffer: the rows beyond 2^31 stay as they were. */
static void test_far_offsets_find_32_bits(void **state)
{
    (void)state;
    zoo_device zoo;
    const at_test_problem problem = parsed("b1,h2,s40,d32,fp16");
    int found = 0;
    zoo_open(&zoo, ZOO_INT32, ATTUNE_TARGET_CPU, 0);
    at_suite suite = suite_of(&zoo, 1);
    for (int64_t index = 0; index < 60; ++index) {
        at_gate_case one;
        at_suite_result result;
        at_case_make(&problem, suite.seed, index, &one);
        if (!one.draw.far) {
            continue;
        }
        suite.only = index;
        assert_int_equal(at_suite_run(&suite, &problem, &result), ATTUNE_OK);
        assert_int_equal(result.failed, 1 - result.refused);
        found += (int)result.failed;
        zoo.flaw = ZOO_HONEST;
        assert_int_equal(at_suite_run(&suite, &problem, &result), ATTUNE_OK);
        assert_int_equal(result.failed, 0);
        zoo.flaw = ZOO_INT32;
    }
    assert_true(found > 0);
}

/* ---- Big problems ----------------------------------------------------------------------------------------------- */

typedef struct pair {
    zoo_device zoo, general;
} pair;

static attune_status plan_zoo(void *self, const attune_problem *problem, attune_plan **plan)
{
    return zoo_plan(&((pair *)self)->zoo, problem, plan);
}

static attune_status plan_general(void *self, const attune_problem *problem, attune_plan **plan)
{
    return zoo_plan(&((pair *)self)->general, problem, plan);
}

static at_suite_result run_big(zoo_flaw flaw, zoo_flaw general)
{
    pair both;
    zoo_open(&both.zoo, flaw, ATTUNE_TARGET_CPU, 0);
    zoo_open(&both.general, general, ATTUNE_TARGET_CPU, ATTUNE_TRAIT_GENERAL);
    at_suite suite = suite_of(&both.zoo, 1);
    suite.plan = plan_zoo;
    suite.general = plan_general;
    suite.self = &both;
    suite.big_flops = 1.0;
    suite.only = 0;
    return run(&suite, "b1,h4,s600,d8,fp16");
}

/* One wrong row among 2,400, not among those compared with fp64: the general kernel finds it. */
static void test_general_kernel_judges_the_other_rows(void **state)
{
    (void)state;
    at_suite_result result = run_big(ZOO_HONEST, ZOO_HONEST);
    assert_right(&result, "honest");
    result = run_big(ZOO_ONE_ROW, ZOO_HONEST);
    assert_int_equal(result.failed, 1);
    if (strstr(result.failure[0].what, "against the general kernel") == NULL) {
        fail_msg("found by another rule: %s", result.failure[0].what);
    }
    assert_non_null(strstr(result.failure[0].what, "head 2, row 34"));
}

/* A general kernel that is wrong itself is no judge. */
static void test_wrong_general_kernel_is_our_error(void **state)
{
    (void)state;
    at_suite_result result = run_big(ZOO_HONEST, ZOO_SCALE_OFF);
    assert_int_equal(result.failed, 1);
    assert_int_equal(result.failure[0].status, ATTUNE_INTERNAL);
}

/* ---- Declarations are honoured ---------------------------------------------------------------------------------- */

static void test_declared_traits_excuse(void **state)
{
    (void)state;
    const struct {
        zoo_flaw flaw;
        uint32_t trait;
        const char *problem;
    } declared[] = {
        {ZOO_RANDOM_BITS, ATTUNE_TRAIT_NONDETERMINISTIC, "b1,h2,s100,d32,bf16"},
        {ZOO_READS_NEIGHBOUR, ATTUNE_TRAIT_BATCH_VARIANT, "b2,h2,s100,d32,bf16"},
    };
    for (size_t i = 0; i < 2; ++i) {
        zoo_device zoo;
        zoo_open(&zoo, declared[i].flaw, ATTUNE_TARGET_CPU, declared[i].trait);
        at_suite suite = suite_of(&zoo, 10);
        at_suite_result result = run(&suite, declared[i].problem);
        assert_int_equal(result.failed, 0);
    }
}

/* A kernel that taints is excused where some row sees the NaN, not where none does. */
static void test_taint_excuses_no_hidden_leak(void **state)
{
    (void)state;
    zoo_device zoo;
    zoo_open(&zoo, ZOO_LEAKS, ATTUNE_TARGET_CPU, ATTUNE_TRAIT_TAINTS);
    at_suite suite = suite_of(&zoo, 25);
    at_suite_result result = run(&suite, "b1,h3,s70,d32,fp16");
    assert_int_equal(result.failed, 0);
    result = run(&suite, "b2,h2,s70,d32,fp16,mask");
    assert_true(result.failed > 0);
    result = run(&suite, "b1,h3,s70,d32,fp16,causal,strict");
    assert_true(result.failed > 0);
}

/* ---- Reports ---------------------------------------------------------------------------------------------------- */

static void test_refused_problem(void **state)
{
    (void)state;
    zoo_device zoo;
    zoo_open(&zoo, ZOO_HONEST, ATTUNE_TARGET_CPU, 0);
    at_suite suite = suite_of(&zoo, 10);
    at_suite_result result = run(&suite, "b1,h2,s40,d256,fp16");
    assert_int_equal(result.executed, 0);
    assert_int_equal(result.refused, 1);
    assert_non_null(strstr(result.refusal[0].why, "head_dim_qk 256"));
    assert_false(at_suite_right(&result));
}

/* The printed command runs the same case to the same failure. */
static void test_failures_are_reproduced(void **state)
{
    (void)state;
    zoo_device zoo;
    zoo_open(&zoo, ZOO_CAUSAL_OFF, ATTUNE_TARGET_CPU, 0);
    at_suite suite = suite_of(&zoo, 10);
    suite.seed = 77;
    at_suite_result result = run(&suite, "b1,h2,s100,d64,fp16,causal");
    assert_true(result.failures > 0);
    const at_failure *failure = &result.failure[result.failures - 1];
    char expected[256];
    (void)snprintf(expected, sizeof expected,
                   "attune check --kernel zoo --seed 77 --case %lld b1,h2,s100,d64,fp16,causal",
                   (long long)failure->index);
    assert_string_equal(failure->command, expected);
    suite.only = failure->index;
    at_suite_result again = run(&suite, "b1,h2,s100,d64,fp16,causal");
    assert_int_equal(again.executed, 1);
    assert_int_equal(again.failed, 1);
    assert_string_equal(again.failure[0].what, failure->what);
    assert_string_equal(again.failure[0].problem, failure->problem);
}

static void test_failing_launch_is_a_failure(void **state)
{
    (void)state;
    zoo_device zoo;
    zoo_open(&zoo, ZOO_HONEST, ATTUNE_TARGET_CUDA, 0);
    zoo.broken_launch = true;
    at_suite suite = suite_of(&zoo, 3);
    at_suite_result result = run(&suite, "b1,h2,s40,d16,fp16");
    assert_int_equal(result.failed, 3);
    assert_non_null(strstr(result.failure[0].what, "the zoo is closed"));
}

static bool stop_at_once(void *watcher)
{
    ++*(int *)watcher;
    return *(int *)watcher > 3;
}

static void test_stop(void **state)
{
    (void)state;
    zoo_device zoo;
    int asked = 0;
    zoo_open(&zoo, ZOO_HONEST, ATTUNE_TARGET_CPU, 0);
    at_suite suite = suite_of(&zoo, 50);
    suite.stop = stop_at_once;
    suite.watcher = &asked;
    at_suite_result result = run(&suite, "b1,h2,s40,d16,fp16");
    assert_true(result.interrupted);
    assert_int_equal(result.executed, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_honest_passes),
        cmocka_unit_test(test_animals_are_rejected),
        cmocka_unit_test(test_allclose_is_counted),
        cmocka_unit_test(test_far_offsets_find_32_bits),
        cmocka_unit_test(test_general_kernel_judges_the_other_rows),
        cmocka_unit_test(test_wrong_general_kernel_is_our_error),
        cmocka_unit_test(test_declared_traits_excuse),
        cmocka_unit_test(test_taint_excuses_no_hidden_leak),
        cmocka_unit_test(test_refused_problem),
        cmocka_unit_test(test_failures_are_reproduced),
        cmocka_unit_test(test_failing_launch_is_a_failure),
        cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests_name("suite", tests, pool_open, pool_close);
}
