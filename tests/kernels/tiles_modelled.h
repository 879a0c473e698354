/* The code of CPU kernels for tiles, where a few lines of C replace the instructions: its layout of tiles can be tried
 * on machines without them, as long as these have AVX-512 BF16. */
#ifndef TESTS_KERNELS_TILES_MODELLED_H
#define TESTS_KERNELS_TILES_MODELLED_H

#include "attune/kernel.h"

void attune_cpu_bf16_modelled(const attune_args *args, int64_t item, void *scratch);
void attune_cpu_decode_modelled(const attune_args *args, int64_t item, void *scratch);

#endif
