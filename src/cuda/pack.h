/* Packs: many compiled kernels in one file, for machines without a compiler. */
#ifndef CUDA_PACK_H
#define CUDA_PACK_H

#include <stdbool.h>

#include "cuda/artifact.h"

typedef struct at_pack at_pack; /* immutable once read */

/* ATTUNE_NOT_FOUND, ATTUNE_IO_ERROR, or ATTUNE_CORRUPT for what is no sound pack. */
attune_status at_pack_read(const char *path, at_pack **pack);
void at_pack_destroy(at_pack *pack);
size_t at_pack_count(const at_pack *pack);
/* Finds a build by its digest, whatever compiled it. The caller frees the artifact. `pack` may be NULL. */
bool at_pack_find(const at_pack *pack, const char *build, at_artifact *artifact);
/* Writes artifacts as a pack, whole or not at all; of equal builds the first is kept. */
attune_status at_pack_write(const char *path, const at_artifact *artifacts, size_t count);

/* The same from and to memory. */
attune_status at_pack_parse(const unsigned char *data, size_t bytes, at_pack **pack);

#endif
