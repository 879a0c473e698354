/* Tensor maps: descriptions of tensors for the copy engine. */
#ifndef CUDA_MAPS_H
#define CUDA_MAPS_H

#include <stdbool.h>

#include "attune/kernel.h"
#include "cuda/driver.h"

/* A tensor as the driver wants to have it described. */
typedef struct at_map_shape {
    uint32_t rank;
    uint64_t size[4];   /* elements, innermost first */
    uint64_t stride[3]; /* bytes, of all dimensions but the innermost */
    uint32_t box[4];
} at_map_shape;

/* Dimensions as attune_map says. */
at_map_shape at_map_shape_of(const attune_map *map, const attune_args *args, bool varlen);

/* Encodes a map of this call's tensor, on the host alone: about 0.05 us. A tensor without memory leaves it as it is. */
attune_status at_map_encode(const at_driver *driver, const attune_map *map, const attune_args *args, bool varlen,
                            attune_tensor_map *encoded);
/* The same of a tensor that `encoded` was made of and that differs in where it is alone. */
attune_status at_map_move(const at_driver *driver, const attune_map *map, const attune_args *args,
                          attune_tensor_map *encoded);

#endif
