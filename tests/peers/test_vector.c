#include "base/cm.h"

#include <math.h>

#include "base/half.h"
#include "base/random.h"
#include "peers/vector.h"

/* Tiers that this machine can run. */
static bool runs(attune_isa isa)
{
#if defined(__x86_64__)
    return isa == ATTUNE_ISA_BASELINE || (isa == ATTUNE_ISA_AVX2 && __builtin_cpu_supports("avx2")) ||
           (isa >= ATTUNE_ISA_AVX512 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"));
#else
    return isa == ATTUNE_ISA_BASELINE;
#endif
}

static void each_tier(void (*test)(const at_vector_ops *vector))
{
    for (int isa = 0; isa < ATTUNE_ISA_COUNT; ++isa) {
        if (runs((attune_isa)isa)) {
            test(at_vector_of((attune_isa)isa));
        }
    }
}

static void exponentials_of_every_length(const at_vector_ops *vector)
{
    at_random random = at_random_seed(1, 0);
    for (int64_t count = 1; count <= 150; ++count) {
        float row[152], before[152], largest;
        double sum = 0, wanted_largest = -INFINITY;
        for (int64_t i = 0; i < count + 2; ++i) {
            before[i] = row[i] = (float)(30 * at_random_normal(&random));
            wanted_largest = i < count && row[i] > wanted_largest ? row[i] : wanted_largest;
        }
        float got = vector->exponentials(row, count, &largest);
        assert_true(largest == (float)wanted_largest);
        for (int64_t i = 0; i < count; ++i) {
            double exact = exp((double)(before[i] - largest));
            sum += row[i];
            if (before[i] - largest < -87.0f) {
                assert_true(row[i] == 0);
            } else if (fabs(row[i] - exact) > exact * 0x1p-22) {
                fail_msg("exp(%.9g) = %.9g, not %.9g", before[i] - largest, row[i], exact);
            }
        }
        assert_true(fabs(got - sum) <= sum * 1e-6);
        assert_memory_equal(row + count, before + count, 2 * sizeof(float)); /* nothing behind the row */
    }
}

static void exponentials_at_the_edges(const at_vector_ops *vector)
{
    float largest;
    float far[20];
    for (int i = 0; i < 20; ++i) {
        far[i] = i == 3 ? 3e38f : -3e38f; /* differences overflow to -inf */
    }
    assert_true(vector->exponentials(far, 20, &largest) == 1);
    assert_true(far[3] == 1 && far[0] == 0 && far[19] == 0);
    for (int place = 0; place < 20; ++place) { /* a NaN in any lane or in the rest shows */
        float row[20] = {0};
        row[place] = NAN;
        assert_true(isnan(vector->exponentials(row, 20, &largest)));
        float infinite[20] = {0};
        infinite[place] = INFINITY;
        assert_true(isnan(vector->exponentials(infinite, 20, &largest)));
    }
}

static void conversions_equal_the_scalar_ones(const at_vector_ops *vector)
{
    static uint16_t all[65536], back[65536];
    static float wide[65536];
    for (int dtype = ATTUNE_FP16; dtype <= ATTUNE_BF16; ++dtype) {
        for (int i = 0; i < 65536; ++i) {
            all[i] = (uint16_t)i;
        }
        vector->widen(wide, all, 65536, (attune_dtype)dtype);
        vector->narrow(back, wide, 65536, (attune_dtype)dtype);
        for (int i = 0; i < 65536; ++i) {
            float scalar = dtype == ATTUNE_FP16 ? at_fp16_to_float(all[i]) : at_bf16_to_float(all[i]);
            if (isnan(scalar)) {
                assert_true(isnan(wide[i]));
                assert_true(isnan(dtype == ATTUNE_FP16 ? at_fp16_to_float(back[i]) : at_bf16_to_float(back[i])));
            } else {
                assert_true(wide[i] == scalar);
                assert_int_equal(back[i], all[i]);
            }
        }
    }
}

static void narrowing_rounds_to_even(const at_vector_ops *vector)
{
    at_random random = at_random_seed(2, 0);
    for (int64_t count = 1; count < 40; ++count) {
        float from[40];
        uint16_t to[41];
        for (int64_t i = 0; i < count; ++i) {
            from[i] = (float)(at_random_normal(&random) * pow(10, 12 * at_random_uniform(&random) - 8));
        }
        for (int dtype = ATTUNE_FP16; dtype <= ATTUNE_BF16; ++dtype) {
            to[count] = 0x1234;
            vector->narrow(to, from, count, (attune_dtype)dtype);
            for (int64_t i = 0; i < count; ++i) {
                assert_int_equal(to[i],
                                 dtype == ATTUNE_FP16 ? at_fp16_from_float(from[i]) : at_bf16_from_float(from[i]));
            }
            assert_int_equal(to[count], 0x1234);
        }
    }
}

static void scaling_touches_the_row_alone(const at_vector_ops *vector)
{
    for (int64_t count = 0; count < 40; ++count) {
        float row[41];
        for (int64_t i = 0; i < 41; ++i) {
            row[i] = (float)i;
        }
        vector->scale(row, count, 0.5f);
        for (int64_t i = 0; i < 41; ++i) {
            assert_true(row[i] == (i < count ? 0.5f : 1.0f) * (float)i);
        }
    }
}

#define TIER_TEST(name)                                                                                                \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        each_tier(name);                                                                                               \
    }

TIER_TEST(exponentials_of_every_length)
TIER_TEST(exponentials_at_the_edges)
TIER_TEST(conversions_equal_the_scalar_ones)
TIER_TEST(narrowing_rounds_to_even)
TIER_TEST(scaling_touches_the_row_alone)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exponentials_of_every_length),      cmocka_unit_test(test_exponentials_at_the_edges),
        cmocka_unit_test(test_conversions_equal_the_scalar_ones), cmocka_unit_test(test_narrowing_rounds_to_even),
        cmocka_unit_test(test_scaling_touches_the_row_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
