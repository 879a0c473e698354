/* Compiled code for a build, from wherever it can be had. */
#ifndef CUDA_PROVIDE_H
#define CUDA_PROVIDE_H

#include "cuda/compile.h"
#include "cuda/cubin.h"
#include "cuda/pack.h"

/* Where code comes from; any of them may be NULL. */
typedef struct at_provider {
    const at_pack *pack;
    char *cache; /* at_cache_place */
    at_nvrtc *nvrtc;
} at_provider;

/* Pack, else cache, else compiler (and then into the cache), or the kernel's image; inspected and checked against the
 * recipe. What the cache holds but does not pass is compiled anew. The caller frees the artifact; `cubin` may be
 * NULL. */
attune_status at_provide(const at_provider *provider, const at_recipe *recipe, const attune_target *target,
                         at_artifact *artifact, at_cubin *cubin);

#endif
