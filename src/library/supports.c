/* Which kernels can. */
#include <string.h>

#include "base/status.h"
#include "core/descriptor.h"
#include "core/problem.h"
#include "library/state.h"

static const char *const kind_name[] = {[ATTUNE_TARGET_CPU] = "cpu", [ATTUNE_TARGET_CUDA] = "cuda"};

bool at_is_for(const attune_kernel *kernel, const attune_target *target, attune_reason *reason)
{
    if (kernel->target != target->kind) {
        return attune_refuse(reason, "it is for %s, the target is %s", kind_name[kernel->target],
                             kind_name[target->kind]);
    }
    return true;
}

bool at_first_fitting(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                      attune_config *config, attune_reason *reason)
{
    attune_reason later;
    if (!at_is_for(kernel, target, reason) || !at_kernel_supports(kernel, problem, target, reason)) {
        return false;
    }
    for (int32_t index = 0;; ++index) {
        memset(config, 0, sizeof *config);
        if (!at_kernel_heuristic(kernel, problem, target, index, config)) {
            break;
        }
        if (at_kernel_fits(kernel, problem, target, config, index == 0 ? reason : &later)) {
            return true;
        }
    }
    return false;
}

bool at_keeps_demands(const attune_kernel *kernel, uint32_t avoided, attune_reason *reason)
{
    const uint32_t has = kernel->traits & avoided;
    return has == 0 ||
           attune_refuse(reason, "%s: %s", has & ATTUNE_TRAIT_NONDETERMINISTIC ? "deterministic" : "batch_invariant",
                         has & ATTUNE_TRAIT_NONDETERMINISTIC
                             ? "equal inputs may give different bits"
                             : "a sequence's bits may depend on the others of its batch");
}

bool at_eligible(const attune_context *context, const attune_kernel *kernel, uint32_t avoided, attune_reason *reason)
{
    if (!at_keeps_demands(kernel, avoided, reason)) {
        return false;
    }
    if (kernel->traits & (ATTUNE_TRAIT_NAMED_ONLY | ATTUNE_TRAIT_ACC16 | ATTUNE_TRAIT_CLOCKS)) {
        return attune_refuse(reason, "it runs only where it is asked for by name");
    }
    return at_is_for(kernel, &context->parts.device->target, reason);
}

static attune_status supports_named(const attune_context *context, const attune_kernel *kernel,
                                    const attune_problem *problem)
{
    attune_reason reason = {""};
    attune_config config;
    AT_FAIL_IF(!at_first_fitting(kernel, problem, &context->parts.device->target, &config, &reason), ATTUNE_UNSUPPORTED,
               "kernel %s cannot: %s", kernel->name, reason.text);
    return ATTUNE_OK;
}

attune_status at_supports_any(const attune_context *context, const attune_problem *problem, uint32_t avoided)
{
    const attune_target *target = &context->parts.device->target;
    const attune_kernel *last = NULL;
    attune_reason reason = {""};
    attune_config config;
    for (const attune_kernel *const *at = context->parts.kernels; *at != NULL; ++at) {
        if ((*at)->target != target->kind) {
            continue;
        }
        last = *at;
        if (at_eligible(context, last, avoided, &reason) && at_first_fitting(last, problem, target, &config, &reason)) {
            return ATTUNE_OK;
        }
    }
    AT_FAIL_IF(last == NULL, ATTUNE_UNSUPPORTED, "there is no kernel for %s", kind_name[target->kind]);
    return at_fail(ATTUNE_UNSUPPORTED, "no kernel can; the last one asked (%s) said: %s", last->name, reason.text);
}

attune_status attune_supports(const attune_context *context, const attune_problem *problem, const char *kernel)
{
    const attune_kernel *named;
    attune_problem asked;
    AT_FAIL_IF(context == NULL, ATTUNE_INVALID_ARGUMENT, "context is NULL");
    AT_FORWARD(at_problem_take(problem, &asked));
    problem = &asked;
    if (kernel != NULL) {
        AT_FORWARD(at_kernels_named(context->parts.kernels, kernel, &named));
        return supports_named(context, named, problem);
    }
    if (context->named.kernel != NULL) {
        return supports_named(context, context->named.kernel, problem);
    }
    return at_supports_any(context, problem, 0);
}
