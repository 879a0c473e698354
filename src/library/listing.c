/* What kernels there are, and why one is not for a problem. */
#include <stdio.h>

#include "base/status.h"
#include "core/problem.h"
#include "library/state.h"

static const attune_kernel *kernel_at(int32_t index)
{
    int32_t at = 0;
    while (at_catalogue[at] != NULL && at != index) {
        ++at;
    }
    return index < 0 ? NULL : at_catalogue[at];
}

int32_t attune_kernel_count(void)
{
    int32_t count = 0;
    while (at_catalogue[count] != NULL) {
        ++count;
    }
    return count;
}

const char *attune_kernel_name(int32_t index)
{
    const attune_kernel *kernel = kernel_at(index);
    return kernel != NULL ? kernel->name : NULL;
}

const char *attune_kernel_summary(int32_t index)
{
    const attune_kernel *kernel = kernel_at(index);
    return kernel != NULL ? kernel->summary : NULL;
}

int32_t attune_kernel_target(int32_t index)
{
    const attune_kernel *kernel = kernel_at(index);
    return kernel != NULL ? kernel->target : -1;
}

uint32_t attune_kernel_traits(int32_t index)
{
    const attune_kernel *kernel = kernel_at(index);
    return kernel != NULL ? kernel->traits : 0;
}

/* NULL: it is a candidate. What it cannot comes before what is not wished. */
static const char *why_not(const attune_context *context, const attune_problem *problem, const attune_kernel *kernel,
                           attune_reason *reason)
{
    attune_config config;
    const char *failure = at_context_failure(context, kernel);
    if (failure != NULL) {
        (void)snprintf(reason->text, sizeof reason->text, "it failed: %s", failure);
        return reason->text;
    }
    return at_first_fitting(kernel, problem, &context->parts.device->target, &config, reason) &&
                   at_eligible(context, kernel, 0, reason)
               ? NULL
               : reason->text;
}

attune_status attune_why_not(const attune_context *context, const attune_problem *problem, const char *kernel,
                             char *text, size_t bytes)
{
    const attune_kernel *named;
    attune_reason reason = {""};
    attune_problem asked;
    AT_FAIL_IF(context == NULL, ATTUNE_INVALID_ARGUMENT, "context is NULL");
    AT_FAIL_IF(kernel == NULL, ATTUNE_INVALID_ARGUMENT, "kernel is NULL");
    AT_FAIL_IF(text == NULL || bytes == 0, ATTUNE_INVALID_ARGUMENT, "text is NULL, or bytes is 0");
    AT_FORWARD(at_problem_take(problem, &asked));
    AT_FORWARD(at_kernels_named(context->parts.kernels, kernel, &named));
    const char *why = why_not(context, &asked, named, &reason);
    (void)snprintf(text, bytes, "%s", why == NULL ? "" : why);
    return ATTUNE_OK;
}
