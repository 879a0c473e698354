/* What this project's origin did wrong, planted in searches on a machine made of numbers: each is found, and named in
 * the search's account. docs/evolve.md lists them. */
#include <stdlib.h>

#include "base/cm.h"
#include "cuda/fixture.h"
#include "evolve/watched.h"
#include "library/catalogue.h"

/* Every variant of its sweep reported the same 1,099.78 us: all were loaded under one module name, so that each later
 * one measured the first again. */
static void one_module_under_many_names_is_found_out(void **state)
{
    (void)state;
    seen_events seen;
    fake_machine on = fake_open(7, 0.01);
    on.one_module = true;
    on.flat = true;
    at_search_result result = run(&on, &seen);
    assert_int_equal(result.end, AT_SEARCH_VOID);
    assert_true(seen.failed[AT_CHECK_EXECUTION]);
    assert_non_null(strstr(result.why, "one module is measured under many names"));
    fake_close(&on);
}

/* One candidate alone beside the champion is enough to see it. */
static void one_module_under_two_names_is_found_out(void **state)
{
    (void)state;
    seen_events seen = {0};
    fake_machine on = fake_open(7, 0.01);
    const at_seed first[] = {{on.space->order[0], "heuristic"}, {on.space->order[1], "one"}};
    at_search_options options = options_of(&on, first, 2, &seen);
    on.one_module = true;
    options.listed = true;
    options.budget_runs = 2;
    at_search_result result = run_with(&on, &options);
    assert_int_equal(result.end, AT_SEARCH_VOID);
    assert_true(seen.failed[AT_CHECK_EXECUTION]);
    fake_close(&on);
}

/* Were it not for the functions, the times would still tell: they are all one. */
static void one_time_for_all_raises_an_alarm(void **state)
{
    (void)state;
    seen_events seen;
    fake_machine on = fake_open(8, 0.01);
    on.flat = true;
    at_search_result result = run(&on, &seen);
    assert_true(seen.failed[AT_CHECK_ALARM]);
    assert_non_null(strstr(seen.why[AT_CHECK_ALARM], "answered with one time"));
    assert_int_equal(result.end, AT_SEARCH_NO_GAIN);
    fake_close(&on);
}

/* Half of its parameters were macros that the source never read. */
static void a_dead_parameter_is_named_and_costs_no_measurement(void **state)
{
    (void)state;
    seen_events seen;
    fake_machine on = fake_open(9, 0.01);
    on.dead_param = ORDER;
    at_search_result result = run(&on, &seen);
    assert_true(seen.failed[AT_CHECK_DEAD]);
    assert_non_null(strstr(seen.why[AT_CHECK_DEAD], "ORDER"));
    assert_null(strstr(seen.why[AT_CHECK_DEAD], "TILE"));
    assert_true(result.duplicates > 0);
    fake_close(&on);
}

static void every_parameter_that_lives_is_said_to_live(void **state)
{
    (void)state;
    seen_events seen;
    fake_machine on = fake_open(10, 0.01);
    (void)run(&on, &seen);
    assert_false(seen.failed[AT_CHECK_DEAD]);
    assert_non_null(strstr(seen.why[AT_CHECK_DEAD], "each of 5 parameters"));
    fake_close(&on);
}

/* Where all configs are arguments of one code, times tell of a parameter that nothing reads. */
static void a_parameter_that_no_time_depends_on_is_named(void **state)
{
    (void)state;
    static const struct {
        int idle;
        bool holds;
        const char *says;
    } cases[] = {{ORDER, false, "dead, for no value changes the time: ORDER ("},
                 {UNROLL, false, "dead, for no value changes the time: UNROLL ("},
                 {-1, true, "each of 5 parameters changes the time"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        seen_events seen = {0};
        fake_machine on = fake_open(14 + i, 0.004);
        const at_seed first[] = {{on.space->order[0], "heuristic"}};
        at_search_options options = options_of(&on, first, 1, &seen);
        on.compiled_once = true;
        on.idle_param = cases[i].idle;
        options.exhaustive = true;
        options.budget_runs = 0;
        (void)run_with(&on, &options);
        assert_int_equal(seen.failed[AT_CHECK_DEAD], !cases[i].holds);
        assert_non_null(strstr(seen.why[AT_CHECK_DEAD], cases[i].says));
        assert_null(strstr(seen.why[AT_CHECK_DEAD], "TILE"));
        fake_close(&on);
    }
}

/* A kernel that ignores its config: one time under many names, and every parameter dead. */
static void a_kernel_that_ignores_its_config_is_found_out(void **state)
{
    (void)state;
    seen_events seen;
    fake_machine on = fake_open(17, 0.004);
    on.compiled_once = true;
    on.flat = true;
    at_search_result result = run(&on, &seen);
    assert_true(seen.failed[AT_CHECK_ALARM] && seen.failed[AT_CHECK_DEAD]);
    assert_non_null(strstr(seen.why[AT_CHECK_ALARM], "answered with one time"));
    assert_int_equal(result.end, AT_SEARCH_NO_GAIN);
    fake_close(&on);
}

/* Too little was measured, or too blurred, to say anything of a parameter: then nothing is said. */
static void what_times_cannot_tell_is_not_said(void **state)
{
    (void)state;
    seen_events seen;
    fake_machine on = fake_open(18, 0.1);
    on.compiled_once = true;
    on.idle_param = ORDER;
    (void)run(&on, &seen);
    assert_string_equal(seen.why[AT_CHECK_DEAD], "");
    fake_close(&on);
}

/* Its large tiles needed more shared memory than there is and were taken for hangs: here they are no candidates, and
 * the reason has its numbers. */
static void oversize_tiles_are_left_out_with_their_numbers(void **state)
{
    (void)state;
    at_space *space = landscape_open();
    bool found = false;
    for (int i = 0; i < space->refusal_count; ++i) {
        found = found || strstr(space->refusal[i].first.text, "a tile of 16384 cells: at most 12288") != NULL;
    }
    assert_true(found);
    assert_true(space->count < space->total);
    at_space_close(space);
}

/* A real kernel where a block gets no more than that: every candidate that is left fits, and what was left out is named
 * with what it needs and what there is. */
static void oversize_tiles_of_a_real_kernel_are_left_out(void **state)
{
    (void)state;
    static const int limit = 49152;
    const attune_kernel *kernel = at_catalogue_find("wmma");
    attune_problem problem = fixture_problem();
    attune_target small = fixture_target(89), target = fixture_target(89);
    at_space *space, *whole;
    small.smem_optin_bytes = limit;
    assert_ok(at_space_open(kernel, &problem, &small, "", &space));
    assert_ok(at_space_open(kernel, &problem, &target, "", &whole));
    for (int i = 0; i < space->count; ++i) {
        attune_config config;
        attune_resources needs = {0};
        at_space_config(space, i, &config);
        kernel->resources(&problem, &small, &config, &needs);
        assert_true(needs.smem_bytes <= limit);
    }
    int oversize = 0;
    for (int i = 0; i < space->refusal_count; ++i) {
        bool named = strstr(space->refusal[i].first.text, "of shared memory a block, the device gives 49152") != NULL;
        oversize += named ? space->refusal[i].count : 0;
    }
    assert_true(oversize >= whole->count - space->count && whole->count > space->count);
    at_space_close(space);
    at_space_close(whole);
}

/* ---- What a real compiler makes of macros ------------------------------------------------------------------------ */

/* The digest of the code that a source becomes with the fixture's one parameter set so. */
static void compile_with(const char *source, int32_t value, char cubin[AT_DIGEST_TEXT_MAX])
{
    const attune_problem problem = fixture_problem();
    const attune_target target = fixture_target(90);
    const attune_config config = {{value}};
    at_recipe recipe;
    at_cuda_usage usage;
    at_recipe_ask(&fixture_kernel, &problem, &target, &config, &recipe);
    recipe.sources = fixture_sources(source);
    assert_ok(at_cuda_inspect_recipe(&recipe, &target, "", &usage));
    memcpy(cubin, usage.cubin, sizeof usage.cubin);
}

/* A macro that nothing reads leaves no trace in the code, whatever it is called with: that is what a search compares.
 */
static void a_macro_that_nothing_reads_changes_no_code(void **state)
{
    (void)state;
    static const char *const reads = FIXTURE_ENTRY("    ((int *)args.workspace)[0] = TEST_PARAM;");
    static const char *const ignores = FIXTURE_ENTRY("    ((int *)args.workspace)[0] = 3;");
    at_nvrtc *nvrtc = fixture_compiler();
    if (nvrtc == NULL) {
        skip();
    }
    at_nvrtc_close(nvrtc);
    char one[AT_DIGEST_TEXT_MAX], other[AT_DIGEST_TEXT_MAX];
    compile_with(ignores, 1, one);
    compile_with(ignores, 2, other);
    assert_string_equal(one, other);
    compile_with(reads, 1, one);
    compile_with(reads, 2, other);
    assert_string_not_equal(one, other);
}

/* ---- Luck, and whoever is wrong ---------------------------------------------------------------------------------- */

/* Its best result was the luckiest of 51 runs of one and the same call. */
static void luck_is_no_gain(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        seen_events seen;
        fake_machine on = fake_open(100 + seed, 0.03);
        on.machine.spikes = 0.02;
        on.machine.process = 0.004;
        on.flat = true;
        at_search_result result = run(&on, &seen);
        assert_int_equal(result.end, AT_SEARCH_NO_GAIN);
        fake_close(&on);
    }
}

static void a_wrong_kernel_that_passes_voids_the_search(void **state)
{
    (void)state;
    seen_events seen;
    fake_machine on = fake_open(11, 0.01);
    on.takes_mutant = true;
    at_search_result result = run(&on, &seen);
    assert_int_equal(result.end, AT_SEARCH_VOID);
    assert_non_null(strstr(result.why, "wrong kernels would not be seen here"));
    assert_int_equal(on.machine.staged, 0);
    fake_close(&on);
}

static void a_placebo_that_differs_voids_the_search(void **state)
{
    (void)state;
    seen_events seen;
    fake_machine on = fake_open(12, 0.005);
    on.machine.second_place = 0.1;
    at_search_result result = run(&on, &seen);
    assert_int_equal(result.end, AT_SEARCH_VOID);
    assert_true(seen.failed[AT_CHECK_PLACEBO]);
    fake_close(&on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_module_under_many_names_is_found_out),
        cmocka_unit_test(one_module_under_two_names_is_found_out),
        cmocka_unit_test(one_time_for_all_raises_an_alarm),
        cmocka_unit_test(a_dead_parameter_is_named_and_costs_no_measurement),
        cmocka_unit_test(every_parameter_that_lives_is_said_to_live),
        cmocka_unit_test(a_parameter_that_no_time_depends_on_is_named),
        cmocka_unit_test(a_kernel_that_ignores_its_config_is_found_out),
        cmocka_unit_test(what_times_cannot_tell_is_not_said),
        cmocka_unit_test(oversize_tiles_are_left_out_with_their_numbers),
        cmocka_unit_test(oversize_tiles_of_a_real_kernel_are_left_out),
        cmocka_unit_test(a_macro_that_nothing_reads_changes_no_code),
        cmocka_unit_test(luck_is_no_gain),
        cmocka_unit_test(a_wrong_kernel_that_passes_voids_the_search),
        cmocka_unit_test(a_placebo_that_differs_voids_the_search),
    };
    return cmocka_run_group_tests_name("evolve.mistakes", tests, NULL, NULL);
}
