/* Looking at a call's pointers before anything is launched with them. */
#include "base/status.h"
#include "core/problem.h"
#include "cuda/loaded.h"

static attune_status look_at(const at_cuda_device *device, const char *name, const void *data)
{
    const at_driver *driver = device->driver;
    const at_cu_pointer pointer = (uintptr_t)data;
    unsigned int type = 0;
    unsigned int managed = 0;
    int ordinal = -1;
    at_cu_result error = driver->cuPointerGetAttribute(&type, AT_CU_POINTER_MEMORY_TYPE, pointer);
    AT_FAIL_IF(error == AT_CU_INVALID_VALUE, ATTUNE_INVALID_ARGUMENT,
               "%s: %p is not CUDA memory; device, managed or pinned memory is needed", name, data);
    AT_DRIVER_CHECK(driver, error, "%s: asking what %p is", name, data);
    if (type != AT_CU_MEMORY_DEVICE ||
        (driver->cuPointerGetAttribute(&managed, AT_CU_POINTER_IS_MANAGED, pointer) == AT_CU_SUCCESS && managed != 0)) {
        return ATTUNE_OK;
    }
    AT_DRIVER_CHECK(driver, driver->cuPointerGetAttribute(&ordinal, AT_CU_POINTER_DEVICE, pointer),
                    "%s: asking where %p is", name, data);
    AT_FAIL_IF(ordinal != device->handle, ATTUNE_INVALID_ARGUMENT, "%s: %p is memory of device %d, the plan is for %d",
               name, data, ordinal, device->handle);
    return ATTUNE_OK;
}

static attune_status look_once(at_cuda_device *device, const char *name, const void *data)
{
    bool pushed = false;
    AT_FORWARD(at_cuda_enter(device, &pushed));
    attune_status status = look_at(device, name, data);
    at_cuda_leave(device, pushed);
    if (status == ATTUNE_OK) {
        at_remember(device->known_memory, (uintptr_t)data);
    }
    return status;
}

/* A buffer that is not there has no address. */
static attune_status look_unless_known(at_cuda_device *device, const char *name, const void *data)
{
    return data == NULL || at_known(device->known_memory, (uintptr_t)data) ? ATTUNE_OK : look_once(device, name, data);
}

attune_status at_cuda_look(const at_loaded *loaded, const attune_args *args, uint64_t buffers)
{
    at_cuda_device *device = at_cuda_of(loaded->device);
    for (uint64_t left = buffers & ((UINT64_C(1) << ATTUNE_ROLE_COUNT) - 1); left != 0; left &= left - 1) {
        const int role = __builtin_ctzll(left);
        AT_FORWARD(look_unless_known(device, at_role_name(role), args->tensor[role].data));
    }
    return args->workspace_bytes > 0 ? look_unless_known(device, "workspace", args->workspace) : ATTUNE_OK;
}

/* The driver's own two names for the default streams are of no context. */
attune_status at_cuda_look_at_stream(at_cuda_device *device, at_cu_stream stream)
{
    at_cu_context of = NULL;
    if ((uintptr_t)stream <= 2 || at_known(device->known_stream, (uintptr_t)stream)) {
        return ATTUNE_OK;
    }
    AT_DRIVER_CHECK(device->driver, device->driver->cuStreamGetCtx(stream, &of), "call.stream %p", (void *)stream);
    AT_FAIL_IF(of != device->context, ATTUNE_INVALID_ARGUMENT,
               "call.stream %p is of another device or context than the plan (device %d)", (void *)stream,
               device->handle);
    at_remember(device->known_stream, (uintptr_t)stream);
    return ATTUNE_OK;
}
