#include "cuda/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cuda/cache.h"
#include "cuda/cuda.h"
#include "cuda/link.h"
#include "cuda/loaded.h"

/* ---- Opening a context ------------------------------------------------------------------------------------------- */

/* The caller's context where it is of this device; else the primary one, which is the device's own and shared with
 * everything that uses the CUDA runtime. */
static attune_status choose_context(at_cuda_device *device)
{
    const at_driver *driver = device->driver;
    at_cu_device of = -1;
    AT_DRIVER_CHECK(driver, driver->cuCtxGetCurrent(&device->context), "current context");
    if (device->context != NULL) {
        AT_DRIVER_CHECK(driver, driver->cuCtxGetDevice(&of), "device of the current context");
        if (of == device->handle) {
            return ATTUNE_OK;
        }
    }
    device->context = NULL;
    AT_DRIVER_CHECK(driver, driver->cuDevicePrimaryCtxRetain(&device->context, device->handle),
                    "primary context of device %d", device->handle);
    device->retained = true;
    return ATTUNE_OK;
}

/* ---- What a device is -----------------------------------------------------------------------------------------------
 */

static attune_status read_attributes(const at_driver *driver, at_cu_device handle, attune_target *target)
{
    int major = 0;
    int minor = 0;
    int l2 = 0;
    const struct {
        unsigned int attribute;
        int *value;
    } wanted[] = {
        {AT_CU_ATTRIBUTE_MAJOR, &major},
        {AT_CU_ATTRIBUTE_MINOR, &minor},
        {AT_CU_ATTRIBUTE_SM_COUNT, &target->sm_count},
        {AT_CU_ATTRIBUTE_SMEM_BLOCK, &target->smem_block_bytes},
        {AT_CU_ATTRIBUTE_SMEM_OPTIN, &target->smem_optin_bytes},
        {AT_CU_ATTRIBUTE_SMEM_SM, &target->smem_sm_bytes},
        {AT_CU_ATTRIBUTE_REGS_SM, &target->regs_sm},
        {AT_CU_ATTRIBUTE_THREADS_SM, &target->threads_sm},
        {AT_CU_ATTRIBUTE_L2_BYTES, &l2},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; ++i) {
        AT_DRIVER_CHECK(driver, driver->cuDeviceGetAttribute(wanted[i].value, wanted[i].attribute, handle),
                        "attribute %u of device %d", wanted[i].attribute, handle);
    }
    target->arch = 10 * major + minor;
    target->arch_features = major >= 9;
    target->memory_l2_bytes = l2;
    return ATTUNE_OK;
}

static attune_status describe(const at_driver *driver, int ordinal, int compiler, at_cu_device *handle,
                              attune_target *target)
{
    int count = 0;
    AT_DRIVER_CHECK(driver, driver->cuDeviceGetCount(&count), "number of devices");
    AT_FAIL_IF(ordinal < 0 || ordinal >= count, ATTUNE_NO_DEVICE, "CUDA device %d: the driver shows %d, counted from 0",
               ordinal, count);
    AT_DRIVER_CHECK(driver, driver->cuDeviceGet(handle, ordinal), "device %d", ordinal);
    *target = (attune_target){.size = sizeof *target,
                              .kind = ATTUNE_TARGET_CUDA,
                              .device = ordinal,
                              .driver = driver->version,
                              .compiler = compiler};
    AT_DRIVER_CHECK(driver, driver->cuDeviceGetName(target->model, (int)sizeof target->model, *handle),
                    "name of device %d", ordinal);
    target->model[sizeof target->model - 1] = '\0';
    for (char *at = target->model; *at != '\0'; ++at) {
        *at = *at == ' ' || *at == '/' || *at == ',' ? '_' : *at;
    }
    return read_attributes(driver, *handle, target);
}

attune_status at_cuda_count(int *count)
{
    at_driver *driver = NULL;
    *count = 0;
    AT_FORWARD(at_driver_open(&driver));
    at_cu_result error = driver->cuDeviceGetCount(count);
    attune_status status = ATTUNE_OK;
    if (error != AT_CU_SUCCESS || *count == 0) {
        *count = 0;
        status = at_fail(ATTUNE_NO_DEVICE, "the CUDA driver shows no device (error %u)", error);
    }
    at_driver_close(driver);
    return status;
}

attune_status at_cuda_describe(int device, attune_target *target)
{
    at_driver *driver = NULL;
    at_nvrtc *nvrtc = NULL;
    at_cu_device handle = -1;
    AT_FORWARD(at_driver_open(&driver));
    int compiler = at_nvrtc_open(&nvrtc) == ATTUNE_OK ? nvrtc->version : 0;
    attune_status status = describe(driver, device, compiler, &handle, target);
    at_nvrtc_close(nvrtc);
    at_driver_close(driver);
    return status;
}

/* ---- Memory -------------------------------------------------------------------------------------------------------
 */

static attune_status out_of_memory(const at_driver *driver, at_cu_result error, size_t bytes)
{
    size_t left = 0;
    size_t total = 0;
    if (error != AT_CU_OUT_OF_MEMORY || driver->cuMemGetInfo(&left, &total) != AT_CU_SUCCESS) {
        return at_driver_fail(driver, error, "%zu bytes of device memory", bytes);
    }
    return at_fail(ATTUNE_OUT_OF_MEMORY, "%zu bytes of device memory: %zu of %zu are free", bytes, left, total);
}

static attune_status allocate(at_device *base, size_t bytes, void **data)
{
    at_cuda_device *device = at_cuda_of(base);
    at_cu_pointer pointer = 0;
    bool pushed = false;
    *data = NULL;
    AT_FORWARD(at_cuda_enter(device, &pushed));
    at_cu_result error = device->driver->cuMemAlloc(&pointer, bytes > 0 ? bytes : 1);
    attune_status status = error == AT_CU_SUCCESS ? ATTUNE_OK : out_of_memory(device->driver, error, bytes);
    at_cuda_leave(device, pushed);
    *data = (void *)(uintptr_t)pointer;
    return status;
}

static void release(at_device *base, void *data)
{
    at_cuda_device *device = at_cuda_of(base);
    bool pushed = false;
    if (data != NULL && at_cuda_enter(device, &pushed) == ATTUNE_OK) {
        (void)device->driver->cuMemFree((uintptr_t)data);
        at_cuda_leave(device, pushed);
    }
}

static attune_status synchronise(at_device *base, void *stream)
{
    at_cuda_device *device = at_cuda_of(base);
    bool pushed = false;
    AT_FORWARD(at_cuda_enter(device, &pushed));
    at_cu_result error = device->driver->cuStreamSynchronize(stream);
    at_cuda_leave(device, pushed);
    AT_DRIVER_CHECK(device->driver, error, "waiting for stream %p", stream);
    return ATTUNE_OK;
}

/* Copies are ordered with the default stream and done when these return. */
static attune_status upload(at_device *base, void *to, const void *from, size_t bytes)
{
    at_cuda_device *device = at_cuda_of(base);
    bool pushed = false;
    AT_FORWARD(at_cuda_enter(device, &pushed));
    at_cu_result error = device->driver->cuMemcpyHtoDAsync((uintptr_t)to, from, bytes, NULL);
    at_cuda_leave(device, pushed);
    AT_DRIVER_CHECK(device->driver, error, "copying %zu bytes to the device", bytes);
    return synchronise(base, NULL);
}

static attune_status download(at_device *base, void *to, const void *from, size_t bytes)
{
    at_cuda_device *device = at_cuda_of(base);
    bool pushed = false;
    AT_FORWARD(at_cuda_enter(device, &pushed));
    at_cu_result error = device->driver->cuMemcpyDtoHAsync(to, (uintptr_t)from, bytes, NULL);
    at_cuda_leave(device, pushed);
    AT_DRIVER_CHECK(device->driver, error, "copying %zu bytes from the device", bytes);
    return synchronise(base, NULL);
}

/* ---- Opening and closing ---------------------------------------------------------------------------------------- */

static void close_device(at_device *base)
{
    at_cuda_device *device = at_cuda_of(base);
    bool pushed = false;
    if (device->cublas != NULL && at_cuda_enter(device, &pushed) == ATTUNE_OK) {
        at_cublas_close(device->cublas);
        at_cuda_leave(device, pushed);
    }
    if (device->retained) {
        (void)device->driver->cuDevicePrimaryCtxRelease(device->handle);
    }
    at_pack_destroy(device->pack);
    free(device->provider.cache);
    at_nvrtc_close(device->provider.nvrtc);
    at_driver_close(device->driver);
    (void)pthread_mutex_destroy(&device->lock);
    free(device);
}

static const at_device_ops operations = {
    .load = at_cuda_load,
    .unload = at_cuda_unload,
    .inspect = at_cuda_look,
    .make = at_cuda_make,
    .launch = at_cuda_launch,
    .synchronise = synchronise,
    .allocate = allocate,
    .release = release,
    .upload = upload,
    .download = download,
    .close = close_device,
};

static attune_status open_device(at_cuda_device *device, int ordinal, const char *cache, const char *pack)
{
    AT_FORWARD(at_driver_open(&device->driver));
    /* Without a compiler, packs still work; what needs one says so when it does. */
    int compiler = at_nvrtc_open(&device->provider.nvrtc) == ATTUNE_OK ? device->provider.nvrtc->version : 0;
    AT_FORWARD(describe(device->driver, ordinal, compiler, &device->handle, &device->base.target));
    if (pack != NULL) {
        AT_FORWARD(at_pack_read(pack, &device->pack));
    }
    device->provider.pack = device->pack;
    device->provider.cache = at_cache_place(cache);
    device->provider.assembler = (at_assembler){at_cuda_assemble, device, device->driver->version};
    return choose_context(device);
}

attune_status at_cuda_open(int device, const char *cache, const char *pack, at_device **opened)
{
    *opened = NULL;
    at_cuda_device *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a CUDA device");
    made->base.ops = &operations;
    (void)pthread_mutex_init(&made->lock, NULL); /* cannot fail with default attributes on Linux */
    attune_status status = open_device(made, device, cache, pack);
    if (status != ATTUNE_OK) {
        close_device(&made->base);
        return status;
    }
    *opened = &made->base;
    return ATTUNE_OK;
}
