#include "base/cm.h"

#include <math.h>

#include "base/half.h"
#include "base/random.h"

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The value of a binary16, from the standard's definition. */
static double fp16_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31) {
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    }
    return sign * (exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25));
}

static void every_half_is_read_and_kept(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t bits = (uint16_t)i;
        double value = fp16_value(bits);
        float read = at_fp16_to_float(bits);
        if (isnan(value)) {
            assert_true(isnan(read));
            assert_true(isnan(at_fp16_to_float(at_fp16_from_float(read))));
            assert_int_equal(at_fp16_from_float(read) & 0x8000, bits & 0x8000);
        } else {
            assert_true((double)read == value);
            assert_int_equal(at_fp16_from_float(read), bits); /* zeros keep their sign */
        }
    }
}

/* All patterns read at once, in order; few are read where they begin and end, and nothing behind them is written. */
static const float *read_at_once(void (*read_many)(const uint16_t *bits, int64_t count, float *values))
{
    static uint16_t bits[65536];
    static float read[65537];
    for (uint32_t i = 0; i < 65536; i++) {
        bits[i] = (uint16_t)i;
    }
    for (int count = 0; count < 20; ++count) {
        read[count] = 7;
        read_many(bits + 1, count, read);
        assert_true(read[count] == 7);
    }
    read_many(bits, 65536, read);
    return read;
}

/* Whatever reads many reads each as it is read alone; only a NaN may have other bits. */
static void halves_are_read_many_at_once(void **state)
{
    const float *read = read_at_once(at_fp16_to_floats);
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        float alone = at_fp16_to_float((uint16_t)i);
        assert_true(isnan(alone) ? isnan(read[i]) : bits_of(read[i]) == bits_of(alone));
    }
}

static void bf16s_are_read_many_at_once(void **state)
{
    const float *read = read_at_once(at_bf16_to_floats);
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        assert_int_equal(bits_of(read[i]), i << 16);
    }
}

static void every_bf16_is_read_and_kept(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        float read = at_bf16_to_float((uint16_t)i);
        assert_int_equal(bits_of(read), i << 16);
        if (!isnan(read)) {
            assert_int_equal(at_bf16_from_float(read), i);
        } else {
            assert_true(isnan(at_bf16_to_float(at_bf16_from_float(read))));
        }
    }
}

/* Between two neighbours of the narrow type: the midpoint goes to the even one, anything beside it to the nearer. */
static void halves_round_to_nearest_even(void **state)
{
    (void)state;
    for (uint16_t low = 0; low < 0x7bff; low++) {
        uint16_t high = (uint16_t)(low + 1), even = low & 1 ? high : low;
        /* Exact in fp32: 12 significant bits, down to 2^-25. */
        float middle = (float)((fp16_value(low) + fp16_value(high)) / 2);
        assert_int_equal(at_fp16_from_float(middle), even);
        assert_int_equal(at_fp16_from_float(-middle), even | 0x8000);
        assert_int_equal(at_fp16_from_float(nextafterf(middle, 0)), low);
        assert_int_equal(at_fp16_from_float(nextafterf(middle, INFINITY)), high);
    }
}

static void halves_overflow_at_65520(void **state)
{
    (void)state;
    assert_int_equal(at_fp16_from_float(65504.0f), 0x7bff);
    assert_int_equal(at_fp16_from_float(nextafterf(65520.0f, 0)), 0x7bff);
    assert_int_equal(at_fp16_from_float(65520.0f), 0x7c00);
    assert_int_equal(at_fp16_from_float(-65520.0f), 0xfc00);
    assert_int_equal(at_fp16_from_float(3.4e38f), 0x7c00);
    assert_int_equal(at_fp16_from_float(INFINITY), 0x7c00);
    assert_int_equal(at_fp16_from_float(-INFINITY), 0xfc00);
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t low = 0; low < 0x7f7f; low++) {
        uint32_t middle = low << 16 | 0x8000u;
        assert_int_equal(at_bf16_from_float(float_of(middle)), low & 1 ? low + 1 : low);
        assert_int_equal(at_bf16_from_float(float_of(middle - 1)), low);
        assert_int_equal(at_bf16_from_float(float_of(middle + 1)), low + 1);
        assert_int_equal(at_bf16_from_float(float_of(middle | 0x80000000u)), (low & 1 ? low + 1 : low) | 0x8000);
    }
    assert_int_equal(at_bf16_from_float(3.4028235e38f), 0x7f80);
    /* A NaN whose payload is all in the low half must not become an infinity. */
    assert_true(isnan(at_bf16_to_float(at_bf16_from_float(float_of(0x7f800001u)))));
    assert_true(isnan(at_bf16_to_float(at_bf16_from_float(float_of(0xffffffffu)))));
}

static void tiny_floats_vanish_by_rounding(void **state)
{
    (void)state;
    assert_int_equal(at_fp16_from_float(ldexpf(1, -25)), 0); /* halfway to the least subnormal: to even */
    assert_int_equal(at_fp16_from_float(nextafterf(ldexpf(1, -25), 1)), 1);
    assert_int_equal(at_fp16_from_float(-1e-45f), 0x8000);
    assert_int_equal(at_bf16_from_float(1e-45f), 0);
}

static void random_floats_round_to_the_nearest(void **state)
{
    (void)state;
    at_random random = at_random_seed(7, 0);
    for (int i = 0; i < 200000; i++) {
        float value = float_of((uint32_t)at_random_next(&random));
        if (isnan(value) || fabsf(value) >= 65504.0f) {
            continue;
        }
        uint16_t got = at_fp16_from_float(value);
        double error = fabs(fp16_value(got) - (double)value);
        assert_true(error <= fabs(fp16_value((uint16_t)(got + 1)) - (double)value));
        assert_true((got & 0x7fff) == 0 || error <= fabs(fp16_value((uint16_t)(got - 1)) - (double)value));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_is_read_and_kept),        cmocka_unit_test(every_bf16_is_read_and_kept),
        cmocka_unit_test(halves_are_read_many_at_once),       cmocka_unit_test(bf16s_are_read_many_at_once),
        cmocka_unit_test(halves_round_to_nearest_even),       cmocka_unit_test(halves_overflow_at_65520),
        cmocka_unit_test(bf16_rounds_to_nearest_even),        cmocka_unit_test(tiny_floats_vanish_by_rounding),
        cmocka_unit_test(random_floats_round_to_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
