/* Candidates: kernels of the library by name, and strangers by their folder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "gate/gate_parts.h"
#include "library/catalogue.h"

static attune_status open_one(const at_gate_options *options, const char *text, at_gate_candidate *candidate)
{
    *candidate = (at_gate_candidate){.text = text};
    if (!at_stranger_is_meant(text)) {
        return at_catalogue_check(text, &candidate->kernel);
    }
    const at_stranger_tools tools = {.patience_s = options->patience_s};
    attune_status status = at_stranger_find(text, &tools, &candidate->stranger, &candidate->params);
    if (status == ATTUNE_OK) {
        candidate->kernel = at_stranger_kernel(candidate->stranger);
        return ATTUNE_OK;
    }
    /* A folder whose descriptor is at fault is a candidate that does not build; the first stage says why. */
    if (status == ATTUNE_COMPILE_ERROR || status == ATTUNE_CORRUPT || status == ATTUNE_INVALID_ARGUMENT) {
        candidate->status = status;
        (void)snprintf(candidate->detail, sizeof candidate->detail, "%s", attune_last_detail());
        return ATTUNE_OK;
    }
    return status;
}

/* Where nobody names a target, the candidates bring it. */
static attune_status choose_target(at_gate *gate)
{
    const at_gate_candidate *first = NULL;
    gate->target_text = gate->options->target;
    for (int i = 0; gate->target_text == NULL && i < gate->options->candidate_count; ++i) {
        const at_gate_candidate *one = &gate->candidate[i];
        first = first == NULL && one->kernel != NULL ? one : first;
        AT_FAIL_IF(one->kernel != NULL && one->kernel->target != first->kernel->target, ATTUNE_INVALID_ARGUMENT,
                   "%s and %s are for different targets: each needs a call of its own", first->text, one->text);
    }
    if (gate->target_text == NULL && first != NULL) {
        gate->target_text = first->kernel->target == ATTUNE_TARGET_CPU ? "cpu" : "cuda";
    }
    return ATTUNE_OK;
}

attune_status at_gate_candidates_open(at_gate *gate)
{
    int count = gate->options->candidate_count;
    gate->candidate = calloc((size_t)count + 1, sizeof *gate->candidate);
    AT_FAIL_IF(gate->candidate == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d candidates", count);
    for (int i = 0; i < count; ++i) {
        AT_FORWARD(open_one(gate->options, gate->options->candidate[i], &gate->candidate[i]));
    }
    return choose_target(gate);
}

void at_gate_candidates_close(at_gate *gate)
{
    for (int i = 0; gate->candidate != NULL && i < gate->options->candidate_count; ++i) {
        at_stranger_close(gate->candidate[i].stranger);
    }
    free(gate->candidate);
    gate->candidate = NULL;
}

bool at_gate_is_confined(const at_gate_candidate *candidate)
{
    return candidate->stranger != NULL && candidate->kernel->target == ATTUNE_TARGET_CPU;
}

attune_status at_gate_plan(const at_gate_candidate *candidate, at_device *device, const attune_problem *problem,
                           attune_plan **plan)
{
    *plan = NULL;
    AT_FAIL_IF(candidate->status != ATTUNE_OK, candidate->status, "%s", candidate->detail);
    return candidate->stranger != NULL ? at_stranger_plan(candidate->stranger, device, problem, candidate->params, plan)
                                       : at_remote_plan(device, problem, candidate->text, plan);
}
