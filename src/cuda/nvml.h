/* NVML, looked up at run time: what the device is doing while it is timed. It sets nothing. Items are declared here for
 * ourselves; tests/cuda/test_types.c compares them with the toolkit's header where there is one. */
#ifndef CUDA_NVML_H
#define CUDA_NVML_H

#include "core/device.h"

typedef struct nvmlDevice_st *at_nvml_device;

enum { AT_NVML_SUCCESS = 0, AT_NVML_INSUFFICIENT_SIZE = 7, AT_NVML_CLOCK_SM = 1 };

/* Why clocks are lower than they could be (nvmlClocksThrottleReason...). */
enum {
    AT_NVML_POWER_CAP = 0x4,
    AT_NVML_HARDWARE_SLOWDOWN = 0x8,
    AT_NVML_SOFTWARE_THERMAL = 0x20,
    AT_NVML_HARDWARE_THERMAL = 0x40,
    AT_NVML_POWER_BRAKE = 0x80
};

typedef struct at_nvml_process {
    unsigned int pid;
    unsigned long long memory_bytes;
    unsigned int gpu_instance, compute_instance;
} at_nvml_process;

#define AT_NVML_ITEMS(ITEM)                                                                                            \
    ITEM(nvmlInit_v2, unsigned int, (void))                                                                            \
    ITEM(nvmlShutdown, unsigned int, (void))                                                                           \
    ITEM(nvmlErrorString, const char *, (unsigned int))                                                                \
    ITEM(nvmlDeviceGetHandleByPciBusId_v2, unsigned int, (const char *, at_nvml_device *))                             \
    ITEM(nvmlDeviceGetClockInfo, unsigned int, (at_nvml_device, unsigned int, unsigned int *))                         \
    ITEM(nvmlDeviceGetMaxClockInfo, unsigned int, (at_nvml_device, unsigned int, unsigned int *))                      \
    ITEM(nvmlDeviceGetPowerUsage, unsigned int, (at_nvml_device, unsigned int *))                                      \
    ITEM(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned int, (at_nvml_device, unsigned long long *))              \
    ITEM(nvmlDeviceGetComputeRunningProcesses_v3, unsigned int, (at_nvml_device, unsigned int *, at_nvml_process *))

typedef struct at_nvml at_nvml;

/* What the device said. Each is 0 where it does not say. */
typedef struct at_nvml_reading {
    int sm_mhz, sm_top_mhz, power_w;
    unsigned long long reasons; /* AT_NVML_ bits above, among others */
} at_nvml_reading;

/* Opens $ATTUNE_NVML or libnvidia-ml.so.1 for a CUDA device. ATTUNE_NO_DEVICE, saying why, where there is none: timing
 * then goes on without clocks, and evidence says so. */
attune_status at_nvml_open(at_device *device, at_nvml **nvml);
void at_nvml_close(at_nvml *nvml); /* NULL is fine */
void at_nvml_read(const at_nvml *nvml, at_nvml_reading *reading);
/* Processes that have the device open for computing, this one among them; -1 where that is unknown. */
int at_nvml_processes(const at_nvml *nvml);

#endif
