#include "library/backend.h"

#include "base/status.h"
#include "cpu/cpu.h"
#include "cuda/cuda.h"

typedef struct backend {
    attune_target_kind kind;
    attune_status (*open)(const at_settings *settings, at_pool *pool, at_device **device);
} backend;

static attune_status open_cpu(const at_settings *settings, at_pool *pool, at_device **device)
{
    return at_cpu_open_with(settings->isa, pool, &settings->pool.memory, device);
}

static attune_status open_cuda(const at_settings *settings, at_pool *pool, at_device **device)
{
    (void)pool;
    return at_cuda_open(settings->device < 0 ? 0 : settings->device, settings->cache != NULL ? settings->cache : "",
                        settings->pack, device);
}

/* In the order in which they are tried where nobody named a target. */
static const backend backends[] = {
    {ATTUNE_TARGET_CUDA, open_cuda},
    {ATTUNE_TARGET_CPU, open_cpu},
};

enum { BACKENDS = sizeof backends / sizeof backends[0] };

static attune_status open_named(const at_settings *settings, at_pool *pool, at_device **device)
{
    for (int i = 0; i < BACKENDS; ++i) {
        if (backends[i].kind == settings->target) {
            return backends[i].open(settings, pool, device);
        }
    }
    return at_fail(ATTUNE_INTERNAL, "there is no backend of kind %d", (int)settings->target);
}

/* A machine without a usable device is served by the next backend; a pack that cannot be read is a mistake to be
 * reported.
 */
static bool unusable(attune_status status)
{
    return status == ATTUNE_NO_DEVICE || status == ATTUNE_DEVICE_ERROR || status == ATTUNE_OUT_OF_MEMORY;
}

attune_status at_backend_open(const at_settings *settings, at_pool *pool, at_device **device)
{
    attune_status status = ATTUNE_NO_DEVICE;
    if (settings->target_given) {
        return open_named(settings, pool, device);
    }
    for (int i = 0; i < BACKENDS && unusable(status); ++i) {
        status = backends[i].open(settings, pool, device);
    }
    return status;
}
