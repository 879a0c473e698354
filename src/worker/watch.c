#include "worker/watch.h"

#include <stddef.h>

static void *read_nvml(void *context)
{
    at_watch *on = context;
    at_nvml_read(on->nvml, &on->reading);
    return NULL;
}

void at_watch_begin(const at_nvml *nvml, at_watch *made)
{
    *made = (at_watch){.nvml = nvml};
    made->runs = nvml != NULL && pthread_create(&made->thread, NULL, read_nvml, made) == 0;
}

void at_watch_end(at_watch *begun, at_block *block)
{
    static const struct {
        unsigned long long reasons;
        unsigned throttle;
    } means[] = {
        {AT_NVML_POWER_CAP, AT_THROTTLE_POWER},
        {AT_NVML_SOFTWARE_THERMAL | AT_NVML_HARDWARE_THERMAL, AT_THROTTLE_THERMAL},
        {AT_NVML_HARDWARE_SLOWDOWN | AT_NVML_POWER_BRAKE, AT_THROTTLE_HARDWARE},
    };
    if (!begun->runs) {
        return;
    }
    (void)pthread_join(begun->thread, NULL);
    block->sm_mhz = begun->reading.sm_mhz;
    block->power_w = begun->reading.power_w;
    for (size_t i = 0; i < sizeof means / sizeof means[0]; ++i) {
        block->throttle |= (begun->reading.reasons & means[i].reasons) != 0 ? means[i].throttle : 0;
    }
}
