/* The planner's own race: candidates run on drawn inputs, each must be right before it is timed, the fastest wins. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/descriptor.h"
#include "core/problem.h"
#include "library/state.h"
#include "library/workload.h"
#include "measure/interleave.h"

enum {
    SHORT_FIELD = 8,     /* candidates of a short race */
    PATIENT_FIELD = 64,  /* and of a patient one, */
    PATIENT_LIKELY = 16, /* of which the heuristics name so many first */
    FINALISTS = 12,      /* timed together */
    TRIES = 4096,        /* configs looked at to find ones that fit */
    HOPELESS = 4         /* slower than the fastest by this in its first run: not timed further */
};

typedef struct racer {
    at_choice choice;
    attune_arm arm;   /* its plan */
    int64_t first_ns; /* of the run that was judged */
} racer;

typedef struct field {
    racer racer[PATIENT_FIELD];
    int count, room;
    uint32_t avoided; /* ATTUNE_TRAIT_ bits */
} field;

/* ---- Who takes part --------------------------------------------------------------------------------------------- */

static void enter(field *all, const attune_kernel *kernel, const attune_config *config)
{
    for (int i = 0; i < all->count; ++i) {
        const at_choice *have = &all->racer[i].choice;
        if (have->kernel == kernel && memcmp(&have->config, config, sizeof *config) == 0) {
            return;
        }
    }
    if (all->count < all->room) {
        all->racer[all->count++].choice = (at_choice){kernel, *config, AT_ORIGIN_MEASURED};
    }
}

/* Enters each kernel's likeliest, then each kernel's second likeliest, and so on. */
static void enter_likely(field *all, const attune_context *context, const attune_problem *problem)
{
    const attune_target *target = &context->parts.device->target;
    bool more = true;
    for (int32_t index = 0; more && index < TRIES && all->count < all->room; ++index) {
        more = false;
        for (const attune_kernel *const *at = context->parts.kernels; *at != NULL; ++at) {
            attune_config config = {{0}};
            if (!at_eligible(context, *at, all->avoided, NULL) || !at_kernel_supports(*at, problem, target, NULL) ||
                !at_kernel_heuristic(*at, problem, target, index, &config)) {
                continue;
            }
            more = true;
            if (at_kernel_fits(*at, problem, target, &config, NULL)) {
                enter(all, *at, &config);
            }
        }
    }
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Enters `share` configs of a kernel from all over its space: steps of about the golden section never cluster. */
static void enter_spread(field *all, const attune_context *context, const attune_problem *problem,
                         const attune_kernel *kernel, int share)
{
    const attune_target *target = &context->parts.device->target;
    int64_t count = at_config_count(kernel);
    int64_t step = (int64_t)(0.6180339887498949 * (double)count);
    step = step < 1 ? 1 : step;
    while (common_divisor(step, count) != 1) {
        ++step;
    }
    int64_t index = 0;
    int before = all->count;
    for (int tries = 0; tries < TRIES && tries < count && all->count < before + share; ++tries) {
        attune_config config = {{0}};
        at_config_at(kernel, index, &config);
        index = index < count - step ? index + step : index - (count - step);
        if (at_kernel_fits(kernel, problem, target, &config, NULL)) {
            enter(all, kernel, &config);
        }
    }
}

/* Rows of other devices are not trusted, but worth a try. */
static void enter_seeds(field *all, const attune_context *context, const attune_problem *problem,
                        const at_wisdom *wisdom)
{
    char class_text[AT_CLASS_TEXT_MAX];
    char name[AT_KERNEL_TEXT_MAX];
    const char *params;
    const attune_target *target = &context->parts.device->target;
    at_problem_class(problem, class_text);
    for (size_t i = 0; i < at_wisdom_count(wisdom); ++i) {
        const at_wisdom_row *row = at_wisdom_at(wisdom, i);
        if (strcmp(row->class_text, class_text) != 0 ||
            at_kernel_text_split(row->kernel_text, name, sizeof name, &params) != ATTUNE_OK) {
            continue;
        }
        attune_config config = {{0}};
        const attune_kernel *kernel = at_kernels_find(context->parts.kernels, name);
        if (kernel != NULL && at_eligible(context, kernel, all->avoided, NULL) &&
            at_kernel_supports(kernel, problem, target, NULL) &&
            at_kernel_heuristic(kernel, problem, target, 0, &config) &&
            at_config_parse(kernel, params, &config) == ATTUNE_OK &&
            at_kernel_fits(kernel, problem, target, &config, NULL) && all->count < SHORT_FIELD / 2) {
            enter(all, kernel, &config);
        }
    }
}

static void enter_all(field *all, const attune_context *context, const attune_problem *problem, bool patient)
{
    const attune_target *target = &context->parts.device->target;
    int kernels = 0;
    all->room = patient ? PATIENT_LIKELY : SHORT_FIELD;
    enter_seeds(all, context, problem, context->shipped);
    enter_seeds(all, context, problem, context->wisdom);
    enter_likely(all, context, problem);
    if (!patient) {
        return;
    }
    all->room = PATIENT_FIELD;
    for (const attune_kernel *const *at = context->parts.kernels; *at != NULL; ++at) {
        kernels += at_eligible(context, *at, all->avoided, NULL) && at_kernel_supports(*at, problem, target, NULL);
    }
    int share = kernels == 0 ? 0 : (PATIENT_FIELD - all->count) / kernels;
    for (const attune_kernel *const *at = context->parts.kernels; *at != NULL; ++at) {
        if (at_eligible(context, *at, all->avoided, NULL)) {
            enter_spread(all, context, problem, *at, share);
        }
    }
}

/* ---- Qualifying ------------------------------------------------------------------------------------------------- */

static attune_status qualify(attune_context *context, const attune_problem *problem, at_workload *work, racer *one)
{
    const at_loaded *loaded;
    attune_plan *plan;
    AT_FORWARD(at_residents_get(context, problem, one->choice.kernel, &one->choice.config, true, &loaded));
    AT_FORWARD(at_plan_bind(problem, loaded, one->choice.origin, &plan));
    at_arm_of_plan(plan, &one->arm);
    AT_FORWARD(at_workload_reserve(work, &one->arm));
    return at_workload_judge(work, &one->arm, &one->first_ns);
}

static void drop(field *all, int index)
{
    at_arm_close(&all->racer[index].arm);
    all->racer[index] = all->racer[--all->count];
}

static int faster_first(const void *a, const void *b)
{
    int64_t left = ((const racer *)a)->first_ns;
    int64_t right = ((const racer *)b)->first_ns;
    return (left > right) - (left < right);
}

/* Drops who is hopelessly slow, or slower than the FINALISTS fastest. */
static void thin_out(field *all)
{
    qsort(all->racer, (size_t)all->count, sizeof all->racer[0], faster_first);
    while (all->count > 1 &&
           (all->count > FINALISTS || all->racer[all->count - 1].first_ns / HOPELESS > all->racer[0].first_ns)) {
        drop(all, all->count - 1);
    }
}

/* Drops who cannot be loaded or is wrong, and then the slow. The last failure if nobody is left. */
static attune_status qualify_all(attune_context *context, const attune_problem *problem, at_workload *work, field *all)
{
    attune_status failure = ATTUNE_OK;
    for (int i = 0; i < all->count;) {
        attune_status status = qualify(context, problem, work, &all->racer[i]);
        if (status == ATTUNE_OK) {
            ++i;
            continue;
        }
        failure = status;
        at_remember_failure(context, all->racer[i].choice.kernel);
        drop(all, i);
    }
    thin_out(all);
    return all->count > 0 ? ATTUNE_OK : failure;
}

/* ---- Running ---------------------------------------------------------------------------------------------------- */

/* Drops who cannot be bound, as it cannot be captured; the last failure if nobody is left. */
static attune_status bind_all(attune_context *context, const at_workload *work, field *all, at_binding *binding,
                              at_bound *bound)
{
    attune_status failure = ATTUNE_OK;
    for (int i = 0; i < all->count;) {
        const racer *one = &all->racer[i];
        attune_status status = at_bind(work->place.device, &one->arm, &work->place.call, one->first_ns, &binding[i]);
        if (status == ATTUNE_OK) {
            bound[i] = binding[i].bound;
            ++i;
            continue;
        }
        failure = status;
        at_remember_failure(context, one->choice.kernel);
        at_unbind(&binding[i]);
        drop(all, i);
    }
    return all->count > 0 ? ATTUNE_OK : failure;
}

static attune_status race(attune_context *context, const at_workload *work, field *all, bool patient, int *winner)
{
    at_binding binding[FINALISTS] = {{0}};
    at_bound bound[FINALISTS];
    double us;
    *winner = 0;
    if (all->count == 1) {
        return ATTUNE_OK;
    }
    attune_status status = bind_all(context, work, all, binding, bound);
    if (status == ATTUNE_OK) {
        status = at_interleave_fastest(&work->clock, patient ? 4.0 : 0.4, bound, all->count, winner, &us);
    }
    for (int i = 0; i < all->count; ++i) {
        at_unbind(&binding[i]);
    }
    return status;
}

/* ---- The result ------------------------------------------------------------------------------------------------- */

static attune_status record(attune_context *context, const attune_problem *problem, const char *kernel_text)
{
    char class_text[AT_CLASS_TEXT_MAX];
    at_problem_class(problem, class_text);
    at_wisdom_row row = {AT_MEASURED, class_text, context->target_text, (char *)kernel_text, NULL};
    pthread_rwlock_wrlock(&context->lock);
    attune_status status = at_wisdom_add(context->wisdom, &row);
    pthread_rwlock_unlock(&context->lock);
    return status;
}

static attune_status hold(attune_context *context, const attune_problem *problem, bool patient, field *all,
                          at_choice *winner)
{
    const at_test_problem test = {*problem, 0};
    at_workload work;
    int first = 0;
    AT_FORWARD(at_workload_open(context, &test, &work));
    attune_status status = qualify_all(context, problem, &work, all);
    if (status == ATTUNE_OK) {
        status = race(context, &work, all, patient, &first);
    }
    if (status == ATTUNE_OK) {
        *winner = all->racer[first].choice;
        /* Who was not let in might have won: wisdom is for all who ask. */
        status = all->avoided == 0 ? record(context, problem, all->racer[first].arm.name) : ATTUNE_OK;
    }
    at_workload_close(&work);
    return status;
}

attune_status at_race_run(attune_context *context, const attune_problem *problem, bool patient, uint32_t avoided,
                          at_choice *winner)
{
    field *all = calloc(1, sizeof *all);
    AT_FAIL_IF(all == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a race");
    all->avoided = avoided;
    enter_all(all, context, problem, patient);
    attune_status status =
        all->count == 0 ? at_supports_any(context, problem, avoided) : hold(context, problem, patient, all, winner);
    for (int i = 0; i < all->count; ++i) {
        at_arm_close(&all->racer[i].arm);
    }
    free(all);
    return status;
}
