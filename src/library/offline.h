/* A device that is not there: plans can be made for it and read, nothing is compiled, loaded or run. */
#ifndef LIBRARY_OFFLINE_H
#define LIBRARY_OFFLINE_H

#include "core/device.h"

attune_status at_offline_open(const attune_target *target, at_device **device);

#endif
