#include "cuda/nvml.h"

#include <stdlib.h>

#include "base/status.h"
#include "cuda/graph.h"
#include "cuda/load.h"

struct at_nvml {
    void *library;
    at_nvml_device device;
    bool started;
#define ITEM(name, result, parameters) result(*name) parameters;
    AT_NVML_ITEMS(ITEM)
#undef ITEM
};

static attune_status resolve(at_nvml *nvml)
{
#define ITEM(name, result, parameters)                                                                                 \
    AT_FORWARD(at_load_symbol(ATTUNE_NO_DEVICE, "NVML", nvml->library, #name, &nvml->name, sizeof nvml->name));
    AT_NVML_ITEMS(ITEM)
#undef ITEM
    return ATTUNE_OK;
}

static attune_status start(at_device *device, at_nvml *nvml)
{
    static const char *const names[] = {"libnvidia-ml.so.1", NULL};
    char id[AT_CUDA_BUS_ID_BYTES];
    AT_FORWARD(at_load_library(ATTUNE_NO_DEVICE, "NVML", "ATTUNE_NVML", names, &nvml->library));
    AT_FORWARD(resolve(nvml));
    unsigned int error = nvml->nvmlInit_v2();
    AT_FAIL_IF(error != AT_NVML_SUCCESS, ATTUNE_NO_DEVICE, "NVML does not start: %s", nvml->nvmlErrorString(error));
    nvml->started = true;
    AT_FORWARD(at_cuda_bus_id(device, id));
    error = nvml->nvmlDeviceGetHandleByPciBusId_v2(id, &nvml->device);
    AT_FAIL_IF(error != AT_NVML_SUCCESS, ATTUNE_NO_DEVICE, "NVML does not know device %s: %s", id,
               nvml->nvmlErrorString(error));
    return ATTUNE_OK;
}

attune_status at_nvml_open(at_device *device, at_nvml **nvml)
{
    *nvml = NULL;
    at_nvml *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for NVML's table");
    attune_status status = start(device, made);
    if (status != ATTUNE_OK) {
        at_nvml_close(made);
        return status;
    }
    *nvml = made;
    return ATTUNE_OK;
}

void at_nvml_close(at_nvml *nvml)
{
    if (nvml != NULL && nvml->started) {
        (void)nvml->nvmlShutdown();
    }
    if (nvml != NULL) {
        at_load_close(nvml->library);
    }
    free(nvml);
}

void at_nvml_read(const at_nvml *nvml, at_nvml_reading *reading)
{
    unsigned int value = 0;
    *reading = (at_nvml_reading){0};
    if (nvml->nvmlDeviceGetClockInfo(nvml->device, AT_NVML_CLOCK_SM, &value) == AT_NVML_SUCCESS) {
        reading->sm_mhz = (int)value;
    }
    if (nvml->nvmlDeviceGetMaxClockInfo(nvml->device, AT_NVML_CLOCK_SM, &value) == AT_NVML_SUCCESS) {
        reading->sm_top_mhz = (int)value;
    }
    if (nvml->nvmlDeviceGetPowerUsage(nvml->device, &value) == AT_NVML_SUCCESS) {
        reading->power_w = (int)(value / 1000);
    }
    if (nvml->nvmlDeviceGetCurrentClocksThrottleReasons(nvml->device, &reading->reasons) != AT_NVML_SUCCESS) {
        reading->reasons = 0;
    }
}

int at_nvml_processes(const at_nvml *nvml)
{
    at_nvml_process process[64];
    unsigned int count = sizeof process / sizeof process[0];
    unsigned int error = nvml->nvmlDeviceGetComputeRunningProcesses_v3(nvml->device, &count, process);
    return error == AT_NVML_SUCCESS || error == AT_NVML_INSUFFICIENT_SIZE ? (int)count : -1;
}
