/* What candidates are measured against: which peers run on a problem, and whether what they compute is right. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "core/plan.h"
#include "gate/gate_parts.h"
#include "judge/sanity.h"
#include "judge/verdict_parts.h"
#include "worker/arms.h"

/* Evidence has files of Python's without their folders. */
static attune_status check_labels(const char *const *peer, int count, int one)
{
    char label[AT_KERNEL_TEXT_MAX], other[AT_KERNEL_TEXT_MAX];
    at_arm_label(peer[one], label);
    for (int i = one + 1; i < count; ++i) {
        at_arm_label(peer[i], other);
        AT_FAIL_IF(strcmp(label, other) == 0 && strcmp(peer[one], peer[i]) != 0, ATTUNE_INVALID_ARGUMENT,
                   "%s and %s: evidence calls both %s; one of the files needs another name", peer[one], peer[i], label);
    }
    return ATTUNE_OK;
}

attune_status at_gate_check_peers(const char *const *peer, int count, bool own_arms)
{
    for (int i = 0; i < count; ++i) {
        attune_status status = strcmp(peer[i], "best") == 0 ? ATTUNE_OK : at_arms_check_hooked(peer[i], own_arms);
        status = status == ATTUNE_OK ? check_labels(peer, count, i) : status;
        if (status != ATTUNE_OK) {
            return at_fail_in(status, "peer");
        }
    }
    return ATTUNE_OK;
}

typedef struct planner {
    at_device *device;
    const char *arm;
    const at_gate_candidate *folder; /* of a stranger, or NULL */
} planner;

static attune_status plan_peer(void *self, const attune_problem *problem, attune_plan **plan)
{
    const planner *by = self;
    return by->folder != NULL ? at_gate_plan(by->folder, by->device, problem, plan)
                              : at_remote_plan(by->device, problem, by->arm, plan);
}

/* Opens the peer and has its O judged. */
static attune_status try_peer(at_gate *gate, const at_test_problem *test, at_gate_peer *peer)
{
    planner by = {.arm = peer->name, .folder = at_gate_peer_folder(gate, peer->name)};
    attune_plan *plan;
    at_finding finding;
    AT_FORWARD(by.folder != NULL ? at_gate_candidate_worker(gate, by.folder, &by.device)
                                 : at_gate_peer_worker(gate, &by.device));
    AT_FORWARD(plan_peer(&by, &test->problem, &plan));
    peer->traits = plan->loaded->kernel->traits;
    at_sentence_print(peer->account, "%s",
                      by.folder != NULL ? at_stranger_digest(by.folder->stranger) : at_remote_account(plan));
    attune_plan_destroy(plan);
    const at_suite suite = {.device = by.device,
                            .pool = gate->pool,
                            .cache = gate->cache,
                            .plan = plan_peer,
                            .self = &by,
                            .seed = gate->options->seed,
                            .command = ""};
    return at_sanity_judge(&suite, test, &finding);
}

static bool is_listed(const at_gate_table *table, const char *name)
{
    for (int i = 0; i < table->peer_count; ++i) {
        if (strcmp(table->peer[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether a back end that did not run is one that does not run: a worker that died, or gave no answer, shows nothing
 * of the kind. */
static bool is_excused(attune_status status)
{
    return status == ATTUNE_UNSUPPORTED || status == ATTUNE_OUT_OF_MEMORY || status == ATTUNE_WRONG_RESULT;
}

/* Adds a peer with what came of trying it. `optional`: one that does not run this problem is not missed. */
static attune_status add_peer(at_gate *gate, at_gate_table *table, const char *name, bool optional)
{
    if (is_listed(table, name)) {
        return ATTUNE_OK;
    }
    AT_FAIL_IF(table->peer_count == AT_GATE_PEERS, ATTUNE_INVALID_ARGUMENT, "more than %d peers", AT_GATE_PEERS);
    at_gate_peer *peer = &table->peer[table->peer_count];
    *peer = (at_gate_peer){.runs = true};
    (void)snprintf(peer->name, sizeof peer->name, "%s", name);
    attune_status status = try_peer(gate, table->test, peer);
    at_gate_close_broken(gate);
    AT_FAIL_IF(status == ATTUNE_INTERRUPTED || at_gate_stopped(gate), ATTUNE_INTERRUPTED, "interrupted");
    if (status != ATTUNE_OK) {
        peer->runs = false;
        at_sentence_print(peer->account, "%s%s", status == ATTUNE_WRONG_RESULT ? "its result is wrong: " : "",
                          attune_last_detail());
        at_gate_note(gate, "%s cannot be a peer here: %s", name, peer->account);
    }
    table->peer_count += status == ATTUNE_OK || !optional || !is_excused(status);
    return ATTUNE_OK;
}

/* Whichever is fastest is the best, and so each that runs must be beaten. */
static attune_status add_best(at_gate *gate, at_gate_table *table)
{
    int before = table->peer_count;
    const char *const *best = at_arms_best(gate->target.kind);
    AT_FAIL_IF(best[0] == NULL, ATTUNE_UNSUPPORTED, "PyTorch has no back end for this target");
    for (int i = 0; best[i] != NULL; ++i) {
        AT_FORWARD(add_peer(gate, table, best[i], true));
    }
    /* No other peer replaces PyTorch. */
    return table->peer_count > before ? ATTUNE_OK : add_peer(gate, table, best[0], false);
}

attune_status at_gate_peers(at_gate *gate, at_gate_table *table)
{
    const at_gate_options *options = gate->options;
    for (int i = 0; i < options->peer_count; ++i) {
        AT_FORWARD(strcmp(options->peer[i], "best") == 0 ? add_best(gate, table)
                                                         : add_peer(gate, table, options->peer[i], false));
    }
    return ATTUNE_OK;
}
