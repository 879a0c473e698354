#include "cuda/driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "cuda/load.h"

typedef at_cu_result (*get_proc_address)(const char *, void **, int, uint64_t, int *);
typedef at_cu_result (*get_version)(int *);
typedef at_cu_result (*initialise)(unsigned int);

static attune_status resolve_one(get_proc_address find, const char *name, int since, void **item)
{
    int why = 0;
    at_cu_result error = find(name, item, since, AT_CU_PROC_LEGACY_STREAM, &why);
    AT_FAIL_IF(error != AT_CU_SUCCESS || *item == NULL, ATTUNE_NO_DEVICE,
               "the CUDA driver has no %s of version %d.%d (error %u, query result %d)", name, since / 1000,
               since % 1000 / 10, error, why);
    return ATTUNE_OK;
}

static attune_status resolve(at_driver *driver, get_proc_address find)
{
    void *item = NULL;
#define ITEM(name, since, parameters)                                                                                  \
    AT_FORWARD(resolve_one(find, #name, since, &item));                                                                \
    memcpy(&driver->name, &item, sizeof item);
    AT_DRIVER_ITEMS(ITEM)
#undef ITEM
    return ATTUNE_OK;
}

/* What cuInit says, for a person. The table of error names is not there yet. */
static attune_status start(const at_driver *driver)
{
    initialise init = NULL;
    AT_FORWARD(at_load_symbol(ATTUNE_NO_DEVICE, "the CUDA driver", driver->library, "cuInit", &init, sizeof init));
    at_cu_result error = init(0);
    AT_FAIL_IF(error == AT_CU_NO_DEVICE, ATTUNE_NO_DEVICE, "the CUDA driver is there, but shows no device");
    AT_FAIL_IF(
        error == AT_CU_STUB_LIBRARY, ATTUNE_NO_DEVICE,
        "the libcuda found is the toolkit's stub for linking, not the driver: take stubs/ out of the library path");
    AT_FAIL_IF(error != AT_CU_SUCCESS, ATTUNE_NO_DEVICE,
               "the CUDA driver does not start: error %u (999: often a kernel module of another version)", error);
    return ATTUNE_OK;
}

static attune_status check_version(at_driver *driver)
{
    get_version version = NULL;
    AT_FORWARD(at_load_symbol(ATTUNE_NO_DEVICE, "the CUDA driver", driver->library, "cuDriverGetVersion", &version,
                              sizeof version));
    at_cu_result error = version(&driver->version);
    AT_FAIL_IF(error != AT_CU_SUCCESS, ATTUNE_NO_DEVICE, "the CUDA driver does not report its version: error %u",
               error);
    AT_FAIL_IF(driver->version < AT_DRIVER_OLDEST, ATTUNE_NO_DEVICE,
               "the CUDA driver supports CUDA %d.%d, but %d.%d or later is needed: update the NVIDIA driver",
               driver->version / 1000, driver->version % 1000 / 10, AT_DRIVER_OLDEST / 1000,
               AT_DRIVER_OLDEST % 1000 / 10);
    return ATTUNE_OK;
}

static attune_status open_table(at_driver *driver)
{
    static const char *const names[] = {"libcuda.so.1", NULL};
    get_proc_address find = NULL;
    AT_FORWARD(at_load_library(ATTUNE_NO_DEVICE, "CUDA driver", "ATTUNE_LIBCUDA", names, &driver->library));
    AT_FORWARD(start(driver));
    AT_FORWARD(check_version(driver));
    AT_FORWARD(at_load_symbol(ATTUNE_NO_DEVICE, "the CUDA driver", driver->library, "cuGetProcAddress_v2", &find,
                              sizeof find));
    return resolve(driver, find);
}

attune_status at_driver_open(at_driver **driver)
{
    *driver = NULL;
    at_driver *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for the CUDA driver's table");
    attune_status status = open_table(made);
    if (status != ATTUNE_OK) {
        at_driver_close(made);
        return status;
    }
    *driver = made;
    return ATTUNE_OK;
}

void at_driver_close(at_driver *driver)
{
    if (driver != NULL) {
        at_load_close(driver->library);
    }
    free(driver);
}

int at_driver_sticky(at_cu_result error)
{
    return error == AT_CU_ECC_UNCORRECTABLE || error == AT_CU_NVLINK_UNCORRECTABLE || error == AT_CU_CONTAINED ||
           error == AT_CU_ILLEGAL_ADDRESS || error == AT_CU_LAUNCH_TIMEOUT || error == AT_CU_ASSERT ||
           (error >= AT_CU_HARDWARE_STACK_ERROR && error <= AT_CU_LAUNCH_FAILED);
}

static attune_status status_of(at_cu_result error)
{
    return error == AT_CU_OUT_OF_MEMORY ? ATTUNE_OUT_OF_MEMORY : ATTUNE_DEVICE_ERROR;
}

attune_status at_driver_fail(const at_driver *driver, at_cu_result error, const char *format, ...)
{
    char what[512] = "";
    const char *name = NULL;
    const char *text = NULL;
    va_list list;
    va_start(list, format);
    (void)vsnprintf(what, sizeof what, format, list);
    va_end(list);
    (void)driver->cuGetErrorName(error, &name);
    (void)driver->cuGetErrorString(error, &text);
    return at_fail(status_of(error), "%s: %s (%s)%s", what, name != NULL ? name : "an error the driver has no name for",
                   text != NULL ? text : "no text",
                   at_driver_sticky(error) ? "; earlier work in this context left this error, before this call: the "
                                             "context can only be destroyed, or the process ended"
                                           : "");
}
