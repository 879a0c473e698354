/* What stands around timed graphs: does its descriptor hold, and does its source compile as predicted? What it does is
 * seen on a device, in every timing. */
#include "cuda/fixture.h"

#include "core/config.h"
#include "cuda/provide.h"

extern const attune_kernel at_kernel_witness;

static void the_descriptor_is_sound(void **state)
{
    (void)state;
    assert_ok(at_kernel_check(&at_kernel_witness));
}

static void every_stage_compiles_as_predicted(void **state)
{
    static const int archs[] = {80, 86, 89, 90, 100, 120};
    at_provider provider = {.nvrtc = fixture_compiler()};
    (void)state;
    if (provider.nvrtc == NULL) {
        skip();
    }
    for (const attune_shipped *shipped = at_kernel_witness.shipped; shipped->problem != NULL; ++shipped) {
        for (size_t i = 0; i < sizeof archs / sizeof archs[0]; ++i) {
            attune_target target = fixture_target(archs[i]);
            attune_problem problem;
            attune_config config;
            at_artifact artifact;
            at_recipe recipe;
            at_cubin cubin;
            assert_ok(attune_problem_parse(shipped->problem, &problem));
            assert_ok(at_config_parse(&at_kernel_witness, shipped->config, &config));
            at_recipe_ask(&at_kernel_witness, &problem, &target, &config, &recipe);
            assert_ok(at_provide(&provider, &recipe, &target, &artifact, &cubin));
            assert_int_equal(cubin.entry[0].spill_bytes, 0);
            assert_int_equal(cubin.warnings, 0);
            at_artifact_free(&artifact);
        }
    }
    at_nvrtc_close(provider.nvrtc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_descriptor_is_sound),
        cmocka_unit_test(every_stage_compiles_as_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
