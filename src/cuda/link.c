#include "cuda/link.h"

#include <string.h>

#include "base/status.h"
#include "cuda/device.h"

/* The code belongs to the link, and is copied. */
static attune_status link_ptx(const at_driver *driver, at_cu_link link, const char *ptx, size_t bytes, const char *log,
                              at_artifact *artifact)
{
    void *code = NULL;
    size_t code_bytes = 0;
    at_cu_result error =
        driver->cuLinkAddData(link, AT_CU_JIT_PTX, (void *)(uintptr_t)ptx, bytes + 1, "image", 0, NULL, NULL);
    error = error == AT_CU_SUCCESS ? driver->cuLinkComplete(link, &code, &code_bytes) : error;
    AT_FAIL_IF(error != AT_CU_SUCCESS, error == AT_CU_OUT_OF_MEMORY ? ATTUNE_OUT_OF_MEMORY : ATTUNE_COMPILE_ERROR,
               "the driver makes no code of an image's PTX: error %d: %s", (int)error, log);
    AT_FORWARD(at_artifact_reserve(artifact, code_bytes, 0));
    memcpy(artifact->cubin, code, code_bytes);
    return ATTUNE_OK;
}

attune_status at_cuda_assemble(void *context, const char *ptx, size_t bytes, at_artifact *artifact)
{
    at_cuda_device *device = context;
    const at_driver *driver = device->driver;
    char log[1024] = "";
    unsigned int option[] = {AT_CU_JIT_ERROR_BUFFER, AT_CU_JIT_ERROR_BYTES};
    void *value[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    at_cu_link link = NULL;
    bool pushed = false;
    AT_FORWARD(at_cuda_enter(device, &pushed));
    at_cu_result error = driver->cuLinkCreate(2, option, value, &link);
    attune_status status = error == AT_CU_SUCCESS
                               ? link_ptx(driver, link, ptx, bytes, log, artifact)
                               : at_driver_fail(driver, error, "starting to make code of an image's PTX");
    if (link != NULL) {
        (void)driver->cuLinkDestroy(link);
    }
    at_cuda_leave(device, pushed);
    return status;
}
