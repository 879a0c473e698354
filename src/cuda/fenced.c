#include "cuda/fenced.h"

#include "base/status.h"
#include "cuda/device.h"

static at_cu_mem_location place_of(const at_cuda_device *device)
{
    return (at_cu_mem_location){AT_CU_MEM_LOCATION_DEVICE, device->handle};
}

static attune_status set_access(const at_cuda_device *device, const at_cuda_fenced *made, int flags)
{
    const char *how = flags == AT_CU_MEM_READ ? " only" : " and writable";
    const at_cu_mem_access access = {place_of(device), flags};
    const at_cu_result error = device->driver->cuMemSetAccess(made->addresses + made->begin, made->bytes, &access, 1);
    AT_FAIL_IF(error == AT_CU_NOT_SUPPORTED, ATTUNE_UNSUPPORTED, "the driver cannot make memory readable%s", how);
    AT_DRIVER_CHECK(device->driver, error, "making %zu bytes readable%s", made->bytes, how);
    return ATTUNE_OK;
}

/* [nothing][memory][nothing] */
static attune_status make(const at_cuda_device *device, size_t bytes, size_t align, at_cuda_fenced *made)
{
    const at_driver *driver = device->driver;
    const at_cu_mem_kind kind = {.type = AT_CU_MEM_PINNED, .location = place_of(device)};
    size_t grain = 0;
    at_cu_pointer addresses = 0;
    unsigned long long memory = 0;
    const at_cu_result error = driver->cuMemGetAllocationGranularity(&grain, &kind, AT_CU_MEM_GRANULARITY_LEAST);
    AT_FAIL_IF(error == AT_CU_NOT_SUPPORTED, ATTUNE_UNSUPPORTED, "the driver cannot map memory to addresses");
    AT_DRIVER_CHECK(driver, error, "asking how memory is cut");
    AT_FAIL_IF(grain == 0 || bytes > SIZE_MAX / 16 - grain, ATTUNE_OUT_OF_MEMORY, "no memory for %zu bytes", bytes);
    made->bytes = (bytes + grain - 1) / grain * grain;
    made->begin = 4 * made->bytes;
    made->reserved_bytes = made->bytes + 2 * made->begin;
    AT_DRIVER_CHECK(driver, driver->cuMemAddressReserve(&addresses, made->reserved_bytes, 0, 0, 0),
                    "reserving %zu bytes of addresses", made->reserved_bytes);
    made->addresses = addresses;
    AT_DRIVER_CHECK(driver, driver->cuMemCreate(&memory, made->bytes, &kind, 0), "allocating %zu bytes", made->bytes);
    made->memory = memory;
    made->has_memory = true;
    AT_DRIVER_CHECK(driver, driver->cuMemMap(addresses + made->begin, made->bytes, 0, memory, 0), "mapping %zu bytes",
                    made->bytes);
    made->is_mapped = true;
    made->data = (void *)(uintptr_t)(addresses + made->begin + (made->bytes - bytes) / align * align);
    return set_access(device, made, AT_CU_MEM_READ_WRITE);
}

attune_status at_cuda_fenced_make(at_device *base, size_t bytes, size_t align, at_cuda_fenced *made)
{
    const at_cuda_device *device = at_cuda_of(base);
    bool pushed = false;
    *made = (at_cuda_fenced){.data = NULL};
    AT_FORWARD(at_cuda_enter(device, &pushed));
    attune_status status = make(device, bytes, align, made);
    at_cuda_leave(device, pushed);
    return status;
}

attune_status at_cuda_fenced_lock(at_device *base, const at_cuda_fenced *made)
{
    const at_cuda_device *device = at_cuda_of(base);
    bool pushed = false;
    AT_FORWARD(at_cuda_enter(device, &pushed));
    attune_status status = set_access(device, made, AT_CU_MEM_READ);
    at_cuda_leave(device, pushed);
    return status;
}

void at_cuda_fenced_free(at_device *base, at_cuda_fenced *made)
{
    const at_cuda_device *device = at_cuda_of(base);
    const at_driver *driver = device->driver;
    bool pushed = false;
    if (made->addresses == 0 || at_cuda_enter(device, &pushed) != ATTUNE_OK) {
        return;
    }
    if (made->is_mapped) {
        (void)driver->cuMemUnmap(made->addresses + made->begin, made->bytes);
    }
    if (made->has_memory) {
        (void)driver->cuMemRelease(made->memory);
    }
    (void)driver->cuMemAddressFree(made->addresses, made->reserved_bytes);
    at_cuda_leave(device, pushed);
    *made = (at_cuda_fenced){.data = NULL};
}
