/* From a problem to a plan: its kernel and config are held to by name, else chosen by wisdom, else by a race, else by
 * the heuristics. */
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

/* ---- Choosing and remembering ----------------------------------------------------------------------------------- */

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

static attune_status choose(attune_context *context, const attune_problem *problem, const at_wanted *want,
                            at_choice *choice)
{
    const bool computes = problem->seqlen_q > 0 && problem->seqlen_kv > 0;
    const bool races = computes && (want->effort == ATTUNE_MEASURE || want->effort == ATTUNE_PATIENT);
    if (!races) {
        return at_choose_unraced(context, problem, want, choice);
    }
    return at_choose_by_wisdom(context, problem, want->avoided, choice)
               ? ATTUNE_OK
               : at_race_run(context, problem, want->effort == ATTUNE_PATIENT, want->avoided, choice);
}

static attune_status choose_and_remember(attune_context *context, const at_key *key, const attune_problem *problem,
                                         const at_wanted *want, at_choice *choice)
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
                                 const attune_plan_options *options, const at_wanted *want, at_choice *choice)
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

/* What the plan has for shorter calls. */
static attune_status add_variants(attune_context *context, const at_wanted *want, attune_plan *plan)
{
    AT_FORWARD(at_variants_get(context, &plan->problem, want, plan->loaded, &plan->variants));
    if (plan->variants != NULL) {
        plan->workspace_max = at_variants_workspace(plan->variants);
    }
    return ATTUNE_OK;
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
    const at_wanted want = {whole.effort, (whole.deterministic ? (uint32_t)ATTUNE_TRAIT_NONDETERMINISTIC : 0) |
                                              (whole.batch_invariant ? (uint32_t)ATTUNE_TRAIT_BATCH_VARIANT : 0)};
    AT_FORWARD(at_device_check(context->parts.device));
    AT_FORWARD(choose_with(context, &asked, &whole, &want, &choice));
    AT_FORWARD(plan_choice(context, &asked, &choice, plan));
    attune_status status = choice.origin == AT_ORIGIN_NAMED ? ATTUNE_OK : add_variants(context, &want, *plan);
    if (status != ATTUNE_OK) {
        attune_plan_destroy(*plan);
        *plan = NULL;
    }
    return status;
}
