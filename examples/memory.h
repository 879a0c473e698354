/* Memory that the program and a target's kernels both reach, for examples: malloc's on a CPU, managed memory on CUDA,
 * whose driver is found at run time as the library finds it. An engine has pools of its own. */
#ifndef EXAMPLES_MEMORY_H
#define EXAMPLES_MEMORY_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct memory {
    void *driver; /* NULL: a CPU's */
    int (*allocate)(unsigned long long *address, size_t bytes, unsigned flags);
    int (*release)(unsigned long long address);
    int (*synchronise)(void);
} memory;

/* The driver's function of that name; NULL where it has none, or another failed before. */
static inline void *memory_find(const memory *of, const char *name, int *failed)
{
    void *found = of->driver == NULL || *failed ? NULL : dlsym(of->driver, name);
    *failed |= found == NULL;
    return found;
}

/* For attune's target "cpu" or "cuda", whose device's primary context, that of attune too, becomes this thread's.
 * Returns 0, or 1 where there is no such device. */
static inline int memory_open(memory *of, const char *target)
{
    int failed = 0, device = 0;
    void *context = NULL;
    int (*init)(unsigned flags), (*get)(int *device, int index), (*retain)(void **context, int device),
        (*set)(void *context);
    *of = (memory){.driver = NULL};
    if (strcmp(target, "cuda") != 0) {
        return 0;
    }
    of->driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    *(void **)&init = memory_find(of, "cuInit", &failed);
    *(void **)&get = memory_find(of, "cuDeviceGet", &failed);
    *(void **)&retain = memory_find(of, "cuDevicePrimaryCtxRetain", &failed);
    *(void **)&set = memory_find(of, "cuCtxSetCurrent", &failed);
    *(void **)&of->allocate = memory_find(of, "cuMemAllocManaged", &failed);
    *(void **)&of->release = memory_find(of, "cuMemFree_v2", &failed);
    *(void **)&of->synchronise = memory_find(of, "cuCtxSynchronize", &failed);
    return failed || init(0) || get(&device, 0) || retain(&context, device) || set(context);
}

/* At least 256 bytes aligned; NULL where there is none. */
static inline void *memory_take(const memory *of, size_t bytes)
{
    unsigned long long address = 0;
    const unsigned everywhere = 1;
    if (of->driver == NULL) {
        return aligned_alloc(256, (bytes + 255) / 256 * 256);
    }
    return of->allocate(&address, bytes > 0 ? bytes : 1, everywhere) ? NULL : (void *)(size_t)address;
}

static inline void memory_give(const memory *of, void *data)
{
    if (of->driver == NULL) {
        free(data);
    } else if (data != NULL) {
        (void)of->release((size_t)data);
    }
}

/* Waits until kernels are done with it; then the program may look. Returns 0, or 1 where one of them failed. */
static inline int memory_wait(const memory *of)
{
    return of->driver != NULL && of->synchronise() != 0;
}

#endif
