/* Loading a kernel and launching it. What can be known at load is worked out there: a launch evaluates the terms that
 * depend on sizes, encodes tensor maps into the caller's args, and calls the driver. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/problem.h"
#include "core/term.h"
#include "cuda/cuda.h"
#include "cuda/device.h"
#include "cuda/maps.h"

/* A term, and its value where that needs no sizes. */
typedef struct ready_term {
    const attune_term *term; /* NULL: constant */
    int64_t value;
} ready_term;

typedef struct ready_step {
    attune_step_kind kind;
    at_cu_function function;
    ready_term grid[3];
    ready_term smem;
    uint32_t attribute_count;
    at_cu_launch_attribute attribute[2];
} ready_step;

typedef struct cuda_loaded {
    at_loaded base;
    at_cu_module module;
    bool varlen;
    int64_t scratch_bytes; /* of cuBLAS, at the beginning of the call's workspace */
    char build[AT_DIGEST_TEXT_MAX];
    uint64_t code;
    ready_step step[ATTUNE_STEPS_MAX];
} cuda_loaded;

/* ---- Loading --------------------------------------------------------------------------------------------------------
 */

static attune_status make_ready(const attune_term *term, ready_term *ready)
{
    AT_FORWARD(at_term_check(term));
    bool constant = true;
    for (int i = 0; i < attune_term_length(term); ++i) {
        constant = constant && term->op[i] != ATTUNE_TERM_SIZE;
    }
    *ready = (ready_term){constant ? NULL : term, 0};
    return constant ? at_term_evaluate(term, &(at_sizes){{0}}, &ready->value) : ATTUNE_OK;
}

static void add_attributes(const attune_step_kernel *step, const attune_target *target, ready_step *ready)
{
    if (step->cluster[0] * step->cluster[1] * step->cluster[2] > 1) {
        ready->attribute[ready->attribute_count++] = (at_cu_launch_attribute){
            .id = AT_CU_LAUNCH_CLUSTER,
            .value.cluster = {(unsigned)step->cluster[0], (unsigned)step->cluster[1], (unsigned)step->cluster[2]}};
    }
    if (step->programmatic != 0 && target->arch >= 90) {
        ready->attribute[ready->attribute_count++] =
            (at_cu_launch_attribute){.id = AT_CU_LAUNCH_PROGRAMMATIC, .value.programmatic = 1};
    }
}

/* What the driver must be told of a function once: more dynamic shared memory, larger clusters than everywhere. */
static attune_status set_limits(const at_cuda_device *device, const attune_step_kernel *step, ready_step *ready,
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
        AT_FAIL_IF((int)step->map[i].role > ATTUNE_O, ATTUNE_INTERNAL,
                   "%s: a tensor map of %s; Q, K, V and O have them", step->entry,
                   at_role_name((int)step->map[i].role));
    }
    return ATTUNE_OK;
}

static attune_status load_kernel_step(const at_cuda_device *device, cuda_loaded *loaded, const at_cubin *cubin,
                                      int index)
{
    const attune_step_kernel *step = &loaded->base.steps.step[index].as.kernel;
    ready_step *ready = &loaded->step[index];
    const at_cubin_entry *entry = at_cubin_find(cubin, step->entry);
    AT_DRIVER_CHECK(device->driver, device->driver->cuModuleGetFunction(&ready->function, loaded->module, step->entry),
                    "entry %s", step->entry);
    for (int i = 0; i < 3; ++i) {
        AT_FORWARD(make_ready(&step->grid[i], &ready->grid[i]));
    }
    AT_FORWARD(make_ready(&step->smem, &ready->smem));
    AT_FORWARD(check_roles(step));
    add_attributes(step, &device->base.target, ready);
    int32_t dynamic = loaded->base.resources.smem_bytes - (entry == NULL ? 0 : entry->smem_static);
    return set_limits(device, step, ready, ready->smem.term == NULL ? (int32_t)ready->smem.value : dynamic);
}

/* The handles are the device's; scratch memory stands before the kernel's own workspace. */
static attune_status prepare_gemm(at_cuda_device *device, cuda_loaded *loaded)
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

static attune_status load_steps(at_cuda_device *device, cuda_loaded *loaded, const at_cubin *cubin)
{
    for (int i = 0; i < loaded->base.steps.count; ++i) {
        loaded->step[i].kind = loaded->base.steps.step[i].kind;
        if (loaded->step[i].kind == ATTUNE_STEP_KERNEL) {
            AT_FORWARD(load_kernel_step(device, loaded, cubin, i));
        } else if (loaded->step[i].kind == ATTUNE_STEP_GEMM) {
            AT_FORWARD(prepare_gemm(device, loaded));
        }
    }
    return ATTUNE_OK;
}

static attune_status load_module(const at_cuda_device *device, const at_artifact *artifact, cuda_loaded *loaded)
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

static attune_status load_into(at_cuda_device *device, const at_recipe *recipe, cuda_loaded *loaded)
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
        at_cuda_leave(device, pushed);
    }
    at_artifact_free(&artifact);
    return status;
}

attune_status at_cuda_load(at_device *base, const at_recipe *recipe, at_loaded **loaded)
{
    at_cuda_device *device = at_cuda_of(base);
    *loaded = NULL;
    cuda_loaded *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to load %s", recipe->kernel->name);
    made->base = (at_loaded){base, recipe->kernel, recipe->config, recipe->resources, recipe->steps};
    made->varlen = recipe->problem.varlen != 0;
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
    const cuda_loaded *loaded = (const cuda_loaded *)base;
    *proof = (at_cuda_proof){.code = loaded->code};
    memcpy(proof->build, loaded->build, sizeof proof->build);
    for (int i = 0; i < base->steps.count && proof->function == 0; ++i) {
        proof->function = (uintptr_t)loaded->step[i].function;
    }
}

void at_cuda_unload(at_loaded *base)
{
    cuda_loaded *loaded = (cuda_loaded *)base;
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

/* ---- Looking at a call's pointers -----------------------------------------------------------------------------------
 */

static attune_status look_at(const at_cuda_device *device, const char *name, const void *data)
{
    const at_driver *driver = device->driver;
    const at_cu_pointer pointer = (uintptr_t)data;
    unsigned int type = 0;
    unsigned int managed = 0;
    int ordinal = -1;
    at_cu_result error = driver->cuPointerGetAttribute(&type, AT_CU_POINTER_MEMORY_TYPE, pointer);
    AT_FAIL_IF(error == AT_CU_INVALID_VALUE, ATTUNE_INVALID_ARGUMENT,
               "%s: %p is not CUDA memory; device, managed or pinned memory is needed", name, data);
    AT_DRIVER_CHECK(driver, error, "%s: asking what %p is", name, data);
    if (type != AT_CU_MEMORY_DEVICE ||
        (driver->cuPointerGetAttribute(&managed, AT_CU_POINTER_IS_MANAGED, pointer) == AT_CU_SUCCESS && managed != 0)) {
        return ATTUNE_OK;
    }
    AT_DRIVER_CHECK(driver, driver->cuPointerGetAttribute(&ordinal, AT_CU_POINTER_DEVICE, pointer),
                    "%s: asking where %p is", name, data);
    AT_FAIL_IF(ordinal != device->handle, ATTUNE_INVALID_ARGUMENT, "%s: %p is memory of device %d, the plan is for %d",
               name, data, ordinal, device->handle);
    return ATTUNE_OK;
}

static attune_status look_once(at_cuda_device *device, const char *name, const void *data)
{
    bool pushed = false;
    AT_FORWARD(at_cuda_enter(device, &pushed));
    attune_status status = look_at(device, name, data);
    at_cuda_leave(device, pushed);
    if (status == ATTUNE_OK) {
        at_remember(device->known_memory, (uintptr_t)data);
    }
    return status;
}

attune_status at_cuda_look(const at_loaded *loaded, const attune_args *args)
{
    at_cuda_device *device = at_cuda_of(loaded->device);
    for (int role = 0; role < ATTUNE_ROLE_COUNT; ++role) {
        const void *data = args->tensor[role].data;
        if (data != NULL && !at_known(device->known_memory, (uintptr_t)data)) {
            AT_FORWARD(look_once(device, at_role_name(role), data));
        }
    }
    if (args->workspace != NULL && args->workspace_bytes > 0 &&
        !at_known(device->known_memory, (uintptr_t)args->workspace)) {
        AT_FORWARD(look_once(device, "workspace", args->workspace));
    }
    return ATTUNE_OK;
}

/* The driver's own two names for the default streams are of no context. */
static attune_status look_at_stream(at_cuda_device *device, at_cu_stream stream)
{
    at_cu_context of = NULL;
    if ((uintptr_t)stream <= 2 || at_known(device->known_stream, (uintptr_t)stream)) {
        return ATTUNE_OK;
    }
    AT_DRIVER_CHECK(device->driver, device->driver->cuStreamGetCtx(stream, &of), "call.stream %p", (void *)stream);
    AT_FAIL_IF(of != device->context, ATTUNE_INVALID_ARGUMENT,
               "call.stream %p is of another device or context than the plan (device %d)", (void *)stream,
               device->handle);
    at_remember(device->known_stream, (uintptr_t)stream);
    return ATTUNE_OK;
}

/* ---- Launching ------------------------------------------------------------------------------------------------------
 */

static attune_status value_of(const ready_term *ready, const at_sizes *sizes, int64_t *value)
{
    *value = ready->value;
    return ready->term == NULL ? ATTUNE_OK : at_term_evaluate(ready->term, sizes, value);
}

/* A launch's blocks; none is an empty grid. */
typedef struct extent {
    uint32_t grid[3];
    uint32_t smem_bytes;
} extent;

static attune_status grid_of(const attune_step_kernel *step, const ready_step *ready, const at_sizes *sizes,
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

static bool is_empty(const uint32_t grid[3])
{
    return grid[0] == 0 || grid[1] == 0 || grid[2] == 0;
}

/* What the sizes and tensors of a call make of a step: its grid, and tensor maps in args. */
static attune_status make_kernel(const at_cuda_device *device, const cuda_loaded *loaded, int index,
                                 const at_sizes *sizes, attune_args *args, extent *made)
{
    const attune_step_kernel *step = &loaded->base.steps.step[index].as.kernel;
    const ready_step *ready = &loaded->step[index];
    int64_t smem = 0;
    AT_FORWARD(grid_of(step, ready, sizes, made->grid));
    if (is_empty(made->grid)) {
        return ATTUNE_OK;
    }
    AT_FORWARD(value_of(&ready->smem, sizes, &smem));
    made->smem_bytes = (uint32_t)smem;
    for (int i = 0; i < step->map_count; ++i) {
        AT_FORWARD(at_map_encode(device->driver, &step->map[i], args, loaded->varlen, &args->map[i]));
    }
    return ATTUNE_OK;
}

static attune_status launch_kernel(const at_cuda_device *device, const cuda_loaded *loaded, int index,
                                   const attune_args *args, const extent *made, at_cu_stream stream)
{
    const attune_step_kernel *step = &loaded->base.steps.step[index].as.kernel;
    const ready_step *ready = &loaded->step[index];
    void *params[] = {(void *)(uintptr_t)args};
    if (is_empty(made->grid)) {
        return ATTUNE_OK;
    }
    const at_cu_launch_config config = {
        .grid = {made->grid[0], made->grid[1], made->grid[2]},
        .block = {(unsigned)step->block[0], (unsigned)step->block[1], (unsigned)step->block[2]},
        .smem_bytes = made->smem_bytes,
        .stream = stream,
        .attributes = (at_cu_launch_attribute *)(uintptr_t)ready->attribute,
        .attribute_count = ready->attribute_count};
    AT_DRIVER_CHECK(device->driver, device->driver->cuLaunchKernelEx(&config, ready->function, params, NULL),
                    "launching %s on stream %p", step->entry, (void *)stream);
    return ATTUNE_OK;
}

/* A part of the workspace. */
typedef struct stretch {
    uint64_t offset, bytes;
} stretch;

static attune_status make_fill(const attune_step_fill *fill, const at_sizes *sizes, const attune_args *args,
                               stretch *made)
{
    int64_t offset = 0;
    int64_t bytes = 0;
    AT_FORWARD(at_term_evaluate(&fill->offset_bytes, sizes, &offset));
    AT_FORWARD(at_term_evaluate(&fill->bytes, sizes, &bytes));
    AT_FAIL_IF(offset < 0 || bytes < 0 || offset % 4 != 0 || bytes % 4 != 0 ||
                   (uint64_t)offset > args->workspace_bytes ||
                   (uint64_t)bytes > args->workspace_bytes - (uint64_t)offset,
               ATTUNE_INTERNAL, "a fill step of bytes %lld ... +%lld in a workspace of %llu", (long long)offset,
               (long long)bytes, (unsigned long long)args->workspace_bytes);
    *made = (stretch){(uint64_t)offset, (uint64_t)bytes};
    return ATTUNE_OK;
}

static attune_status launch_fill(const at_cuda_device *device, const attune_step_fill *fill, const attune_args *args,
                                 const stretch *made, at_cu_stream stream)
{
    if (made->bytes > 0) {
        AT_DRIVER_CHECK(device->driver,
                        device->driver->cuMemsetD32Async((uintptr_t)args->workspace + made->offset, fill->pattern,
                                                         made->bytes / 4, stream),
                        "filling %llu bytes of workspace", (unsigned long long)made->bytes);
    }
    return ATTUNE_OK;
}

static attune_status launch_steps(const at_cuda_device *device, const cuda_loaded *loaded, attune_args *args,
                                  at_cu_stream stream)
{
    const attune_steps *steps = &loaded->base.steps;
    void *scratch = args->workspace;
    at_sizes sizes;
    at_sizes_fill(&sizes, args, &device->base.target);
    if (loaded->scratch_bytes > 0) {
        args->workspace = (char *)args->workspace + loaded->scratch_bytes;
        args->workspace_bytes -= (attune_u64)loaded->scratch_bytes;
    }
    for (int i = 0; i < steps->count; ++i) {
        const attune_step *step = &steps->step[i];
        if (step->kind == ATTUNE_STEP_KERNEL) {
            extent made = {{0}, 0};
            AT_FORWARD(make_kernel(device, loaded, i, &sizes, args, &made));
            AT_FORWARD(launch_kernel(device, loaded, i, args, &made, stream));
        } else if (step->kind == ATTUNE_STEP_FILL) {
            stretch made = {0, 0};
            AT_FORWARD(make_fill(&step->as.fill, &sizes, args, &made));
            AT_FORWARD(launch_fill(device, &step->as.fill, args, &made, stream));
        } else {
            AT_FORWARD(at_gemm_run(device->cublas, &step->as.gemm, args, &sizes, stream, scratch,
                                   (size_t)loaded->scratch_bytes));
        }
    }
    return ATTUNE_OK;
}

attune_status at_cuda_launch(const at_loaded *base, attune_args *args, void *stream)
{
    const cuda_loaded *loaded = (const cuda_loaded *)base;
    at_cuda_device *device = at_cuda_of(base->device);
    bool pushed = false;
    AT_FORWARD(at_cuda_enter(device, &pushed));
    attune_status status = look_at_stream(device, stream);
    if (status == ATTUNE_OK) {
        memcpy(args->param, base->config.value, sizeof args->param);
        status = launch_steps(device, loaded, args, stream);
    }
    at_cuda_leave(device, pushed);
    return status;
}

attune_status at_cuda_make(const at_loaded *base, at_made *made)
{
    const cuda_loaded *loaded = (const cuda_loaded *)base;
    at_cuda_device *device = at_cuda_of(base->device);
    const int32_t last = base->steps.count - 1;
    extent blocks = {{0}, 0};
    stretch filled = {0, 0};
    at_sizes sizes;
    bool pushed = false;
    at_sizes_fill(&sizes, &made->args, &device->base.target);
    if (last > 0) {
        AT_FORWARD(make_fill(&base->steps.step[0].as.fill, &sizes, &made->args, &filled));
    }
    AT_FORWARD(at_cuda_enter(device, &pushed));
    attune_status status = make_kernel(device, loaded, last, &sizes, &made->args, &blocks);
    at_cuda_leave(device, pushed);
    memcpy(made->grid, blocks.grid, sizeof made->grid);
    made->smem_bytes = blocks.smem_bytes;
    made->fill_offset = filled.offset;
    made->fill_bytes = filled.bytes;
    return status;
}

static attune_status move_maps(const at_cuda_device *device, const attune_step_kernel *step, at_made *made,
                               uint32_t roles)
{
    for (int i = 0; i < step->map_count; ++i) {
        if ((roles >> step->map[i].role & 1u) != 0) {
            AT_FORWARD(at_map_move(device->driver, &step->map[i], &made->args, &made->args.map[i]));
        }
    }
    return ATTUNE_OK;
}

attune_status at_cuda_move(const at_loaded *base, at_made *made, uint32_t roles)
{
    const at_cuda_device *device = at_cuda_of(base->device);
    const attune_step *last = &base->steps.step[base->steps.count - 1];
    bool pushed = false;
    if (is_empty(made->grid)) { /* there are no maps */
        return ATTUNE_OK;
    }
    AT_FORWARD(at_cuda_enter(device, &pushed));
    attune_status status = move_maps(device, &last->as.kernel, made, roles);
    at_cuda_leave(device, pushed);
    return status;
}

static attune_status launch_both(const at_cuda_device *device, const cuda_loaded *loaded, const at_made *made,
                                 at_cu_stream stream)
{
    const attune_steps *steps = &loaded->base.steps;
    const extent blocks = {{made->grid[0], made->grid[1], made->grid[2]}, made->smem_bytes};
    const stretch filled = {made->fill_offset, made->fill_bytes};
    if (steps->count > 1) {
        AT_FORWARD(launch_fill(device, &steps->step[0].as.fill, &made->args, &filled, stream));
    }
    return launch_kernel(device, loaded, steps->count - 1, &made->args, &blocks, stream);
}

attune_status at_cuda_launch_made(const at_loaded *base, const at_made *made, void *stream)
{
    at_cuda_device *device = at_cuda_of(base->device);
    bool pushed = false;
    AT_FORWARD(at_cuda_enter(device, &pushed));
    attune_status status = look_at_stream(device, stream);
    status = status == ATTUNE_OK ? launch_both(device, (const cuda_loaded *)base, made, stream) : status;
    at_cuda_leave(device, pushed);
    return status;
}
