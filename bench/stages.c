/* What each stage of attention costs a CUDA kernel: QK, softmax, PV and loading, each left out in turn.
 *
 *     stages [--seconds S] [--kernel TEXT]... [PROBLEM...]      times; TSV, one line a variant
 *     stages --once TEXT [--kernel TEXT]... PROBLEM...          one execution of each and nothing else, for a profiler;
 *                                                               a line with problem and config before each
 *
 * A kernel's source is compiled with `#define WITHOUT n` before it (kernels/cuda/device/stage.cuh says what that
 * leaves); where a stage is a step of its own, the step is left out. All variants of a kernel take turns: calls are
 * captured into a graph of some milliseconds, replayed in randomised ABBA blocks. share = 1 - variant / whole: what
 * leaving the stage out saves. Stages overlap, so shares do not add up to 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/plan.h"
#include "cuda/build.h"
#include "cuda/device.h"
#include "cuda/loaded.h"
#include "library/context.h"
#include "library/workload.h"
#include "measure/interleave.h"
#include "measure/statistics.h"

enum { WHOLE, QK, SOFTMAX, PV, LOADING, VARIANTS };
enum { KERNELS_MAX = 32, PROBLEMS_MAX = 8, FILES_MAX = 256 };

static const char *const variant_names[VARIANTS] = {"whole", "qk", "softmax", "pv", "loading"};

/* How a rung can do without each stage: by a step that is not run, or by its source. */
enum { SOURCE = -1, NEVER = -2 };

typedef struct rung {
    const char *name;
    int step[VARIANTS]; /* index of the step to leave out, or one of the above */
} rung;

static const rung rungs[] = {
    {"minimal", {NEVER, SOURCE, SOURCE, SOURCE, SOURCE}},
    {"tiled", {NEVER, SOURCE, SOURCE, SOURCE, SOURCE}},
    {"pipelined", {NEVER, SOURCE, SOURCE, SOURCE, SOURCE}},
    {"guarded", {NEVER, SOURCE, SOURCE, SOURCE, SOURCE}},
    {"cublas", {NEVER, 0, 1, 2, NEVER}},
    {"cublas_qk", {NEVER, 0, SOURCE, SOURCE, SOURCE}},
    {"cutlass", {NEVER, 0, 1, 2, NEVER}},
    {"wmma", {NEVER, SOURCE, SOURCE, SOURCE, SOURCE}},
    {"wmma_acc16", {NEVER, SOURCE, SOURCE, SOURCE, SOURCE}},
    {"wmma_ws", {NEVER, SOURCE, SOURCE, SOURCE, SOURCE}},
};
enum { RUNGS = sizeof rungs / sizeof *rungs };

typedef struct wishes {
    double seconds;
    bool once;
    int kernel_count, problem_count;
    const char *kernel[KERNELS_MAX];
    const char *problem[PROBLEMS_MAX];
} wishes;

/* A problem and its buffers, the same for all kernels. */
typedef struct subject {
    attune_context *context;
    at_device *device;
    const char *text;
    at_test_problem test;
    at_workload work;
} subject;

/* One variant of one kernel, ready to be timed. */
typedef struct variant {
    const subject *on;
    at_loaded *loaded;
    attune_arm arm; /* its plan */
    at_binding binding;
} variant;

static attune_status make_subject(subject *s)
{
    AT_FORWARD(at_test_problem_parse(s->text, &s->test));
    AT_FORWARD(at_workload_open(s->context, &s->test, &s->work));
    s->work.place.call.tensor[ATTUNE_LSE].data = NULL;
    return ATTUNE_OK;
}

/* ---- A variant ------------------------------------------------------------------------------------------------------
 */

/* The library's files with WITHOUT defined before `source`, whose text goes into *prefixed. */
static attune_status sources_without(const char *source, int stage, at_embedded files[FILES_MAX],
                                     unsigned char **prefixed)
{
    int count = 0;
    *prefixed = NULL;
    for (const at_embedded *file = at_cuda_sources; file->name != NULL; ++file) {
        AT_FAIL_IF(count == FILES_MAX - 1, ATTUNE_UNSUPPORTED, "more than %d embedded files", FILES_MAX - 1);
        files[count++] = *file;
    }
    files[count] = (at_embedded){0};
    for (int i = 0; i < count; ++i) {
        if (strcmp(files[i].name, source) == 0) {
            const size_t room = files[i].size + 32;
            *prefixed = malloc(room);
            AT_FAIL_IF(*prefixed == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %s", source);
            files[i].size =
                (size_t)snprintf((char *)*prefixed, room, "#define WITHOUT %d\n%s", stage, (const char *)files[i].data);
            files[i].data = *prefixed;
            return ATTUNE_OK;
        }
    }
    return at_fail(ATTUNE_NOT_FOUND, "there is no embedded %s", source);
}

static attune_status load_without(const subject *s, const at_loaded *whole, int stage, at_loaded **loaded)
{
    at_embedded files[FILES_MAX];
    unsigned char *prefixed;
    at_recipe recipe;
    AT_FORWARD(sources_without(whole->kernel->source, stage, files, &prefixed));
    at_recipe_ask(whole->kernel, &s->test.problem, &s->device->target, &whole->config, &recipe);
    recipe.sources = files;
    attune_status status = at_cuda_load(s->device, &recipe, loaded);
    free(prefixed);
    return status;
}

/* Loads the kernel of `whole` once more. */
static attune_status load_whole(const subject *s, const at_loaded *whole, at_loaded **loaded)
{
    at_recipe recipe;
    at_recipe_ask(whole->kernel, &s->test.problem, &s->device->target, &whole->config, &recipe);
    return at_cuda_load(s->device, &recipe, loaded);
}

/* Loads the kernel of `whole` with a stage left out. A step is left out by filling no bytes in its place. */
static attune_status load_variant(const subject *s, const rung *of, const at_loaded *whole, int stage,
                                  at_loaded **loaded)
{
    if (of->step[stage] == SOURCE) {
        return load_without(s, whole, stage, loaded);
    }
    AT_FORWARD(load_whole(s, whole, loaded));
    if (of->step[stage] >= 0) {
        (*loaded)->steps.step[of->step[stage]] = (attune_step){
            .kind = ATTUNE_STEP_FILL, .as.fill = {.offset_bytes = attune_term_const(0), .bytes = attune_term_const(0)}};
    }
    return ATTUNE_OK;
}

static attune_status plan_variant(variant *v, at_workload *work)
{
    attune_plan *plan;
    AT_FORWARD(at_plan_bind(&work->inputs.problem, v->loaded, AT_ORIGIN_NAMED, &plan));
    at_arm_of_plan(plan, &v->arm);
    return at_workload_reserve(work, &v->arm);
}

static attune_status execute(const variant *v, int64_t *ns)
{
    const at_placement *place = &v->on->work.place;
    at_clock clock = at_clock_monotonic();
    int64_t begin = clock.now_ns(clock.self);
    AT_FORWARD(v->arm.run(v->arm.self, &place->call));
    AT_FORWARD(place->device->ops->synchronise(place->device, place->call.stream));
    *ns = clock.now_ns(clock.self) - begin;
    return ATTUNE_OK;
}

/* The first call loads code; the second says about what one takes. */
static attune_status bind_variant(variant *v)
{
    int64_t ns = 0;
    AT_FORWARD(execute(v, &ns));
    AT_FORWARD(execute(v, &ns));
    return at_bind(v->on->device, &v->arm, &v->on->work.place.call, ns, &v->binding);
}

static void free_variant(variant *v)
{
    at_unbind(&v->binding);
    at_arm_close(&v->arm);
    if (v->loaded != NULL) {
        v->on->device->ops->unload(v->loaded);
    }
}

/* ---- A kernel -------------------------------------------------------------------------------------------------------
 */

static const rung *rung_of(const at_loaded *loaded)
{
    for (int i = 0; i < RUNGS; ++i) {
        if (strcmp(rungs[i].name, loaded->kernel->name) == 0) {
            return &rungs[i];
        }
    }
    return NULL;
}

static attune_status print_rows(const subject *s, const char *kernel, const int *stage, const at_samples *samples,
                                int count)
{
    double whole = 0;
    for (int i = 0; i < count; ++i) {
        at_interval time;
        AT_FORWARD(at_bootstrap_median(samples[i].us, samples[i].count, 0.95, AT_RESAMPLES, 1, &time));
        whole = i == 0 ? time.middle : whole;
        printf("%s\t%s\t%s\t%.2f\t%.2f\t%.2f\t%.3f\n", s->text, kernel, variant_names[stage[i]], time.middle, time.low,
               time.high, i == 0 ? 1.0 : 1 - time.middle / whole);
    }
    return fflush(stdout) == 0 ? ATTUNE_OK : at_fail(ATTUNE_IO_ERROR, "writing the table");
}

static attune_status time_variants(const subject *s, const char *kernel, double seconds, const int *stage, variant *v,
                                   int count)
{
    at_interleave how;
    at_bound arms[VARIANTS];
    at_samples samples[VARIANTS];
    at_interleave_init(&how);
    how.budget_s = seconds;
    for (int i = 0; i < count; ++i) {
        AT_FORWARD(bind_variant(&v[i]));
        arms[i] = v[i].binding.bound;
    }
    AT_FORWARD(at_interleave_run(&how, arms, count, samples));
    attune_status status = print_rows(s, kernel, stage, samples, count);
    for (int i = 0; i < count; ++i) {
        at_samples_free(&samples[i]);
    }
    return status;
}

static attune_status time_kernel(subject *s, const attune_plan *plan, double seconds)
{
    const at_loaded *whole = plan->loaded;
    const rung *of = rung_of(whole);
    AT_FAIL_IF(of == NULL, ATTUNE_UNSUPPORTED, "%s has no stages to leave out", whole->kernel->name);
    variant v[VARIANTS] = {{0}};
    int stage[VARIANTS];
    int count = 0;
    attune_status status = ATTUNE_OK;
    for (int i = WHOLE; i < VARIANTS && status == ATTUNE_OK; ++i) {
        if (i != WHOLE && of->step[i] == NEVER) {
            continue;
        }
        v[count].on = s;
        stage[count] = i;
        status = load_variant(s, of, whole, i, &v[count].loaded);
        status = status == ATTUNE_OK ? plan_variant(&v[count], &s->work) : status;
        ++count;
    }
    status = status == ATTUNE_OK ? time_variants(s, plan->kernel_text, seconds, stage, v, count) : status;
    for (int i = 0; i < count; ++i) {
        free_variant(&v[i]);
    }
    return status;
}

/* Executes once: nothing but the kernel's own launches. */
static attune_status run_once(subject *s, const attune_plan *plan)
{
    variant v = {.on = s};
    int64_t ns;
    AT_FORWARD(load_whole(s, plan->loaded, &v.loaded));
    attune_status status = plan_variant(&v, &s->work);
    printf("once\t%s\t%s\n", s->text, plan->kernel_text);
    status = status == ATTUNE_OK ? execute(&v, &ns) : status;
    free_variant(&v);
    return status;
}

static attune_status take_kernel(subject *s, const char *kernel, const wishes *w)
{
    attune_plan *plan;
    const attune_plan_options named = {.size = sizeof named, .kernel = kernel};
    AT_FORWARD(attune_plan_create(s->context, &s->test.problem, &named, &plan));
    attune_status status = w->once ? run_once(s, plan) : time_kernel(s, plan, w->seconds);
    attune_plan_destroy(plan);
    return status;
}

/* ---- The command ----------------------------------------------------------------------------------------------------
 */

static attune_status read_wishes(int count, char **words, wishes *w)
{
    *w = (wishes){.seconds = 1};
    for (int i = 1; i < count; ++i) {
        if (strcmp(words[i], "--seconds") == 0 && i + 1 < count) {
            w->seconds = strtod(words[++i], NULL);
        } else if (strcmp(words[i], "--kernel") == 0 && i + 1 < count && w->kernel_count < KERNELS_MAX) {
            w->kernel[w->kernel_count++] = words[++i];
        } else if (strcmp(words[i], "--once") == 0 && i + 1 < count && w->kernel_count == 0) {
            w->once = true;
            w->kernel[w->kernel_count++] = words[++i];
        } else if (words[i][0] != '-' && w->problem_count < PROBLEMS_MAX) {
            w->problem[w->problem_count++] = words[i];
        } else {
            return at_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s: stages [--seconds S] [--kernel TEXT]... [PROBLEM...] | "
                           "--once TEXT [--kernel TEXT]... PROBLEM...",
                           words[i]);
        }
    }
    for (int i = 0; i < RUNGS && w->kernel_count == i; ++i) {
        w->kernel[w->kernel_count++] = rungs[i].name;
    }
    if (w->problem_count == 0) {
        w->problem[w->problem_count++] = "b1,h8,s512,d64,fp16";
        w->problem[w->problem_count++] = "b8,h16,s2048,d128,fp16";
    }
    return ATTUNE_OK;
}

/* A kernel that cannot be timed is a comment in the table, and makes the exit code 1. */
static attune_status take_problem(subject *s, const wishes *w)
{
    AT_FORWARD(make_subject(s));
    attune_status worst = ATTUNE_OK;
    for (int i = 0; i < w->kernel_count; ++i) {
        attune_status status = take_kernel(s, w->kernel[i], w);
        if (status != ATTUNE_OK) {
            printf("# %s %s: %s: %s\n", s->text, w->kernel[i], attune_status_string(status), attune_last_detail());
            worst = status;
        }
    }
    return worst;
}

static attune_status take_all(const wishes *w, attune_context *context)
{
    subject s = {.context = context, .device = at_context_device(context)};
    attune_status worst = ATTUNE_OK;
    if (!w->once) {
        printf("# %s\nproblem\tkernel\twithout\tmedian_us\tlo_us\thi_us\tshare\n", attune_context_target(context));
    }
    for (int i = 0; i < w->problem_count; ++i) {
        s.text = w->problem[i];
        attune_status status = take_problem(&s, w);
        worst = status == ATTUNE_OK ? worst : status;
        at_workload_close(&s.work);
    }
    return worst;
}

int main(int argc, char **argv)
{
    wishes w;
    attune_options options;
    attune_context *context = NULL;
    attune_options_init(&options);
    options.target = "cuda";
    attune_status status = read_wishes(argc, argv, &w);
    status = status == ATTUNE_OK ? attune_context_create(&options, &context) : status;
    status = status == ATTUNE_OK ? take_all(&w, context) : status;
    if (status != ATTUNE_OK) {
        (void)fprintf(stderr, "%s: %s\n", attune_status_string(status), attune_last_detail());
    }
    attune_context_destroy(context);
    return status == ATTUNE_OK ? 0 : 1;
}
