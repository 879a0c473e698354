/* The CUDA target: NVIDIA devices, driven from plain C through libraries that are looked up at run time. docs/cuda.md
 * is the guide for those who write kernels for it. */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H

#include "base/digest.h"
#include "core/device.h"

/* Devices the driver shows. ATTUNE_NO_DEVICE, with *count 0, where there is no usable driver or no device; the detail
 * says which, with the versions needed and found. */
attune_status at_cuda_count(int *count);
/* Describes a device, compiler included, without opening a context on it. ATTUNE_NO_DEVICE for an unknown ordinal. */
attune_status at_cuda_describe(int device, attune_target *target);
/* Opens a device: its current context in this thread, else its primary one. `cache` is the directory for compiled
 * kernels (NULL: the user's; "": none), `pack` a file written by at_cuda_export (NULL: none). */
attune_status at_cuda_open(int device, const char *cache, const char *pack, at_device **opened);

/* What a typical device of an architecture offers (80, 86, 89, 90, 100, 120), for compiling where there is none:
 * ATTUNE_NOT_FOUND for others. Features are on for 90 and later. */
attune_status at_cuda_typical(int arch, attune_target *target);

/* A kernel's compiled entry on a target, as `attune info --kernel` prints it. */
typedef struct at_cuda_usage {
    int32_t threads, registers, smem_bytes, local_bytes;       /* of a block; registers and local memory of a thread */
    int32_t spill_bytes;                                       /* stores and loads of a thread; -1 without a log */
    int32_t warnings;                                          /* C75xx of the compiler's log */
    int32_t blocks_sm;                                         /* resident blocks of one multiprocessor */
    double occupancy;                                          /* resident warps / possible warps */
    const char *limit;                                         /* what bounds it: "registers", "shared memory", ... */
    int32_t compiler;                                          /* 1000 * major + 10 * minor; 0: built ahead */
    char build[AT_DIGEST_TEXT_MAX], cubin[AT_DIGEST_TEXT_MAX]; /* of at_build, and of the code itself */
    char runs[AT_DIGEST_TEXT_MAX];                             /* of what of the code runs: at_cubin_code */
    uint64_t code;                                             /* as at_cuda_proof has it */
} at_cuda_usage;

/* What a kernel that was loaded launches: proof that what is timed is what was compiled. */
typedef struct at_cuda_proof {
    char build[AT_DIGEST_TEXT_MAX]; /* of the build that its code came from */
    uint64_t code;                  /* at_hash64 of that code */
    uintptr_t function;             /* the driver's handle of the first entry; 0 where there is none */
    int32_t stack_bytes;            /* of a thread of any of its entries; INT32_MAX: nobody knows */
} at_cuda_proof;

void at_cuda_prove(const at_loaded *loaded, at_cuda_proof *proof);

/* Compiles (or finds in the cache) and inspects; needs no device. The largest figures over the kernel's entries. */
attune_status at_cuda_inspect(const attune_kernel *kernel, const attune_problem *problem, const attune_target *target,
                              const attune_config *config, const char *cache, at_cuda_usage *usage);
attune_status at_cuda_inspect_recipe(const at_recipe *recipe, const attune_target *target, const char *cache,
                                     at_cuda_usage *usage);

/* One kernel to export: for a target that need not be here. */
typedef struct at_cuda_export_item {
    const attune_kernel *kernel;
    const attune_problem *problem;
    const attune_target *target;
    const attune_config *config;
} at_cuda_export_item;

/* Called with how many items are compiled. */
typedef struct at_cuda_export_watch {
    void (*compiled)(void *self, size_t done);
    void *self;
} at_cuda_export_watch;

/* Compiles all items and writes them as one pack, whole or not at all. `watch` may be NULL. */
attune_status at_cuda_export(const at_cuda_export_item *items, size_t count, const char *cache, const char *path,
                             const at_cuda_export_watch *watch);

#endif
