/* Calls of a loaded kernel: what a call's sizes and tensors make of its steps, and launching that. */
#include <string.h>

#include "base/status.h"
#include "core/term.h"
#include "cuda/loaded.h"
#include "cuda/maps.h"

static at_cuda_made *made_of(at_made *made)
{
    return (at_cuda_made *)(void *)made;
}

/* ---- Sizes ----------------------------------------------------------------------------------------------------------
 */

static attune_status value_of(const at_ready_term *ready, const at_sizes *sizes, int64_t *value)
{
    *value = ready->value;
    return ready->term == NULL ? ATTUNE_OK : at_term_value(ready->term, sizes, value);
}

static attune_status make_grid(const attune_step_kernel *step, const at_ready_step *ready, const at_sizes *sizes,
                               uint32_t grid[3])
{
    static const int64_t most[3] = {INT32_MAX, 65535, 65535};
    for (int i = 0; i < 3; ++i) {
        int64_t value = 0;
        AT_FORWARD(value_of(&ready->grid[i], sizes, &value));
        AT_FAIL_IF(value < 0 || value > most[i], ATTUNE_INVALID_ARGUMENT, "%s: grid[%d] is %lld blocks, at most %lld",
                   step->entry, i, (long long)value, (long long)most[i]);
        AT_FAIL_IF(step->cluster[i] > 1 && value % step->cluster[i] != 0, ATTUNE_INTERNAL,
                   "%s: grid[%d] is %lld blocks, not a multiple of the cluster's %d", step->entry, i, (long long)value,
                   (int)step->cluster[i]);
        grid[i] = (uint32_t)value;
    }
    return ATTUNE_OK;
}

static bool is_empty(const at_cuda_step *step)
{
    return step->kernel.grid[0] == 0 || step->kernel.grid[1] == 0 || step->kernel.grid[2] == 0;
}

static attune_status make_kernel(const attune_step_kernel *step, const at_ready_step *ready, const at_sizes *sizes,
                                 at_cuda_step *made)
{
    int64_t smem = 0;
    AT_FORWARD(make_grid(step, ready, sizes, made->kernel.grid));
    if (!is_empty(made)) {
        AT_FORWARD(value_of(&ready->smem, sizes, &smem));
    }
    made->kernel.smem_bytes = (uint32_t)smem;
    return ATTUNE_OK;
}

static attune_status make_fill(const attune_step_fill *fill, const at_sizes *sizes, const attune_args *args,
                               at_cuda_step *made)
{
    int64_t offset = 0;
    int64_t bytes = 0;
    AT_FORWARD(at_term_value(&fill->offset_bytes, sizes, &offset));
    AT_FORWARD(at_term_value(&fill->bytes, sizes, &bytes));
    AT_FAIL_IF(offset < 0 || bytes < 0 || offset % 4 != 0 || bytes % 4 != 0 ||
                   (uint64_t)offset > args->workspace_bytes ||
                   (uint64_t)bytes > args->workspace_bytes - (uint64_t)offset,
               ATTUNE_INTERNAL, "a fill step of bytes %lld ... +%lld in a workspace of %llu", (long long)offset,
               (long long)bytes, (unsigned long long)args->workspace_bytes);
    made->fill.offset = (uint64_t)offset;
    made->fill.bytes = (uint64_t)bytes;
    return ATTUNE_OK;
}

static attune_status make_step(const at_cuda_loaded *loaded, int index, const at_sizes *sizes, at_cuda_made *made)
{
    const attune_step *step = &loaded->base.steps.step[index];
    const attune_args *args = &made->base.args;
    at_cuda_step *its = &made->step[index];
    switch (step->kind) {
    case ATTUNE_STEP_KERNEL:
        return make_kernel(&step->as.kernel, &loaded->step[index], sizes, its);
    case ATTUNE_STEP_FILL:
        return make_fill(&step->as.fill, sizes, args, its);
    default:
        return at_gemm_make(&step->as.gemm, args, sizes, &its->gemm);
    }
}

static bool depends_on(const at_ready_step *step, const at_change *change)
{
    return (step->sizes & change->sizes) != 0 || (step->by_shape && change->shaped != 0) ||
           change->sizes == AT_CHANGE_ALL.sizes;
}

static attune_status make_steps(const at_cuda_loaded *loaded, const at_change *change, at_cuda_made *made)
{
    at_sizes sizes;
    at_sizes_fill(&sizes, &made->base.args, &loaded->base.device->target);
    for (int i = 0; i < loaded->base.steps.count; ++i) {
        if (depends_on(&loaded->step[i], change)) {
            AT_FORWARD(make_step(loaded, i, &sizes, made));
        }
    }
    return ATTUNE_OK;
}

/* ---- Parameter blocks ----------------------------------------------------------------------------------------------
 */

/* A block that is not args itself gets the same header and tensors; of a new one, the maps are zero. */
static void copy_args(const at_cuda_loaded *loaded, const attune_args *args, bool anew, attune_args *block)
{
    const size_t tensors = at_block_tensors(loaded);
    if (block == args) {
        return;
    }
    memcpy(block, args, offsetof(attune_args, map));
    if (anew) {
        memset(at_block_maps(block), 0, (size_t)loaded->maps * sizeof(attune_tensor_map));
    }
    memcpy((char *)block + tensors, (const char *)args + offsetof(attune_args, tensor), loaded->block_bytes - tensors);
}

/* Whether a step will be launched with the block. */
static bool is_used(const at_cuda_loaded *loaded, const at_cuda_made *made, int block)
{
    uint32_t left = loaded->block[block].users;
    while (left != 0 && is_empty(&made->step[__builtin_ctz(left)])) {
        left &= left - 1;
    }
    return left != 0;
}

/* The maps of a block over these roles, a bit for each. */
static uint32_t maps_over(const attune_step_kernel *step, uint64_t roles)
{
    uint32_t maps = 0;
    for (int i = 0; i < step->map_count; ++i) {
        maps |= (uint32_t)(roles >> step->map[i].role & 1u) << i;
    }
    return maps;
}

/* The map of an earlier block that this one is equal to, where that is made; else NULL. */
static const attune_tensor_map *find_made(const at_cuda_loaded *loaded, at_cuda_made *made, at_map_twin twin)
{
    if (twin.block < 0 || (made->stale[twin.block] >> twin.map & 1) != 0) {
        return NULL;
    }
    return &at_block_maps(at_block_of(loaded, made, twin.block))[twin.map];
}

static attune_status make_map(const at_cuda_loaded *loaded, at_cuda_made *made, const attune_map *map, bool moved,
                              attune_tensor_map *to)
{
    const at_driver *driver = at_cuda_of(loaded->base.device)->driver;
    return moved ? at_map_move(driver, map, &made->base.args, to)
                 : at_map_encode(driver, map, &made->base.args, loaded->varlen, to);
}

/* Makes maps that are stale, and those that only have moved. */
static attune_status renew_maps(const at_cuda_loaded *loaded, int index, uint32_t stale, uint32_t moved,
                                at_cuda_made *made)
{
    const at_ready_block *block = &loaded->block[index];
    attune_tensor_map *maps = at_block_maps(at_block_of(loaded, made, index));
    for (uint32_t left = stale | moved; left != 0; left &= left - 1) {
        const int i = __builtin_ctz(left);
        const attune_tensor_map *twin = find_made(loaded, made, block->twin[i]);
        if (twin != NULL) {
            maps[i] = *twin;
        } else {
            AT_FORWARD(make_map(loaded, made, &block->step->map[i], (stale >> i & 1) == 0, &maps[i]));
        }
    }
    return ATTUNE_OK;
}

/* Maps of what nothing is launched with are not encoded: its strides may be any. */
static attune_status make_maps(const at_cuda_loaded *loaded, int index, const at_change *change, at_cuda_made *made)
{
    const attune_step_kernel *step = loaded->block[index].step;
    const uint32_t stale = made->stale[index] | maps_over(step, change->shaped);
    const uint32_t moved = maps_over(step, change->moved);
    if (!is_used(loaded, made, index)) {
        made->stale[index] = stale | moved;
        return ATTUNE_OK;
    }
    made->stale[index] = 0;
    return renew_maps(loaded, index, stale, moved, made);
}

/* Copies args to all blocks; a bit for each whose maps are to be looked at. */
static uint32_t make_blocks(const at_cuda_loaded *loaded, const at_change *change, at_cuda_made *made)
{
    const bool anew = change->shaped == AT_CHANGE_ALL.shaped;
    uint32_t with_maps = 0;
    for (int i = 0; i < loaded->block_count; ++i) {
        made->stale[i] = anew ? 0 : made->stale[i];
        copy_args(loaded, &made->base.args, anew, at_block_of(loaded, made, i));
        bool touched = ((change->shaped | change->moved) & loaded->block[i].roles) != 0;
        with_maps |= (uint32_t)(touched || made->stale[i] != 0) << i;
    }
    return with_maps;
}

static attune_status make_all_maps(const at_cuda_loaded *loaded, uint32_t blocks, const at_change *change,
                                   at_cuda_made *made)
{
    for (; blocks != 0; blocks &= blocks - 1) {
        AT_FORWARD(make_maps(loaded, __builtin_ctz(blocks), change, made));
    }
    return ATTUNE_OK;
}

attune_status at_cuda_make(const at_loaded *base, at_made *made, const at_change *change)
{
    const at_cuda_loaded *loaded = (const at_cuda_loaded *)base;
    const at_cuda_device *device = at_cuda_of(base->device);
    bool pushed = false;
    if (loaded->scratch_bytes > 0) {
        made->args.workspace = (char *)made->args.workspace + loaded->scratch_bytes;
        made->args.workspace_bytes -= (attune_u64)loaded->scratch_bytes;
    }
    if ((change->sizes | change->shaped) != 0) {
        AT_FORWARD(make_steps(loaded, change, made_of(made)));
    }
    const uint32_t blocks = make_blocks(loaded, change, made_of(made));
    if (blocks == 0) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_cuda_enter(device, &pushed));
    attune_status status = make_all_maps(loaded, blocks, change, made_of(made));
    at_cuda_leave(device, pushed);
    return status;
}

/* ---- Launching ------------------------------------------------------------------------------------------------------
 */

static attune_status launch_kernel(const at_cuda_loaded *loaded, int index, at_cuda_made *made, at_cu_stream stream)
{
    const at_driver *driver = at_cuda_of(loaded->base.device)->driver;
    const at_ready_step *ready = &loaded->step[index];
    const at_cuda_step *step = &made->step[index];
    attune_args *block = at_block_of(loaded, made, ready->block);
    at_cu_launch_config config = ready->config;
    void *params[] = {block};
    if (is_empty(step)) {
        return ATTUNE_OK;
    }
    if (block->step != index) { /* of a block of its own it stays as it is: the driver's copy need not wait for it */
        block->step = index;
    }
    memcpy(config.grid, step->kernel.grid, sizeof config.grid);
    config.smem_bytes = step->kernel.smem_bytes;
    config.stream = stream;
    AT_DRIVER_CHECK(driver, driver->cuLaunchKernelEx(&config, ready->function, params, NULL),
                    "launching %s on stream %p", loaded->base.steps.step[index].as.kernel.entry, (void *)stream);
    return ATTUNE_OK;
}

static attune_status launch_fill(const at_cuda_device *device, const attune_step_fill *fill, const attune_args *args,
                                 const at_cuda_step *made, at_cu_stream stream)
{
    if (made->fill.bytes > 0) {
        AT_DRIVER_CHECK(device->driver,
                        device->driver->cuMemsetD32Async((uintptr_t)args->workspace + made->fill.offset, fill->pattern,
                                                         made->fill.bytes / 4, stream),
                        "filling %llu bytes of workspace", (unsigned long long)made->fill.bytes);
    }
    return ATTUNE_OK;
}

/* cuBLAS's scratch memory lies before the workspace. */
static attune_status launch_gemm(const at_cuda_loaded *loaded, const attune_step_gemm *gemm, const attune_args *args,
                                 const at_cuda_step *made, at_cu_stream stream)
{
    return at_gemm_run(at_cuda_of(loaded->base.device)->cublas, gemm, args, &made->gemm, stream,
                       (char *)args->workspace - loaded->scratch_bytes, (size_t)loaded->scratch_bytes);
}

static attune_status launch_steps(const at_cuda_loaded *loaded, at_cuda_made *made, at_cu_stream stream)
{
    const at_cuda_device *device = at_cuda_of(loaded->base.device);
    const attune_args *args = &made->base.args;
    for (int i = 0; i < loaded->base.steps.count; ++i) {
        const attune_step *step = &loaded->base.steps.step[i];
        AT_FORWARD(step->kind == ATTUNE_STEP_KERNEL ? launch_kernel(loaded, i, made, stream)
                   : step->kind == ATTUNE_STEP_FILL
                       ? launch_fill(device, &step->as.fill, args, &made->step[i], stream)
                       : launch_gemm(loaded, &step->as.gemm, args, &made->step[i], stream));
    }
    return ATTUNE_OK;
}

attune_status at_cuda_launch(const at_loaded *base, at_made *made, void *stream)
{
    at_cuda_device *device = at_cuda_of(base->device);
    bool pushed = false;
    AT_FORWARD(at_cuda_enter(device, &pushed));
    attune_status status = at_cuda_look_at_stream(device, stream);
    status = status == ATTUNE_OK ? launch_steps((const at_cuda_loaded *)base, made_of(made), stream) : status;
    at_cuda_leave(device, pushed);
    return status;
}
