/* What kernels failed with. */
#include <string.h>

#include "base/status.h"
#include "library/state.h"

static size_t index_of(const attune_context *context, const attune_kernel *kernel)
{
    size_t index = 0;
    while (context->parts.kernels[index] != NULL && context->parts.kernels[index] != kernel) {
        ++index;
    }
    return index;
}

void at_remember_failure(attune_context *context, const attune_kernel *kernel)
{
    size_t index = index_of(context, kernel);
    pthread_rwlock_wrlock(&context->lock);
    /* The first stays: callers may hold it, and what failed first is usually the cause of the rest. */
    if (context->parts.kernels[index] != NULL && context->failure[index] == NULL) {
        context->failure[index] = strdup(attune_last_detail());
    }
    pthread_rwlock_unlock(&context->lock);
}

const char *at_context_failure(const attune_context *context, const attune_kernel *kernel)
{
    pthread_rwlock_t *lock = (pthread_rwlock_t *)&context->lock;
    size_t index = index_of(context, kernel);
    pthread_rwlock_rdlock(lock);
    const char *failure = context->parts.kernels[index] == NULL ? NULL : context->failure[index];
    pthread_rwlock_unlock(lock);
    return failure;
}
