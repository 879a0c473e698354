/* Executing on the caller's own threads, and on a parallel loop of the caller's. */
#include "base/cm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "library/scene.h"

enum { THREADS = 3, SCRATCH_ALIGN = 64 };

static attune_options on_cpu(void)
{
    attune_options options;
    attune_options_init(&options);
    options.target = "cpu";
    options.threads = THREADS;
    return options;
}

/* ---- By items --------------------------------------------------------------------------------------------------- */

static const struct {
    const char *problem, *kernel;
    bool several_steps;
} plans[] = {
    {"b2,h4,hkv2,sq40,skv300,d64,fp32,causal", "cpu_tiled:SPLIT=0", false},
    {"b1,h1,sq8,skv700,d32,fp16,sink", "cpu_tiled:SPLIT=256", true},
    {"b1,h4,hkv1,sq2,skv1000,d48,bf16", "cpu_decode:SPLIT=256", true},
    {"b3,h2,s60,d16,fp32,varlen=7", NULL, false},
};

/* The items of a step backwards, two at a time: their order is nobody's business. */
static void do_step(const scene *on, int32_t step, void *scratch, size_t bytes)
{
    int64_t items;
    assert_ok(attune_plan_items(on->plan, &on->inputs.call, step, &items));
    for (int64_t end = items; end > 0; end -= 2) {
        int64_t first = end < 2 ? 0 : end - 2;
        assert_ok(attune_execute_items(on->plan, &on->inputs.call, step, first, end - first, scratch, bytes));
    }
}

static void items_are_the_call(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; ++i) {
        scene on;
        size_t bytes;
        int32_t steps;
        attune_options options = on_cpu();
        open_scene(&on, &options, plans[i].problem, plans[i].kernel);
        assert_ok(attune_plan_scratch(on.plan, &bytes));
        assert_ok(attune_plan_steps(on.plan, &on.inputs.call, &steps));
        assert_true((steps > 1) == plans[i].several_steps);
        void *scratch = aligned_alloc(SCRATCH_ALIGN, (bytes / SCRATCH_ALIGN + 1) * SCRATCH_ALIGN);
        for (int32_t step = 0; step < steps; ++step) {
            do_step(&on, step, scratch, bytes);
        }
        assert_true(is_as_wanted(&on));
        free(scratch);
        close_scene(&on);
    }
}

static void items_say_what_is_wrong(void **state)
{
    (void)state;
    scene on;
    attune_options options = on_cpu();
    _Alignas(64) unsigned char scratch[131072];
    int64_t items;
    int32_t steps;
    size_t bytes;
    open_scene(&on, &options, plans[0].problem, plans[0].kernel);
    attune_call call = on.inputs.call;
    assert_ok(attune_plan_items(on.plan, &call, 0, &items));
    assert_fails(attune_plan_items(on.plan, &call, 1, &items), ATTUNE_INVALID_ARGUMENT, "step is 1");
    assert_fails(attune_plan_items(on.plan, &call, -1, &items), ATTUNE_INVALID_ARGUMENT, "step is -1");
    assert_fails(attune_plan_steps(NULL, &call, &steps), ATTUNE_INVALID_ARGUMENT, "plan is NULL");
    assert_fails(attune_plan_scratch(on.plan, NULL), ATTUNE_INVALID_ARGUMENT, "bytes is NULL");
    assert_ok(attune_plan_scratch(on.plan, &bytes));
    assert_fails(attune_execute_items(on.plan, &call, 0, 0, items + 1, scratch, sizeof scratch),
                 ATTUNE_INVALID_ARGUMENT, "items: ");
    assert_fails(attune_execute_items(on.plan, &call, 0, -1, 1, scratch, sizeof scratch), ATTUNE_INVALID_ARGUMENT,
                 "from -1 on");
    assert_fails(attune_execute_items(on.plan, &call, 0, 1, INT64_MAX, scratch, sizeof scratch),
                 ATTUNE_INVALID_ARGUMENT, "step 0 has");
    assert_fails(attune_execute_items(on.plan, &call, 0, 0, 1, scratch, bytes - 1), ATTUNE_INVALID_ARGUMENT,
                 "are needed (attune_plan_scratch)");
    assert_fails(attune_execute_items(on.plan, &call, 0, 0, 1, NULL, bytes), ATTUNE_INVALID_ARGUMENT, "is NULL");
    assert_fails(attune_execute_items(on.plan, &call, 0, 0, 1, scratch + 16, bytes), ATTUNE_INVALID_ARGUMENT,
                 "16 bytes past a multiple of 64");
    call.tensor[ATTUNE_Q].data = NULL;
    assert_fails(attune_execute_items(on.plan, &call, 0, 0, 1, scratch, sizeof scratch), ATTUNE_INVALID_ARGUMENT, "Q");
    call = on.inputs.call;
    call.seqlen_q += 1;
    assert_fails(attune_plan_items(on.plan, &call, 0, &items), ATTUNE_INVALID_ARGUMENT, "seqlen_q");
    assert_ok(attune_execute_items(on.plan, &on.inputs.call, 0, items, 0, scratch, sizeof scratch));
    close_scene(&on);
}

/* ---- On a loop of the caller's ---------------------------------------------------------------------------------- */

typedef struct part {
    attune_work work;
    void *context;
    int64_t items;
    atomic_int_least64_t *next;
} part;

static void *do_part(void *argument)
{
    const part *p = argument;
    for (int64_t item; (item = atomic_fetch_add(p->next, 1)) < p->items;) {
        p->work(p->context, item, 1);
    }
    return NULL;
}

/* A loop on threads that live as long as it; an engine's live longer. */
static void loop_on_threads(void *user, int64_t items, attune_work work, void *context)
{
    pthread_t thread[THREADS];
    atomic_int_least64_t next = 0;
    part shared = {work, context, items, &next};
    atomic_fetch_add((atomic_int *)user, 1);
    for (int i = 0; i < THREADS; ++i) {
        (void)pthread_create(&thread[i], NULL, do_part, &shared);
    }
    for (int i = 0; i < THREADS; ++i) {
        (void)pthread_join(thread[i], NULL);
    }
}

static void a_context_uses_the_callers_loop(void **state)
{
    (void)state;
    atomic_int loops = 0;
    attune_options options = on_cpu();
    options.parallel_for = loop_on_threads;
    options.parallel_user = &loops;
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; ++i) {
        scene plain, on;
        attune_options without = on_cpu();
        open_scene(&plain, &without, plans[i].problem, plans[i].kernel);
        int before = loops;
        open_scene(&on, &options, plans[i].problem, plans[i].kernel);
        assert_true(loops > before);
        assert_memory_equal(on.wanted, plain.wanted, on.inputs.buffer[ATTUNE_O].bytes);
        close_scene(&on);
        close_scene(&plain);
    }
}

/* ---- Several callers at once ------------------------------------------------------------------------------------ */

typedef struct caller {
    attune_context *context;
    bool right;
} caller;

static void *execute_often(void *argument)
{
    caller *c = argument;
    attune_problem problem;
    attune_plan *plan = NULL;
    at_inputs inputs;
    at_draw draw = {.seed = 2};
    c->right = attune_problem_parse(plans[0].problem, &problem) == ATTUNE_OK &&
               attune_plan_create(c->context, &problem, NULL, &plan) == ATTUNE_OK &&
               at_inputs_draw(&problem, &draw, &inputs) == ATTUNE_OK;
    const size_t bytes = inputs.buffer[ATTUNE_O].bytes;
    unsigned char *first = calloc(1, bytes);
    c->right = c->right && attune_plan_workspace(plan, NULL, &inputs.call.workspace_bytes) == ATTUNE_OK;
    void *workspace = aligned_alloc(256, (inputs.call.workspace_bytes / 256 + 1) * 256);
    inputs.call.workspace = workspace;
    for (int i = 0; c->right && i < 30; ++i) {
        at_inputs_poison(&inputs, (at_poison){0});
        c->right = attune_plan_execute(plan, &inputs.call) == ATTUNE_OK;
        const void *o = inputs.call.tensor[ATTUNE_O].data;
        c->right = c->right && (i == 0 || memcmp(first, o, bytes) == 0);
        memcpy(first, o, bytes);
    }
    free(workspace);
    free(first);
    at_inputs_free(&inputs);
    attune_plan_destroy(plan);
    return NULL;
}

static void callers_share_a_context(void **state)
{
    (void)state;
    enum { CALLERS = 6 };
    for (int threads = 1; threads <= THREADS; threads += 2) {
        attune_options options = on_cpu();
        attune_context *context;
        pthread_t thread[CALLERS];
        caller callers[CALLERS];
        options.threads = threads;
        options.wait = ATTUNE_WAIT_ASLEEP;
        options.callers = 2;
        assert_ok(attune_context_create(&options, &context));
        for (int i = 0; i < CALLERS; ++i) {
            callers[i] = (caller){.context = context};
            assert_int_equal(pthread_create(&thread[i], NULL, execute_often, &callers[i]), 0);
        }
        for (int i = 0; i < CALLERS; ++i) {
            pthread_join(thread[i], NULL);
            assert_true(callers[i].right);
        }
        attune_context_destroy(context);
    }
}

/* ---- Options ---------------------------------------------------------------------------------------------------- */

static void *take(void *user, size_t bytes, size_t align)
{
    ++*(int *)user;
    return aligned_alloc(align, bytes);
}

static void give(void *user, void *memory)
{
    --*(int *)user;
    free(memory);
}

static void memory_is_the_callers(void **state)
{
    (void)state;
    int held = 0;
    attune_options options = on_cpu();
    attune_context *context;
    attune_problem problem;
    attune_plan *plan;
    options.allocate = take;
    options.release = give;
    options.memory_user = &held;
    assert_ok(attune_context_create(&options, &context));
    assert_true(held > 0);
    const int scratch = held;
    assert_ok(attune_problem_parse("b1,h1,s16,d16,fp32", &problem));
    assert_ok(attune_plan_create(context, &problem, WITH_EFFORT(ATTUNE_MEASURE), &plan)); /* races on buffers */
    assert_int_equal(held, scratch);
    attune_plan_destroy(plan);
    attune_context_destroy(context);
    assert_int_equal(held, 0);
}

static void refuse(const attune_options *options, const char *words)
{
    attune_context *context;
    assert_fails(attune_context_create(options, &context), ATTUNE_INVALID_ARGUMENT, words);
    assert_null(context);
}

static void options_say_what_is_wrong(void **state)
{
    (void)state;
    static const char *const bad_cpus[] = {"", "x", "1-", "3-1", "0,", ",0", "0 1", "99999", "-1", "0-2000"};
    attune_options options = on_cpu();
    for (size_t i = 0; i < sizeof bad_cpus / sizeof bad_cpus[0]; ++i) {
        options.cpus = bad_cpus[i];
        refuse(&options, "options.cpus is \"");
    }
    options = on_cpu();
    options.wait = 2;
    refuse(&options, "options.wait is 2");
    options = on_cpu();
    options.callers = 65;
    refuse(&options, "options.callers is 65");
    options = on_cpu();
    options.allocate = take;
    refuse(&options, "options.release");
    options = on_cpu();
    options.cpus = "0";
    options.parallel_for = loop_on_threads;
    refuse(&options, "options.parallel_for");
}

static void cpus_say_how_many_threads(void **state)
{
    (void)state;
    attune_context *context;
    attune_options options = on_cpu();
    options.threads = 0;
    options.cpus = "0,0-1";
    assert_ok(attune_context_create(&options, &context));
    assert_non_null(strstr(attune_context_target(context), "threads=3"));
    attune_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_the_call),
        cmocka_unit_test(items_say_what_is_wrong),
        cmocka_unit_test(a_context_uses_the_callers_loop),
        cmocka_unit_test(callers_share_a_context),
        cmocka_unit_test(memory_is_the_callers),
        cmocka_unit_test(options_say_what_is_wrong),
        cmocka_unit_test(cpus_say_how_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
