#include "base/cm.h"

#include <math.h>

#include "base/random.h"

enum { DRAWS = 100000 };

static void streams_are_reproducible(void **state)
{
    (void)state;
    at_random a = at_random_seed(1, 2), b = at_random_seed(1, 2);
    for (int i = 0; i < 100; i++) {
        assert_true(at_random_next(&a) == at_random_next(&b));
    }
}

/* The numbers of evidence and of every test case hang on them: no version and no machine may draw others. */
static void streams_are_pinned(void **state)
{
    (void)state;
    at_random random = at_random_seed(42, 0);
    assert_true(at_random_next(&random) == 0x3ba920dc853904fau);
    assert_true(at_random_next(&random) == 0xcf83e9d969b12d41u);
    random = at_random_seed(42, 1);
    assert_true(at_random_next(&random) == 0xf9601f35701a9793u);
    assert_true(at_random_below(&random, 1000) == 782);
}

static void streams_differ(void **state)
{
    (void)state;
    /* First values of many neighbouring seeds and streams: no two equal. */
    uint64_t seen[32 * 32];
    int count = 0;
    for (uint64_t seed = 0; seed < 32; seed++) {
        for (uint64_t stream = 0; stream < 32; stream++) {
            at_random random = at_random_seed(seed, stream);
            uint64_t value = at_random_next(&random);
            for (int i = 0; i < count; i++) {
                assert_true(seen[i] != value);
            }
            seen[count++] = value;
        }
    }
}

static void below_is_even(void **state)
{
    (void)state;
    at_random random = at_random_seed(3, 0);
    assert_int_equal(at_random_below(&random, 1), 0);
    int counts[7] = {0};
    for (int i = 0; i < 7 * DRAWS / 10; i++) {
        uint64_t value = at_random_below(&random, 7);
        assert_true(value < 7);
        counts[value]++;
    }
    for (int i = 0; i < 7; i++) {
        assert_in_range(counts[i], DRAWS / 10 - 500, DRAWS / 10 + 500); /* five standard deviations */
    }
    /* A bound just over half the range, where dropping the remainder's bias matters most. */
    uint64_t bound = (UINT64_C(1) << 63) + 1;
    int upper = 0;
    for (int i = 0; i < DRAWS; i++) {
        uint64_t value = at_random_below(&random, bound);
        assert_true(value < bound);
        upper += value >= bound / 2;
    }
    assert_in_range(upper, DRAWS / 2 - 800, DRAWS / 2 + 800);
}

static void uniform_fills_its_range(void **state)
{
    (void)state;
    at_random random = at_random_seed(4, 0);
    double sum = 0, least = 1, most = 0;
    for (int i = 0; i < DRAWS; i++) {
        double value = at_random_uniform(&random);
        sum += value;
        least = fmin(least, value);
        most = fmax(most, value);
    }
    assert_true(least >= 0 && least < 1e-3);
    assert_true(most < 1 && most > 1 - 1e-3);
    assert_true(fabs(sum / DRAWS - 0.5) < 0.005);
}

static void normal_has_its_moments(void **state)
{
    (void)state;
    at_random random = at_random_seed(5, 0);
    double sums[5] = {0};
    for (int i = 0; i < DRAWS; i++) {
        double value = at_random_normal(&random), power = 1;
        assert_true(isfinite(value));
        for (int p = 1; p <= 4; p++) {
            sums[p] += power *= value;
        }
    }
    assert_true(fabs(sums[1] / DRAWS) < 0.016); /* five standard errors each */
    assert_true(fabs(sums[2] / DRAWS - 1) < 0.023);
    assert_true(fabs(sums[3] / DRAWS) < 0.062);
    assert_true(fabs(sums[4] / DRAWS - 3) < 0.16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_reproducible), cmocka_unit_test(streams_are_pinned),
        cmocka_unit_test(streams_differ),           cmocka_unit_test(below_is_even),
        cmocka_unit_test(uniform_fills_its_range),  cmocka_unit_test(normal_has_its_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
