#include "cuda/rates.h"

#include "base/status.h"
#include "cuda/device.h"

enum { ATTRIBUTE_CLOCK_KHZ = 13, ATTRIBUTE_MEMORY_CLOCK_KHZ = 36, ATTRIBUTE_BUS_BITS = 37 };

attune_status at_cuda_rates_read(at_device *base, at_cuda_rates *rates)
{
    const at_cuda_device *device = at_cuda_of(base);
    int clock = 0;
    int memory = 0;
    int bits = 0;
    AT_DRIVER_CHECK(device->driver, device->driver->cuDeviceGetAttribute(&clock, ATTRIBUTE_CLOCK_KHZ, device->handle),
                    "clock of device %d", device->handle);
    AT_DRIVER_CHECK(device->driver,
                    device->driver->cuDeviceGetAttribute(&memory, ATTRIBUTE_MEMORY_CLOCK_KHZ, device->handle),
                    "memory clock of device %d", device->handle);
    AT_DRIVER_CHECK(device->driver, device->driver->cuDeviceGetAttribute(&bits, ATTRIBUTE_BUS_BITS, device->handle),
                    "memory bus of device %d", device->handle);
    *rates = (at_cuda_rates){clock * 1e3, memory * 1e3, bits};
    return ATTUNE_OK;
}

attune_status at_cuda_memory(at_device *base, size_t *left, size_t *total)
{
    const at_cuda_device *device = at_cuda_of(base);
    bool pushed = false;
    AT_FORWARD(at_cuda_enter(device, &pushed));
    at_cu_result error = device->driver->cuMemGetInfo(left, total);
    at_cuda_leave(device, pushed);
    AT_DRIVER_CHECK(device->driver, error, "memory of device %d", device->handle);
    return ATTUNE_OK;
}

double at_cuda_peak_flops(const attune_target *target, double sm_hz, attune_dtype dtype)
{
    /* Of one multiprocessor and clock, dense, 16-bit elements. */
    static const struct {
        int arch;
        double flops;
    } known[] = {{80, 2048}, {86, 1024}, {89, 1024}, {90, 4096}, {100, 8192}, {120, 2048}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
        if (known[i].arch == target->arch) {
            return known[i].flops * target->sm_count * sm_hz / (dtype == ATTUNE_FP32 ? 2 : 1);
        }
    }
    return 0;
}

double at_cuda_peak_bytes(const at_cuda_rates *rates)
{
    return 2 * rates->memory_hz * (double)rates->bus_bits / 8;
}
