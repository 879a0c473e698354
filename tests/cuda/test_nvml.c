/* NVML: our declarations against its header, where there is one; and a machine without it. */
#if __has_include(<nvml.h>)
#include <nvml.h>
#define HEADER 1
#endif

#include <stdlib.h>

#include "base/cm.h"
#include "cuda/nvml.h"

#ifdef HEADER

#define SAME(ours, theirs) assert_int_equal((long long)(ours), (long long)(theirs))

static void values_and_layouts(void **state)
{
    (void)state;
    SAME(AT_NVML_SUCCESS, NVML_SUCCESS);
    SAME(AT_NVML_INSUFFICIENT_SIZE, NVML_ERROR_INSUFFICIENT_SIZE);
    SAME(AT_NVML_CLOCK_SM, NVML_CLOCK_SM);
    SAME(AT_NVML_POWER_CAP, nvmlClocksThrottleReasonSwPowerCap);
    SAME(AT_NVML_HARDWARE_SLOWDOWN, nvmlClocksThrottleReasonHwSlowdown);
    SAME(AT_NVML_SOFTWARE_THERMAL, nvmlClocksThrottleReasonSwThermalSlowdown);
    SAME(AT_NVML_HARDWARE_THERMAL, nvmlClocksThrottleReasonHwThermalSlowdown);
    SAME(AT_NVML_POWER_BRAKE, nvmlClocksThrottleReasonHwPowerBrakeSlowdown);
    SAME(sizeof(at_nvml_process), sizeof(nvmlProcessInfo_t));
    SAME(offsetof(at_nvml_process, pid), offsetof(nvmlProcessInfo_t, pid));
    SAME(offsetof(at_nvml_process, memory_bytes), offsetof(nvmlProcessInfo_t, usedGpuMemory));
    SAME(offsetof(at_nvml_process, gpu_instance), offsetof(nvmlProcessInfo_t, gpuInstanceId));
    SAME(sizeof(nvmlReturn_t), sizeof(unsigned int));
    SAME(sizeof(nvmlClockType_t), sizeof(unsigned int));
}

#endif

static void without_nvml_timing_goes_on(void **state)
{
    (void)state;
    at_nvml *nvml = NULL;
    at_device device = {.ops = NULL};
    assert_int_equal(setenv("ATTUNE_NVML", "/nowhere/libnvidia-ml.so.1", 1), 0);
    assert_fails(at_nvml_open(&device, &nvml), ATTUNE_NO_DEVICE, "ATTUNE_NVML");
    assert_null(nvml);
    at_nvml_close(nvml);
}

/* A library that is another one. */
static void what_is_not_nvml_is_refused(void **state)
{
    (void)state;
    at_nvml *nvml = NULL;
    at_device device = {.ops = NULL};
    assert_int_equal(setenv("ATTUNE_NVML", "libm.so.6", 1), 0);
    assert_fails(at_nvml_open(&device, &nvml), ATTUNE_NO_DEVICE, "nvmlInit_v2");
    assert_null(nvml);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef HEADER
        cmocka_unit_test(values_and_layouts),
#endif
        cmocka_unit_test(without_nvml_timing_goes_on),
        cmocka_unit_test(what_is_not_nvml_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
