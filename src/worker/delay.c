/* An arm whose warps wait at random behind every barrier: what only comes out right because a warp is in time gives
 * other bits then. The code is made for this alone (cuda/delays.h), and the arm runs it until it is told otherwise. */
#include "base/status.h"
#include "core/recipe.h"
#include "worker/worker_ops.h"

void at_worker_undelay(at_worker *worker, at_worker_arm *arm)
{
    attune_plan_destroy(arm->late);
    arm->late = NULL;
    if (arm->late_loaded != NULL) {
        worker->device->ops->unload(arm->late_loaded);
        arm->late_loaded = NULL;
    }
}

/* What the arm's own code was made of. NOTE: what is loaded may have more workspace than its recipe asked for. */
static attune_status recipe_of(const at_worker *worker, const at_worker_arm *arm, at_recipe *recipe)
{
    const attune_plan *plan = at_arm_plan(&arm->arm);
    AT_FAIL_IF(plan == NULL, ATTUNE_UNSUPPORTED, "%s is no kernel", arm->name);
    if (arm->candidate.data != NULL) {
        *recipe = arm->candidate.data->recipe;
    } else {
        AT_FORWARD(
            at_recipe_ask(plan->loaded->kernel, &arm->problem, &worker->device->target, &plan->loaded->config, recipe));
    }
    recipe->delays = true;
    return ATTUNE_OK;
}

static attune_status delay_arm(const at_worker *worker, at_worker_arm *arm)
{
    at_recipe recipe;
    AT_FAIL_IF(worker->device->target.kind != ATTUNE_TARGET_CUDA, ATTUNE_UNSUPPORTED, "%s: delays are for GPUs",
               arm->name);
    AT_FORWARD(recipe_of(worker, arm, &recipe));
    AT_FORWARD(worker->device->ops->load(worker->device, &recipe, &arm->late_loaded));
    return at_plan_bind(&arm->problem, arm->late_loaded, AT_ORIGIN_NAMED, &arm->late);
}

static attune_status delay(at_worker *worker, const json_t *request, json_t *answer)
{
    at_worker_arm *arm;
    (void)answer;
    AT_FORWARD(at_worker_arm_of(worker, request, "arm", &arm));
    at_worker_undelay(worker, arm);
    if (!json_is_true(json_object_get(request, "on"))) {
        return ATTUNE_OK;
    }
    attune_status status = delay_arm(worker, arm);
    if (status != ATTUNE_OK) {
        at_worker_undelay(worker, arm);
    }
    return status;
}

const at_worker_op at_worker_delay_ops[] = {{"delay", true, delay}, {NULL, false, NULL}};
