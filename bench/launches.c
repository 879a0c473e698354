/* What an execute on a CUDA device costs the host, beside bare launches of the very same functions with the same grids,
 * attributes and parameter blocks (same_launch: of the call that is kept; model_launch: of new ones), and the same
 * fills: of a call that comes again, of calls that are new because O is elsewhere, or all tensors are, or the keys'
 * length is another, the strides too or not, or lengths on the device are (seqused), which a fill before each call and
 * before its bare launches (same_launch_used) makes; and what a caller who waits for the result pays, beside an empty
 * kernel. Prints microseconds, the median of batches:
 *
 *     launches [PROBLEM [KERNEL]]      without: b1,h8,s512,d64,fp16, and the kernel planned for it
 *     launches PROBLEM three           a plan of three empty kernels, the first two with maps of Q, K and V
 *
 * Where ATTUNE_LIBCUDA names the tests' driver that runs nothing, the differences are what attune itself costs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/plan.h"
#include "core/recipe.h"
#include "cuda/build.h"
#include "cuda/cuda.h"
#include "cuda/loaded.h"
#include "cuda/maps.h"
#include "library/context.h"
#include "library/placement.h"
#include "measure/interleave.h"
#include "measure/statistics.h"

/* A batch is of CALLS_MAX calls, or of as many as the device does in BATCH_US. */
enum { BATCHES = 100, CALLS_MIN = 20, CALLS_MAX = 60, BATCH_US = 5000, TURNS = 97, TURN_BYTES = 256 };

/* A step as the driver is given it: a launch, or a fill of so many words. */
typedef struct bare_step {
    at_cu_function function;
    at_cu_launch_config config;
    void *argument;
    at_cu_pointer filled;
    unsigned int pattern;
    size_t words;
} bare_step;

typedef struct subject {
    attune_context *context; /* NULL: the device, what is loaded and the plan are the bench's own */
    attune_problem problem;
    attune_plan *plan;
    at_device *device;
    at_cuda_device *cuda;
    at_loaded *own, *empty;
    at_placement place;
    attune_call call;
    int calls; /* of a batch */
    int turn;
    at_made_room empty_made;
    /* What attune itself launches the latest call with that it keeps, and calls that it has not seen: a launch's time
     * depends on where its parameters lie, which is not what is asked here. */
    bare_step kept[ATTUNE_STEPS_MAX], model[ATTUNE_STEPS_MAX], empty_step[1];
    bare_step lengths; /* a fill of USED_KV; of no words where there is none */
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
        s->call.tensor[role].data = (char *)s->place.twin[role] + (ptrdiff_t)s->turn * TURN_BYTES;
    }
    attune_status status = execute(s);
    for (int role = first; role <= ATTUNE_O; ++role) {
        s->call.tensor[role].data = s->place.twin[role];
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

/* One of another length each time; in a cache, where strides stay, or packed, where they follow. */
static attune_status execute_length(subject *s, bool packed)
{
    const attune_call whole = s->call;
    s->turn = (s->turn + 1) % TURNS;
    s->call.seqlen_kv = s->problem.seqlen_kv - s->turn % s->problem.seqlen_kv;
    for (int role = ATTUNE_K; packed && s->problem.page_size == 0 && role <= ATTUNE_V; ++role) {
        int64_t *stride = s->call.tensor[role].stride;
        stride[ATTUNE_STRIDE_HEAD] = stride[ATTUNE_STRIDE_SEQ] * s->call.seqlen_kv;
        stride[ATTUNE_STRIDE_BATCH] = stride[ATTUNE_STRIDE_HEAD] * s->call.heads_kv;
    }
    attune_status status = execute(s);
    s->call = whole;
    return status;
}

static attune_status execute_shorter(subject *s)
{
    return execute_length(s, false);
}

static attune_status execute_shorter_packed(subject *s)
{
    return execute_length(s, true);
}

static attune_status launch(const subject *s, const bare_step *step)
{
    const at_driver *driver = s->cuda->driver;
    void *params[] = {step->argument};
    if (step->words > 0) {
        AT_DRIVER_CHECK(driver, driver->cuMemsetD32Async(step->filled, step->pattern, step->words, NULL),
                        "a bare fill");
    } else if (step->function != NULL) {
        AT_DRIVER_CHECK(driver, driver->cuLaunchKernelEx(&step->config, step->function, params, NULL), "a bare launch");
    }
    return ATTUNE_OK;
}

static attune_status launch_all(const subject *s, const bare_step *steps)
{
    for (int i = 0; i < s->plan->loaded->steps.count; ++i) {
        AT_FORWARD(launch(s, &steps[i]));
    }
    return ATTUNE_OK;
}

static attune_status launch_kept(subject *s)
{
    return launch_all(s, s->kept);
}

static attune_status launch_model(subject *s)
{
    return launch_all(s, s->model);
}

/* Lengths on the device are others than they were. */
static attune_status change_lengths(subject *s)
{
    s->turn = (s->turn + 1) % TURNS;
    s->lengths.pattern = (unsigned int)(s->problem.seqlen_kv - s->turn % s->problem.seqlen_kv);
    return launch(s, &s->lengths);
}

static attune_status execute_used(subject *s)
{
    AT_FORWARD(change_lengths(s));
    return execute(s);
}

static attune_status launch_used(subject *s)
{
    AT_FORWARD(change_lengths(s));
    return launch_kept(s);
}

/* Every map of every step. */
static attune_status encode_maps(subject *s)
{
    const attune_steps *steps = &s->plan->loaded->steps;
    attune_tensor_map encoded;
    for (int i = 0; i < steps->count; ++i) {
        const attune_step_kernel *step = &steps->step[i].as.kernel;
        for (int map = 0; steps->step[i].kind == ATTUNE_STEP_KERNEL && map < step->map_count; ++map) {
            AT_FORWARD(
                at_map_encode(s->cuda->driver, &step->map[map], &s->plan->recents->model.made->args, false, &encoded));
        }
    }
    return ATTUNE_OK;
}

static attune_status execute_and_wait(subject *s)
{
    AT_FORWARD(execute(s));
    return s->device->ops->synchronise(s->device, NULL);
}

static attune_status launch_kept_and_wait(subject *s)
{
    AT_FORWARD(launch_kept(s));
    return s->device->ops->synchronise(s->device, NULL);
}

static attune_status launch_empty_and_wait(subject *s)
{
    AT_FORWARD(launch(s, s->empty_step));
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
    {"execute_shorter_packed", execute_shorter_packed},
    {"same_launch", launch_kept},
    {"model_launch", launch_model},
    {"execute_used", execute_used},
    {"same_launch_used", launch_used},
    {"encode_maps", encode_maps},
    {"execute_and_wait", execute_and_wait},
    {"same_launch_and_wait", launch_kept_and_wait},
    {"empty_launch_and_wait", launch_empty_and_wait},
};
enum { TIMED = sizeof timed / sizeof timed[0] };

/* ---- The bench's own kernels ---- */

static const char own_source[] = "#include \"attune/args.h\"\n"
                                 "extern \"C\" __global__ void one(const __grid_constant__ attune_args args) {}\n"
                                 "extern \"C\" __global__ void two(const __grid_constant__ attune_args args) {}\n"
                                 "extern \"C\" __global__ void three(const __grid_constant__ attune_args args) {}\n";

/* Its one header is the library's. */
static void own_sources(at_embedded sources[3])
{
    const at_embedded *header = at_cuda_sources;
    while (strcmp(header->name, "attune/args.h") != 0) {
        ++header;
    }
    sources[0] = (at_embedded){"own.cu", (const unsigned char *)own_source, sizeof own_source - 1};
    sources[1] = *header;
    sources[2] = (at_embedded){NULL, NULL, 0};
}

static attune_term blocks_of(attune_size rows)
{
    return attune_term_ceil_div(attune_term_size(rows), attune_term_const(64));
}

/* Blocks of 64 queries of each head, as an attention kernel has them. */
static attune_step own_step(const char *entry, int maps)
{
    attune_step step = {.kind = ATTUNE_STEP_KERNEL,
                        .as.kernel = {.entry = entry,
                                      .grid = {blocks_of(ATTUNE_SIZE_SEQLEN_Q), attune_term_size(ATTUNE_SIZE_HEADS_Q),
                                               attune_term_size(ATTUNE_SIZE_BATCH)},
                                      .block = {128, 1, 1},
                                      .cluster = {1, 1, 1},
                                      .smem = attune_term_const(0),
                                      .map_count = maps}};
    for (int i = 0; i < maps; ++i) {
        step.as.kernel.map[i] =
            (attune_map){.role = ATTUNE_Q + i, .swizzle = ATTUNE_SWIZZLE_128B, .box = {64, 64, 1, 1}};
    }
    return step;
}

static attune_status load_own(const subject *s, const attune_step *steps, int count, at_loaded **loaded)
{
    static const attune_kernel kernel = {
        .size = sizeof kernel, .abi = ATTUNE_ABI, .target = ATTUNE_TARGET_CUDA, .name = "own", .source = "own.cu"};
    at_embedded sources[3];
    at_recipe recipe = {.kernel = &kernel, .problem = s->problem, .sources = sources};
    own_sources(sources);
    recipe.resources = (attune_resources){.threads = 128, .workspace = attune_term_const(0)};
    recipe.steps.count = count;
    memcpy(recipe.steps.step, steps, (size_t)count * sizeof *steps);
    return s->device->ops->load(s->device, &recipe, loaded);
}

static attune_status load_empty(subject *s)
{
    attune_step step = own_step("one", 0);
    step.as.kernel.grid[0] = attune_term_const(132);
    step.as.kernel.grid[1] = step.as.kernel.grid[2] = attune_term_const(1);
    return load_own(s, &step, 1, &s->empty);
}

/* ---- Preparing ---- */

static attune_status plan_three(subject *s)
{
    AT_FORWARD(at_cuda_open(0, NULL, NULL, &s->device));
    attune_step steps[3] = {own_step("one", 3), own_step("two", 3), own_step("three", 0)};
    steps[1].as.kernel.map[1].box[1] = 128;
    AT_FORWARD(load_own(s, steps, 3, &s->own));
    return at_plan_bind(&s->problem, s->own, AT_ORIGIN_NAMED, &s->plan);
}

static attune_status plan_kernel(subject *s, const char *kernel)
{
    attune_options options;
    attune_options_init(&options);
    options.target = "cuda";
    options.kernel = kernel;
    AT_FORWARD(attune_context_create(&options, &s->context));
    s->device = at_context_device(s->context);
    return attune_plan_create(s->context, &s->problem, NULL, &s->plan);
}

/* A buffer of 0, step, 2 step, ... or, where step is 0, of `value`. */
static attune_status allocate_words(subject *s, attune_role role, int64_t count, int32_t value, int32_t step)
{
    int32_t *words = malloc((size_t)count * sizeof *words);
    AT_FAIL_IF(words == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %lld words", (long long)count);
    for (int64_t i = 0; i < count; ++i) {
        words[i] = step == 0 ? value : (int32_t)i * step;
    }
    attune_status status = at_placement_own(&s->place, role, words, (size_t)count * sizeof *words);
    free(words);
    return status;
}

/* All keys that the problem has, in pages that follow one another. */
static attune_status allocate_lengths(subject *s)
{
    const attune_problem *problem = &s->problem;
    const int64_t batch = problem->batch;
    if (problem->seqused_kv) {
        AT_FORWARD(allocate_words(s, ATTUNE_USED_KV, batch, (int32_t)problem->seqlen_kv, 0));
        s->lengths = (bare_step){.filled = (at_cu_pointer)(uintptr_t)s->place.call.tensor[ATTUNE_USED_KV].data,
                                 .words = (size_t)batch};
    }
    if (problem->page_size > 0) {
        AT_FORWARD(allocate_words(s, ATTUNE_PAGE_TABLE_K, s->call.page_count, 0, 1));
    }
    return ATTUNE_OK;
}

static attune_status allocate_tensors(subject *s)
{
    const attune_problem *problem = &s->problem;
    at_placement_open(s->device, &s->call, &s->place);
    for (int role = ATTUNE_Q; role <= ATTUNE_O; ++role) {
        bool queries = role == ATTUNE_Q || role == ATTUNE_O;
        int64_t page = problem->page_size > 0 ? problem->page_size : 1;
        int64_t keys = (problem->seqlen_kv + page - 1) / page * page;
        int64_t rows = queries ? problem->heads_q * problem->seqlen_q : problem->heads_kv * keys;
        int32_t dim = role == ATTUNE_Q || role == ATTUNE_K ? problem->head_dim_qk : problem->head_dim_v;
        size_t bytes = (size_t)(problem->batch * rows * dim) * 4 + (size_t)TURNS * TURN_BYTES;
        AT_FORWARD(at_placement_own(&s->place, (attune_role)role, NULL, bytes));
    }
    AT_FORWARD(allocate_lengths(s));
    AT_FORWARD(at_placement_fit(&s->place, s->plan, &s->place.call));
    s->call = s->place.call;
    return ATTUNE_OK;
}

static attune_status prepare(subject *s, const char *text, const char *kernel)
{
    AT_FORWARD(attune_problem_parse(text, &s->problem));
    AT_FORWARD(kernel != NULL && strcmp(kernel, "three") == 0 ? plan_three(s) : plan_kernel(s, kernel));
    AT_FORWARD(attune_call_init(&s->call, &s->problem));
    s->cuda = at_cuda_of(s->device);
    return allocate_tensors(s);
}

/* What attune has made of a call, as the driver is given it. */
static attune_status copy_steps(const at_loaded *base, at_made *made, bare_step *bare)
{
    const at_cuda_loaded *loaded = (const at_cuda_loaded *)base;
    at_cuda_made *its = (at_cuda_made *)(void *)made;
    for (int i = 0; i < base->steps.count; ++i) {
        const at_ready_step *ready = &loaded->step[i];
        const at_cuda_step *step = &its->step[i];
        AT_FAIL_IF(ready->kind == ATTUNE_STEP_GEMM, ATTUNE_UNSUPPORTED, "%s: a gemm has no bare launch",
                   base->kernel->name);
        if (ready->kind == ATTUNE_STEP_FILL) {
            bare[i] = (bare_step){.filled = (at_cu_pointer)(uintptr_t)made->args.workspace + step->fill.offset,
                                  .pattern = base->steps.step[i].as.fill.pattern,
                                  .words = step->fill.bytes / 4};
            continue;
        }
        bare[i] = (bare_step){
            .function = ready->function, .config = ready->config, .argument = at_block_of(loaded, its, ready->block)};
        memcpy(bare[i].config.grid, step->kernel.grid, sizeof bare[i].config.grid);
        bare[i].config.smem_bytes = step->kernel.smem_bytes;
    }
    return ATTUNE_OK;
}

/* The call is made, then kept; the model that it was made by stays. */
static attune_status prepare_bare(subject *s)
{
    at_recents *recents = s->plan->recents;
    at_recent *kept = at_recent_take(recents, &s->call);
    at_recent_leave(kept);
    AT_FORWARD(execute(s));
    AT_FORWARD(execute(s));
    AT_FAIL_IF(!at_recent_is(recents, kept, &s->call), ATTUNE_INTERNAL, "%s: the plan does not keep its call",
               attune_plan_kernel(s->plan));
    AT_FORWARD(copy_steps(s->plan->loaded, kept->made, s->kept));
    AT_FORWARD(copy_steps(s->plan->loaded, recents->model.made, s->model));
    AT_FORWARD(load_empty(s));
    at_call_args(&s->problem, &s->call, &s->empty_made.made.args);
    AT_FORWARD(s->device->ops->make(s->empty, &s->empty_made.made, &AT_CHANGE_ALL));
    return copy_steps(s->empty, &s->empty_made.made, s->empty_step);
}

/* ---- Measuring ---- */

/* One of the things timed, as an arm whose run is a batch of calls. */
typedef struct batch {
    subject *on;
    attune_status (*call)(subject *);
} batch;

static attune_status run_batch(void *self, const attune_call *call)
{
    const batch *one = self;
    (void)call;
    for (int i = 0; i < one->on->calls; ++i) {
        AT_FORWARD(one->call(one->on));
    }
    return ATTUNE_OK;
}

/* The queue is emptied between batches, so that no launch waits for a place in it. */
static attune_status empty_queue(void *self)
{
    const subject *s = self;
    return s->device->ops->synchronise(s->device, NULL);
}

/* By the second batch: the first loads code. */
static attune_status choose_calls(subject *s)
{
    const batch waiting = {s, execute_and_wait};
    at_clock clock = at_clock_monotonic();
    int64_t ns = 0;
    s->calls = CALLS_MIN;
    for (int i = 0; i < 2; ++i) {
        int64_t begin = clock.now_ns(clock.self);
        AT_FORWARD(run_batch((void *)(uintptr_t)&waiting, NULL));
        ns = clock.now_ns(clock.self) - begin;
    }
    const double fit = BATCH_US / (1e-3 * (double)ns / CALLS_MIN);
    s->calls = fit < CALLS_MIN ? CALLS_MIN : fit > CALLS_MAX ? CALLS_MAX : (int)fit;
    return ATTUNE_OK;
}

static attune_status print_medians(const subject *s, const at_samples *samples)
{
    printf("what\tmedian_us\t# %s\n", attune_plan_kernel(s->plan));
    for (int i = 0; i < TIMED; ++i) {
        double median = 0.0;
        AT_FORWARD(at_median(samples[i].us, samples[i].count, &median));
        printf("%s\t%.3f\n", timed[i].name, median);
    }
    return ATTUNE_OK;
}

static attune_status measure(subject *s)
{
    batch one[TIMED];
    attune_arm arm[TIMED];
    at_bound bound[TIMED];
    at_samples samples[TIMED];
    at_interleave how;
    AT_FORWARD(choose_calls(s));
    for (int i = 0; i < TIMED; ++i) {
        one[i] = (batch){s, timed[i].call};
        arm[i] = (attune_arm){.name = timed[i].name, .self = &one[i], .run = run_batch};
        bound[i] = (at_bound){.arm = &arm[i], .calls = s->calls};
    }
    at_interleave_init(&how);
    how.samples_min = how.samples_max = BATCHES;
    how.before = empty_queue;
    how.before_self = s;
    AT_FORWARD(at_interleave_run(&how, bound, TIMED, samples));
    attune_status status = print_medians(s, samples);
    for (int i = 0; i < TIMED; ++i) {
        at_samples_free(&samples[i]);
    }
    return status;
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

static void release(subject *s)
{
    if (s->device == NULL) {
        return;
    }
    at_placement_free(&s->place);
    attune_plan_destroy(s->plan);
    if (s->empty != NULL) {
        s->device->ops->unload(s->empty);
    }
    if (s->own != NULL) {
        s->device->ops->unload(s->own);
    }
    if (s->context == NULL) {
        s->device->ops->close(s->device);
    }
    attune_context_destroy(s->context);
}

int main(int count, char **arguments)
{
    static subject s;
    attune_status status = run(&s, count > 1 ? arguments[1] : "b1,h8,s512,d64,fp16", count > 2 ? arguments[2] : NULL);
    if (status != ATTUNE_OK) {
        (void)fprintf(stderr, "%s: %s\n", attune_status_string(status), attune_last_detail());
    }
    release(&s);
    return status == ATTUNE_OK ? 0 : 1;
}
