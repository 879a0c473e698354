/* What can be done with a plan once it is made. */
#include "core/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/call.h"
#include "core/config.h"
#include "core/term.h"

void attune_plan_destroy(attune_plan *plan)
{
    if (plan != NULL) {
        free(plan->recents);
    }
    free(plan); /* the loaded kernel is the context's */
}

const char *attune_plan_kernel(const attune_plan *plan)
{
    return plan == NULL ? "" : plan->kernel_text;
}

const char *attune_plan_origin(const attune_plan *plan)
{
    static const char *const name[] = {[AT_ORIGIN_HEURISTIC] = "heuristic",
                                       [AT_ORIGIN_MEASURED] = "measured",
                                       [AT_ORIGIN_PROVEN] = "proven",
                                       [AT_ORIGIN_NAMED] = "named"};
    return plan == NULL ? "" : name[plan->origin];
}

uint32_t attune_plan_traits(const attune_plan *plan)
{
    return plan == NULL ? 0 : at_kernel_traits(plan->loaded->kernel, &plan->problem);
}

size_t attune_plan_memory(const attune_plan *plan)
{
    if (plan == NULL) {
        return 0;
    }
    return sizeof *plan + (plan->recents == NULL ? 0 : at_recents_bytes(plan->recents));
}

/* ---- Which variant ---------------------------------------------------------------------------------------------- */

static int32_t place_of(const int64_t *lengths, int32_t count, int64_t length)
{
    int32_t at = 0;
    while (at < count - 1 && lengths[at] < length) {
        ++at;
    }
    return at;
}

/* Of a call whose sizes have been checked, or will be: those beyond the plan's get the last. */
static at_plan_choice variant_of(const attune_plan *plan, const attune_call *call)
{
    const at_plan_choices *all = plan->variants;
    if (all == NULL) {
        return (at_plan_choice){plan->loaded, plan->workspace_max};
    }
    return all->variant[all->which[place_of(all->queries, all->rows, call->seqlen_q)]
                                  [place_of(all->keys, all->columns, call->seqlen_kv)]];
}

attune_status attune_plan_kernel_for(const attune_plan *plan, const attune_call *call, char *text, size_t bytes)
{
    attune_call room;
    char whole[AT_KERNEL_TEXT_MAX];
    AT_FAIL_IF(plan == NULL || text == NULL, ATTUNE_INVALID_ARGUMENT, "%s is NULL", plan == NULL ? "plan" : "text");
    AT_FORWARD(at_call_take(call, &room, &call));
    AT_FORWARD(at_call_check_sizes(&plan->problem, call));
    const at_loaded *loaded = variant_of(plan, call).loaded;
    if (loaded == plan->loaded) {
        memcpy(whole, plan->kernel_text, sizeof whole);
    } else {
        at_config_print(loaded->kernel, &loaded->config, whole);
    }
    AT_FAIL_IF(strlen(whole) >= bytes, ATTUNE_INVALID_ARGUMENT, "text has %zu bytes: %zu are needed", bytes,
               strlen(whole) + 1);
    memcpy(text, whole, strlen(whole) + 1);
    return ATTUNE_OK;
}

/* ---- Workspace -------------------------------------------------------------------------------------------------- */

static attune_status exact_workspace(at_plan_choice by, const attune_args *args, size_t *bytes)
{
    at_sizes sizes;
    int64_t value = 0;
    if (by.workspace_max == 0) { /* the bound over all calls */
        *bytes = 0;
        return ATTUNE_OK;
    }
    at_sizes_fill(&sizes, args, &by.loaded->device->target);
    AT_FORWARD(at_term_value(&by.loaded->resources.workspace, &sizes, &value));
    AT_FAIL_IF(value < 0 || (uint64_t)value > by.workspace_max, ATTUNE_INTERNAL,
               "kernel %s asks for %lld bytes of workspace, outside of its own bound of %zu", by.loaded->kernel->name,
               (long long)value, by.workspace_max);
    *bytes = (size_t)value;
    return ATTUNE_OK;
}

attune_status attune_plan_workspace(const attune_plan *plan, const attune_call *call, size_t *bytes)
{
    attune_call room;
    attune_args args;
    AT_FAIL_IF(plan == NULL, ATTUNE_INVALID_ARGUMENT, "plan is NULL");
    AT_FAIL_IF(bytes == NULL, ATTUNE_INVALID_ARGUMENT, "bytes is NULL");
    if (call == NULL) {
        *bytes = plan->workspace_max;
        return ATTUNE_OK;
    }
    AT_FORWARD(at_call_take(call, &room, &call));
    AT_FORWARD(at_call_check_sizes(&plan->problem, call));
    at_call_args(&plan->problem, call, &args);
    return exact_workspace(variant_of(plan, call), &args, bytes);
}

/* That it is aligned, and not NULL where it has bytes, at_call_check_spans has seen to. */
static attune_status check_workspace(at_plan_choice by, const attune_call *call, const attune_args *args)
{
    size_t bytes = 0;
    AT_FORWARD(exact_workspace(by, args, &bytes));
    AT_FAIL_IF(call->workspace_bytes < bytes, ATTUNE_WORKSPACE_TOO_SMALL,
               "call.workspace_bytes is %zu, %zu bytes are needed (attune_plan_workspace)", call->workspace_bytes,
               bytes);
    return ATTUNE_OK;
}

/* ---- Executing -------------------------------------------------------------------------------------------------- */

static attune_status inspect(const at_loaded *loaded, const attune_args *args, uint64_t buffers)
{
    const at_device_ops *ops = loaded->device->ops;
    return ops->inspect == NULL ? ATTUNE_OK : ops->inspect(loaded, args, buffers);
}

/* Everything about a call that is checked, and what a kernel gets of it. */
static attune_status prepare(const attune_plan *plan, at_plan_choice by, const attune_call *call, at_spans *spans,
                             attune_args *args)
{
    const at_loaded *loaded = by.loaded;
    AT_FORWARD(at_call_check_spans(&plan->problem, call, spans));
    AT_FAIL_IF(call->stream != NULL && loaded->device->target.kind == ATTUNE_TARGET_CPU, ATTUNE_INVALID_ARGUMENT,
               "call.stream is %p; the CPU has no streams, so it must be NULL", call->stream);
    at_call_args(&plan->problem, call, args);
    AT_FORWARD(check_workspace(by, call, args));
    memcpy(args->param, loaded->config.value, sizeof args->param);
    return inspect(loaded, args, UINT64_MAX);
}

/* Keeps the call where a place is given. */
static attune_status execute_alone(const attune_plan *plan, const attune_call *call, at_recent *recent)
{
    at_spans spans;
    at_made_room room;
    const at_plan_choice by = variant_of(plan, call);
    AT_FORWARD(prepare(plan, by, call, &spans, &room.made.args));
    AT_FORWARD(at_launch(by.loaded, &room.made, call->stream));
    at_recent_keep(plan->recents, recent, call, &room.made);
    return ATTUNE_OK;
}

/* ---- Calls that come again, or that are like others -------------------------------------------------------------- */

/* The one of a plan that keeps its calls: it has no others. */
static at_plan_choice only_variant(const attune_plan *plan)
{
    return (at_plan_choice){plan->loaded, plan->workspace_max};
}

/* The model's args become those of a call that passed by being like it. */
static attune_status change_args(const attune_plan *plan, const attune_call *call, const at_change *change,
                                 attune_args *args)
{
    at_call_args_change(&plan->problem, call, change, args);
    if (change->sizes != 0) {
        AT_FORWARD(check_workspace(only_variant(plan), call, args));
    }
    return inspect(plan->loaded, args, change->moved);
}

/* Makes the model this call, of what it is or anew. */
static attune_status make_model(const attune_plan *plan, const attune_call *call, at_model *model)
{
    const at_loaded *loaded = plan->loaded;
    at_change change = AT_CHANGE_ALL;
    const bool like =
        model->kept && at_call_change(&plan->problem, plan->recents->roles, &model->call, call, &model->spans, &change);
    model->kept = false; /* until it is whole again */
    if (like) {
        AT_FORWARD(change_args(plan, call, &change, &model->made->args));
    } else {
        change = AT_CHANGE_ALL;
        AT_FORWARD(prepare(plan, only_variant(plan), call, &model->spans, &model->made->args));
    }
    AT_FORWARD(loaded->device->ops->make(loaded, model->made, &change));
    at_call_copy(&model->call, call, plan->recents->roles);
    model->kept = true;
    return ATTUNE_OK;
}

static attune_status execute_by_model(const attune_plan *plan, const attune_call *call, at_model *model,
                                      at_recent *recent)
{
    AT_FORWARD(make_model(plan, call, model));
    AT_FORWARD(plan->loaded->device->ops->launch(plan->loaded, model->made, call->stream));
    at_recent_keep(plan->recents, recent, call, model->made);
    return ATTUNE_OK;
}

static attune_status execute_new(const attune_plan *plan, const attune_call *call, at_recent *recent)
{
    at_model *model = at_model_take(plan->recents);
    attune_status status =
        model == NULL ? execute_alone(plan, call, recent) : execute_by_model(plan, call, model, recent);
    at_model_leave(model);
    return status;
}

attune_status attune_plan_execute(const attune_plan *plan, const attune_call *call)
{
    attune_call room;
    AT_FAIL_IF(plan == NULL, ATTUNE_INVALID_ARGUMENT, "plan is NULL");
    AT_FORWARD(at_call_take(call, &room, &call));
    AT_FORWARD(at_device_check(plan->loaded->device));
    if (plan->recents == NULL) {
        return execute_alone(plan, call, NULL);
    }
    at_recent *recent = at_recent_take(plan->recents, call);
    attune_status status = at_recent_is(plan->recents, recent, call)
                               ? plan->loaded->device->ops->launch(plan->loaded, recent->made, call->stream)
                               : execute_new(plan, call, recent);
    at_recent_leave(recent);
    return status;
}

/* ---- Executing by items ----------------------------------------------------------------------------------------- */

static attune_status check_items(const attune_plan *plan)
{
    AT_FAIL_IF(plan == NULL, ATTUNE_INVALID_ARGUMENT, "plan is NULL");
    AT_FAIL_IF(plan->loaded->device->ops->run_items == NULL, ATTUNE_UNSUPPORTED,
               "items are of plans for a CPU: this one is for %s", plan->loaded->device->target.model);
    return at_device_check(plan->loaded->device);
}

static attune_status check_step(const at_loaded *loaded, int32_t step)
{
    AT_FAIL_IF(step < 0 || step >= loaded->steps.count, ATTUNE_INVALID_ARGUMENT, "step is %d: this call has 0 ... %d",
               step, loaded->steps.count - 1);
    return ATTUNE_OK;
}

attune_status attune_plan_steps(const attune_plan *plan, const attune_call *call, int32_t *steps)
{
    attune_call room;
    AT_FORWARD(check_items(plan));
    AT_FAIL_IF(steps == NULL, ATTUNE_INVALID_ARGUMENT, "steps is NULL");
    AT_FORWARD(at_call_take(call, &room, &call));
    AT_FORWARD(at_call_check_sizes(&plan->problem, call));
    *steps = variant_of(plan, call).loaded->steps.count;
    return ATTUNE_OK;
}

attune_status attune_plan_items(const attune_plan *plan, const attune_call *call, int32_t step, int64_t *items)
{
    attune_call room;
    attune_args args;
    AT_FORWARD(check_items(plan));
    AT_FAIL_IF(items == NULL, ATTUNE_INVALID_ARGUMENT, "items is NULL");
    AT_FORWARD(at_call_take(call, &room, &call));
    AT_FORWARD(at_call_check_sizes(&plan->problem, call));
    const at_loaded *loaded = variant_of(plan, call).loaded;
    AT_FORWARD(check_step(loaded, step));
    at_call_args(&plan->problem, call, &args);
    return loaded->device->ops->count_items(loaded, &args, step, items);
}

attune_status attune_plan_scratch(const attune_plan *plan, size_t *bytes)
{
    AT_FORWARD(check_items(plan));
    AT_FAIL_IF(bytes == NULL, ATTUNE_INVALID_ARGUMENT, "bytes is NULL");
    *bytes = (size_t)plan->loaded->resources.scratch_bytes;
    for (int32_t i = 0; plan->variants != NULL && i < plan->variants->count; ++i) {
        const size_t own = (size_t)plan->variants->variant[i].loaded->resources.scratch_bytes;
        *bytes = own > *bytes ? own : *bytes;
    }
    return ATTUNE_OK;
}

static attune_status check_scratch(const at_loaded *loaded, const void *scratch, size_t bytes)
{
    const int64_t needed = loaded->resources.scratch_bytes;
    AT_FAIL_IF(bytes < (size_t)needed || (needed > 0 && scratch == NULL), ATTUNE_INVALID_ARGUMENT,
               "scratch has %zu bytes%s: %lld are needed (attune_plan_scratch)", bytes,
               scratch == NULL ? " and is NULL" : "", (long long)needed);
    AT_FAIL_IF((uintptr_t)scratch % 64 != 0, ATTUNE_INVALID_ARGUMENT,
               "scratch is %d bytes past a multiple of 64: a multiple is needed", (int)((uintptr_t)scratch % 64));
    return ATTUNE_OK;
}

attune_status attune_execute_items(const attune_plan *plan, const attune_call *call, int32_t step, int64_t first,
                                   int64_t count, void *scratch, size_t scratch_bytes)
{
    attune_call room;
    attune_args args;
    at_spans spans;
    int64_t items = 0;
    AT_FORWARD(check_items(plan));
    AT_FORWARD(at_call_take(call, &room, &call));
    const at_plan_choice by = variant_of(plan, call);
    AT_FORWARD(check_step(by.loaded, step));
    AT_FORWARD(check_scratch(by.loaded, scratch, scratch_bytes));
    AT_FORWARD(prepare(plan, by, call, &spans, &args));
    AT_FORWARD(by.loaded->device->ops->count_items(by.loaded, &args, step, &items));
    AT_FAIL_IF(first < 0 || count < 0 || first > items || count > items - first, ATTUNE_INVALID_ARGUMENT,
               "items: %lld from %lld on: step %d has %lld", (long long)count, (long long)first, step,
               (long long)items);
    return by.loaded->device->ops->run_items(by.loaded, &args, step, first, count, scratch);
}
