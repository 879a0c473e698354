/* What an execute on a CUDA device costs the host, beside a bare launch of the very same function with the same grid,
 * attributes and argument, and of the same fill before it where the plan has one: of a call that comes again, of calls
 * that are new because O is elsewhere, or all tensors are, or the keys' length is another; and what a caller who waits
 * for the result pays, beside an empty kernel. Prints microseconds, the median of batches:
 *
 *     launches [PROBLEM [KERNEL]]      without: b1,h8,s512,d64,fp16, and the kernel planned for it
 */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "core/call.h"
#include "core/recipe.h"
#include "core/term.h"
#include "cuda/build.h"
#include "cuda/device.h"
#include "cuda/maps.h"
#include "library/context.h"
#include "measure/clock.h"
#include "measure/statistics.h"

/* A batch is of CALLS_MAX calls, or of as many as the device does in BATCH_US. */
enum { BATCHES = 61, CALLS_MIN = 20, CALLS_MAX = 200, BATCH_US = 5000, TURNS = 97, TURN_BYTES = 256 };

/* A launch as the driver is told of it; with `words`, after a fill of so many. */
typedef struct bare_launch {
    at_cu_module module;
    at_cu_function function;
    at_cu_launch_config config;
    at_cu_launch_attribute attribute[2];
    attune_args args;
    at_cu_pointer filled;
    unsigned int pattern;
    size_t words;
} bare_launch;

typedef struct subject {
    attune_context *context;
    attune_problem problem;
    attune_plan *plan;
    at_device *device;
    at_cuda_device *cuda;
    const attune_step_kernel *step; /* the plan's kernel */
    void *buffer[ATTUNE_O + 1];
    attune_call call;
    int calls; /* of a batch */
    int turn;
    bare_launch same, empty;
} subject;

/* ---- What is timed ---- */

static attune_status execute(subject *s)
{
    return attune_plan_execute(s->plan, &s->call);
}

/* A call that is not the one before, nor one of the latest: from this role on, buffers are elsewhere. */
static attune_status execute_moved(subject *s, int first)
{
    s->turn = (s->turn + 1) % TURNS;
    for (int role = first; role <= ATTUNE_O; ++role) {
        s->call.tensor[role].data = (char *)s->buffer[role] + (ptrdiff_t)s->turn * TURN_BYTES;
    }
    attune_status status = execute(s);
    for (int role = first; role <= ATTUNE_O; ++role) {
        s->call.tensor[role].data = s->buffer[role];
    }
    return status;
}

static attune_status execute_anew(subject *s)
{
    return execute_moved(s, ATTUNE_O);
}

static attune_status execute_all_anew(subject *s)
{
    return execute_moved(s, ATTUNE_Q);
}

/* One of another length each time, so that nothing of the calls before is of use. */
static attune_status execute_shorter(subject *s)
{
    s->turn = (s->turn + 1) % TURNS;
    s->call.seqlen_kv = s->problem.seqlen_kv - s->turn % s->problem.seqlen_kv;
    attune_status status = execute(s);
    s->call.seqlen_kv = s->problem.seqlen_kv;
    return status;
}

static attune_status launch(const subject *s, bare_launch *bare)
{
    void *params[] = {&bare->args};
    if (bare->words > 0) {
        AT_DRIVER_CHECK(s->cuda->driver,
                        s->cuda->driver->cuMemsetD32Async(bare->filled, bare->pattern, bare->words, NULL),
                        "a bare fill");
    }
    AT_DRIVER_CHECK(s->cuda->driver, s->cuda->driver->cuLaunchKernelEx(&bare->config, bare->function, params, NULL),
                    "a bare launch");
    return ATTUNE_OK;
}

static attune_status launch_same(subject *s)
{
    return launch(s, &s->same);
}

static attune_status encode_maps(subject *s)
{
    for (int i = 0; i < s->step->map_count; ++i) {
        AT_FORWARD(at_map_encode(s->cuda->driver, &s->step->map[i], &s->same.args, false, &s->same.args.map[i]));
    }
    return ATTUNE_OK;
}

static attune_status execute_and_wait(subject *s)
{
    AT_FORWARD(execute(s));
    return s->device->ops->synchronise(s->device, NULL);
}

static attune_status launch_same_and_wait(subject *s)
{
    AT_FORWARD(launch(s, &s->same));
    return s->device->ops->synchronise(s->device, NULL);
}

static attune_status launch_empty_and_wait(subject *s)
{
    AT_FORWARD(launch(s, &s->empty));
    return s->device->ops->synchronise(s->device, NULL);
}

static const struct {
    const char *name;
    attune_status (*call)(subject *);
} timed[] = {
    {"execute", execute},
    {"execute_anew", execute_anew},
    {"execute_all_anew", execute_all_anew},
    {"execute_shorter", execute_shorter},
    {"same_launch", launch_same},
    {"encode_maps", encode_maps},
    {"execute_and_wait", execute_and_wait},
    {"same_launch_and_wait", launch_same_and_wait},
    {"empty_launch_and_wait", launch_empty_and_wait},
};
enum { TIMED = sizeof timed / sizeof timed[0] };

/* ---- Preparing ---- */

static attune_status load_bare(const subject *s, const at_recipe *recipe, const char *entry, bare_launch *bare)
{
    const at_driver *driver = s->cuda->driver;
    at_artifact artifact;
    AT_FORWARD(at_provide(&s->cuda->provider, recipe, &s->device->target, &artifact, NULL));
    at_cu_result error = driver->cuModuleLoadData(&bare->module, artifact.cubin);
    at_artifact_free(&artifact);
    AT_DRIVER_CHECK(driver, error, "loading");
    AT_DRIVER_CHECK(driver, driver->cuModuleGetFunction(&bare->function, bare->module, entry), "entry %s", entry);
    return ATTUNE_OK;
}

/* The plan's kernel, and the fill before it. */
static attune_status find_steps(subject *s, const attune_step_fill **fill)
{
    const attune_steps *steps = &s->plan->loaded->steps;
    const attune_step *last = &steps->step[steps->count - 1];
    const bool filled = steps->count == 2 && steps->step[0].kind == ATTUNE_STEP_FILL;
    AT_FAIL_IF(last->kind != ATTUNE_STEP_KERNEL || (steps->count != 1 && !filled), ATTUNE_UNSUPPORTED,
               "%s: a plan of one kernel, or of a fill and a kernel, is needed", attune_plan_kernel(s->plan));
    *fill = filled ? &steps->step[0].as.fill : NULL;
    s->step = &last->as.kernel;
    return ATTUNE_OK;
}

static attune_status prepare_fill(const attune_step_fill *fill, const at_sizes *sizes, bare_launch *bare)
{
    int64_t offset = 0, bytes = 0;
    AT_FORWARD(at_term_evaluate(&fill->offset_bytes, sizes, &offset));
    AT_FORWARD(at_term_evaluate(&fill->bytes, sizes, &bytes));
    bare->filled = (at_cu_pointer)(uintptr_t)bare->args.workspace + (at_cu_pointer)offset;
    bare->pattern = fill->pattern;
    bare->words = (size_t)bytes / 4;
    return ATTUNE_OK;
}

/* Grid, block and shared memory, as the driver is told of them. */
static attune_status prepare_extent(subject *s, const at_sizes *sizes)
{
    bare_launch *bare = &s->same;
    int64_t value = 0;
    for (int i = 0; i < 3; ++i) {
        AT_FORWARD(at_term_evaluate(&s->step->grid[i], sizes, &value));
        bare->config.grid[i] = (unsigned int)value;
        bare->config.block[i] = (unsigned int)s->step->block[i];
    }
    AT_FORWARD(at_term_evaluate(&s->step->smem, sizes, &value));
    bare->config.smem_bytes = (unsigned int)value;
    AT_DRIVER_CHECK(s->cuda->driver,
                    s->cuda->driver->cuFuncSetAttribute(bare->function, AT_CU_FUNC_SMEM_DYNAMIC_MAX, (int)value),
                    "%lld B of shared memory a block", (long long)value);
    return ATTUNE_OK;
}

static void prepare_attributes(const attune_step_kernel *step, bare_launch *bare)
{
    bare->attribute[0] = (at_cu_launch_attribute){
        .id = AT_CU_LAUNCH_CLUSTER,
        .value.cluster = {(unsigned)step->cluster[0], (unsigned)step->cluster[1], (unsigned)step->cluster[2]}};
    bare->attribute[1] =
        (at_cu_launch_attribute){.id = AT_CU_LAUNCH_PROGRAMMATIC, .value.programmatic = step->programmatic};
    bare->config.attributes = bare->attribute;
    bare->config.attribute_count = 2;
}

/* The plan's own steps, as the driver is told of them. */
static attune_status prepare_same(subject *s, const attune_problem *problem)
{
    const at_loaded *loaded = s->plan->loaded;
    const attune_step_fill *fill = NULL;
    bare_launch *bare = &s->same;
    at_recipe recipe;
    at_sizes sizes;
    AT_FORWARD(find_steps(s, &fill));
    at_recipe_ask(loaded->kernel, problem, &s->device->target, &loaded->config, &recipe);
    AT_FORWARD(load_bare(s, &recipe, s->step->entry, bare));
    at_call_args(problem, &s->call, &bare->args);
    memcpy(bare->args.param, loaded->config.value, sizeof bare->args.param);
    AT_FORWARD(encode_maps(s));
    at_sizes_fill(&sizes, &bare->args, &s->device->target);
    if (fill != NULL) {
        AT_FORWARD(prepare_fill(fill, &sizes, bare));
    }
    prepare_attributes(s->step, bare);
    return prepare_extent(s, &sizes);
}

static const char empty_source[] = "#include \"attune/args.h\"\n"
                                   "extern \"C\" __global__ void empty(const __grid_constant__ attune_args args) {}\n";

/* Its one header is the library's. */
static void empty_sources(at_embedded sources[3])
{
    const at_embedded *header = at_cuda_sources;
    while (strcmp(header->name, "attune/args.h") != 0) {
        ++header;
    }
    sources[0] = (at_embedded){"empty.cu", (const unsigned char *)empty_source, sizeof empty_source - 1};
    sources[1] = *header;
    sources[2] = (at_embedded){NULL, NULL, 0};
}

static attune_status prepare_empty(subject *s, const attune_problem *problem)
{
    static const attune_kernel kernel = {
        .size = sizeof kernel, .abi = ATTUNE_ABI, .target = ATTUNE_TARGET_CUDA, .name = "empty", .source = "empty.cu"};
    at_embedded sources[3];
    at_recipe recipe = {.kernel = &kernel, .problem = *problem, .sources = sources};
    empty_sources(sources);
    recipe.resources = (attune_resources){.threads = 128, .workspace = attune_term_const(0)};
    recipe.steps.count = 1;
    recipe.steps.step[0].as.kernel = (attune_step_kernel){
        .entry = "empty",
        .grid = {attune_term_const(132), attune_term_const(1), attune_term_const(1)},
        .block = {128, 1, 1},
        .cluster = {1, 1, 1},
        .smem = attune_term_const(0),
    };
    s->empty.config = (at_cu_launch_config){.grid = {132, 1, 1}, .block = {128, 1, 1}};
    return load_bare(s, &recipe, "empty", &s->empty);
}

static attune_status prepare(subject *s, const char *text, const char *kernel)
{
    attune_options options;
    attune_problem problem;
    attune_options_init(&options);
    options.target = "cuda";
    options.kernel = kernel;
    AT_FORWARD(attune_problem_parse(text, &problem));
    AT_FORWARD(attune_context_create(&options, &s->context));
    AT_FORWARD(attune_plan_create(s->context, &problem, ATTUNE_ESTIMATE, &s->plan));
    AT_FORWARD(attune_call_init(&s->call, &problem));
    s->device = at_context_device(s->context);
    s->cuda = at_cuda_of(s->device);
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        bool queries = role == ATTUNE_Q || role == ATTUNE_O;
        int64_t rows = queries ? problem.heads_q * problem.seqlen_q : problem.heads_kv * problem.seqlen_kv;
        int32_t dim = role == ATTUNE_Q || role == ATTUNE_K ? problem.head_dim_qk : problem.head_dim_v;
        size_t bytes = (size_t)(problem.batch * rows * dim) * 4 + (size_t)TURNS * TURN_BYTES;
        AT_FORWARD(s->device->ops->allocate(s->device, bytes, &s->buffer[role]));
        s->call.tensor[role].data = s->buffer[role];
    }
    s->problem = problem;
    AT_FORWARD(attune_plan_workspace(s->plan, &s->call, &s->call.workspace_bytes));
    return s->call.workspace_bytes > 0
               ? s->device->ops->allocate(s->device, s->call.workspace_bytes, &s->call.workspace)
               : ATTUNE_OK;
}

static attune_status prepare_bare(subject *s)
{
    AT_FORWARD(prepare_same(s, &s->problem));
    return prepare_empty(s, &s->problem);
}

/* ---- Measuring ---- */

/* The queue is emptied between batches, so that no launch waits for a place in it. */
static attune_status time_batch(subject *s, attune_status (*call)(subject *), double *us)
{
    at_clock clock = at_clock_monotonic();
    AT_FORWARD(s->device->ops->synchronise(s->device, NULL));
    int64_t begin = clock.now_ns(clock.self);
    for (int i = 0; i < s->calls; ++i) {
        AT_FORWARD(call(s));
    }
    *us = (double)(clock.now_ns(clock.self) - begin) / s->calls * 1e-3;
    return ATTUNE_OK;
}

/* By the second batch: the first loads code. */
static attune_status choose_calls(subject *s)
{
    double us = 0.0;
    s->calls = CALLS_MIN;
    AT_FORWARD(time_batch(s, execute_and_wait, &us));
    AT_FORWARD(time_batch(s, execute_and_wait, &us));
    const double fit = BATCH_US / us;
    s->calls = fit < CALLS_MIN ? CALLS_MIN : fit > CALLS_MAX ? CALLS_MAX : (int)fit;
    return ATTUNE_OK;
}

/* In turns, so that what changes in the machine falls on all alike. */
static attune_status measure(subject *s)
{
    static double us[TIMED][BATCHES];
    AT_FORWARD(choose_calls(s));
    for (int b = -3; b < BATCHES; ++b) {
        for (int i = 0; i < TIMED; ++i) {
            AT_FORWARD(time_batch(s, timed[i].call, &us[i][b < 0 ? 0 : b]));
        }
    }
    printf("what\tmedian_us\t# %s\n", attune_plan_kernel(s->plan));
    for (int i = 0; i < TIMED; ++i) {
        double median = 0.0;
        AT_FORWARD(at_median(us[i], BATCHES, &median));
        printf("%s\t%.3f\n", timed[i].name, median);
    }
    return ATTUNE_OK;
}

static attune_status run(subject *s, const char *problem, const char *kernel)
{
    bool pushed = false;
    AT_FORWARD(prepare(s, problem, kernel));
    AT_FORWARD(at_cuda_enter(s->cuda, &pushed));
    attune_status status = prepare_bare(s);
    status = status == ATTUNE_OK ? measure(s) : status;
    at_cuda_leave(s->cuda, pushed);
    return status;
}

static void release_buffers(subject *s)
{
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        s->device->ops->release(s->device, s->buffer[role]);
    }
    if (s->call.workspace != NULL) {
        s->device->ops->release(s->device, s->call.workspace);
    }
}

int main(int count, char **arguments)
{
    subject s = {0};
    attune_status status = run(&s, count > 1 ? arguments[1] : "b1,h8,s512,d64,fp16", count > 2 ? arguments[2] : NULL);
    if (status != ATTUNE_OK) {
        (void)fprintf(stderr, "%s: %s\n", attune_status_string(status), attune_last_detail());
    }
    if (s.device != NULL) {
        release_buffers(&s);
    }
    attune_plan_destroy(s.plan);
    attune_context_destroy(s.context);
    return status == ATTUNE_OK ? 0 : 1;
}
