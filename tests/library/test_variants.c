/* What a plan does with calls that are shorter than its problem. */
#include "base/cm.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/config.h"
#include "core/plan.h"
#include "reference/inputs.h"

static attune_context *context;

static int open_context(void **state)
{
    (void)state;
    attune_options options;
    attune_options_init(&options);
    options.target = "cpu";
    options.threads = 2;
    return attune_context_create(&options, &context) == ATTUNE_OK ? 0 : -1;
}

static int close_context(void **state)
{
    (void)state;
    attune_context_destroy(context);
    return 0;
}

static attune_plan *plan_of(const char *text, const char *kernel)
{
    attune_problem problem;
    attune_plan *plan;
    attune_plan_options options;
    attune_plan_options_init(&options);
    options.kernel = kernel;
    assert_ok(attune_problem_parse(text, &problem));
    assert_ok(attune_plan_create(context, &problem, &options, &plan));
    return plan;
}

static const char *kernel_for(const attune_plan *plan, const char *text)
{
    static char kernel[512];
    attune_problem problem;
    attune_call call;
    assert_ok(attune_problem_parse(text, &problem));
    assert_ok(attune_call_init(&call, &problem));
    assert_ok(attune_plan_kernel_for(plan, &call, kernel, sizeof kernel));
    return kernel;
}

/* Executes a plan with drawn inputs of this text; returns O, to be freed. */
static unsigned char *execute(const attune_plan *plan, const char *text, size_t *bytes)
{
    attune_problem problem;
    at_inputs inputs;
    at_draw draw = {.seed = 3};
    assert_ok(attune_problem_parse(text, &problem));
    assert_ok(at_inputs_draw(&problem, &draw, &inputs));
    assert_ok(attune_plan_workspace(plan, &inputs.call, &inputs.call.workspace_bytes));
    void *workspace = aligned_alloc(256, (inputs.call.workspace_bytes / 256 + 1) * 256);
    inputs.call.workspace = workspace;
    assert_ok(attune_plan_execute(plan, &inputs.call));
    assert_ok(at_inputs_guards(&inputs));
    *bytes = inputs.buffer[ATTUNE_O].bytes;
    unsigned char *o = malloc(*bytes);
    memcpy(o, inputs.call.tensor[ATTUNE_O].data, *bytes);
    free(workspace);
    at_inputs_free(&inputs);
    return o;
}

/* ---- Which kernel ----------------------------------------------------------------------------------------------- */

static const char large[] = "b2,h4,hkv2,sq512,skv4096,d64,fp32,causal";

/* One query was two to three times slower by a plan for 512 of them than by a plan of its own. */
static void a_short_call_has_the_kernel_of_a_short_plan(void **state)
{
    (void)state;
    static const char *const shorter[] = {
        "b2,h4,hkv2,sq1,skv4096,d64,fp32,causal",  "b2,h4,hkv2,sq1,skv512,d64,fp32,causal",
        "b2,h4,hkv2,sq8,skv4096,d64,fp32,causal",  "b2,h4,hkv2,sq64,skv4096,d64,fp32,causal",
        "b2,h4,hkv2,sq64,skv64,d64,fp32,causal",   "b2,h4,hkv2,sq16,skv64,d64,fp32,causal",
        "b2,h4,hkv2,sq512,skv512,d64,fp32,causal", "b2,h4,hkv2,sq256,skv4096,d64,fp32,causal",
    };
    attune_plan *plan = plan_of(large, NULL);
    assert_string_equal(kernel_for(plan, large), attune_plan_kernel(plan));
    for (size_t i = 0; i < sizeof shorter / sizeof shorter[0]; ++i) {
        attune_context *fresh = context; /* what was planned before must not answer */
        open_context(NULL);
        attune_plan *exact = plan_of(shorter[i], NULL);
        assert_string_equal(kernel_for(plan, shorter[i]), attune_plan_kernel(exact));
        attune_plan_destroy(exact);
        close_context(NULL);
        context = fresh;
    }
    attune_plan_destroy(plan);
}

/* The same bits as by the kernel that is said to run, which has the plan's workspace. */
static void the_kernel_that_is_named_runs(void **state)
{
    (void)state;
    static const char *const shorter[] = {"b2,h4,hkv2,sq1,skv4000,d64,fp32,causal",
                                          "b1,h4,hkv2,sq3,skv400,d64,fp32,causal",
                                          "b2,h4,hkv2,sq33,skv3900,d64,fp32,causal"};
    attune_plan *plan = plan_of(large, NULL);
    for (size_t i = 0; i < sizeof shorter / sizeof shorter[0]; ++i) {
        size_t bytes, bytes_named, most, own;
        attune_problem problem;
        attune_call call;
        attune_plan *named = plan_of(shorter[i], kernel_for(plan, shorter[i]));
        unsigned char *o = execute(plan, shorter[i], &bytes);
        unsigned char *o_named = execute(named, shorter[i], &bytes_named);
        assert_int_equal(bytes, bytes_named);
        assert_memory_equal(o, o_named, bytes);
        assert_ok(attune_problem_parse(shorter[i], &problem));
        assert_ok(attune_call_init(&call, &problem));
        assert_ok(attune_plan_workspace(plan, NULL, &most));
        assert_ok(attune_plan_workspace(plan, &call, &own));
        assert_true(own <= most);
        free(o);
        free(o_named);
        attune_plan_destroy(named);
    }
    attune_plan_destroy(plan);
}

/* ---- Which not -------------------------------------------------------------------------------------------------- */

/* The batch has no say, nor have the lengths of others. */
static void the_batch_does_not_choose(void **state)
{
    (void)state;
    char first[512];
    attune_plan *plan = plan_of("b16,h4,hkv2,sq64,skv4096,d64,fp32", NULL);
    (void)strcpy(first, kernel_for(plan, "b1,h4,hkv2,sq2,skv700,d64,fp32"));
    assert_string_equal(kernel_for(plan, "b16,h4,hkv2,sq2,skv700,d64,fp32"), first);
    attune_plan_destroy(plan);
    plan = plan_of("b4,h4,hkv2,sq1,skv8192,d64,fp32,seqused", NULL);
    (void)strcpy(first, kernel_for(plan, "b4,h4,hkv2,sq1,skv8192,d64,fp32,seqused"));
    assert_string_equal(kernel_for(plan, "b1,h4,hkv2,sq1,skv64,d64,fp32,seqused"), first);
    attune_plan_destroy(plan);
    plan = plan_of("b4,h4,hkv2,s512,d64,fp32,varlen=1", NULL);
    assert_string_equal(kernel_for(plan, "b4,h4,hkv2,s1,d64,fp32,varlen=1"), attune_plan_kernel(plan));
    attune_plan_destroy(plan);
}

static void a_sequence_has_its_bits_in_every_batch(void **state)
{
    (void)state;
    attune_plan *plan = plan_of("b8,h4,hkv2,sq128,skv2048,d64,fp16,causal", NULL);
    size_t most;
    assert_ok(attune_plan_workspace(plan, NULL, &most));
    void *workspace = aligned_alloc(256, (most / 256 + 1) * 256);
    for (int queries = 1; queries <= 65; queries += 1 + queries) {
        char text[128];
        attune_problem problem;
        at_inputs inputs;
        at_draw draw = {.seed = 3};
        (void)snprintf(text, sizeof text, "b3,h4,hkv2,sq%d,skv500,d64,fp16,causal", queries);
        assert_ok(attune_problem_parse(text, &problem));
        assert_ok(at_inputs_draw(&problem, &draw, &inputs));
        inputs.call.workspace = workspace;
        inputs.call.workspace_bytes = most;
        const void *o = inputs.call.tensor[ATTUNE_O].data;
        const size_t bytes = inputs.buffer[ATTUNE_O].bytes / 3;
        assert_ok(attune_plan_execute(plan, &inputs.call));
        void *together = malloc(bytes);
        memcpy(together, o, bytes);
        at_inputs_poison(&inputs, (at_poison){0});
        inputs.call.batch = 1;
        assert_ok(attune_plan_execute(plan, &inputs.call));
        if (memcmp(together, o, bytes) != 0) {
            fail_msg("%s: other bits alone than together", text);
        }
        free(together);
        at_inputs_free(&inputs);
    }
    free(workspace);
    attune_plan_destroy(plan);
}

static void a_named_kernel_is_for_all(void **state)
{
    (void)state;
    attune_plan *plan = plan_of(large, "cpu_tiled");
    assert_string_equal(kernel_for(plan, "b1,h4,hkv2,sq1,skv100,d64,fp32,causal"), attune_plan_kernel(plan));
    attune_plan_destroy(plan);
}

static void texts_that_are_too_short_are_refused(void **state)
{
    (void)state;
    char text[4];
    attune_problem problem;
    attune_call call;
    attune_plan *plan = plan_of(large, NULL);
    assert_ok(attune_problem_parse(large, &problem));
    assert_ok(attune_call_init(&call, &problem));
    assert_fails(attune_plan_kernel_for(plan, &call, text, sizeof text), ATTUNE_INVALID_ARGUMENT, "text has 4 bytes");
    assert_fails(attune_plan_kernel_for(plan, &call, NULL, 9), ATTUNE_INVALID_ARGUMENT, "text is NULL");
    call.seqlen_kv = 5000;
    assert_fails(attune_plan_kernel_for(plan, &call, text, sizeof text), ATTUNE_INVALID_ARGUMENT, "seqlen_kv");
    attune_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_call_has_the_kernel_of_a_short_plan),
        cmocka_unit_test(the_kernel_that_is_named_runs),
        cmocka_unit_test(the_batch_does_not_choose),
        cmocka_unit_test(a_sequence_has_its_bits_in_every_batch),
        cmocka_unit_test(a_named_kernel_is_for_all),
        cmocka_unit_test(texts_that_are_too_short_are_refused),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
