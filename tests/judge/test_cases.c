/* Cases: a function of (problem, seed, index), with the promised mix. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/problem.h"
#include "judge/cases.h"

static at_test_problem parsed(const char *text)
{
    at_test_problem problem;
    assert_int_equal(at_test_problem_parse(text, &problem), ATTUNE_OK);
    return problem;
}

static bool same_case(const at_gate_case *a, const at_gate_case *b)
{
    return at_problem_equal(&a->problem, &b->problem) && a->draw.length_seed == b->draw.length_seed &&
           a->draw.seed == b->draw.seed && a->draw.family == b->draw.family && a->draw.gaps == b->draw.gaps &&
           a->draw.repeats == b->draw.repeats && a->draw.far == b->draw.far && a->stratum == b->stratum;
}

static void test_cases_are_reproducible(void **state)
{
    (void)state;
    const at_test_problem problem = parsed("b2,h4,s300,d64,fp16,causal");
    int differ = 0;
    for (int64_t i = 0; i < 100; ++i) {
        at_gate_case a, b, other;
        at_case_make(&problem, 9, i, &a);
        at_case_make(&problem, 9, i, &b);
        at_case_make(&problem, 10, i, &other);
        assert_true(same_case(&a, &b));
        differ += !same_case(&a, &other);
    }
    assert_int_equal(differ, 100);
}

/* Whether the call is one of less than the plan was made for, and of nothing else. */
static bool is_larger(const attune_problem *planned, const attune_problem *problem)
{
    attune_problem same = *problem;
    assert_true(planned->batch >= problem->batch && planned->seqlen_q >= problem->seqlen_q &&
                planned->seqlen_kv >= problem->seqlen_kv);
    same.batch = planned->batch;
    same.seqlen_q = planned->seqlen_q;
    same.seqlen_kv = planned->seqlen_kv;
    assert_true(at_problem_equal(&same, planned));
    return !at_problem_equal(problem, planned);
}

typedef struct counts {
    int poison[AT_POISON_KINDS], larger_plans;
    int stratum[AT_STRATUM_COUNT];
    int exact_family[AT_FAMILY_COUNT];
    int gaps, features, repeats[4];
    int long_tail[2]; /* without and with a causal mask */
    bool tile_edge, empty, more_queries;
} counts;

static counts count_cases(const char *text, int64_t cases)
{
    const at_test_problem test = parsed(text);
    const attune_problem problem = test.problem;
    counts found = {0};
    for (int64_t i = 0; i < cases; ++i) {
        at_gate_case one;
        at_case_make(&test, 3, i, &one);
        assert_int_equal(attune_problem_check(&one.problem), ATTUNE_OK);
        assert_true(at_family_applies(one.draw.family, &one.problem));
        assert_int_equal(one.problem.dtype, problem.dtype);
        assert_int_equal(one.problem.head_dim_qk, problem.head_dim_qk);
        assert_int_equal(attune_problem_check(&one.planned), ATTUNE_OK);
        ++found.poison[one.draw.poison.kind];
        found.larger_plans += is_larger(&one.planned, &one.problem);
        ++found.stratum[one.stratum];
        found.gaps += one.draw.gaps;
        ++found.repeats[one.draw.repeats];
        if (one.stratum == AT_STRATUM_EXACT) {
            assert_true(at_problem_equal(&one.problem, &problem));
            ++found.exact_family[one.draw.family];
            continue;
        }
        assert_true(attune_problem_flops(&one.problem) < AT_SMALL_FLOPS);
        if (one.stratum == AT_STRATUM_SMALLER) {
            assert_true(at_problem_equal(&one.planned, &problem));
            assert_int_equal(one.problem.heads_q, problem.heads_q);
            continue;
        }
        if (one.stratum == AT_STRATUM_LONG) {
            assert_true(one.problem.seqlen_kv >= 2048);
            found.long_tail[attune_is_causal(&one.problem)] += one.draw.family == AT_FAMILY_TAIL;
            continue;
        }
        found.features += at_problem_features(&one.problem) != at_problem_features(&problem);
        found.tile_edge |= one.problem.seqlen_kv == 63 || one.problem.seqlen_kv == 65;
        found.empty |= one.problem.seqlen_kv == 0;
        found.more_queries |= one.problem.seqlen_q > one.problem.seqlen_kv;
    }
    return found;
}

/* Who declares sums in fp16 is asked, besides, for what they do not excuse: whatever the case is there for. */
static void test_sums_in_fp16_are_asked_for_more(void **state)
{
    (void)state;
    static const char *const texts[] = {"b1,h8,s512,d64,fp16", "b4,h16,s4096,d128,fp16,causal"};
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; ++t) {
        const at_test_problem test = parsed(texts[t]);
        int sparse[AT_STRATUM_COUNT] = {0};
        for (int64_t i = 0; i < 100; ++i) {
            at_gate_case one, with;
            at_case_make(&test, 3, i, &one);
            assert_int_not_equal(one.draw.family, AT_FAMILY_SPARSE);
            with = one;
            at_case_make_acc16(&with);
            sparse[one.stratum] += with.draw.family == AT_FAMILY_SPARSE;
            with.draw.family = one.draw.family;
            assert_true(same_case(&one, &with));
        }
        assert_true(sparse[AT_STRATUM_EXACT] >= (t == 0 ? 8 : 1));
        assert_true(sparse[AT_STRATUM_LONG] >= 1 && sparse[AT_STRATUM_EDGES] >= 1);
    }
}

static void test_mix_of_an_ordinary_problem(void **state)
{
    (void)state;
    const counts found = count_cases("b1,h8,s512,d64,fp16", 100);
    assert_int_equal(found.stratum[AT_STRATUM_EXACT], 40);
    for (int stratum = 1; stratum < AT_STRATUM_COUNT; ++stratum) {
        assert_true(found.stratum[stratum] >= 4);
    }
    for (int family = 0; family < AT_FAMILY_SPARSE; ++family) {
        if (family != AT_FAMILY_HIDDEN) { /* nothing is hidden in this problem */
            assert_true(found.exact_family[family] >= 4);
        }
    }
    for (int kind = 0; kind < AT_POISON_KINDS; ++kind) {
        assert_true(found.poison[kind] >= 10);
    }
    assert_true(found.larger_plans >= 20);
    assert_true(found.gaps >= 30 && found.gaps <= 70);
    assert_true(found.repeats[1] >= 3 && found.repeats[2] >= 3 && found.repeats[3] >= 3 && found.repeats[0] >= 60);
    assert_true(found.tile_edge && found.more_queries);
    assert_true(found.long_tail[0] >= 2 && found.long_tail[1] >= 2);
    assert_true(count_cases("b1,h8,s512,d64,fp16", 400).empty);
}

static void test_mix_of_a_big_problem(void **state)
{
    (void)state;
    const counts found = count_cases("b2,h32,hkv8,s4096,d128,bf16,causal", 100);
    assert_int_equal(found.stratum[AT_STRATUM_EXACT], 4);
    assert_int_equal(found.features, 0);
    assert_int_equal(found.stratum[AT_STRATUM_MASK] + found.stratum[AT_STRATUM_FEATURE], 0);
    assert_true(found.stratum[AT_STRATUM_EDGES] >= 25);
    assert_true(found.stratum[AT_STRATUM_SMALLER] >= 15);
    assert_true(found.long_tail[1] >= 4);
    assert_int_equal(found.exact_family[AT_FAMILY_TAIL], 1);
    (void)count_cases("b1,h16,hkv1,s4096,d256,bf16", 400); /* long cases of large groups and head dims */
}

/* Few products and many bytes: most cases are small all the same. */
static void test_mix_of_a_problem_of_many_keys(void **state)
{
    (void)state;
    static const char *const texts[] = {"b64,h32,hkv8,sq1,skv4096,d128,bf16",
                                        "b64,h32,hkv8,sq1,skv4096,d128,bf16,seqused,page=16"};
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; ++t) {
        const at_test_problem test = parsed(texts[t]);
        assert_true(attune_problem_flops(&test.problem) < AT_BIG_FLOPS);
        for (int64_t i = 0; i < 100; ++i) {
            at_gate_case one;
            at_case_make(&test, 3, i, &one);
            const attune_problem *p = &one.problem;
            const double keys = (double)p->batch * (double)p->heads_kv * (double)p->seqlen_kv * 256;
            assert_true(i % 25 == 0 ? one.stratum == AT_STRATUM_EXACT : keys < AT_SMALL_KEYS);
        }
        assert_int_equal(count_cases(texts[t], 100).stratum[AT_STRATUM_EXACT], 4);
    }
}

static void test_varlen_stays_valid(void **state)
{
    (void)state;
    const counts found = count_cases("b4,h4,s200,d64,fp16,varlen=3,seqused", 100);
    assert_int_equal(found.stratum[AT_STRATUM_EXACT], 40);
    assert_true(found.exact_family[AT_FAMILY_HIDDEN] >= 4);
}

static void test_smallest_problem(void **state)
{
    (void)state;
    const counts found = count_cases("b1,h1,s1,d1,fp32", 100);
    assert_int_equal(found.stratum[AT_STRATUM_EXACT], 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases_are_reproducible),
        cmocka_unit_test(test_mix_of_an_ordinary_problem),
        cmocka_unit_test(test_mix_of_a_big_problem),
        cmocka_unit_test(test_mix_of_a_problem_of_many_keys),
        cmocka_unit_test(test_varlen_stays_valid),
        cmocka_unit_test(test_smallest_problem),
        cmocka_unit_test(test_sums_in_fp16_are_asked_for_more),
    };
    return cmocka_run_group_tests_name("cases", tests, NULL, NULL);
}
