/* Candidates on the real CPU, in a real worker, which is this program itself. Times are the machine's business: that
 * there are some, and of what, is looked at here. */

#include "base/cm.h"
#include "evolve/measurer.h"
#include "library/catalogue.h"
#include "worker/worker.h"

static const char *const worker[] = {"/proc/self/exe", "worker", NULL};

typedef struct scene {
    at_remote_options remote;
    at_pool *pool;
    at_space *space;
    at_measurer *measurer;
    at_machine machine;
} scene;

static int setup(void **state)
{
    static scene on;
    attune_problem problem;
    at_device *device;
    on = (scene){.remote = {.command = worker, .target = "cpu", .threads = 1}};
    assert_ok(attune_problem_parse("b1,h2,s70,d64,fp32,causal", &problem));
    assert_ok(at_remote_open(&on.remote, &device));
    const attune_kernel *kernel = at_catalogue_find("cpu_tiled");
    at_measurer_options options = {
        .kernel = kernel, .test = {problem, 0}, .target = device->target, .worker = &on.remote, .seed = 1};
    device->ops->close(device);
    assert_ok(at_pool_create(1, 0, &on.pool));
    assert_ok(at_space_open(kernel, &problem, &options.target, "", &on.space));
    options.space = on.space;
    options.pool = on.pool;
    assert_ok(at_measurer_open(&options, &on.measurer));
    on.machine = at_measurer_machine(on.measurer);
    *state = &on;
    return 0;
}

static int teardown(void **state)
{
    scene *on = *state;
    at_measurer_close(on->measurer);
    at_space_close(on->space);
    at_pool_destroy(on->pool);
    return 0;
}

static int of_order(const scene *on, int place)
{
    return on->space->order[place];
}

static void a_first_launch_is_judged(void **state)
{
    const scene *on = *state;
    at_first_run seen;
    assert_ok(on->machine.racer.try(on->machine.racer.self, of_order(on, 0), &seen));
    assert_int_equal(seen.refused, AT_RAN);
    assert_true(seen.us > 0);
    assert_ok(on->machine.mutant(on->machine.self, of_order(on, 0), &seen));
    assert_int_equal(seen.refused, AT_REFUSED_WRONG);
    assert_non_null(strstr(seen.why, "rule"));
    assert_ok(on->machine.racer.try(on->machine.racer.self, of_order(on, 0), &seen)); /* the mutant is another plan */
    assert_int_equal(seen.refused, AT_RAN);
}

/* Two samples of each arm, in whatever order; a candidate that is listed twice is two arms. */
static void arms_are_timed_beside_each_other(void **state)
{
    const scene *on = *state;
    const at_racer *racer = &on->machine.racer;
    const int candidate[] = {of_order(on, 0), of_order(on, 0), of_order(on, 1)};
    const int order[] = {2, 0, 1, 1, 0, 2};
    double us[AT_RACE_ARMS_MAX][2] = {{0}};
    int culprit = -1;
    at_first_run seen;
    for (int i = 0; i < 2; ++i) { /* the same stage again, and in a fresh process */
        assert_ok(racer->stage(racer->self, candidate, 3, &culprit, &seen));
        assert_ok(racer->block(racer->self, order, 6, us, &culprit, &seen));
        assert_int_equal(culprit, -1);
        for (int arm = 0; arm < 3; ++arm) {
            assert_true(us[arm][0] > 0 && us[arm][1] > 0);
        }
        assert_ok(racer->unstage(racer->self));
        assert_ok(racer->renew(racer->self));
    }
}

static void what_is_timed_is_bound_to_what_was_made(void **state)
{
    const scene *on = *state;
    at_variant one, other;
    char a[AT_FUNCTION_TEXT_MAX], b[AT_FUNCTION_TEXT_MAX], again[AT_FUNCTION_TEXT_MAX];
    assert_ok(on->machine.build(on->machine.self, of_order(on, 0), &one));
    assert_ok(on->machine.build(on->machine.self, of_order(on, 1), &other));
    assert_string_equal(one.source, other.source);
    assert_string_not_equal(one.code, other.code);
    assert_string_equal(one.entry, "attune_cpu_tiled");
    assert_ok(on->machine.function(on->machine.self, of_order(on, 0), a));
    assert_ok(on->machine.function(on->machine.self, of_order(on, 1), b));
    assert_ok(on->machine.function(on->machine.self, of_order(on, 0), again));
    assert_string_not_equal(a, b);
    assert_string_equal(a, again);
}

/* Another kernel takes part by its name; one that is none is refused, and costs nothing else. */
static void others_take_part_by_their_text(void **state)
{
    const scene *on = *state;
    at_first_run seen;
    char name[AT_KERNEL_TEXT_MAX];
    int general, nobody;
    assert_ok(at_measurer_add(on->measurer, "cpu_tiled:BLOCK_M=8,BLOCK_N=16", &general));
    assert_ok(at_measurer_add(on->measurer, "cpu_tilde", &nobody));
    assert_true(general >= on->space->count && nobody > general);
    on->machine.name(on->machine.self, nobody, name);
    assert_string_equal(name, "cpu_tilde");
    assert_ok(on->machine.racer.try(on->machine.racer.self, general, &seen));
    assert_int_equal(seen.refused, AT_RAN);
    assert_ok(on->machine.racer.try(on->machine.racer.self, nobody, &seen));
    assert_int_equal(seen.refused, AT_REFUSED_LAUNCH);
    assert_non_null(strstr(seen.why, "cpu_tilde"));
    assert_ok(on->machine.racer.try(on->machine.racer.self, of_order(on, 0), &seen));
    assert_int_equal(seen.refused, AT_RAN);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        return (int)attune_worker_serve(NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_first_launch_is_judged),
        cmocka_unit_test(arms_are_timed_beside_each_other),
        cmocka_unit_test(what_is_timed_is_bound_to_what_was_made),
        cmocka_unit_test(others_take_part_by_their_text),
    };
    return cmocka_run_group_tests_name("evolve.measurer", tests, setup, teardown);
}
