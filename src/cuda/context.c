#include "base/status.h"
#include "cuda/device.h"

attune_status at_cuda_enter(const at_cuda_device *device, bool *pushed)
{
    const at_driver *driver = device->driver;
    at_cu_context current = NULL;
    *pushed = false;
    AT_DRIVER_CHECK(driver, driver->cuCtxGetCurrent(&current), "current context");
    if (current != device->context) {
        AT_DRIVER_CHECK(driver, driver->cuCtxPushCurrent(device->context),
                        "the context that device %d was opened with (destroyed since?)", device->handle);
        *pushed = true;
    }
    return ATTUNE_OK;
}

void at_cuda_leave(const at_cuda_device *device, bool pushed)
{
    at_cu_context left = NULL;
    if (pushed) {
        (void)device->driver->cuCtxPopCurrent(&left);
    }
}
