#include "core/device.h"

#include <string.h>

#include "base/fork.h"
#include "base/status.h"

bool at_device_is_lost(const at_device *device)
{
    return device->forks != at_fork_count() && device->target.kind == ATTUNE_TARGET_CUDA;
}

attune_status at_device_check(const at_device *device)
{
    AT_FAIL_IF(at_device_is_lost(device), ATTUNE_NO_DEVICE,
               "this process was forked from the one that opened the CUDA device, which is that one's alone: open a "
               "context after fork(), in a process that has not used CUDA before");
    return ATTUNE_OK;
}

size_t at_made_bytes(const at_loaded *loaded)
{
    const size_t align = _Alignof(at_made);
    const size_t bytes = loaded->made_bytes > 0 ? loaded->made_bytes : sizeof(at_made);
    return (bytes + align - 1) / align * align;
}

attune_status at_launch(const at_loaded *loaded, at_made *made, void *stream)
{
    const at_device_ops *ops = loaded->device->ops;
    if (ops->make != NULL) {
        AT_FORWARD(ops->make(loaded, made, &AT_CHANGE_ALL));
    }
    return ops->launch(loaded, made, stream);
}

attune_status at_launch_args(const at_loaded *loaded, const attune_args *args, void *stream)
{
    at_made_room room;
    room.made.args = *args;
    memcpy(room.made.args.param, loaded->config.value, sizeof room.made.args.param);
    return at_launch(loaded, &room.made, stream);
}
