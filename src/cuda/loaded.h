/* A kernel loaded on a CUDA device, and what a call of it makes of its steps. */
#ifndef CUDA_LOADED_H
#define CUDA_LOADED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/digest.h"
#include "cuda/device.h"

/* A term, and its value where that needs no sizes. */
typedef struct at_ready_term {
    const attune_term *term; /* NULL: constant; else checked */
    int64_t value;
} at_ready_term;

typedef struct at_ready_step {
    attune_step_kind kind;
    int block;      /* of a kernel: which parameter block it takes */
    uint64_t sizes; /* a bit for each that it depends on, AT_SIZE_WORKSPACE too */
    bool by_shape;  /* it depends on tensors' strides too */
    at_ready_term grid[3];
    at_ready_term smem;
    at_cu_function function;
    at_cu_launch_config config; /* all but grid, shared memory and stream */
    at_cu_launch_attribute attribute[2];
} at_ready_step;

/* The same map in an earlier block, which need not be made twice; block -1: there is none. */
typedef struct at_map_twin {
    int8_t block, map;
} at_map_twin;

/* A parameter block: an attune_args with `maps` tensor maps, which one kernel step takes or several whose maps are the
 * same, as far as they have any. */
typedef struct at_ready_block {
    const attune_step_kernel *step; /* the one with the most maps */
    uint64_t roles;                 /* of its maps */
    uint32_t users;                 /* a bit for each step that takes the block */
    at_map_twin twin[ATTUNE_MAPS_MAX];
} at_ready_block;

typedef struct at_cuda_loaded {
    at_loaded base;
    at_cu_module module;
    bool varlen;
    int64_t scratch_bytes; /* of cuBLAS, at the beginning of the call's workspace */
    char build[AT_DIGEST_TEXT_MAX];
    uint64_t code;
    int32_t stack_bytes;
    int maps;           /* of a block */
    size_t block_bytes; /* as the code takes it: at_args_bytes */
    int block_count;
    size_t blocks_at; /* byte of an at_cuda_made where the blocks begin that follow it */
    uint64_t roles;   /* of the maps of all blocks */
    at_ready_block block[ATTUNE_STEPS_MAX];
    at_ready_step step[ATTUNE_STEPS_MAX];
} at_cuda_loaded;

/* What sizes and strides make of a step. */
typedef union at_cuda_step {
    struct {
        uint32_t grid[3]; /* a 0 among them: nothing is launched */
        uint32_t smem_bytes;
    } kernel;
    struct {
        uint64_t offset, bytes; /* of the workspace */
    } fill;
    at_gemm_made gemm;
} at_cuda_step;

/* The blocks follow: all but the first, which is base.args itself where that has room for its maps. */
typedef struct at_cuda_made {
    at_made base;
    uint32_t stale[ATTUNE_STEPS_MAX]; /* of each block, the maps that are to be encoded before a launch */
    at_cuda_step step[];              /* of each step */
} at_cuda_made;

static inline attune_tensor_map *at_block_maps(attune_args *block)
{
    return (attune_tensor_map *)(void *)((char *)block + offsetof(attune_args, map));
}

static inline size_t at_block_tensors(const at_cuda_loaded *loaded)
{
    return offsetof(attune_args, map) + (size_t)loaded->maps * sizeof(attune_tensor_map);
}

static inline bool at_block_is_args(const at_cuda_loaded *loaded, int block)
{
    return block == 0 && loaded->maps == ATTUNE_ARGS_MAPS;
}

/* A block: a header as attune_args has it, then its maps, then at byte at_block_tensors the tensors. */
static inline attune_args *at_block_of(const at_cuda_loaded *loaded, at_cuda_made *made, int block)
{
    char *first = (char *)made + loaded->blocks_at - (loaded->maps == ATTUNE_ARGS_MAPS ? loaded->block_bytes : 0);
    return at_block_is_args(loaded, block) ? &made->base.args
                                           : (attune_args *)(void *)(first + (size_t)block * loaded->block_bytes);
}

attune_status at_cuda_load(at_device *device, const at_recipe *recipe, at_loaded **loaded);
void at_cuda_unload(at_loaded *loaded);

/* at_device_ops.inspect; of a stream. */
attune_status at_cuda_look(const at_loaded *loaded, const attune_args *args, uint64_t buffers);
attune_status at_cuda_look_at_stream(at_cuda_device *device, at_cu_stream stream);

attune_status at_cuda_make(const at_loaded *loaded, at_made *made, const at_change *change);
attune_status at_cuda_launch(const at_loaded *loaded, at_made *made, void *stream);

#endif
