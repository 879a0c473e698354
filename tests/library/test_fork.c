/* Contexts after fork() without exec, as in a worker of PyTorch's data loader: the child uses what the parent made. */
#include "base/cm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "library/fake.h"
#include "library/scene.h"

const fake_rule fake_rules[] = {{.kernel = "plain", .cost_ns = 100, .gain = 1, .dim_most = 256}, {.kernel = NULL}};
FAKE_KERNEL(plain, ATTUNE_TRAIT_GENERAL);
static const attune_kernel *const kernels[] = {&plain, NULL};

enum { SECONDS = 3600 };

static const char problem_text[] = "b2,h4,hkv2,sq40,skv300,d64,fp32,causal";

static void open_on_cpu(scene *on, int threads)
{
    attune_options options;
    attune_options_init(&options);
    options.target = "cpu";
    options.threads = threads;
    open_scene(on, &options, problem_text, NULL);
}

static bool gives_what_is_wanted(scene *on)
{
    at_inputs_poison(&on->inputs, (at_poison){0});
    return attune_plan_execute(on->plan, &on->inputs.call) == ATTUNE_OK && is_as_wanted(on);
}

static void in_a_child(int (*run)(void *of), void *of)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(SECONDS);
        _exit(run(of));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- A CPU ------------------------------------------------------------------------------------------------------ */

static int destroy(void *of)
{
    close_scene(of);
    return 0;
}

static int execute(void *of)
{
    scene *on = of;
    for (int i = 0; i < 5; ++i) {
        if (!gives_what_is_wanted(on)) {
            return 1;
        }
    }
    close_scene(on);
    return 0;
}

/* A plan that the parent has not made, and a context that is the child's. */
static int plan(void *of)
{
    scene *on = of;
    attune_problem problem;
    attune_plan *other;
    scene own = {0};
    if (attune_problem_parse("b1,h2,s70,d32,fp16", &problem) != ATTUNE_OK ||
        attune_plan_create(on->context, &problem, NULL, &other) != ATTUNE_OK) {
        return 1;
    }
    attune_plan_destroy(other);
    open_on_cpu(&own, 2);
    bool right = gives_what_is_wanted(&own) && gives_what_is_wanted(on);
    close_scene(&own);
    close_scene(on);
    return right ? 0 : 2;
}

static void children_use_what_the_parent_made(void **state)
{
    (void)state;
    static int (*const runs[])(void *) = {destroy, execute, plan};
    for (int threads = 1; threads <= 8; threads += threads < 4 ? 1 : 4) {
        scene on;
        open_on_cpu(&on, threads);
        for (size_t i = 0; i < sizeof runs / sizeof runs[0]; ++i) {
            in_a_child(runs[i], &on);
            assert_true(gives_what_is_wanted(&on));
        }
        close_scene(&on);
    }
}

typedef struct other {
    scene *on;
    atomic_bool stop;
    atomic_int failed;
} other;

/* Takes the context's locks as often as it can. */
static void *plan_until_stopped(void *argument)
{
    other *at = argument;
    for (int64_t length = 1; !at->stop; length = length % 500 + 1) {
        attune_problem problem = at->on->inputs.problem;
        attune_plan *made;
        problem.seqlen_kv = length;
        problem.head_dim_v = (int32_t)(8 + length % 64);
        at->failed += attune_plan_create(at->on->context, &problem, NULL, &made) != ATTUNE_OK;
        attune_plan_destroy(made);
    }
    return NULL;
}

static void children_of_a_process_that_plans(void **state)
{
    (void)state;
    scene on;
    other at = {.on = &on};
    pthread_t thread;
#ifdef ATTUNE_SANITIZED
    skip(); /* sanitizers' allocators may be locked by the other thread when the child is made */
#endif
    open_on_cpu(&on, 2);
    assert_int_equal(pthread_create(&thread, NULL, plan_until_stopped, &at), 0);
    for (int i = 0; i < 20; ++i) {
        in_a_child(plan, &on);
    }
    at.stop = true;
    pthread_join(thread, NULL);
    assert_int_equal(at.failed, 0);
    close_scene(&on);
}

/* ---- A device that is the parent's ------------------------------------------------------------------------------ */

typedef struct device_scene {
    fake_device fake;
    attune_context *context;
    attune_plan *plan;
    at_inputs inputs;
} device_scene;

static int be_refused(void *of)
{
    device_scene *on = of;
    attune_plan *more;
    const int launches = on->fake.launches;
    if (attune_plan_execute(on->plan, &on->inputs.call) != ATTUNE_NO_DEVICE ||
        strstr(attune_last_detail(), "fork") == NULL || on->fake.launches != launches) {
        return 1;
    }
    if (attune_plan_create(on->context, &on->inputs.problem, NULL, &more) != ATTUNE_NO_DEVICE || more != NULL) {
        return 2;
    }
    attune_plan_destroy(on->plan);
    attune_context_destroy(on->context);
    return on->fake.unloads == 0 && !on->fake.closed ? 0 : 3; /* its driver was not asked anything */
}

static void a_cuda_device_is_the_parents(void **state)
{
    (void)state;
    device_scene on;
    at_draw draw = {.seed = 1};
    attune_problem problem;
    assert_ok(attune_problem_parse("b1,h1,s8,d8,fp32", &problem));
    assert_ok(fake_context(&on.fake, kernels, &on.context));
    assert_ok(attune_plan_create(on.context, &problem, NULL, &on.plan));
    on.fake.device.target.kind = ATTUNE_TARGET_CUDA; /* from now on */
    assert_ok(at_inputs_draw(&problem, &draw, &on.inputs));
    assert_ok(attune_plan_execute(on.plan, &on.inputs.call));
    in_a_child(be_refused, &on);
    assert_ok(attune_plan_execute(on.plan, &on.inputs.call));
    at_inputs_free(&on.inputs);
    attune_plan_destroy(on.plan);
    attune_context_destroy(on.context);
    assert_true(on.fake.closed && on.fake.unloads == on.fake.loads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_use_what_the_parent_made),
        cmocka_unit_test(children_of_a_process_that_plans),
        cmocka_unit_test(a_cuda_device_is_the_parents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
