#include "library/offline.h"

#include <stdlib.h>

#include "base/status.h"

static attune_status load(at_device *device, const at_recipe *recipe, at_loaded **loaded)
{
    *loaded = calloc(1, sizeof **loaded);
    AT_FAIL_IF(*loaded == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for kernel %s", recipe->kernel->name);
    **loaded = (at_loaded){device, recipe->kernel, recipe->config, recipe->resources, recipe->steps, 0};
    return ATTUNE_OK;
}

static void unload(at_loaded *loaded)
{
    free(loaded);
}

static attune_status absent(const at_device *device)
{
    return at_fail(ATTUNE_NO_DEVICE, "%s is planned for, it is not here", device->target.model);
}

static attune_status launch(const at_loaded *loaded, at_made *made, void *stream)
{
    (void)made, (void)stream;
    return absent(loaded->device);
}

static attune_status synchronise(at_device *device, void *stream)
{
    (void)stream;
    return absent(device);
}

static attune_status allocate(at_device *device, size_t bytes, void **data)
{
    (void)bytes;
    *data = NULL;
    return absent(device);
}

static void release(at_device *device, void *data)
{
    (void)device, (void)data;
}

static attune_status copy(at_device *device, void *to, const void *from, size_t bytes)
{
    (void)to, (void)from, (void)bytes;
    return absent(device);
}

static void close_device(at_device *device)
{
    free(device);
}

attune_status at_offline_open(const attune_target *target, at_device **device)
{
    static const at_device_ops operations = {.load = load,
                                             .unload = unload,
                                             .launch = launch,
                                             .synchronise = synchronise,
                                             .allocate = allocate,
                                             .release = release,
                                             .upload = copy,
                                             .download = copy,
                                             .close = close_device};
    *device = calloc(1, sizeof **device);
    AT_FAIL_IF(*device == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a device");
    (*device)->ops = &operations;
    (*device)->target = *target;
    return ATTUNE_OK;
}
