#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/target.h"
#include "core/term.h"
#include "cpu/cpu.h"
#include "cpu/guard.h"

typedef struct cpu_device {
    at_device base;
    at_pool *pool;
    at_memory memory;
    at_cpu_guard guard;
    bool is_judged; /* the next launch */
    bool keeps, backwards;
    uint64_t judged_by;
} cpu_device;

typedef struct cpu_loaded {
    at_loaded base;
    attune_attend attend;
} cpu_loaded;

/* ---- Loading ---------------------------------------------------------------------------------------------------- */

/* The code of the highest tier that was built and that the target has. */
static attune_attend choose_tier(const attune_kernel *kernel, attune_isa isa)
{
    for (int tier = (int)isa; tier >= 0; --tier) {
        if (kernel->attend[tier] != NULL) {
            return kernel->attend[tier];
        }
    }
    return NULL;
}

static attune_status check_kernel_step(const attune_step_kernel *step)
{
    for (int i = 0; i < 3; ++i) {
        attune_status status = at_term_check(&step->grid[i]);
        if (status != ATTUNE_OK) {
            return at_fail_in(status, "grid[%d]", i);
        }
    }
    return ATTUNE_OK;
}

static attune_status check_fill_step(const attune_step_fill *step)
{
    attune_status status = at_term_check(&step->offset_bytes);
    if (status != ATTUNE_OK) {
        return at_fail_in(status, "offset_bytes");
    }
    status = at_term_check(&step->bytes);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "bytes");
}

static attune_status check_step(const attune_step *step)
{
    switch (step->kind) {
    case ATTUNE_STEP_KERNEL:
        return check_kernel_step(&step->as.kernel);
    case ATTUNE_STEP_FILL:
        return check_fill_step(&step->as.fill);
    case ATTUNE_STEP_GEMM:
        return at_fail(ATTUNE_UNSUPPORTED, "a gemm is done by cuBLAS, which a CPU target does not have");
    default:
        return at_fail(ATTUNE_INVALID_ARGUMENT, "kind %d is unknown", (int)step->kind);
    }
}

static attune_status check_steps(const attune_kernel *kernel, const attune_steps *steps)
{
    AT_FAIL_IF(steps->count < 1 || steps->count > ATTUNE_STEPS_MAX, ATTUNE_INVALID_ARGUMENT,
               "%s has %d steps: 1 to %d are possible", kernel->name, steps->count, ATTUNE_STEPS_MAX);
    for (int i = 0; i < steps->count; ++i) {
        attune_status status = check_step(&steps->step[i]);
        if (status != ATTUNE_OK) {
            return at_fail_in(status, "%s, step %d", kernel->name, i);
        }
    }
    return ATTUNE_OK;
}

static attune_status check_resources(const attune_kernel *kernel, const attune_resources *resources)
{
    AT_FAIL_IF(resources->scratch_bytes < 0 || resources->scratch_bytes > ATTUNE_SCRATCH_MAX, ATTUNE_UNSUPPORTED,
               "%s needs %lld bytes of scratch a thread: %d are there", kernel->name,
               (long long)resources->scratch_bytes, ATTUNE_SCRATCH_MAX);
    attune_status status = at_term_check(&resources->workspace);
    return status == ATTUNE_OK ? ATTUNE_OK : at_fail_in(status, "%s, workspace", kernel->name);
}

static attune_status fill_loaded(cpu_loaded *made)
{
    const attune_kernel *kernel = made->base.kernel;
    const attune_target *target = &made->base.device->target;
    AT_FAIL_IF(kernel->target != ATTUNE_TARGET_CPU, ATTUNE_UNSUPPORTED, "%s is not a CPU kernel", kernel->name);
    made->attend = choose_tier(kernel, target->isa);
    AT_FAIL_IF(made->attend == NULL, ATTUNE_UNSUPPORTED, "%s was built for none of the tiers up to %s", kernel->name,
               at_isa_name(target->isa));
    AT_FORWARD(check_resources(kernel, &made->base.resources));
    return check_steps(kernel, &made->base.steps);
}

static attune_status cpu_load(at_device *device, const at_recipe *recipe, at_loaded **loaded)
{
    *loaded = NULL;
    cpu_loaded *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "%s: out of memory for %zu bytes", recipe->kernel->name,
               sizeof *made);
    made->base = (at_loaded){device, recipe->kernel, recipe->config, recipe->resources, recipe->steps, 0};
    attune_status status = fill_loaded(made);
    if (status != ATTUNE_OK) {
        free(made);
        return status;
    }
    *loaded = &made->base;
    return ATTUNE_OK;
}

static void cpu_unload(at_loaded *loaded)
{
    free(loaded);
}

/* ---- Inspecting host arrays ------------------------------------------------------------------------------------- */

/* First rows of packed sequences: never decreasing, within the tensor, none longer than the plan allows. */
static attune_status inspect_sequences(const char *name, const int32_t *cu, int64_t batch, const char *total_name,
                                       int64_t total, const char *longest_name, int64_t longest)
{
    AT_FAIL_IF(cu[0] < 0, ATTUNE_INVALID_ARGUMENT, "%s[0] is %d: at least 0 is needed", name, cu[0]);
    for (int64_t b = 0; b < batch; ++b) {
        int64_t length = (int64_t)cu[b + 1] - cu[b];
        AT_FAIL_IF(length < 0, ATTUNE_INVALID_ARGUMENT, "%s[%lld] is %d, less than the %d before it", name,
                   (long long)b + 1, cu[b + 1], cu[b]);
        AT_FAIL_IF(length > longest, ATTUNE_INVALID_ARGUMENT,
                   "%s[%lld] is %d, %lld rows after the %d before it: %s allows %lld", name, (long long)b + 1,
                   cu[b + 1], (long long)length, cu[b], longest_name, (long long)longest);
    }
    AT_FAIL_IF(cu[batch] > total, ATTUNE_INVALID_ARGUMENT, "%s[%lld] is %d: %s is %lld", name, (long long)batch,
               cu[batch], total_name, (long long)total);
    return ATTUNE_OK;
}

/* A count beyond its own packed sequence's end, but within seqlen_kv, is allowed: kernels clamp it. */
static attune_status inspect_used(const attune_args *args)
{
    const int32_t *used = args->tensor[ATTUNE_USED_KV].data;
    for (int64_t b = 0; b < args->batch; ++b) {
        AT_FAIL_IF(used[b] < 0 || used[b] > args->seqlen_kv, ATTUNE_INVALID_ARGUMENT,
                   "USED_KV[%lld] is %d: 0 to seqlen_kv, %lld, are possible", (long long)b, used[b],
                   (long long)args->seqlen_kv);
    }
    return ATTUNE_OK;
}

static attune_status cpu_inspect(const at_loaded *loaded, const attune_args *args, uint64_t buffers)
{
    (void)loaded;
    (void)buffers;
    if (args->features & ATTUNE_FEATURE_VARLEN) {
        AT_FORWARD(inspect_sequences("CU_Q", args->tensor[ATTUNE_CU_Q].data, args->batch, "total_q", args->total_q,
                                     "seqlen_q", args->seqlen_q));
    }
    if ((args->features & ATTUNE_FEATURE_VARLEN) && args->tensor[ATTUNE_CU_KV].data != NULL) {
        AT_FORWARD(inspect_sequences("CU_KV", args->tensor[ATTUNE_CU_KV].data, args->batch, "total_kv", args->total_kv,
                                     "seqlen_kv", args->seqlen_kv));
    }
    return args->features & ATTUNE_FEATURE_SEQUSED ? inspect_used(args) : ATTUNE_OK;
}

/* ---- Launching -------------------------------------------------------------------------------------------------- */

typedef struct run {
    attune_attend attend;
    const attune_args *args;
    at_cpu_guard *guard; /* NULL: nobody looks */
    int64_t last;        /* of the items, where they come backwards; else -1 */
} run;

static void run_item(void *context, int64_t item, void *scratch)
{
    const run *one = context;
    one->attend(one->args, item, scratch);
}

static void run_judged_item(void *context, int64_t item, void *scratch)
{
    const run *one = context;
    at_cpu_guard_item(one->guard, run_item, context, one->last < 0 ? item : one->last - item, scratch);
}

static attune_status items_of(const cpu_loaded *loaded, const attune_step_kernel *step, const at_sizes *sizes,
                              int64_t *items)
{
    *items = 1;
    for (int i = 0; i < 3; ++i) {
        int64_t extent;
        AT_FORWARD(at_term_evaluate(&step->grid[i], sizes, &extent));
        AT_FAIL_IF(extent < 0 || __builtin_mul_overflow(*items, extent, items), ATTUNE_INVALID_ARGUMENT,
                   "%s: grid[%d] is %lld, which is negative or makes too many items", loaded->base.kernel->name, i,
                   (long long)extent);
    }
    return ATTUNE_OK;
}

static attune_status launch_kernel(const cpu_loaded *loaded, const attune_step_kernel *step, const at_sizes *sizes,
                                   const attune_args *args)
{
    cpu_device *device = (cpu_device *)loaded->base.device;
    int64_t items;
    AT_FORWARD(items_of(loaded, step, sizes, &items));
    run one = {loaded->attend, args, device->is_judged ? &device->guard : NULL, device->backwards ? items - 1 : -1};
    at_pool_run(device->pool, items, one.guard != NULL ? run_judged_item : run_item, &one);
    return ATTUNE_OK;
}

static attune_status launch_fill(const cpu_loaded *loaded, const attune_step_fill *step, const at_sizes *sizes,
                                 const attune_args *args)
{
    int64_t offset, bytes;
    AT_FORWARD(at_term_evaluate(&step->offset_bytes, sizes, &offset));
    AT_FORWARD(at_term_evaluate(&step->bytes, sizes, &bytes));
    AT_FAIL_IF(offset < 0 || bytes < 0 || offset % 4 != 0 || bytes % 4 != 0, ATTUNE_INVALID_ARGUMENT,
               "%s: a fill of %lld bytes from byte %lld on: multiples of 4 are needed", loaded->base.kernel->name,
               (long long)bytes, (long long)offset);
    AT_FAIL_IF((uint64_t)offset > args->workspace_bytes || (uint64_t)bytes > args->workspace_bytes - (uint64_t)offset,
               ATTUNE_WORKSPACE_TOO_SMALL, "%s: a fill of %lld bytes from byte %lld on: the workspace has %llu",
               loaded->base.kernel->name, (long long)bytes, (long long)offset,
               (unsigned long long)args->workspace_bytes);
    uint32_t *to = (uint32_t *)args->workspace;
    for (int64_t i = offset / 4; i < (offset + bytes) / 4; ++i) {
        to[i] = step->pattern;
    }
    return ATTUNE_OK;
}

static attune_status launch_steps(const at_loaded *loaded, attune_args *args)
{
    const cpu_loaded *own = (const cpu_loaded *)loaded;
    at_sizes sizes;
    at_sizes_fill(&sizes, args, &loaded->device->target);
    for (int i = 0; i < loaded->steps.count; ++i) {
        const attune_step *step = &loaded->steps.step[i];
        args->step = i;
        AT_FORWARD(step->kind == ATTUNE_STEP_FILL ? launch_fill(own, &step->as.fill, &sizes, args)
                                                  : launch_kernel(own, &step->as.kernel, &sizes, args));
    }
    return ATTUNE_OK;
}

static attune_status cpu_launch(const at_loaded *loaded, at_made *made, void *stream)
{
    cpu_device *device = (cpu_device *)loaded->device;
    AT_FAIL_IF(stream != NULL, ATTUNE_INVALID_ARGUMENT, "stream is not NULL: a CPU target has none");
    if (!device->is_judged) {
        return launch_steps(loaded, &made->args);
    }
    at_cpu_guard_begin(&device->guard, device->pool, (size_t)loaded->resources.scratch_bytes, device->judged_by,
                       device->keeps);
    attune_status status = launch_steps(loaded, &made->args);
    device->is_judged = false;
    return status == ATTUNE_OK ? at_cpu_guard_end(&device->guard, device->pool) : status;
}

void at_cpu_guard_next(at_device *device, uint64_t seed, bool keeps, bool backwards)
{
    cpu_device *own = (cpu_device *)device;
    own->is_judged = true;
    own->keeps = keeps;
    own->backwards = backwards;
    own->judged_by = seed;
}

/* ---- Items, on the caller's threads -------------------------------------------------------------------------------
 */

/* A fill is one item. */
static attune_status cpu_count_items(const at_loaded *loaded, const attune_args *args, int step, int64_t *items)
{
    at_sizes sizes;
    *items = 1;
    if (loaded->steps.step[step].kind == ATTUNE_STEP_FILL) {
        return ATTUNE_OK;
    }
    at_sizes_fill(&sizes, args, &loaded->device->target);
    return items_of((const cpu_loaded *)loaded, &loaded->steps.step[step].as.kernel, &sizes, items);
}

static attune_status cpu_run_items(const at_loaded *loaded, attune_args *args, int step, int64_t first, int64_t count,
                                   void *scratch)
{
    const cpu_loaded *own = (const cpu_loaded *)loaded;
    at_sizes sizes;
    args->step = step;
    if (loaded->steps.step[step].kind == ATTUNE_STEP_FILL) {
        at_sizes_fill(&sizes, args, &loaded->device->target);
        return count == 0 ? ATTUNE_OK : launch_fill(own, &loaded->steps.step[step].as.fill, &sizes, args);
    }
    for (int64_t item = first; item < first + count; ++item) {
        own->attend(args, item, scratch);
    }
    return ATTUNE_OK;
}

/* Launches return when the work is done. */
static attune_status cpu_synchronise(at_device *device, void *stream)
{
    (void)device;
    (void)stream;
    return ATTUNE_OK;
}

/* ---- Buffers ---------------------------------------------------------------------------------------------------- */

static attune_status cpu_allocate(at_device *device, size_t bytes, void **data)
{
    *data = at_memory_take(&((cpu_device *)device)->memory, bytes, 256);
    AT_FAIL_IF(*data == NULL, ATTUNE_OUT_OF_MEMORY, "a buffer of %zu bytes: out of memory", bytes);
    return ATTUNE_OK;
}

static void cpu_release(at_device *device, void *data)
{
    at_memory_give(&((cpu_device *)device)->memory, data);
}

static attune_status cpu_copy(at_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    if (bytes > 0) {
        memcpy(to, from, bytes);
    }
    return ATTUNE_OK;
}

/* ---- The device ------------------------------------------------------------------------------------------------- */

static void cpu_close(at_device *device)
{
    free(device);
}

static const at_device_ops cpu_ops = {
    .load = cpu_load,
    .unload = cpu_unload,
    .inspect = cpu_inspect,
    .launch = cpu_launch,
    .count_items = cpu_count_items,
    .run_items = cpu_run_items,
    .synchronise = cpu_synchronise,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .upload = cpu_copy,
    .download = cpu_copy,
    .close = cpu_close,
};

attune_status at_cpu_open(attune_isa isa, at_pool *pool, at_device **device)
{
    return at_cpu_open_with(isa, pool, &(const at_memory){0}, device);
}

attune_status at_cpu_open_with(attune_isa isa, at_pool *pool, const at_memory *memory, at_device **device)
{
    attune_target target;
    *device = NULL;
    AT_FAIL_IF(pool == NULL, ATTUNE_INVALID_ARGUMENT, "pool is NULL");
    AT_FORWARD(at_cpu_probe(isa, at_pool_threads(pool), &target));
    cpu_device *made = calloc(1, sizeof *made);
    AT_FAIL_IF(made == NULL, ATTUNE_OUT_OF_MEMORY, "a CPU device: out of memory");
    made->base.ops = &cpu_ops;
    made->base.target = target;
    made->pool = pool;
    made->memory = *memory;
    *device = &made->base;
    return ATTUNE_OK;
}
