/* Backends: how each kind of target is opened. Adding one is a row in backend.c. */
#ifndef LIBRARY_BACKEND_H
#define LIBRARY_BACKEND_H

#include "base/threads.h"
#include "core/device.h"
#include "library/settings.h"

/* Opens the target that the settings name; where they name none, the first backend that works, best first. The device
 * is closed through its ops, before the pool is destroyed. */
attune_status at_backend_open(const at_settings *settings, at_pool *pool, at_device **device);

#endif
