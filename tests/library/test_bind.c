/* Arms bound to a call's buffers, on a driver that only remembers. */
#include "base/cm.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "base/status.h"
#include "cuda/cuda.h"
#include "cuda/fake_driver.h"
#include "library/bind.h"
#include "measure/interleave.h"

static fake_record *driver;
static at_device *device;
static attune_call call = {.size = sizeof call};

static int open_all(void **state)
{
    (void)state;
    void *library = dlopen(ATTUNE_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    driver = library == NULL ? NULL : dlsym(library, "fake");
    bool ready = driver != NULL && setenv("ATTUNE_LIBCUDA", ATTUNE_FAKE_DRIVER, 1) == 0 &&
                 at_cuda_open(0, "", NULL, &device) == ATTUNE_OK &&
                 at_cuda_stream_create(device, &call.stream) == ATTUNE_OK;
    return ready ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    at_cuda_stream_destroy(device, call.stream);
    device->ops->close(device);
    return 0;
}

/* An arm whose calls take so long, as far as the driver's events say. */
typedef struct counted {
    float ms;
    int calls, fail_at;
} counted;

static attune_status count_call(void *self, const attune_call *given)
{
    counted *arm = self;
    assert_ptr_equal(given->stream, call.stream);
    driver->elapsed_ms = arm->ms;
    return ++arm->calls == arm->fail_at ? at_fail(ATTUNE_UNSUPPORTED, "not in a graph") : ATTUNE_OK;
}

static void a_processor_runs_the_arm_itself(void **state)
{
    at_device cpu = {.target = {.kind = ATTUNE_TARGET_CPU}};
    counted self = {.ms = 1};
    const attune_arm arm = {.name = "arm", .self = &self, .run = count_call};
    at_binding binding;
    double ns = -1;
    const at_clock clock = at_clock_monotonic();
    (void)state;
    assert_ok(at_bind(&cpu, &arm, &call, 1000, &binding));
    assert_ptr_equal(binding.bound.arm, &arm);
    assert_int_equal(binding.bound.calls, 1);
    assert_ok(at_bound_time(&binding.bound, &clock, 7, &ns));
    assert_int_equal(self.calls, 7);
    assert_true(ns >= 0);
    at_unbind(&binding);
}

static void a_device_replays_a_graph_by_its_own_clock(void **state)
{
    counted self = {.ms = 3};
    const attune_arm arm = {.name = "arm", .self = &self, .run = count_call};
    at_binding binding;
    double ns = 0;
    const at_clock clock = at_clock_monotonic();
    int handles = driver->handles;
    (void)state;
    assert_ok(at_bind(device, &arm, &call, 500000, &binding)); /* four calls of half a millisecond */
    assert_int_equal(self.calls, 4);
    assert_int_equal(binding.bound.calls, 4);
    assert_string_equal(binding.bound.arm->name, "arm");
    assert_ok(at_bound_time(&binding.bound, &clock, 5, &ns));
    assert_true(ns > 2.999e6 && ns < 3.001e6);
    assert_int_equal(self.calls, 4);
    at_unbind(&binding);
    assert_int_equal(driver->handles, handles);
}

static void short_calls_fill_a_graph_and_long_ones_stand_alone(void **state)
{
    static const struct {
        int64_t call_ns;
        int calls;
    } sizes[] = {{0, 20}, {1000, 20}, {100000, 20}, {100001, 19}, {2000001, 1}, {INT64_MAX, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        counted self = {.ms = 1};
        const attune_arm arm = {.name = "arm", .self = &self, .run = count_call};
        at_binding binding;
        assert_ok(at_bind(device, &arm, &call, sizes[i].call_ns, &binding));
        assert_int_equal(binding.bound.calls, sizes[i].calls);
        at_unbind(&binding);
    }
}

static void what_fails_in_a_capture_is_said(void **state)
{
    counted self = {.ms = 1, .fail_at = 2};
    const attune_arm arm = {.name = "arm", .self = &self, .run = count_call};
    at_binding binding;
    int handles = driver->handles;
    (void)state;
    assert_fails(at_bind(device, &arm, &call, 1000, &binding), ATTUNE_UNSUPPORTED, "not in a graph");
    at_unbind(&binding);
    assert_int_equal(driver->handles, handles);
}

static void the_fastest_graph_wins(void **state)
{
    counted self[3] = {{.ms = 4}, {.ms = 1}, {.ms = 2}};
    attune_arm arm[3];
    at_binding binding[3];
    at_bound bound[3];
    const at_clock clock = at_clock_monotonic();
    int winner = -1;
    double us = 0;
    (void)state;
    for (int i = 0; i < 3; ++i) {
        arm[i] = (attune_arm){.name = "arm", .self = &self[i], .run = count_call};
        assert_ok(at_bind(device, &arm[i], &call, INT64_MAX, &binding[i]));
        bound[i] = binding[i].bound;
    }
    assert_ok(at_interleave_fastest(&clock, 0.01, bound, 3, &winner, &us));
    assert_int_equal(winner, 1);
    assert_true(us > 0 && us <= 1000.5);
    for (int i = 0; i < 3; ++i) {
        at_unbind(&binding[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_processor_runs_the_arm_itself),
        cmocka_unit_test(a_device_replays_a_graph_by_its_own_clock),
        cmocka_unit_test(short_calls_fill_a_graph_and_long_ones_stand_alone),
        cmocka_unit_test(what_fails_in_a_capture_is_said),
        cmocka_unit_test(the_fastest_graph_wins),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
