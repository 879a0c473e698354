/* The driver, looked up at run time. */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include "attune/attune.h"
#include "cuda/types.h"

#define AT_DRIVER_OLDEST 12000 /* 1000 * major + 10 * minor: tensor maps, cuGetProcAddress_v2 */

/* Every item resolved; immutable once open. */
typedef struct at_driver {
    void *library;
    int version;
#define ITEM(name, since, parameters) at_cu_result(*name) parameters;
    AT_DRIVER_ITEMS(ITEM)
#undef ITEM
} at_driver;

/* Opens $ATTUNE_LIBCUDA or libcuda.so.1, initialises the driver (no context) and resolves all items. ATTUNE_NO_DEVICE,
 * saying what is missing or how old it is, where that does not work. */
attune_status at_driver_open(at_driver **driver);
void at_driver_close(at_driver *driver);

/* The status and detail for a driver's error: "what: CUDA_ERROR_X (text)". Errors that stay in a context and come from
 * earlier, asynchronous work are said to. */
attune_status at_driver_fail(const at_driver *driver, at_cu_result error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Whether the error stays in its context, so that nothing works there any more. */
int at_driver_sticky(at_cu_result error);

#define AT_DRIVER_CHECK(driver, call, ...)                                                                             \
    do {                                                                                                               \
        at_cu_result at_result_ = (call);                                                                              \
        if (at_result_ != AT_CU_SUCCESS) {                                                                             \
            return at_driver_fail((driver), at_result_, __VA_ARGS__);                                                  \
        }                                                                                                              \
    } while (0)

#endif
