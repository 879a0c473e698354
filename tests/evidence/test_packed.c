/* Samples in bits: every list comes back as it was, and bits that hold none are refused. */
#include <stdio.h>
#include <stdlib.h>

#include "base/cm.h"
#include "base/random.h"
#include "evidence/packed.h"

/* A verdict with one stretch of these arms, whose samples are of so many calls. */
static json_t *verdict_of(json_t *arms, int calls)
{
    json_t *of_mode = json_array();
    for (size_t i = 0; i < json_array_size(arms); ++i) {
        (void)json_array_append_new(of_mode, json_integer(calls));
    }
    return json_pack("{s:{s:{s:o},s:[{s:s,s:o}]},s:s}", "session", "calls", "warm", of_mode, "blocks", "mode", "warm",
                     "ns", arms, "right", "pass");
}

static const char *text_of(const json_t *verdict, size_t arm)
{
    const json_t *stretch = json_array_get(json_object_get(json_object_get(verdict, "session"), "blocks"), 0);
    return json_string_value(json_array_get(json_object_get(stretch, "ns"), arm));
}

/* Packs, and returns how many letters that took. */
static size_t comes_back(const json_t *verdict)
{
    at_text bits;
    at_text_init(&bits);
    json_t *packed = at_packed_close(verdict, &bits);
    assert_int_equal(bits.length % 4, 0);
    if (bits.length > 0) {
        (void)json_object_set_new(packed, "bits", json_string(bits.data));
    }
    assert_ok(at_packed_open(packed, "it"));
    assert_true(json_equal(packed, verdict));
    json_decref(packed);
    const size_t letters = bits.length;
    at_text_free(&bits);
    return letters;
}

static json_t *list_of(int64_t unit, int64_t middle)
{
    return json_pack("[I,I]", (json_int_t)unit, (json_int_t)middle);
}

static void add(json_t *list, int64_t x)
{
    (void)json_array_append_new(list, json_integer(x));
}

static void lists_come_back(void **state)
{
    at_random random = at_random_seed(1, 2);
    (void)state;
    for (int bits = 0; bits <= 40; ++bits) {
        json_t *arms = json_array();
        for (int arm = 0; arm < 3; ++arm) {
            json_t *list = list_of(arm == 1 ? 10 : 1, 12345);
            for (int i = 0; i < 20 + bits; ++i) {
                const int64_t x = (int64_t)(at_random_next(&random) >> 1 >> (62 - bits) >> 1);
                add(list, i % 2 == 0 ? x : -x);
            }
            add(list, arm == 2 ? INT64_C(1) << 40 : 0); /* one that is far away */
            (void)json_array_append_new(arms, list);
        }
        json_t *verdict = verdict_of(arms, bits);
        assert_true(comes_back(verdict) > 0);
        json_decref(verdict);
    }
}

/* Ticks of 32 ns over 6 calls are 5.33 ns apart, as whole ns 5 or 6. */
static void ticks_take_fewer_bits(void **state)
{
    at_random random = at_random_seed(3, 4);
    (void)state;
    json_t *list = list_of(1, 13299), *other = list_of(1, 13299);
    for (int i = 0; i < 400; ++i) {
        const int64_t tick = 2493 + (int64_t)at_random_below(&random, 64);
        add(list, (64 * tick + 6) / 12 - 13299);
        add(other, (64 * tick + 6) / 12 - 13299 + (i == 7));
    }
    json_t *in_ticks = verdict_of(json_pack("[o]", list), 6), *in_units = verdict_of(json_pack("[o]", other), 6);
    assert_in_range(comes_back(in_ticks), 400 * 6 / 6, 400 * 8 / 6);
    assert_in_range(comes_back(in_units), 400 * 9 / 6, 400 * 11 / 6);
    at_text bits;
    at_text_init(&bits);
    json_t *packed = at_packed_close(in_ticks, &bits);
    assert_non_null(strstr(text_of(packed, 0), " 6")); /* calls */
    at_text_free(&bits);
    json_decref(packed);
    json_decref(in_ticks);
    json_decref(in_units);
}

static void what_is_no_list_of_samples_stays(void **state)
{
    static const char *const others[] = {
        "[1,2,3,4]", "[]", "[1,5,1,2,3,4,5,6,7,8.5]", "[0,5,1,2,3,4,5,6,7,8]", "[1,5,1,2,3,4,5,6,7,9007199254740993]",
        "5"};
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; ++i) {
        json_t *verdict = verdict_of(json_pack("[o]", json_loads(others[i], JSON_DECODE_ANY, NULL)), 3);
        assert_int_equal(comes_back(verdict), 0);
        json_decref(verdict);
    }
}

/* And left as they are, to be written as they were. */
static void bits_that_hold_nothing_are_refused(void **state)
{
    static const struct {
        const char *text, *bits;
    } bad[] = {{"8 1 5 1 0", ""},          {"8 1 5 1 0", "AA"},         {"8 1 5 1 0", "AA=="},
               {"8 1 5 1 0", "AA*AAAAA"},  {"8 0 5 1 0", "AAAAAAAA"},   {"8 1 5 41 0", "AAAAAAAA"},
               {"8 1 5 1", "AAAAAAAA"},    {"8 1 5 1 -1", "AAAAAAAA"},  {"words", "AAAAAAAA"},
               {"8 7 50 1 9", "AAAAAAAA"}, {"8 1 -50 1 9", "AAAAAAAA"}, {"900000 1 5 1 0", "AAAAAAAA"}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        at_text bits;
        json_t *verdict = verdict_of(json_pack("[s]", bad[i].text), 9);
        (void)json_object_set_new(verdict, "bits", json_string(bad[i].bits));
        json_t *before = json_deep_copy(verdict);
        assert_fails(at_packed_open(verdict, "it"), ATTUNE_CORRUPT, "arm 0 has no samples in \"bits\"");
        assert_true(json_equal(verdict, before));
        at_text_init(&bits);
        json_t *packed = at_packed_close(verdict, &bits);
        assert_true(json_equal(packed, before));
        assert_int_equal(bits.length, 0);
        at_text_free(&bits);
        json_decref(packed);
        json_decref(before);
        json_decref(verdict);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_come_back),
        cmocka_unit_test(ticks_take_fewer_bits),
        cmocka_unit_test(what_is_no_list_of_samples_stays),
        cmocka_unit_test(bits_that_hold_nothing_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
