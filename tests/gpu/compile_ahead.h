/* Codes that a device test needs, compiled side by side: one after the other, as loads do it, they take most of a
 * minute. */
#ifndef TESTS_GPU_COMPILE_AHEAD_H
#define TESTS_GPU_COMPILE_AHEAD_H

#include "base/cm.h"
#include "base/threads.h"
#include "cuda/device.h"

typedef struct ahead {
    at_device *device;
    const at_recipe *recipe;
} ahead;

/* What does not compile is reported by the test that loads it. */
static void compile_one(void *context, int64_t item, void *scratch)
{
    const ahead *on = context;
    at_artifact artifact;
    (void)scratch;
    if (at_provide(&at_cuda_of(on->device)->provider, &on->recipe[item], &on->device->target, &artifact, NULL) ==
        ATTUNE_OK) {
        at_artifact_free(&artifact);
    }
}

/* Compiles what the recipes name into the device's cache, where loads find it. */
static inline void compile_ahead(at_device *device, const at_recipe *recipe, int count)
{
    ahead on = {device, recipe};
    at_pool *pool = NULL;
    assert_ok(at_pool_create(at_cpu_count(), 64, &pool));
    at_pool_run(pool, count, compile_one, &on);
    at_pool_destroy(pool);
}

#endif
