/* What candidates are measured against: which peers run on a problem, and whether what they compute is right. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "core/plan.h"
#include "gate/gate_parts.h"
#include "gate/sanity.h"
#include "gate/verdict_parts.h"

/* All of PyTorch's back ends: "best" is whichever is fastest, and so each of those that run must be beaten. */
static const char *const best[] = {"torch:flash", "torch:cudnn", "torch:efficient", "torch:math"};
enum { BEST = sizeof best / sizeof best[0] };

typedef struct planner {
    at_device *device;
    const char *arm;
} planner;

static attune_status plan_peer(void *self, const attune_problem *problem, attune_plan **plan)
{
    const planner *by = self;
    return at_remote_plan(by->device, problem, by->arm, plan);
}

/* Opens the peer and has its O judged. */
static attune_status try_peer(at_gate *gate, const attune_problem *problem, at_gate_peer *peer)
{
    planner by = {.arm = peer->name};
    attune_plan *plan;
    at_finding finding;
    AT_FORWARD(at_gate_court(gate, &by.device));
    AT_FORWARD(at_remote_plan(by.device, problem, peer->name, &plan));
    peer->traits = plan->loaded->kernel->traits;
    at_verdict_say(peer->account, "%s", at_remote_account(plan));
    attune_plan_destroy(plan);
    const at_suite suite = {.device = by.device,
                            .pool = gate->pool,
                            .plan = plan_peer,
                            .self = &by,
                            .seed = gate->options->seed,
                            .command = ""};
    return at_sanity_judge(&suite, problem, &finding);
}

static bool is_listed(const at_gate_peer *peers, int count, const char *name)
{
    for (int i = 0; i < count; ++i) {
        if (strcmp(peers[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds a peer with what came of trying it. `optional`: one that cannot run is not missed. */
static attune_status add_peer(at_gate *gate, const attune_problem *problem, const char *name, bool optional,
                              at_gate_peer *peers, int *count)
{
    if (is_listed(peers, *count, name)) {
        return ATTUNE_OK;
    }
    AT_FAIL_IF(*count == AT_GATE_PEERS, ATTUNE_INVALID_ARGUMENT, "more than %d peers: %d can be timed together",
               AT_GATE_PEERS, AT_GATE_PEERS);
    at_gate_peer *peer = &peers[*count];
    *peer = (at_gate_peer){.runs = true};
    (void)snprintf(peer->name, sizeof peer->name, "%s", name);
    attune_status status = try_peer(gate, problem, peer);
    at_gate_settle(gate);
    if (status == ATTUNE_INTERRUPTED || at_gate_stopped(gate)) {
        return at_fail(ATTUNE_INTERRUPTED, "interrupted");
    }
    if (status != ATTUNE_OK) {
        peer->runs = false;
        at_verdict_say(peer->account, "%s%s", status == ATTUNE_WRONG_RESULT ? "its result is wrong: " : "",
                       attune_last_detail());
        at_gate_note(gate, "%s cannot be a peer here: %s", name, peer->account);
    }
    *count += status == ATTUNE_OK || !optional;
    return ATTUNE_OK;
}

static attune_status add_best(at_gate *gate, const attune_problem *problem, at_gate_peer *peers, int *count)
{
    int before = *count;
    for (int i = 0; i < BEST; ++i) {
        AT_FORWARD(add_peer(gate, problem, best[i], true, peers, count));
    }
    /* No other peer stands in for PyTorch. */
    return *count > before ? ATTUNE_OK : add_peer(gate, problem, best[0], false, peers, count);
}

attune_status at_gate_peers(at_gate *gate, const attune_problem *problem, at_gate_peer peers[AT_GATE_PEERS], int *count)
{
    const at_gate_options *options = gate->options;
    *count = 0;
    for (int i = 0; i < options->peer_count; ++i) {
        AT_FORWARD(strcmp(options->peer[i], "best") == 0
                       ? add_best(gate, problem, peers, count)
                       : add_peer(gate, problem, options->peer[i], false, peers, count));
    }
    return ATTUNE_OK;
}
