/* A plan on a context of its own, with inputs and a workspace, and what O is by one call of it. */
#ifndef TESTS_LIBRARY_SCENE_H
#define TESTS_LIBRARY_SCENE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cm.h"
#include "reference/inputs.h"

typedef struct scene {
    attune_context *context;
    attune_plan *plan;
    at_inputs inputs;
    void *workspace;
    unsigned char *wanted; /* O by attune_plan_execute */
} scene;

/* `kernel` NULL: the planner's choice. O is poisoned afterwards. */
static inline void open_scene(scene *on, const attune_options *options, const char *text, const char *kernel)
{
    attune_problem problem;
    at_draw draw = {.seed = 11};
    attune_plan_options plan_options;
    attune_plan_options_init(&plan_options);
    plan_options.kernel = kernel;
    assert_ok(attune_context_create(options, &on->context));
    assert_ok(attune_problem_parse(text, &problem));
    assert_ok(attune_plan_create(on->context, &problem, &plan_options, &on->plan));
    assert_ok(at_inputs_draw(&problem, &draw, &on->inputs));
    assert_ok(attune_plan_workspace(on->plan, NULL, &on->inputs.call.workspace_bytes));
    on->workspace = aligned_alloc(256, (on->inputs.call.workspace_bytes / 256 + 1) * 256);
    on->inputs.call.workspace = on->workspace;
    assert_ok(attune_plan_execute(on->plan, &on->inputs.call));
    on->wanted = malloc(on->inputs.buffer[ATTUNE_O].bytes);
    memcpy(on->wanted, on->inputs.call.tensor[ATTUNE_O].data, on->inputs.buffer[ATTUNE_O].bytes);
    at_inputs_poison(&on->inputs, (at_poison){0});
}

static inline bool is_as_wanted(const scene *on)
{
    return memcmp(on->wanted, on->inputs.call.tensor[ATTUNE_O].data, on->inputs.buffer[ATTUNE_O].bytes) == 0;
}

static inline void close_scene(scene *on)
{
    free(on->wanted);
    free(on->workspace);
    at_inputs_free(&on->inputs);
    attune_plan_destroy(on->plan);
    attune_context_destroy(on->context);
}

#endif
