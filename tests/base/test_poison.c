/* Poison: known again wherever it is, of the kind that it says, and none like another. */
#include "base/cm.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/poison.h"

static void is_known_again_at_any_place(void **state)
{
    (void)state;
    unsigned char whole[9000], part[9000];
    for (uint64_t seed = 0; seed < 8; ++seed) {
        const at_poison poison = at_poison_draw(seed);
        at_poison_write(poison, 77, whole, sizeof whole);
        for (size_t from = 0; from < 40; ++from) {
            at_poison_write(poison, 77 + from, part, sizeof part - from);
            assert_memory_equal(part, whole + from, sizeof part - from);
        }
        assert_int_equal(at_poison_intact(poison, 77, whole, sizeof whole), sizeof whole);
        const size_t places[] = {0, 1, 4096, 4106, sizeof whole - 1};
        for (size_t i = 0; i < sizeof places / sizeof places[0]; ++i) {
            whole[places[i]] ^= 0x10;
            assert_int_equal(at_poison_intact(poison, 77, whole, sizeof whole), places[i]);
            whole[places[i]] ^= 0x10;
        }
    }
    assert_int_equal(at_poison_intact((at_poison){0}, 0, whole, 0), 0);
}

/* The elements of a kind in each type, as doubles. */
static void elements_of(const uint16_t *half, const float *single, size_t count, double *value)
{
    for (size_t i = 0; i < count; ++i) {
        value[i] = at_fp16_to_float(half[i]);
        value[count + i] = at_bf16_to_float(half[i]);
    }
    for (size_t i = 0; i < count / 2; ++i) {
        value[2 * count + i] = single[i];
    }
}

static void kinds_are_what_they_say(void **state)
{
    (void)state;
    enum { COUNT = 512 };
    uint16_t half[COUNT];
    float single[COUNT / 2];
    double value[2 * COUNT + COUNT / 2];
    for (int kind = 0; kind < AT_POISON_KINDS; ++kind) {
        at_poison_write((at_poison){5, kind}, 0, half, sizeof half);
        memcpy(single, half, sizeof single);
        elements_of(half, single, COUNT, value);
        int nan = 0, ordinary = 0, zero = 0;
        for (size_t i = 0; i < sizeof value / sizeof value[0]; ++i) {
            nan += isnan(value[i]);
            ordinary += fabs(value[i]) >= 0.125 && fabs(value[i]) < 2;
            zero += value[i] == 0;
        }
        int all = (int)(sizeof value / sizeof value[0]);
        assert_int_equal(nan == all, kind == AT_POISON_NAN);
        assert_int_equal(ordinary == all, kind == AT_POISON_NUMBERS);
        assert_int_equal(zero == all, kind == AT_POISON_ZERO);
    }
}

static void others_are_others(void **state)
{
    (void)state;
    int seen[AT_POISON_KINDS] = {0};
    unsigned char one[64], two[64];
    for (uint64_t seed = 0; seed < 64; ++seed) {
        const at_poison poison = at_poison_draw(seed);
        ++seen[poison.kind];
        for (int kinds = 0; kinds < 2 * AT_POISON_KINDS; ++kinds) {
            const at_poison other = at_poison_other(poison, kinds);
            assert_int_equal(other.kind, (poison.kind + kinds) % AT_POISON_KINDS);
            at_poison_write(poison, 0, one, sizeof one);
            at_poison_write(other, 0, two, sizeof two);
            assert_int_equal(memcmp(one, two, sizeof one) == 0,
                             other.kind == AT_POISON_ZERO && kinds % AT_POISON_KINDS == 0);
        }
    }
    for (int kind = 0; kind < AT_POISON_KINDS; ++kind) {
        assert_true(seen[kind] > 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_known_again_at_any_place),
        cmocka_unit_test(kinds_are_what_they_say),
        cmocka_unit_test(others_are_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
