/* Compiled kernels kept on disk, one file each, found by the digest of all that went in. Nothing here fails: a cache
 * that cannot be read or written only costs compile time. */
#ifndef CUDA_CACHE_H
#define CUDA_CACHE_H

#include <stdbool.h>

#include "cuda/artifact.h"

/* Where compiled kernels are kept: `directory`, or with NULL the user's place for caches; "" for nowhere. The result is
 * for the caller to free, and NULL where there is no place. */
char *at_cache_place(const char *directory);
/* Finds what `compiler` made of `build` (its digest); damaged files and strangers count as not found. The caller frees
 * the artifact. `place` may be NULL. */
bool at_cache_find(const char *place, const char *build, int compiler, at_artifact *artifact);
/* Keeps an artifact, replacing what is there; true if it is kept. */
bool at_cache_keep(const char *place, const at_artifact *artifact);

#endif
