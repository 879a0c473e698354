/* The functions that CPU kernels share, as the baseline tier has them: exp and tanh against the C library's in fp64,
 * the storage types against every one of their values. */
#include "base/cm.h"

#include "../../kernels/cpu/device/vector.h"
#include "base/half.h"
#include "base/random.h"

/* Largest error of exponential_of() in [low, high], in units of 2^-24 of the result. */
static double worst_exponential(int degree, double low, double high)
{
    const int steps = 200000;
    double worst = 0;
    for (int i = 0; i < steps; ++i) {
        float x = (float)(low + (high - low) * i / steps);
        vf y = exponential_of(degree, splat(x));
        double error = fabs((double)y[i % VL] / exp((double)x) - 1) * 0x1p24;
        worst = error > worst ? error : worst;
    }
    return worst;
}

static void exponential_is_as_exact_as_stated(void **state)
{
    (void)state;
    static const double more[] = {48, 2, 0}; /* than at degree 6 */
    for (int degree = 4; degree <= 6; ++degree) {
        assert_true(worst_exponential(degree, -0.7, 0) <= 3 + more[degree - 4]);
        /* Without FMA, the rounding of x * log2(e) adds half a unit of itself. */
        for (double x = 1; x <= 86; x *= 2) {
            assert_true(worst_exponential(degree, -x - 1, -x) <= 3 + more[degree - 4] + 1.5 * x);
        }
        assert_true(exponential_of(degree, splat(0))[0] == 1);
    }
}

static void exponential_keeps_the_ends(void **state)
{
    (void)state;
    static const float vanish[] = {-87.31f, -88, -1000, -3e38f, -INFINITY};
    for (size_t i = 0; i < sizeof vanish / sizeof *vanish; ++i) {
        vf y = exponential(splat(vanish[i]));
        assert_true(y[0] == 0 && !signbit(y[0]));
    }
    uint32_t patterns[] = {0x7fc00000u, 0xffc00001u, 0x7fffffffu, 0x7f800001u};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; ++i) {
        float nan;
        memcpy(&nan, &patterns[i], sizeof nan);
        assert_true(isnan(exponential(splat(nan))[0]));
        assert_true(isnan(hyperbolic_tangent(splat(nan))[0]));
    }
}

static void tangent_is_exact_near_zero_and_far(void **state)
{
    (void)state;
    double worst = 0;
    for (int i = 1; i < 400000; ++i) {
        float x = (float)(i < 200000 ? ldexp(1 + i / 200000.0, -(i % 30)) : i * 5e-5);
        double want = tanh((double)x);
        double error = fabs((double)hyperbolic_tangent(splat(x))[0] / want - 1) * 0x1p24;
        worst = error > worst ? error : worst;
        assert_true(hyperbolic_tangent(splat(-x))[1] == -hyperbolic_tangent(splat(x))[1]);
    }
    assert_true(worst <= 6);
    assert_true(hyperbolic_tangent(splat(INFINITY))[0] == 1 && hyperbolic_tangent(splat(-INFINITY))[0] == -1);
    assert_true(hyperbolic_tangent(splat(0))[0] == 0);
}

static void every_half_widens(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        vh x = {0};
        x[bits % VL] = (uint16_t)bits;
        float wide[2] = {widen_fp16(x)[bits % VL], widen_bf16(x)[bits % VL]};
        float want[2] = {at_fp16_to_float((uint16_t)bits), at_bf16_to_float((uint16_t)bits)};
        for (int i = 0; i < 2; ++i) {
            assert_true(isnan(want[i]) ? isnan(wide[i]) : memcmp(&wide[i], &want[i], sizeof(float)) == 0);
        }
    }
}

static void floats_narrow_to_the_nearest(void **state)
{
    (void)state;
    at_random random = at_random_seed(11, 0);
    for (int i = 0; i < 2000000; ++i) {
        /* Any pattern; often one next to the middle between two halves, or in the range of fp16. */
        uint32_t bits = (uint32_t)at_random_next(&random);
        bits = i % 4 == 1 ? (bits & 0xffffe000u) + 0xfffu + bits % 3 : bits;
        bits = i % 4 >= 2 ? (bits & 0x8fffffffu) | 0x30000000u : bits;
        float x;
        memcpy(&x, &bits, sizeof x);
        assert_int_equal(narrow_bf16(splat(x))[0], at_bf16_from_float(x));
        uint16_t half = narrow_fp16(splat(x))[0];
        assert_true(isnan(x) ? isnan(at_fp16_to_float(half)) : half == at_fp16_from_float(x));
    }
}

static void parts_touch_nothing_beyond(void **state)
{
    (void)state;
    for (int dtype = ATTUNE_FP32; dtype <= ATTUNE_BF16; ++dtype) {
        for (int count = 1; count <= VL + 2; ++count) {
            size_t bytes = (size_t)(count < VL ? count : VL) * (size_t)bytes_of(dtype);
            char *exact = malloc(bytes); /* a sanitizer sees every byte beyond */
            char whole[sizeof(vf)];
            memset(exact, 0x3c, bytes);
            vf x = load_some(exact, dtype, count);
            memset(exact, 0, bytes);
            store_some(exact, dtype, count, x);
            memset(whole, 0x3c, sizeof whole);
            assert_memory_equal(exact, whole, bytes);
            for (int lane = count; lane < VL; ++lane) {
                assert_true(x[lane] == 0);
            }
            free(exact);
        }
    }
}

static void transpose_exchanges_rows_and_columns(void **state)
{
    (void)state;
    vf x[VL];
    for (int i = 0; i < VL * VL; ++i) {
        x[i / VL][i % VL] = (float)i;
    }
    transpose(x);
    for (int i = 0; i < VL * VL; ++i) {
        assert_true(x[i % VL][i / VL] == (float)i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential_is_as_exact_as_stated),    cmocka_unit_test(exponential_keeps_the_ends),
        cmocka_unit_test(tangent_is_exact_near_zero_and_far),   cmocka_unit_test(every_half_widens),
        cmocka_unit_test(floats_narrow_to_the_nearest),         cmocka_unit_test(parts_touch_nothing_beyond),
        cmocka_unit_test(transpose_exchanges_rows_and_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
