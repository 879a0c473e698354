#include "core/plan.h"

#include <stdlib.h>

#include "base/status.h"
#include "core/term.h"

/* Workspace terms do not decrease when a size grows, so their value at the problem's maxima bounds every call's. */
attune_status at_plan_workspace_most(const attune_problem *problem, const at_loaded *loaded, size_t *bytes)
{
    at_sizes sizes;
    int64_t value = 0;
    attune_args args = {
        .batch = problem->batch,
        .heads_q = problem->heads_q,
        .heads_kv = problem->heads_kv,
        .seqlen_q = problem->seqlen_q,
        .seqlen_kv = problem->seqlen_kv,
        .total_q = problem->batch * problem->seqlen_q,
        .total_kv = problem->batch * problem->seqlen_kv,
    };
    at_sizes_fill(&sizes, &args, &loaded->device->target);
    if (at_term_evaluate(&loaded->resources.workspace, &sizes, &value) != ATTUNE_OK) {
        return at_fail_in(ATTUNE_UNSUPPORTED, "kernel %s: workspace of this problem", loaded->kernel->name);
    }
    AT_FAIL_IF(value < 0, ATTUNE_INTERNAL, "kernel %s: its workspace for this problem is %lld bytes",
               loaded->kernel->name, (long long)value);
    *bytes = (size_t)value;
    return ATTUNE_OK;
}

attune_status at_plan_bind(const attune_problem *problem, const at_loaded *loaded, at_origin origin, attune_plan **plan)
{
    size_t workspace = 0;
    *plan = NULL;
    AT_FORWARD(attune_problem_check(problem));
    AT_FORWARD(at_plan_workspace_most(problem, loaded, &workspace));
    attune_plan *bound = malloc(sizeof *bound);
    AT_FAIL_IF(bound == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a plan of %zu bytes", sizeof *bound);
    bound->problem = *problem;
    bound->loaded = loaded;
    bound->origin = origin;
    bound->workspace_max = workspace;
    bound->variants = NULL;
    bound->recents = loaded->device->ops->make != NULL ? at_recents_create(problem, loaded) : NULL;
    at_config_print(loaded->kernel, &loaded->config, bound->kernel_text);
    *plan = bound;
    return ATTUNE_OK;
}
