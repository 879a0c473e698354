/* A device: an opened target that loads kernels, holds buffers and launches. src/cpu and src/cuda implement it, so that
 * the planner, the gate and the benches need not know which one they hold. */
#ifndef CORE_DEVICE_H
#define CORE_DEVICE_H

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
} at_loaded;

/* What a launch takes that is one kernel, or a fill and a kernel, complete: it may be launched again and again. */
typedef struct at_made {
    attune_args args; /* with tensor maps */
    uint32_t grid[3];
    uint32_t smem_bytes;
    uint64_t fill_offset, fill_bytes; /* of the workspace, before the kernel; 0 bytes: nothing */
} at_made;

typedef struct at_device_ops {
    /* Makes a kernel ready; the recipe itself is not kept, what it points to is. It may be a stranger's: whatever in
     * it could do harm here is checked. */
    attune_status (*load)(at_device *device, const at_recipe *recipe, at_loaded **loaded);
    void (*unload)(at_loaded *loaded);
    /* Target's own checks of a validated call's args (host arrays on a CPU); may be NULL. */
    attune_status (*inspect)(const at_loaded *loaded, const attune_args *args);
    /* Runs (CPU) or enqueues (CUDA) all steps. `args` is complete but for tensor maps and may be changed. */
    attune_status (*launch)(const at_loaded *loaded, attune_args *args, void *stream);
    /* The same where it is one kernel, or a fill and a kernel, and a device has it (else NULL): made->args is as above,
     * the rest is filled in. Then it can be launched again, on whatever stream. */
    attune_status (*make)(const at_loaded *loaded, at_made *made);
    /* What `make` made, once made->args has other addresses: of the tensors with these bits, and of the workspace. */
    attune_status (*move)(const at_loaded *loaded, at_made *made, uint32_t roles);
    attune_status (*launch_made)(const at_loaded *loaded, const at_made *made, void *stream);
    /* Waits for everything on the stream. */
    attune_status (*synchronise)(at_device *device, void *stream);
    /* Buffers for the planner, the gate and the benches, 256-byte aligned, contents arbitrary. */
    attune_status (*allocate)(at_device *device, size_t bytes, void **data);
    void (*release)(at_device *device, void *data);
    attune_status (*upload)(at_device *device, void *to, const void *from, size_t bytes);
    attune_status (*download)(at_device *device, void *to, const void *from, size_t bytes);
    /* Leaves a pattern in what kernels find and have not written: a GPU's shared memory. May be NULL. */
    attune_status (*litter)(at_device *device, int pattern);
    void (*close)(at_device *device);
} at_device_ops;

struct at_device {
    const at_device_ops *ops;
    attune_target target;
    bool apart; /* its buffers are not this process's memory, even where the target is a CPU */
};

#endif
