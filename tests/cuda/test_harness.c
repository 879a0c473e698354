/* The harness of timed graphs: does its descriptor hold, and does its source compile as predicted? What it does is
 * seen on a device, in every timing. */
#include "cuda/fixture.h"

#include "core/config.h"

extern const attune_kernel at_kernel_harness;

static void the_descriptor_is_sound(void **state)
{
    (void)state;
    assert_ok(at_kernel_check(&at_kernel_harness));
}

static void every_stage_compiles_as_predicted(void **state)
{
    (void)state;
    if (!fixture_ships(&at_kernel_harness, ATTUNE_KERNEL_CACHE)) {
        skip();
    }
}

/* What it fills for others to find it must have itself. */
static void fillers_have_what_they_fill(void **state)
{
    enum { POISON_SMEM = 5, FILLERS = 3 };
    static const int stack_bytes[FILLERS] = {0, 1024, 16384};
    static const int archs[] = {80, 86, 90, 100, 120};
    (void)state;
    at_provider provider;
    fixture_provider_open(&provider, ATTUNE_KERNEL_CACHE);
    for (size_t i = 0; i < FILLERS * sizeof archs / sizeof archs[0] && provider.nvrtc != NULL; ++i) {
        const int stage = POISON_SMEM + (int)(i % FILLERS);
        const attune_config config = {{stage}};
        attune_target target = fixture_target(archs[i / FILLERS]);
        attune_problem problem;
        at_recipe recipe;
        at_artifact artifact;
        at_cubin cubin;
        assert_ok(attune_problem_parse("b1,h1,s32,d64,fp16", &problem));
        assert_ok(at_recipe_ask(&at_kernel_harness, &problem, &target, &config, &recipe));
        assert_ok(at_provide(&provider, &recipe, &target, &artifact, &cubin));
        assert_int_equal(recipe.resources.smem_bytes, stage == POISON_SMEM ? target.smem_optin_bytes : 0);
        assert_true(stage != POISON_SMEM || cubin.entry[0].registers >= 200);
        assert_in_range(cubin.entry[0].stack_bytes, stack_bytes[i % FILLERS], stack_bytes[i % FILLERS] + 64);
        assert_int_equal(cubin.entry[0].spill_bytes, 0);
        at_artifact_free(&artifact);
    }
    fixture_provider_close(&provider);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_descriptor_is_sound),
        cmocka_unit_test(every_stage_compiles_as_predicted),
        cmocka_unit_test(fillers_have_what_they_fill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
