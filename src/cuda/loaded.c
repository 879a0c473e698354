/* Loading a kernel: what can be known then is worked out here, so that a call evaluates only what depends on sizes. */
#include "cuda/loaded.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/problem.h"
#include "core/term.h"
#include "cuda/cuda.h"

static attune_status make_ready(const attune_term *term, at_ready_term *ready)
{
    AT_FORWARD(at_term_check(term));
    bool constant = true;
    for (int i = 0; i < attune_term_length(term); ++i) {
        constant = constant && term->op[i] != ATTUNE_TERM_SIZE;
    }
    *ready = (at_ready_term){constant ? NULL : term, 0};
    return constant ? at_term_evaluate(term, &(at_sizes){{0}}, &ready->value) : ATTUNE_OK;
}

static void add_attribute(at_ready_step *ready, at_cu_launch_attribute attribute)
{
    ready->attribute[ready->config.attribute_count++] = attribute;
}

/* All of a launch that no call changes. */
static void configure(const attune_step_kernel *step, const attune_target *target, at_ready_step *ready)
{
    ready->config =
        (at_cu_launch_config){.block = {(unsigned)step->block[0], (unsigned)step->block[1], (unsigned)step->block[2]},
                              .attributes = ready->attribute};
    if (step->cluster[0] * step->cluster[1] * step->cluster[2] > 1) {
        add_attribute(ready,
                      (at_cu_launch_attribute){.id = AT_CU_LAUNCH_CLUSTER,
                                               .value.cluster = {(unsigned)step->cluster[0], (unsigned)step->cluster[1],
                                                                 (unsigned)step->cluster[2]}});
    }
    if (step->programmatic != 0 && target->arch >= 90) {
        add_attribute(ready, (at_cu_launch_attribute){.id = AT_CU_LAUNCH_PROGRAMMATIC, .value.programmatic = 1});
    }
}

/* What the driver needs to know of a function once: more dynamic shared memory, larger clusters than everywhere. */
static attune_status set_limits(const at_cuda_device *device, const attune_step_kernel *step, at_ready_step *ready,
                                int32_t smem_bytes)
{
    const at_driver *driver = device->driver;
    if (smem_bytes > 0) {
        AT_DRIVER_CHECK(driver, driver->cuFuncSetAttribute(ready->function, AT_CU_FUNC_SMEM_DYNAMIC_MAX, smem_bytes),
                        "%s: %d B of shared memory a block", step->entry, (int)smem_bytes);
    }
    if (step->cluster[0] * step->cluster[1] * step->cluster[2] > 8) {
        AT_DRIVER_CHECK(driver, driver->cuFuncSetAttribute(ready->function, AT_CU_FUNC_CLUSTER_NON_PORTABLE, 1),
                        "%s: clusters of more than 8 blocks", step->entry);
    }
    return ATTUNE_OK;
}

static attune_status check_roles(const attune_step_kernel *step)
{
    for (int i = 0; i < step->map_count; ++i) {
        AT_FAIL_IF(!at_role_has_map(step->map[i].role), ATTUNE_INTERNAL, "%s: a tensor map of %s, which has none",
                   step->entry, at_role_name(step->map[i].role));
    }
    return ATTUNE_OK;
}

static attune_status load_kernel_step(const at_cuda_device *device, at_cuda_loaded *loaded, const at_cubin *cubin,
                                      int index)
{
    const attune_step_kernel *step = &loaded->base.steps.step[index].as.kernel;
    at_ready_step *ready = &loaded->step[index];
    const at_cubin_entry *entry = at_cubin_find(cubin, step->entry);
    AT_DRIVER_CHECK(device->driver, device->driver->cuModuleGetFunction(&ready->function, loaded->module, step->entry),
                    "entry %s", step->entry);
    if (entry != NULL && entry->stack_bytes > loaded->stack_bytes) {
        loaded->stack_bytes = entry->stack_bytes;
    }
    for (int i = 0; i < 3; ++i) {
        AT_FORWARD(make_ready(&step->grid[i], &ready->grid[i]));
    }
    AT_FORWARD(make_ready(&step->smem, &ready->smem));
    ready->sizes = at_term_sizes(&step->grid[0]) | at_term_sizes(&step->grid[1]) | at_term_sizes(&step->grid[2]) |
                   at_term_sizes(&step->smem);
    AT_FORWARD(check_roles(step));
    configure(step, &device->base.target, ready);
    int32_t dynamic = loaded->base.resources.smem_bytes - (entry == NULL ? 0 : entry->smem_static);
    return set_limits(device, step, ready, ready->smem.term == NULL ? (int32_t)ready->smem.value : dynamic);
}

/* The handles are the device's; scratch memory lies before the kernel's own workspace. */
static attune_status prepare_gemm(at_cuda_device *device, at_cuda_loaded *loaded)
{
    attune_status status = ATTUNE_OK;
    (void)pthread_mutex_lock(&device->lock);
    if (device->cublas == NULL) {
        status = at_cublas_open(&device->cublas);
    }
    status = status == ATTUNE_OK ? at_cublas_prepare(device->cublas) : status;
    (void)pthread_mutex_unlock(&device->lock);
    if (status != ATTUNE_OK || loaded->scratch_bytes > 0) {
        return status;
    }
    loaded->scratch_bytes = at_gemm_scratch(&device->base.target);
    loaded->base.resources.workspace =
        attune_term_join(loaded->base.resources.workspace, ATTUNE_TERM_ADD, attune_term_const(loaded->scratch_bytes));
    return at_term_check(&loaded->base.resources.workspace);
}

static attune_status check_operand(const attune_operand *operand)
{
    if (operand->role >= 0) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_term_check(&operand->offset_bytes));
    AT_FORWARD(at_term_check(&operand->row_stride));
    AT_FORWARD(at_term_check(&operand->head_stride));
    return at_term_check(&operand->batch_stride);
}

static attune_status load_gemm_step(at_cuda_device *device, at_cuda_loaded *loaded, const attune_step_gemm *step,
                                    at_ready_step *ready)
{
    ready->sizes = UINT64_MAX;
    ready->by_shape = true;
    AT_FORWARD(check_operand(&step->a));
    AT_FORWARD(check_operand(&step->b));
    AT_FORWARD(check_operand(&step->c));
    AT_FORWARD(at_term_check(&step->m));
    AT_FORWARD(at_term_check(&step->n));
    AT_FORWARD(at_term_check(&step->k));
    return prepare_gemm(device, loaded);
}

static attune_status load_fill_step(const attune_step_fill *step, at_ready_step *ready)
{
    AT_FORWARD(at_term_check(&step->offset_bytes));
    AT_FORWARD(at_term_check(&step->bytes));
    ready->sizes = at_term_sizes(&step->offset_bytes) | at_term_sizes(&step->bytes) | UINT64_C(1) << AT_SIZE_WORKSPACE;
    return ATTUNE_OK;
}

static attune_status load_steps(at_cuda_device *device, at_cuda_loaded *loaded, const at_cubin *cubin)
{
    for (int i = 0; i < loaded->base.steps.count; ++i) {
        const attune_step *step = &loaded->base.steps.step[i];
        loaded->step[i].kind = step->kind;
        AT_FORWARD(step->kind == ATTUNE_STEP_KERNEL ? load_kernel_step(device, loaded, cubin, i)
                   : step->kind == ATTUNE_STEP_FILL ? load_fill_step(&step->as.fill, &loaded->step[i])
                                                    : load_gemm_step(device, loaded, &step->as.gemm, &loaded->step[i]));
    }
    return ATTUNE_OK;
}

/* ---- Parameter blocks ----------------------------------------------------------------------------------------------
 */

/* Whether the maps of one step are the first of the other's. NOTE: attune_map has no bytes between its fields. */
static bool share_maps(const attune_step_kernel *a, const attune_step_kernel *b)
{
    const int count = a->map_count < b->map_count ? a->map_count : b->map_count;
    return memcmp(a->map, b->map, (size_t)count * sizeof a->map[0]) == 0;
}

static int choose_block(at_cuda_loaded *loaded, const attune_step_kernel *step)
{
    int at = 0;
    while (at < loaded->block_count && !share_maps(loaded->block[at].step, step)) {
        ++at;
    }
    at_ready_block *block = &loaded->block[at];
    loaded->block_count += at == loaded->block_count;
    if (block->step == NULL || block->step->map_count < step->map_count) {
        block->step = step;
    }
    return at;
}

static uint64_t roles_of(const attune_step_kernel *step)
{
    uint64_t roles = 0;
    for (int i = 0; i < step->map_count; ++i) {
        roles |= UINT64_C(1) << step->map[i].role;
    }
    return roles;
}

static at_map_twin find_twin(const at_cuda_loaded *loaded, int block, const attune_map *map)
{
    for (int i = 0; i < block; ++i) {
        const attune_step_kernel *step = loaded->block[i].step;
        for (int k = 0; k < step->map_count; ++k) {
            if (memcmp(&step->map[k], map, sizeof *map) == 0) {
                return (at_map_twin){(int8_t)i, (int8_t)k};
            }
        }
    }
    return (at_map_twin){-1, -1};
}

static void describe_block(at_cuda_loaded *loaded, int index)
{
    at_ready_block *block = &loaded->block[index];
    block->roles = roles_of(block->step);
    loaded->roles |= block->roles;
    for (int i = 0; i < block->step->map_count; ++i) {
        block->twin[i] = find_twin(loaded, index, &block->step->map[i]);
    }
}

static attune_status place_blocks(at_cuda_loaded *loaded)
{
    const size_t align = _Alignof(attune_args);
    const int count = loaded->base.steps.count;
    for (int i = 0; i < count; ++i) {
        const attune_step_kernel *step = &loaded->base.steps.step[i].as.kernel;
        if (loaded->step[i].kind == ATTUNE_STEP_KERNEL) {
            loaded->step[i].block = choose_block(loaded, step);
            loaded->block[loaded->step[i].block].users |= 1u << i;
        }
    }
    for (int i = 0; i < loaded->block_count; ++i) {
        describe_block(loaded, i);
    }
    const int apart = loaded->block_count - (loaded->block_count > 0 && at_block_is_args(loaded, 0));
    loaded->blocks_at =
        (offsetof(at_cuda_made, step) + (size_t)count * sizeof(at_cuda_step) + align - 1) / align * align;
    loaded->base.made_bytes = loaded->blocks_at + (size_t)apart * loaded->block_bytes;
    AT_FAIL_IF(loaded->base.made_bytes > AT_MADE_MAX, ATTUNE_INTERNAL, "%s: its calls take %zu bytes, at most %d",
               loaded->base.kernel->name, loaded->base.made_bytes, AT_MADE_MAX);
    return ATTUNE_OK;
}

/* ---- The whole -----------------------------------------------------------------------------------------------------
 */

static attune_status load_module(const at_cuda_device *device, const at_artifact *artifact, at_cuda_loaded *loaded)
{
    const at_driver *driver = device->driver;
    at_cu_result error = driver->cuModuleLoadData(&loaded->module, artifact->cubin);
    if ((error == AT_CU_NO_BINARY_FOR_GPU || error == AT_CU_INVALID_IMAGE) && artifact->compiler > 0) {
        return at_driver_fail(driver, error, "%s: code by NVRTC %d.%d for a driver of CUDA %d.%d",
                              loaded->base.kernel->name, artifact->compiler / 1000, artifact->compiler % 1000 / 10,
                              driver->version / 1000, driver->version % 1000 / 10);
    }
    AT_DRIVER_CHECK(driver, error, "loading %s", loaded->base.kernel->name);
    return ATTUNE_OK;
}

static attune_status load_into(at_cuda_device *device, const at_recipe *recipe, at_cuda_loaded *loaded)
{
    at_artifact artifact;
    at_cubin cubin;
    AT_FORWARD(at_provide(&device->provider, recipe, &device->base.target, &artifact, &cubin));
    memcpy(loaded->build, artifact.build, sizeof loaded->build);
    loaded->code = at_hash64(artifact.cubin, artifact.cubin_bytes, 0);
    bool pushed = false;
    attune_status status = at_cuda_enter(device, &pushed);
    if (status == ATTUNE_OK) {
        status = load_module(device, &artifact, loaded);
        status = status == ATTUNE_OK ? load_steps(device, loaded, &cubin) : status;
        status = status == ATTUNE_OK ? place_blocks(loaded) : status;
        at_cuda_leave(device, pushed);
    }
    at_artifact_free(&artifact);
    return status;
}

attune_status at_cuda_load(at_device *base, const at_recipe *recipe, at_loaded **loaded)
{
    at_cuda_device *device = at_cuda_of(base);
    *loaded = NULL;
    at_cuda_loaded *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to load %s", recipe->kernel->name);
    made->base = (at_loaded){base, recipe->kernel, recipe->config, recipe->resources, recipe->steps, 0};
    made->varlen = recipe->problem.varlen != 0;
    made->maps = at_args_maps(&recipe->steps);
    made->block_bytes = at_args_bytes(made->maps, at_args_roles(recipe->kernel, &recipe->problem));
    attune_status status = load_into(device, recipe, made);
    if (status != ATTUNE_OK) {
        at_cuda_unload(&made->base);
        return status;
    }
    *loaded = &made->base;
    return ATTUNE_OK;
}

void at_cuda_prove(const at_loaded *base, at_cuda_proof *proof)
{
    const at_cuda_loaded *loaded = (const at_cuda_loaded *)base;
    *proof = (at_cuda_proof){.code = loaded->code, .stack_bytes = loaded->stack_bytes};
    memcpy(proof->build, loaded->build, sizeof proof->build);
    for (int i = 0; i < base->steps.count && proof->function == 0; ++i) {
        proof->function = (uintptr_t)loaded->step[i].function;
    }
}

void at_cuda_unload(at_loaded *base)
{
    at_cuda_loaded *loaded = (at_cuda_loaded *)base;
    if (loaded == NULL) {
        return;
    }
    const at_cuda_device *device = at_cuda_of(base->device);
    bool pushed = false;
    if (loaded->module != NULL && at_cuda_enter(device, &pushed) == ATTUNE_OK) {
        (void)device->driver->cuModuleUnload(loaded->module);
        at_cuda_leave(device, pushed);
    }
    free(loaded);
}
