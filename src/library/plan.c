/* What can be done with a plan once it is made. */
#include "core/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/call.h"
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
    return plan == NULL ? 0 : plan->loaded->kernel->traits;
}

size_t attune_plan_memory(const attune_plan *plan)
{
    if (plan == NULL) {
        return 0;
    }
    return sizeof *plan + (plan->recents == NULL ? 0 : at_recents_bytes(plan->recents));
}

static attune_status exact_workspace(const attune_plan *plan, const attune_args *args, size_t *bytes)
{
    at_sizes sizes;
    int64_t value = 0;
    if (plan->workspace_max == 0) { /* the bound over all calls */
        *bytes = 0;
        return ATTUNE_OK;
    }
    at_sizes_fill(&sizes, args, &plan->loaded->device->target);
    AT_FORWARD(at_term_value(&plan->loaded->resources.workspace, &sizes, &value));
    AT_FAIL_IF(value < 0 || (uint64_t)value > plan->workspace_max, ATTUNE_INTERNAL,
               "kernel %s asks for %lld bytes of workspace, outside of its own bound of %zu", plan->kernel_text,
               (long long)value, plan->workspace_max);
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
    return exact_workspace(plan, &args, bytes);
}

/* That it is aligned, and not NULL where it has bytes, at_call_check_spans has seen to. */
static attune_status check_workspace(const attune_plan *plan, const attune_call *call, const attune_args *args)
{
    size_t bytes = 0;
    AT_FORWARD(exact_workspace(plan, args, &bytes));
    AT_FAIL_IF(call->workspace_bytes < bytes, ATTUNE_WORKSPACE_TOO_SMALL,
               "call.workspace_bytes is %zu, %zu bytes are needed (attune_plan_workspace)", call->workspace_bytes,
               bytes);
    return ATTUNE_OK;
}

static attune_status inspect(const attune_plan *plan, const attune_args *args, uint64_t buffers)
{
    const at_device_ops *ops = plan->loaded->device->ops;
    return ops->inspect == NULL ? ATTUNE_OK : ops->inspect(plan->loaded, args, buffers);
}

/* Everything about a call that is checked, and what a kernel is told of it. */
static attune_status prepare(const attune_plan *plan, const attune_call *call, at_spans *spans, attune_args *args)
{
    const at_loaded *loaded = plan->loaded;
    AT_FORWARD(at_call_check_spans(&plan->problem, call, spans));
    AT_FAIL_IF(call->stream != NULL && loaded->device->target.kind == ATTUNE_TARGET_CPU, ATTUNE_INVALID_ARGUMENT,
               "call.stream is %p; the CPU has no streams, so it must be NULL", call->stream);
    at_call_args(&plan->problem, call, args);
    AT_FORWARD(check_workspace(plan, call, args));
    memcpy(args->param, loaded->config.value, sizeof args->param);
    return inspect(plan, args, UINT64_MAX);
}

/* Keeps the call where a place is given. */
static attune_status execute_alone(const attune_plan *plan, const attune_call *call, at_recent *recent)
{
    at_spans spans;
    at_made_room room;
    AT_FORWARD(prepare(plan, call, &spans, &room.made.args));
    AT_FORWARD(at_launch(plan->loaded, &room.made, call->stream));
    at_recent_keep(plan->recents, recent, call, &room.made);
    return ATTUNE_OK;
}

/* ---- Calls that come again, or that are like others -------------------------------------------------------------- */

/* The model's args become those of a call that passed by being like it. */
static attune_status change_args(const attune_plan *plan, const attune_call *call, const at_change *change,
                                 attune_args *args)
{
    at_call_args_change(&plan->problem, call, change, args);
    if (change->sizes != 0) {
        AT_FORWARD(check_workspace(plan, call, args));
    }
    return inspect(plan, args, change->moved);
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
        AT_FORWARD(prepare(plan, call, &model->spans, &model->made->args));
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
