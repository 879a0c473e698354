/* Programs that were built with an older or a newer header than the library's. Their structs are in memory of exactly
 * their size, so that sanitizers see a byte too many. */
#include "base/cm.h"

#include <stdlib.h>

enum { ELEMENTS = 4 * 8 };

static const size_t older_options = offsetof(attune_options, pack);
static const size_t older_problem = offsetof(attune_problem, role_dtype);
static const size_t older_call = offsetof(attune_call, tensor) + 4 * sizeof(attune_tensor);
static const char text[] = "b1,h1,s4,d8,fp32";

typedef struct program {
    attune_options *options;
    attune_problem *problem;
    attune_call *call;
    attune_context *context;
    attune_plan *plan;
    float *buffer[4];
} program;

static void open_program(program *on, size_t options, size_t problem, size_t call)
{
    *on = (program){.options = malloc(options), .problem = malloc(problem), .call = malloc(call)};
    attune_options_init_sized(on->options, options);
    on->options->target = "cpu";
    on->options->threads = 1;
    assert_ok(attune_problem_parse_sized(text, on->problem, problem));
    assert_ok(attune_call_init_sized(on->call, on->problem, call));
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        on->buffer[role] = aligned_alloc(16, ELEMENTS * sizeof(float));
        for (int i = 0; i < ELEMENTS; ++i) {
            on->buffer[role][i] = (float)(i % 7) - 3.0f;
        }
        on->call->tensor[role].data = on->buffer[role];
    }
}

static void close_program(program *on)
{
    attune_plan_destroy(on->plan);
    attune_context_destroy(on->context);
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        free(on->buffer[role]);
    }
    free(on->options);
    free(on->problem);
    free(on->call);
}

static void run_program(program *on)
{
    size_t bytes = 1;
    assert_ok(attune_context_create(on->options, &on->context));
    assert_ok(attune_supports(on->context, on->problem, NULL));
    assert_ok(attune_plan_create(on->context, on->problem, NULL, &on->plan));
    assert_ok(attune_plan_workspace(on->plan, on->call, &bytes));
    assert_int_equal(bytes, 0);
    assert_ok(attune_plan_execute(on->plan, on->call));
}

static void older_programs_get_the_same(void **state)
{
    program today, older;
    char printed[ATTUNE_PROBLEM_TEXT_MAX];
    (void)state;
    open_program(&today, sizeof(attune_options), sizeof(attune_problem), sizeof(attune_call));
    open_program(&older, older_options, older_problem, older_call);
    run_program(&today);
    run_program(&older);
    assert_memory_equal(today.buffer[ATTUNE_O], older.buffer[ATTUNE_O], ELEMENTS * sizeof(float));
    assert_ok(attune_problem_check(older.problem));
    assert_ok(attune_problem_print(older.problem, printed, sizeof printed));
    assert_string_equal(printed, text);
    assert_true(attune_problem_hash(older.problem) == attune_problem_hash(today.problem));
    assert_true(attune_problem_flops(older.problem) == attune_problem_flops(today.problem));
    close_program(&today);
    close_program(&older);
}

static void newer_programs_may_leave_the_rest_alone(void **state)
{
    program newer;
    (void)state;
    open_program(&newer, sizeof(attune_options) + 8, sizeof(attune_problem) + 8, sizeof(attune_call) + 40);
    run_program(&newer);
    ((unsigned char *)newer.call)[sizeof(attune_call) + 8] = 1;
    assert_fails(attune_plan_execute(newer.plan, newer.call), ATTUNE_UNSUPPORTED, "call.size");
    ((unsigned char *)newer.problem)[sizeof(attune_problem)] = 1;
    assert_fails(attune_problem_check(newer.problem), ATTUNE_UNSUPPORTED, "problem.size");
    attune_context *context;
    ((unsigned char *)newer.options)[sizeof(attune_options)] = 1;
    assert_fails(attune_context_create(newer.options, &context), ATTUNE_UNSUPPORTED, "options.size");
    close_program(&newer);
}

static void sizes_without_the_least(void **state)
{
    program on;
    size_t bytes;
    attune_context *context;
    (void)state;
    open_program(&on, older_options, older_problem, older_call);
    run_program(&on);
    on.call->size = older_call - 1;
    assert_fails(attune_plan_execute(on.plan, on.call), ATTUNE_INVALID_ARGUMENT, "attune_call_init sets it");
    assert_fails(attune_plan_workspace(on.plan, on.call, &bytes), ATTUNE_INVALID_ARGUMENT, "call.size");
    on.problem->size = 0;
    assert_fails(attune_problem_check(on.problem), ATTUNE_INVALID_PROBLEM, "problem.size is 0");
    assert_true(attune_problem_hash(on.problem) == 0);
    on.options->size = older_options - 1;
    assert_fails(attune_context_create(on.options, &context), ATTUNE_INVALID_ARGUMENT, "options.size");
    assert_fails(attune_plan_execute(on.plan, NULL), ATTUNE_INVALID_ARGUMENT, "call is NULL");
    close_program(&on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older_programs_get_the_same),
        cmocka_unit_test(newer_programs_may_leave_the_rest_alone),
        cmocka_unit_test(sizes_without_the_least),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
