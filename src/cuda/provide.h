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

/* One kernel to have code for. */
typedef struct at_wanted {
    const attune_kernel *kernel;
    const attune_problem *problem;
    const attune_target *target;
    const attune_config *config;
    const at_embedded *sources; /* where sources and images are looked for; NULL: the library's own */
} at_wanted;

/* Pack, else cache, else compiler (and then into the cache), or the kernel's image; inspected and checked against the
 * descriptor. What the cache holds but does not pass is compiled anew. The caller frees the artifact; `cubin` may be
 * NULL. */
attune_status at_provide(const at_provider *provider, const at_wanted *wanted, at_artifact *artifact, at_cubin *cubin);

#endif
