/* A device: an opened target that loads kernels, holds buffers and launches. src/cpu and src/cuda implement it, so that
 * the planner, the gate and the benches need not know which one they hold. */
#ifndef CORE_DEVICE_H
#define CORE_DEVICE_H

#include "core/call.h"
#include "core/recipe.h"

typedef struct at_device at_device;

/* A kernel made ready to launch for (problem, config): compiled, loaded, terms checked. Immutable; belongs to whoever
 * loaded it. Implementations embed it as their first member. */
typedef struct at_loaded {
    at_device *device;
    const attune_kernel *kernel;
    attune_config config;
    attune_resources resources;
    attune_steps steps;
    size_t made_bytes; /* of an at_made for it with what the device keeps there; 0: sizeof(at_made) */
} at_loaded;

/* A call's args, and behind them whatever the device makes of them: then the call can be launched again and again, by
 * one thread at a time. Implementations embed it as their first member. */
typedef struct at_made {
    attune_args args; /* without tensor maps */
} at_made;

enum { AT_MADE_MAX = 32768 };

/* Room for any at_made, contents arbitrary. */
typedef union at_made_room {
    at_made made;
    unsigned char bytes[AT_MADE_MAX];
} at_made_room;

enum { AT_FILL_NOTHING = -1, AT_FILL_BACKWARDS = -2 /* nothing either, and a CPU's items come in the other order */ };

typedef struct at_device_ops {
    /* Makes a kernel ready; the recipe itself is not kept, what it points to is. It may be a stranger's: whatever in
     * it could do harm here is checked. */
    attune_status (*load)(at_device *device, const at_recipe *recipe, at_loaded **loaded);
    void (*unload)(at_loaded *loaded);
    /* Target's own checks of a validated call's args (host arrays on a CPU), of the buffers with these bits where calls
     * are kept; may be NULL. */
    attune_status (*inspect)(const at_loaded *loaded, const attune_args *args, uint64_t buffers);
    /* Evaluates what the steps take of made->args, which differ by `change` from those it was last made of; at first,
     * by AT_CHANGE_ALL. NULL: there is nothing to make, and calls are not kept. */
    attune_status (*make)(const at_loaded *loaded, at_made *made, const at_change *change);
    /* Runs (CPU) or enqueues (CUDA) all steps of what was made. */
    attune_status (*launch)(const at_loaded *loaded, at_made *made, void *stream);
    /* On a CPU: the items of one step of these args, and some of them done on this thread. NULL: there are none. */
    attune_status (*count_items)(const at_loaded *loaded, const attune_args *args, int step, int64_t *items);
    attune_status (*run_items)(const at_loaded *loaded, attune_args *args, int step, int64_t first, int64_t count,
                               void *scratch);
    /* Waits for everything on the stream. */
    attune_status (*synchronise)(at_device *device, void *stream);
    /* Buffers for the planner, the gate and the benches, 256-byte aligned, contents arbitrary. */
    attune_status (*allocate)(at_device *device, size_t bytes, void **data);
    void (*release)(at_device *device, void *data);
    attune_status (*upload)(at_device *device, void *to, const void *from, size_t bytes);
    attune_status (*download)(at_device *device, void *to, const void *from, size_t bytes);
    /* Whether that many bytes of a buffer are the host's, in fewer copies than by a download. May be NULL. */
    attune_status (*compare)(at_device *device, const void *host, const void *data, size_t bytes, bool *same);
    /* Before the next call, fills what kernels may read before they write it (a GPU's shared memory, a CPU's scratch)
     * with a pattern, or leaves it as it is: AT_FILL_NOTHING. May be NULL. */
    attune_status (*poison_scratch)(at_device *device, int pattern);
    /* Has the next call's buffers lie between pages that are not there, and those of its inputs where nothing can be
     * written: who reads behind them or writes there ends the process, or its context. May be NULL. */
    attune_status (*fence)(at_device *device);
    /* From now on (`on`), or no longer, runs the same kernel with delays behind its barriers. ATTUNE_UNSUPPORTED or
     * ATTUNE_COMPILE_ERROR where there can be no such code. May be NULL. */
    attune_status (*delay)(at_device *device, const at_loaded *loaded, bool on);
    void (*close)(at_device *device);
} at_device_ops;

struct at_device {
    const at_device_ops *ops;
    attune_target target;
    bool apart;     /* its buffers are not this process's memory, even where the target is a CPU */
    unsigned forks; /* at_fork_count() where it was opened */
};

/* ATTUNE_NO_DEVICE in a child that was forked from the process which opened the device, if forking loses such a device.
 */
attune_status at_device_check(const at_device *device);
bool at_device_is_lost(const at_device *device);

/* Bytes of an at_made of this kernel, a multiple of its alignment. */
size_t at_made_bytes(const at_loaded *loaded);
/* Makes all of a call whose args are complete but for tensor maps, and launches it. */
attune_status at_launch(const at_loaded *loaded, at_made *made, void *stream);
/* The same of args that need have no config either. */
attune_status at_launch_args(const at_loaded *loaded, const attune_args *args, void *stream);

#endif
