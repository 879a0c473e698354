/* From a problem to a kernel and config without running anything. */
#include <string.h>

#include "base/status.h"
#include "core/descriptor.h"
#include "core/problem.h"
#include "library/state.h"

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
    choice->origin = row->kind == AT_PROVEN ? AT_ORIGIN_PROVEN : AT_ORIGIN_MEASURED;
    if (at_residents_get(context, problem, choice->kernel, &choice->config, true, &loaded) != ATTUNE_OK) {
        at_remember_failure(context, choice->kernel);
        return false;
    }
    return true;
}

/* The context's own rows and the shipped ones, better first; the own one where they rank alike. Rows may change under
 * other threads only with `planning` held, so they stay valid here. */
bool at_choose_by_wisdom(attune_context *context, const attune_problem *problem, uint32_t avoided, at_choice *choice)
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

/* Where nothing is known of the device, what is proven of its nearest relative is what to begin with: no answer for who
 * asks for measured ones. */
static bool choose_by_relative(attune_context *context, const attune_problem *problem, uint32_t avoided,
                               at_choice *choice)
{
    char class_text[AT_CLASS_TEXT_MAX];
    at_problem_class(problem, class_text);
    const at_wisdom *const known[] = {context->wisdom, context->shipped};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
        const at_wisdom_row *row = at_wisdom_of_relative(known[i], class_text, context->target_text);
        if (row != NULL && use_row(context, problem, row, avoided, choice)) {
            choice->origin = AT_ORIGIN_HEURISTIC;
            return true;
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

attune_status at_choose_unraced(attune_context *context, const attune_problem *problem, const at_wanted *want,
                                at_choice *choice)
{
    if (at_choose_by_wisdom(context, problem, want->avoided, choice)) {
        return ATTUNE_OK;
    }
    if (want->effort == ATTUNE_WISDOM_ONLY) {
        char class_text[AT_CLASS_TEXT_MAX];
        at_problem_class(problem, class_text);
        return at_fail(ATTUNE_NOT_FOUND, "no usable wisdom for class %s on %s", class_text, context->target_text);
    }
    return choose_by_relative(context, problem, want->avoided, choice)
               ? ATTUNE_OK
               : choose_by_heuristic(context, problem, want->avoided, choice);
}
