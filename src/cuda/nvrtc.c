#include "cuda/nvrtc.h"

#include <stdlib.h>

#include "base/status.h"
#include "cuda/load.h"

static attune_status resolve(at_nvrtc *nvrtc)
{
#define ITEM(name, result, parameters)                                                                                 \
    AT_FORWARD(at_load_symbol(ATTUNE_COMPILE_ERROR, "NVRTC", nvrtc->library, #name, &nvrtc->name, sizeof nvrtc->name));
    AT_NVRTC_ITEMS(ITEM)
#undef ITEM
    return ATTUNE_OK;
}

static attune_status open_table(at_nvrtc *nvrtc)
{
    static const char *const names[] = {
        "libnvrtc.so.13",
        "libnvrtc.so.12",
        "libnvrtc.so",
        "/usr/local/cuda/lib64/libnvrtc.so.13",
        "/usr/local/cuda/lib64/libnvrtc.so.12",
        "/usr/local/cuda/lib64/libnvrtc.so",
        NULL,
    };
    int major = 0;
    int minor = 0;
    AT_FORWARD(at_load_packaged_library(ATTUNE_COMPILE_ERROR, "NVRTC", "ATTUNE_NVRTC", names, &nvrtc->library));
    AT_FORWARD(resolve(nvrtc));
    unsigned int error = nvrtc->nvrtcVersion(&major, &minor);
    AT_FAIL_IF(error != AT_NVRTC_SUCCESS, ATTUNE_COMPILE_ERROR, "NVRTC does not report its version: error %u", error);
    nvrtc->version = 1000 * major + 10 * minor;
    AT_FAIL_IF(nvrtc->version < AT_NVRTC_OLDEST, ATTUNE_COMPILE_ERROR,
               "the NVRTC found is %d.%d, %d.%d or later is needed; ATTUNE_NVRTC can name another", major, minor,
               AT_NVRTC_OLDEST / 1000, AT_NVRTC_OLDEST % 1000 / 10);
    return ATTUNE_OK;
}

attune_status at_nvrtc_open(at_nvrtc **nvrtc)
{
    *nvrtc = NULL;
    at_nvrtc *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for NVRTC's table");
    attune_status status = open_table(made);
    if (status != ATTUNE_OK) {
        at_nvrtc_close(made);
        return status;
    }
    *nvrtc = made;
    return ATTUNE_OK;
}

void at_nvrtc_close(at_nvrtc *nvrtc)
{
    if (nvrtc != NULL) {
        at_load_close(nvrtc->library);
    }
    free(nvrtc);
}
