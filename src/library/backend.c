#include "library/backend.h"

#include "base/status.h"
#include "cpu/cpu.h"

typedef struct backend {
    attune_target_kind kind;
    attune_status (*open)(const at_settings *settings, at_pool *pool, at_device **device);
} backend;

static attune_status open_cpu(const at_settings *settings, at_pool *pool, at_device **device)
{
    return at_cpu_open(settings->isa, pool, device);
}

/* In the order in which they are tried where nobody named a target. */
static const backend backends[] = {
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
    return at_fail(ATTUNE_NO_DEVICE, "target \"cuda\" is not in this build of attune %s; use \"cpu\"",
                   attune_version_string());
}

attune_status at_backend_open(const at_settings *settings, at_pool *pool, at_device **device)
{
    attune_status status = ATTUNE_NO_DEVICE;
    if (settings->target_given) {
        return open_named(settings, pool, device);
    }
    for (int i = 0; i < BACKENDS && status != ATTUNE_OK; ++i) {
        status = backends[i].open(settings, pool, device);
    }
    return status;
}
