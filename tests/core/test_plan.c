#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan.h"
#include "sample.h"

static at_loaded load(const attune_kernel *kernel, at_device *device)
{
    at_loaded loaded = {.device = device, .kernel = kernel, .config = {{32, 2}}};
    static const at_device_ops none; /* a device that makes no launches ahead */
    memset(device, 0, sizeof *device);
    device->ops = &none;
    device->target.threads = 4;
    kernel->resources(NULL, NULL, &loaded.config, &loaded.resources);
    return loaded;
}

static attune_problem parse(const char *text)
{
    attune_problem problem;
    assert_int_equal(attune_problem_parse(text, &problem), ATTUNE_OK);
    return problem;
}

static void binds(void **state)
{
    (void)state;
    at_device device;
    attune_plan *plan = NULL;
    attune_kernel kernel = sample_kernel(ATTUNE_TARGET_CPU);
    at_loaded loaded = load(&kernel, &device);
    attune_problem problem = parse("b3,h8,sq100,skv7,d64,fp16");
    assert_int_equal(at_plan_bind(&problem, &loaded, AT_ORIGIN_NAMED, &plan), ATTUNE_OK);
    assert_int_equal(plan->workspace_max, 3 * 100 * 4);
    assert_string_equal(plan->kernel_text, "sample:BLOCK_M=32,STAGES=2");
    assert_ptr_equal(plan->loaded, &loaded);
    assert_int_equal(plan->origin, AT_ORIGIN_NAMED);
    assert_int_equal(plan->problem.batch, 3);
    assert_null(plan->recents);
    free(plan);
}

static void uses_every_size(void **state)
{
    (void)state;
    at_device device;
    attune_kernel kernel = sample_kernel(ATTUNE_TARGET_CPU);
    attune_problem problem = parse("b3,h10,hkv5,sq7,skv11,d64,fp16");
    static const size_t expected[ATTUNE_SIZE_COUNT] = {3, 10, 5, 7, 11, 21, 33, 4};
    for (int size = 0; size < ATTUNE_SIZE_COUNT; ++size) {
        attune_plan *plan = NULL;
        at_loaded loaded = load(&kernel, &device);
        loaded.resources.workspace = attune_term_size((attune_size)size);
        assert_int_equal(at_plan_bind(&problem, &loaded, AT_ORIGIN_HEURISTIC, &plan), ATTUNE_OK);
        assert_int_equal(plan->workspace_max, expected[size]);
        free(plan);
    }
}

static void refuses(void **state)
{
    (void)state;
    at_device device;
    attune_kernel kernel = sample_kernel(ATTUNE_TARGET_CPU);
    attune_problem problem = parse("b3,h8,sq100,skv7,d64,fp16");
    at_loaded loaded = load(&kernel, &device);
    attune_plan *plan = (attune_plan *)&device;
    loaded.resources.workspace = attune_term_mul(attune_term_const(INT64_MAX), attune_term_size(ATTUNE_SIZE_BATCH));
    assert_int_equal(at_plan_bind(&problem, &loaded, AT_ORIGIN_NAMED, &plan), ATTUNE_UNSUPPORTED);
    assert_null(plan);
    assert_non_null(strstr(attune_last_detail(), "kernel sample: workspace"));
    loaded.resources.workspace = attune_term_const(-1);
    assert_int_equal(at_plan_bind(&problem, &loaded, AT_ORIGIN_NAMED, &plan), ATTUNE_INTERNAL);
    problem.batch = 0;
    assert_int_equal(at_plan_bind(&problem, &loaded, AT_ORIGIN_NAMED, &plan), ATTUNE_INVALID_PROBLEM);
    assert_null(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(binds), cmocka_unit_test(uses_every_size),
                                       cmocka_unit_test(refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
