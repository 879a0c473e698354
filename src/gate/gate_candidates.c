/* Candidates: kernels of the library by name, and strangers by their folder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "gate/gate_parts.h"
#include "worker/arms.h"

static attune_status open_one(const at_gate_options *options, const char *text, at_gate_candidate *candidate)
{
    const at_stranger_tools tools = {.patience_s = options->patience_s};
    at_found_kernel found;
    attune_status status = at_kernel_find(text, &tools, &found);
    *candidate =
        (at_gate_candidate){.text = text, .kernel = found.kernel, .stranger = found.stranger, .params = found.params};
    if (status == ATTUNE_OK || !at_stranger_is_meant(text)) {
        return status;
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

/* Peers that are folders; one that does not build is no peer, and an error of whoever named it. */
static attune_status open_folders(at_gate *gate)
{
    const at_gate_options *options = gate->options;
    gate->folder = calloc((size_t)options->peer_count + 1, sizeof *gate->folder);
    AT_FAIL_IF(gate->folder == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d peers", options->peer_count);
    for (int i = 0; i < options->peer_count; ++i) {
        const char *name = options->peer[i];
        if (at_arms_python(name) || !at_stranger_is_meant(name) || at_gate_peer_folder(gate, name) != NULL) {
            continue;
        }
        at_gate_candidate *made = &gate->folder[gate->folder_count];
        AT_FORWARD(open_one(options, name, made));
        ++gate->folder_count;
        AT_FAIL_IF(made->status != ATTUNE_OK, made->status, "peer %s: %s", name, made->detail);
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
    AT_FORWARD(choose_target(gate));
    return open_folders(gate);
}

static void close_all(at_gate_candidate **list, int count)
{
    for (int i = 0; *list != NULL && i < count; ++i) {
        at_stranger_close((*list)[i].stranger);
    }
    free(*list);
    *list = NULL;
}

void at_gate_candidates_close(at_gate *gate)
{
    close_all(&gate->candidate, gate->options->candidate_count);
    close_all(&gate->folder, gate->folder_count);
}

const at_gate_candidate *at_gate_peer_folder(const at_gate *gate, const char *name)
{
    for (int i = 0; i < gate->folder_count; ++i) {
        const char *text = gate->folder[i].text; /* NULL: not open yet */
        if (text != NULL && strcmp(text, name) == 0) {
            return &gate->folder[i];
        }
    }
    return NULL;
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
