/* What stands around timed graphs: does its descriptor hold, and does its source compile as predicted? What it does is
 * seen on a device, in every timing. */
#include "cuda/fixture.h"

#include "core/config.h"

extern const attune_kernel at_kernel_witness;

static void the_descriptor_is_sound(void **state)
{
    (void)state;
    assert_ok(at_kernel_check(&at_kernel_witness));
}

static void every_stage_compiles_as_predicted(void **state)
{
    (void)state;
    if (!fixture_ships(&at_kernel_witness)) {
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_descriptor_is_sound),
        cmocka_unit_test(every_stage_compiles_as_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
