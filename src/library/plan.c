/* What can be done with a plan once it is made. */
#include "core/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/call.h"
#include "core/term.h"

enum { WORKSPACE_ALIGN = 256 };

void attune_plan_destroy(attune_plan *plan)
{
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

static attune_status exact_workspace(const attune_plan *plan, const attune_args *args, size_t *bytes)
{
    at_sizes sizes;
    int64_t value = 0;
    if (plan->workspace_max == 0) { /* the bound over all calls */
        *bytes = 0;
        return ATTUNE_OK;
    }
    at_sizes_fill(&sizes, args, &plan->loaded->device->target);
    AT_FORWARD(at_term_evaluate(&plan->loaded->resources.workspace, &sizes, &value));
    AT_FAIL_IF(value < 0 || (uint64_t)value > plan->workspace_max, ATTUNE_INTERNAL,
               "kernel %s asks for %lld bytes of workspace, outside of its own bound of %zu", plan->kernel_text,
               (long long)value, plan->workspace_max);
    *bytes = (size_t)value;
    return ATTUNE_OK;
}

/* The sizes alone: buffers need not be known to ask how much workspace a call takes. */
static attune_status check_sizes(const attune_problem *problem, const attune_call *call)
{
    bool varlen = problem->varlen != 0;
    const struct {
        const char *name;
        int64_t value, least, most;
    } field[] = {
        {"batch", call->batch, 1, problem->batch},
        {"heads_q", call->heads_q, 1, problem->heads_q},
        {"heads_kv", call->heads_kv, 1, problem->heads_kv},
        {"seqlen_q", call->seqlen_q, 0, problem->seqlen_q},
        {"seqlen_kv", call->seqlen_kv, 0, problem->seqlen_kv},
        {"total_q", varlen ? call->total_q : 0, 0, problem->batch * problem->seqlen_q},
        {"total_kv", varlen ? call->total_kv : 0, 0, problem->batch * problem->seqlen_kv},
    };
    AT_FAIL_IF(call->size != sizeof *call, ATTUNE_INVALID_ARGUMENT,
               "call.size is %zu, expected %zu: fill it in with attune_call_init", call->size, sizeof *call);
    for (size_t i = 0; i < sizeof field / sizeof field[0]; ++i) {
        AT_FAIL_IF(field[i].value < field[i].least || field[i].value > field[i].most, ATTUNE_INVALID_ARGUMENT,
                   "call.%s is %lld, the plan allows %lld ... %lld", field[i].name, (long long)field[i].value,
                   (long long)field[i].least, (long long)field[i].most);
    }
    AT_FAIL_IF(call->heads_q % call->heads_kv != 0, ATTUNE_INVALID_ARGUMENT,
               "call.heads_q is %lld, no multiple of heads_kv %lld", (long long)call->heads_q,
               (long long)call->heads_kv);
    return ATTUNE_OK;
}

attune_status attune_plan_workspace(const attune_plan *plan, const attune_call *call, size_t *bytes)
{
    attune_args args;
    AT_FAIL_IF(plan == NULL, ATTUNE_INVALID_ARGUMENT, "plan is NULL");
    AT_FAIL_IF(bytes == NULL, ATTUNE_INVALID_ARGUMENT, "bytes is NULL");
    if (call == NULL) {
        *bytes = plan->workspace_max;
        return ATTUNE_OK;
    }
    AT_FORWARD(check_sizes(&plan->problem, call));
    at_call_args(&plan->problem, call, &args);
    return exact_workspace(plan, &args, bytes);
}

static attune_status check_workspace(const attune_plan *plan, const attune_call *call, const attune_args *args)
{
    size_t bytes = 0;
    AT_FORWARD(exact_workspace(plan, args, &bytes));
    if (bytes == 0) {
        return ATTUNE_OK;
    }
    AT_FAIL_IF(call->workspace == NULL, ATTUNE_WORKSPACE_TOO_SMALL,
               "call.workspace is NULL, %zu bytes are needed (attune_plan_workspace)", bytes);
    AT_FAIL_IF(call->workspace_bytes < bytes, ATTUNE_WORKSPACE_TOO_SMALL,
               "call.workspace_bytes is %zu, %zu are needed (attune_plan_workspace)", call->workspace_bytes, bytes);
    AT_FAIL_IF((uintptr_t)call->workspace % WORKSPACE_ALIGN != 0, ATTUNE_INVALID_ARGUMENT,
               "call.workspace %p is not a multiple of %d bytes", call->workspace, WORKSPACE_ALIGN);
    return ATTUNE_OK;
}

attune_status attune_plan_execute(const attune_plan *plan, const attune_call *call)
{
    attune_args args;
    AT_FAIL_IF(plan == NULL, ATTUNE_INVALID_ARGUMENT, "plan is NULL");
    const at_loaded *loaded = plan->loaded;
    const at_device_ops *ops = loaded->device->ops;
    AT_FORWARD(at_call_check(&plan->problem, call));
    AT_FAIL_IF(call->stream != NULL && loaded->device->target.kind == ATTUNE_TARGET_CPU, ATTUNE_INVALID_ARGUMENT,
               "call.stream is %p; the CPU has no streams, so it must be NULL", call->stream);
    at_call_args(&plan->problem, call, &args);
    AT_FORWARD(check_workspace(plan, call, &args));
    memcpy(args.param, loaded->config.value, sizeof args.param);
    if (ops->inspect != NULL) {
        AT_FORWARD(ops->inspect(loaded, &args));
    }
    return ops->launch(loaded, &args, call->stream);
}
