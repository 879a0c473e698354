/* From a problem to a kernel and config: held to one by name, else wisdom, else a race, else the heuristics. */
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "base/status.h"
#include "base/text.h"
#include "core/descriptor.h"
#include "core/problem.h"
#include "core/target.h"
#include "library/state.h"

/* ---- By name ---------------------------------------------------------------------------------------------------- */

static attune_status load(attune_context *context, const attune_problem *problem, const at_choice *choice,
                          const at_loaded **loaded)
{
    AT_FORWARD(at_residents_get(context, problem, choice->kernel, &choice->config, false, loaded));
    if (*loaded != NULL) {
        return ATTUNE_OK;
    }
    pthread_mutex_lock(&context->planning);
    attune_status status = at_residents_get(context, problem, choice->kernel, &choice->config, true, loaded);
    pthread_mutex_unlock(&context->planning);
    return status;
}

/* The likeliest config that fits once the parameters that were named are put over it; else the reason of the first. */
static bool first_fitting_with(const attune_problem *problem, const attune_target *target, const char *params,
                               at_choice *choice, attune_reason *reason)
{
    const attune_kernel *kernel = choice->kernel;
    attune_reason later;
    for (int32_t index = 0;; ++index) {
        attune_config config = {{0}};
        if (!at_kernel_heuristic(kernel, problem, target, index, &config) ||
            at_config_parse(kernel, params, &config) != ATTUNE_OK) {
            return false;
        }
        if (at_kernel_fits(kernel, problem, target, &config, index == 0 ? reason : &later)) {
            choice->config = config;
            return true;
        }
    }
}

static attune_status choose_named(const attune_context *context, const attune_problem *problem,
                                  const attune_kernel *kernel, const char *params, at_choice *choice)
{
    const attune_target *target = &context->parts.device->target;
    attune_reason reason = {""};
    memset(&choice->config, 0, sizeof choice->config);
    choice->kernel = kernel;
    choice->origin = AT_ORIGIN_NAMED;
    AT_FAIL_IF(!at_is_for(kernel, target, &reason) || !at_kernel_supports(kernel, problem, target, &reason),
               ATTUNE_UNSUPPORTED, "kernel %s cannot: %s", kernel->name, reason.text);
    AT_FORWARD(at_config_parse(kernel, params, &choice->config));
    AT_FAIL_IF(!first_fitting_with(problem, target, params, choice, &reason), ATTUNE_UNSUPPORTED,
               "kernel %s%s%s cannot: %s", kernel->name, *params != '\0' ? ":" : "", params, reason.text);
    return ATTUNE_OK;
}

static attune_status plan_choice(attune_context *context, const attune_problem *problem, const at_choice *choice,
                                 attune_plan **plan)
{
    const at_loaded *loaded;
    AT_FORWARD(load(context, problem, choice, &loaded));
    return at_plan_bind(problem, loaded, choice->origin, plan);
}

attune_status at_plan_kernel(attune_context *context, const attune_problem *problem, const attune_kernel *kernel,
                             const char *params, attune_plan **plan)
{
    at_choice choice;
    *plan = NULL;
    AT_FORWARD(attune_problem_check(problem));
    AT_FORWARD(choose_named(context, problem, kernel, params, &choice));
    return plan_choice(context, problem, &choice, plan);
}

/* ---- By wisdom -------------------------------------------------------------------------------------------------- */

/* A row that cannot serve (an unknown kernel, a config that does not fit, a failed load) is passed over. */
static bool use_row(attune_context *context, const attune_problem *problem, const at_wisdom_row *row, uint32_t avoided,
                    at_choice *choice)
{
    char name[AT_KERNEL_TEXT_MAX];
    const char *params;
    const at_loaded *loaded;
    const attune_target *target = &context->parts.device->target;
    memset(choice, 0, sizeof *choice);
    if (at_kernel_text_split(row->kernel_text, name, sizeof name, &params) != ATTUNE_OK ||
        (choice->kernel = at_kernels_find(context->parts.kernels, name)) == NULL ||
        !at_eligible(context, choice->kernel, avoided, NULL) ||
        !at_kernel_supports(choice->kernel, problem, target, NULL)) {
        return false;
    }
    (void)at_kernel_heuristic(choice->kernel, problem, target, 0, &choice->config);
    if (at_config_parse(choice->kernel, params, &choice->config) != ATTUNE_OK ||
        !at_kernel_fits(choice->kernel, problem, target, &choice->config, NULL)) {
        return false;
    }
    choice->origin = row->standing == AT_PROVEN ? AT_ORIGIN_PROVEN : AT_ORIGIN_MEASURED;
    if (at_residents_get(context, problem, choice->kernel, &choice->config, true, &loaded) != ATTUNE_OK) {
        at_remember_failure(context, choice->kernel);
        return false;
    }
    return true;
}

/* The context's own rows and the shipped ones, better first; the own one where they rank alike. Rows may change under
 * other threads only with `planning` held, so they stay valid here. */
static bool choose_by_wisdom(attune_context *context, const attune_problem *problem, uint32_t avoided,
                             at_choice *choice)
{
    char class_text[AT_CLASS_TEXT_MAX];
    const char *target = context->target_text;
    at_problem_class(problem, class_text);
    const at_wisdom_row *own = at_wisdom_find(context->wisdom, class_text, target, NULL);
    const at_wisdom_row *shipped = at_wisdom_find(context->shipped, class_text, target, NULL);
    while (own != NULL || shipped != NULL) {
        bool of_own =
            shipped == NULL || (own != NULL && at_wisdom_rank(own, target) >= at_wisdom_rank(shipped, target));
        if (use_row(context, problem, of_own ? own : shipped, avoided, choice)) {
            return true;
        }
        if (of_own) {
            own = at_wisdom_find(context->wisdom, class_text, target, own);
        } else {
            shipped = at_wisdom_find(context->shipped, class_text, target, shipped);
        }
    }
    return false;
}

/* ---- By heuristic ----------------------------------------------------------------------------------------------- */

static attune_status choose_by_heuristic(attune_context *context, const attune_problem *problem, uint32_t avoided,
                                         at_choice *choice)
{
    const at_loaded *loaded;
    attune_status failure = ATTUNE_OK;
    for (const attune_kernel *const *at = context->parts.kernels; *at != NULL; ++at) {
        memset(choice, 0, sizeof *choice);
        choice->kernel = *at;
        choice->origin = AT_ORIGIN_HEURISTIC;
        if (!at_eligible(context, *at, avoided, NULL) ||
            !at_first_fitting(*at, problem, &context->parts.device->target, &choice->config, NULL)) {
            continue;
        }
        attune_status status = at_residents_get(context, problem, *at, &choice->config, true, &loaded);
        if (status == ATTUNE_OK) {
            return ATTUNE_OK;
        }
        at_remember_failure(context, *at);
        failure = status;
    }
    return failure != ATTUNE_OK ? failure : at_supports_any(context, problem, avoided);
}

/* ---- Choosing and remembering ----------------------------------------------------------------------------------- */

/* What a caller asks of a plan. */
typedef struct wanted {
    int32_t effort;
    uint32_t avoided; /* ATTUNE_TRAIT_ bits */
} wanted;

/* Whether an earlier choice answers at this effort: a heuristic one does not once the caller asked for more. */
static bool satisfies(const at_choice *choice, int32_t effort)
{
    return effort == ATTUNE_ESTIMATE || choice->origin != AT_ORIGIN_HEURISTIC;
}

static bool recall(attune_context *context, const at_key *key, int32_t effort, const attune_problem *problem,
                   at_choice *choice)
{
    pthread_rwlock_rdlock(&context->lock);
    const at_choice *have = at_lookup_find(context->choices, key);
    bool found = have != NULL && satisfies(have, effort);
    if (found) {
        *choice = *have;
    }
    pthread_rwlock_unlock(&context->lock);
    /* A class covers sizes up to twice the one that was planned first: what it needs may have grown too much. */
    return found && at_kernel_fits(choice->kernel, problem, &context->parts.device->target, &choice->config, NULL);
}

static attune_status remember(attune_context *context, const at_key *key, const at_choice *choice)
{
    at_choice *copy = malloc(sizeof *copy);
    AT_FAIL_IF(copy == NULL, ATTUNE_OUT_OF_MEMORY, "no memory to remember a choice");
    *copy = *choice;
    pthread_rwlock_wrlock(&context->lock);
    void *before = at_lookup_find(context->choices, key);
    attune_status status = at_lookup_set(context->choices, key, copy);
    pthread_rwlock_unlock(&context->lock);
    free(status == ATTUNE_OK ? before : copy);
    return status;
}

static attune_status choose(attune_context *context, const attune_problem *problem, const wanted *want,
                            at_choice *choice)
{
    if (choose_by_wisdom(context, problem, want->avoided, choice)) {
        return ATTUNE_OK;
    }
    if (want->effort == ATTUNE_WISDOM_ONLY) {
        char class_text[AT_CLASS_TEXT_MAX];
        at_problem_class(problem, class_text);
        return at_fail(ATTUNE_NOT_FOUND, "no usable wisdom for class %s on %s", class_text, context->target_text);
    }
    bool computes = problem->seqlen_q > 0 && problem->seqlen_kv > 0;
    if (want->effort != ATTUNE_ESTIMATE && computes) {
        return at_race_run(context, problem, want->effort == ATTUNE_PATIENT, want->avoided, choice);
    }
    return choose_by_heuristic(context, problem, want->avoided, choice);
}

static attune_status choose_and_remember(attune_context *context, const at_key *key, const attune_problem *problem,
                                         const wanted *want, at_choice *choice)
{
    pthread_mutex_lock(&context->planning);
    attune_status status = ATTUNE_OK;
    if (!recall(context, key, want->effort, problem, choice)) { /* else another thread was faster */
        status = choose(context, problem, want, choice);
        if (status == ATTUNE_OK) {
            status = remember(context, key, choice);
        }
    }
    pthread_mutex_unlock(&context->planning);
    return status;
}

static const at_sized sized = {.name = "plan options",
                               .init = "attune_plan_options_init",
                               .least = sizeof(attune_plan_options),
                               .bytes = sizeof(attune_plan_options),
                               .status = ATTUNE_INVALID_ARGUMENT};

void attune_plan_options_init_sized(attune_plan_options *options, size_t size)
{
    const attune_plan_options defaults = {.size = sizeof defaults};
    if (options != NULL) {
        (void)at_sized_write(&sized, &defaults, options, size);
    }
}

static attune_status take_options(const attune_plan_options *given, attune_plan_options *whole)
{
    attune_plan_options_init(whole);
    if (given != NULL) {
        AT_FORWARD(at_sized_read(&sized, given, whole));
    }
    AT_FAIL_IF(whole->effort < ATTUNE_ESTIMATE || whole->effort > ATTUNE_WISDOM_ONLY, ATTUNE_INVALID_ARGUMENT,
               "effort is %d; allowed are %d (estimate) ... %d (wisdom only)", whole->effort, ATTUNE_ESTIMATE,
               ATTUNE_WISDOM_ONLY);
    AT_FAIL_IF((whole->deterministic | whole->batch_invariant | 1) != 1 || whole->reserved != 0,
               ATTUNE_INVALID_ARGUMENT,
               "deterministic, batch_invariant and reserved are %d, %d and %d: 0 or 1, 0 or 1, and 0 are needed",
               whole->deterministic, whole->batch_invariant, whole->reserved);
    return ATTUNE_OK;
}

static attune_status choose_with(attune_context *context, const attune_problem *problem,
                                 const attune_plan_options *options, const wanted *want, at_choice *choice)
{
    const attune_kernel *named = context->named.kernel;
    const char *params = context->named.params;
    attune_reason reason = {""};
    at_key key;
    if (options->kernel != NULL) {
        AT_FORWARD(at_named_read(context, options->kernel, &named, &params));
    }
    if (named != NULL) {
        AT_FAIL_IF(!at_keeps_demands(named, want->avoided, &reason), ATTUNE_UNSUPPORTED, "kernel %s cannot: %s",
                   named->name, reason.text);
        return choose_named(context, problem, named, params, choice);
    }
    at_key_fill(&key, problem);
    key.shape[0] |= (int64_t)want->avoided << 32;
    return recall(context, &key, want->effort, problem, choice)
               ? ATTUNE_OK
               : choose_and_remember(context, &key, problem, want, choice);
}

attune_status attune_plan_create(attune_context *context, const attune_problem *problem,
                                 const attune_plan_options *options, attune_plan **plan)
{
    at_choice choice = {0};
    attune_problem asked;
    attune_plan_options whole;
    AT_FAIL_IF(plan == NULL, ATTUNE_INVALID_ARGUMENT, "plan is NULL");
    *plan = NULL;
    AT_FAIL_IF(context == NULL, ATTUNE_INVALID_ARGUMENT, "context is NULL");
    AT_FORWARD(take_options(options, &whole));
    AT_FORWARD(at_problem_take(problem, &asked));
    const wanted want = {whole.effort, (whole.deterministic ? (uint32_t)ATTUNE_TRAIT_NONDETERMINISTIC : 0) |
                                           (whole.batch_invariant ? (uint32_t)ATTUNE_TRAIT_BATCH_VARIANT : 0)};
    AT_FORWARD(choose_with(context, &asked, &whole, &want, &choice));
    return plan_choice(context, &asked, &choice, plan);
}
