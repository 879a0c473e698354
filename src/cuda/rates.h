/* What a device could do at most: the ceilings that no honest time lies under. */
#ifndef CUDA_RATES_H
#define CUDA_RATES_H

#include "core/device.h"

typedef struct at_cuda_rates {
    double sm_hz, memory_hz; /* top clocks */
    int64_t bus_bits;        /* of the memory */
} at_cuda_rates;

/* As the driver reports them, for an opened CUDA device. */
attune_status at_cuda_rates_read(at_device *device, at_cuda_rates *rates);
/* Bytes of the device's memory. */
attune_status at_cuda_memory(at_device *device, size_t *left, size_t *total);
/* Multiply-adds times two a second of the tensor cores on 16-bit elements (half as many of TF32, which is the most that
 * fp32 can be had by); 0 for architectures that are not known. Published peaks over clock and multiprocessors, rounded
 * up to what the wider of their forms does. */
double at_cuda_peak_flops(const attune_target *target, double sm_hz, attune_dtype dtype);

/* Bytes a second of the memory, which transfers twice a clock. */
double at_cuda_peak_bytes(const at_cuda_rates *rates);

#endif
