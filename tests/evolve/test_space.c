#include "evolve/landscape.h"

#include <limits.h>
#include <stdlib.h>

static at_space *made;

static int setup(void **state)
{
    (void)state;
    made = landscape_open();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    at_space_close(made);
    return 0;
}

/* ---- Candidates -------------------------------------------------------------------------------------------------- */

static int fitting(void)
{
    int count = 0;
    for (int64_t code = 0; code < at_config_count(&landscape_kernel); ++code) {
        attune_config config;
        at_config_at(&landscape_kernel, code, &config);
        count += landscape_valid(NULL, NULL, &config, NULL);
    }
    return count;
}

static void holds_what_fits_and_nothing_else(void **state)
{
    (void)state;
    assert_int_equal(made->total, 5 * 5 * 4 * 4 * 2);
    assert_int_equal(made->count, fitting());
    for (int candidate = 0; candidate < made->count; ++candidate) {
        attune_config config;
        at_space_config(made, candidate, &config);
        assert_true(landscape_valid(NULL, NULL, &config, NULL));
        assert_int_equal(at_space_find(made, &config), candidate);
    }
}

static void counts_refusals_by_reason_whatever_their_numbers(void **state)
{
    (void)state;
    int refused = 0;
    assert_int_equal(made->refusal_count, 2);
    for (int i = 0; i < made->refusal_count; ++i) {
        refused += made->refusal[i].count;
    }
    assert_int_equal(refused, made->total - made->count);
    assert_true(made->refusal[0].count >= made->refusal[1].count);
    assert_string_equal(made->refusal[0].first.text, "STAGES 4 with TILE 64: at most 32");
    assert_string_equal(made->refusal[1].first.text, "a tile of 16384 cells: at most 12288 are allowed");
}

static void knows_the_heuristic_order_as_far_as_it_fits(void **state)
{
    (void)state;
    attune_config first = {{32, 64, 2, 4, 0, 7}};
    assert_int_equal(made->order_count, 3); /* the fourth does not fit */
    assert_int_equal(made->order[0], at_space_find(made, &first));
    for (int i = 0; i < made->order_count; ++i) {
        assert_int_equal(made->rank[made->order[i]], i);
    }
    int ranked = 0;
    for (int candidate = 0; candidate < made->count; ++candidate) {
        ranked += made->rank[candidate] != INT_MAX;
    }
    assert_int_equal(ranked, 3);
}

static void refuses_problems_that_the_kernel_does_not_support(void **state)
{
    (void)state;
    attune_problem problem;
    attune_target target = {.size = sizeof target, .kind = ATTUNE_TARGET_CPU, .threads = 1};
    at_space *space;
    assert_ok(attune_problem_parse("b1,h1,s64,d64,fp16", &problem));
    assert_fails(at_space_open(&landscape_kernel, &problem, &target, "", &space), ATTUNE_UNSUPPORTED,
                 "dtype fp16: fp32 is needed");
    assert_null(space);
    target.kind = ATTUNE_TARGET_CUDA;
    assert_fails(at_space_open(&landscape_kernel, &problem, &target, "", &space), ATTUNE_UNSUPPORTED,
                 "none of its 800");
}

static attune_status open_fixed(const char *fixed, at_space **space)
{
    attune_problem problem;
    attune_target target = {.size = sizeof target, .kind = ATTUNE_TARGET_CPU, .threads = 1};
    assert_ok(attune_problem_parse("b1,h1,s64,d64,fp32", &problem));
    return at_space_open(&landscape_kernel, &problem, &target, fixed, space);
}

/* Those candidates of the whole space that have the values, the order's as they would be with them, and the reason. */
static void what_is_fixed_is_not_searched(void **state)
{
    (void)state;
    at_space *few;
    int expected = 0;
    assert_ok(open_fixed("STAGES=1,ORDER=1", &few));
    for (int candidate = 0; candidate < made->count; ++candidate) {
        attune_config config;
        at_space_config(made, candidate, &config);
        bool in = config.value[STAGES] == 1 && config.value[ORDER] == 1;
        assert_int_equal(at_space_find(few, &config) >= 0, in);
        expected += in;
    }
    assert_int_equal(few->count, expected);
    assert_true(expected > 0 && expected < made->count);
    assert_int_equal(few->total, made->total);
    assert_int_equal(at_space_live(few), at_space_live(made) - 2);
    attune_config first = {{32, 64, 1, 4, 1, 7}};
    assert_int_equal(few->order[0], at_space_find(few, &first));
    assert_string_equal(few->refusal[0].first.text, "not searched: STAGES=1,ORDER=1 stays as it is");
    at_space_close(few);
}

static void what_is_fixed_has_to_be_possible(void **state)
{
    (void)state;
    at_space *space;
    assert_fails(open_fixed("STAGES=9", &space), ATTUNE_INVALID_ARGUMENT, "STAGES cannot be '9'");
    assert_null(space);
    assert_fails(open_fixed("STAGE=1", &space), ATTUNE_INVALID_ARGUMENT, "no parameter 'STAGE'");
}

static void refuses_spaces_without_end(void **state)
{
    (void)state;
    attune_param many[12];
    attune_kernel kernel = landscape_kernel;
    attune_problem problem;
    attune_target target = {.size = sizeof target, .kind = ATTUNE_TARGET_CPU, .threads = 1};
    at_space *space;
    for (int i = 0; i < 12; ++i) {
        many[i] = landscape_params[TILE];
    }
    kernel.params = many;
    kernel.param_count = 12;
    assert_ok(attune_problem_parse("b1,h1,s64,d64,fp32", &problem));
    assert_fails(at_space_open(&kernel, &problem, &target, "", &space), ATTUNE_UNSUPPORTED, "at most 1048576");
}

/* ---- Texts ------------------------------------------------------------------------------------------------------- */

static void texts_find_their_candidates(void **state)
{
    (void)state;
    char text[AT_KERNEL_TEXT_MAX];
    for (int candidate = 0; candidate < made->count; ++candidate) {
        at_space_print(made, candidate, text);
        assert_int_equal(at_space_find_text(made, text), candidate);
    }
    assert_string_equal(text, "landscape:TILE=128,KEYS=96,STAGES=3,UNROLL=8,ORDER=1,IDLE=7");
}

static void other_texts_find_none(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "landscape",
        "landscape:",
        "other:TILE=8,KEYS=16,STAGES=1,UNROLL=1,ORDER=0,IDLE=7",
        "landscape:TILE=8,KEYS=16,STAGES=1,UNROLL=1,ORDER=0",
        "landscape:TILE=8,KEYS=16,STAGES=1,UNROLL=1,ORDER=0,IDLE=7,",
        "landscape:TILE=9,KEYS=16,STAGES=1,UNROLL=1,ORDER=0,IDLE=7",
        "landscape:TILE=,KEYS=16,STAGES=1,UNROLL=1,ORDER=0,IDLE=7",
        "landscape:TILE=4294967304,KEYS=16,STAGES=1,UNROLL=1,ORDER=0,IDLE=7",
        "landscape:TILE=128,KEYS=128,STAGES=1,UNROLL=1,ORDER=0,IDLE=7",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
        assert_int_equal(at_space_find_text(made, texts[i]), -1);
    }
}

/* ---- Geometry ---------------------------------------------------------------------------------------------------- */

static int at(const char *text)
{
    int candidate = at_space_find_text(made, text);
    assert_true(candidate >= 0);
    return candidate;
}

static void measures_distances(void **state)
{
    (void)state;
    int a = at("landscape:TILE=8,KEYS=16,STAGES=1,UNROLL=1,ORDER=0,IDLE=7");
    int b = at("landscape:TILE=32,KEYS=16,STAGES=1,UNROLL=8,ORDER=1,IDLE=7");
    assert_true(fabs(at_space_distance(made, a, b) - sqrt(0.25 + 1 + 1)) < 1e-12);
    assert_true(at_space_feature(made, b, TILE) == 0.5);
    assert_true(at_space_feature(made, b, IDLE) == 0);
}

static void knows_which_parameters_live(void **state)
{
    (void)state;
    assert_int_equal(at_space_live(made), 5);
    assert_true(made->param[ORDER].live);
    assert_false(made->param[IDLE].live);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static void reads_back_as_written(void **state)
{
    (void)state;
    at_space *copy;
    json_t *object = at_space_write(made);
    assert_non_null(object);
    assert_ok(at_space_read(object, "test", &copy));
    json_t *again = at_space_write(copy);
    assert_true(json_equal(object, again));
    assert_int_equal(copy->count, made->count);
    assert_memory_equal(copy->rank, made->rank, (size_t)made->count * sizeof *made->rank);
    assert_int_equal(at_space_live(copy), 5);
    at_space_close(copy);
    json_decref(object);
    json_decref(again);
}

static void refuses_what_is_no_space(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"{}", "\"kernel\""},
        {"{\"kernel\":\"k\",\"params\":[1]}", "params[0] is a whole number"},
        {"{\"kernel\":\"k\",\"params\":[{\"name\":\"A\",\"values\":[]}]}", "\"values\" has 0 entries"},
        {"{\"kernel\":\"k\",\"params\":[{\"name\":\"A\",\"values\":[2,1]}]}", "holds 1"},
        {"{\"kernel\":\"k\",\"params\":[{\"name\":\"A\",\"values\":[1,2]}],\"candidates\":[]}", "has 0"},
        {"{\"kernel\":\"k\",\"params\":[{\"name\":\"A\",\"values\":[1,2]}],\"candidates\":[0,2]}", "holds 2"},
        {"{\"kernel\":\"k\",\"params\":[{\"name\":\"A\",\"values\":[1,2]}],\"candidates\":[1,0]}", "holds 0"},
        {"{\"kernel\":\"k\",\"params\":[{\"name\":\"A\",\"values\":[1,2]}],\"candidates\":[1],\"heuristic\":[0]}",
         "no candidate"},
        {"{\"kernel\":\"k\",\"params\":[{\"name\":\"A\",\"values\":[1,2]}],\"candidates\":[1],\"heuristic\":[1,1]}",
         "second time"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        json_t *object;
        at_space *space;
        assert_ok(at_json_parse("test", bad[i].text, strlen(bad[i].text), &object));
        assert_fails(at_space_read(object, "test", &space), ATTUNE_CORRUPT, bad[i].words);
        assert_null(space);
        json_decref(object);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(holds_what_fits_and_nothing_else),
        CASE(counts_refusals_by_reason_whatever_their_numbers),
        CASE(knows_the_heuristic_order_as_far_as_it_fits),
        CASE(refuses_problems_that_the_kernel_does_not_support),
        CASE(what_is_fixed_is_not_searched),
        CASE(what_is_fixed_has_to_be_possible),
        CASE(refuses_spaces_without_end),
        CASE(texts_find_their_candidates),
        CASE(other_texts_find_none),
        CASE(measures_distances),
        CASE(knows_which_parameters_live),
        CASE(reads_back_as_written),
        CASE(refuses_what_is_no_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
