/* Compiled code for a build, from wherever it can be had. */
#ifndef CUDA_PROVIDE_H
#define CUDA_PROVIDE_H

#include "cuda/compile.h"
#include "cuda/cubin.h"
#include "cuda/pack.h"

/* Who makes a cubin of PTX: a device's driver, for that device. `ptx` is terminated; of the artifact only the code is
 * set. */
typedef struct at_assembler {
    attune_status (*assemble)(void *context, const char *ptx, size_t bytes, at_artifact *artifact); /* may be NULL */
    void *context;
    int version; /* of the driver: 1000 * major + 10 * minor */
} at_assembler;

/* Where code comes from; any of them may be NULL. */
typedef struct at_provider {
    const at_pack *pack;
    char *cache; /* at_cache_place */
    at_nvrtc *nvrtc;
    at_assembler assembler;
} at_provider;

/* Where the recipe wants delays: of its PTX, by the assembler, inspected likewise; ATTUNE_UNSUPPORTED where that cannot
 * be. Else pack, else cache, else compiler (and then into the cache), or the kernel's image; inspected and checked
 * against the recipe. What the cache holds but does not pass is compiled anew. The caller frees the artifact; `cubin`
 * may be NULL. */
attune_status at_provide(const at_provider *provider, const at_recipe *recipe, const attune_target *target,
                         at_artifact *artifact, at_cubin *cubin);

#endif
