/* Kernels asked for by name. */
#include <string.h>

#include "base/status.h"
#include "library/state.h"

attune_status at_named_read(const attune_context *context, const char *text, const attune_kernel **kernel,
                            const char **params)
{
    char name[AT_KERNEL_TEXT_MAX];
    attune_config scratch = {{0}};
    AT_FORWARD(at_kernel_text_split(text, name, sizeof name, params));
    AT_FORWARD(at_kernels_named(context->parts.kernels, name, kernel));
    /* Values are checked here, so that a misspelt parameter is found before any problem is planned. */
    AT_FORWARD(at_config_parse(*kernel, *params, &scratch));
    AT_FAIL_IF((*kernel)->target != context->parts.device->target.kind, ATTUNE_UNSUPPORTED,
               "kernel %s is for %s, the context's target is %s", name,
               (*kernel)->target == ATTUNE_TARGET_CPU ? "cpu" : "cuda", context->target_text);
    return ATTUNE_OK;
}

attune_status at_context_name(attune_context *context, const char *from, const char *kernel_text)
{
    const attune_kernel *kernel;
    const char *params;
    attune_status status = at_named_read(context, kernel_text, &kernel, &params);
    if (status != ATTUNE_OK) {
        return at_fail_in(status, "%s \"%s\"", from, kernel_text);
    }
    context->named.params = strdup(params);
    AT_FAIL_IF(context->named.params == NULL, ATTUNE_OUT_OF_MEMORY, "%s: no memory for a copy", from);
    context->named.kernel = kernel;
    return ATTUNE_OK;
}
