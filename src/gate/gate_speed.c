/* Is it faster? Those candidates of each problem that are right, and its peers, in sessions that share processes. */
#include "gate/gate_speed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/problem.h"
#include "cuda/rates.h"
#include "judge/timed_case.h"
#include "judge/verdict_parts.h"
#include "worker/arms.h"

/* ---- Arms ------------------------------------------------------------------------------------------------------- */

static int add_arm(at_gate_bench *on, const char *name, at_arm_part part, int twin_of)
{
    on->arm[on->arm_count] = (at_session_part){name, part, twin_of};
    return on->arm_count++;
}

static int running_peers(const at_gate_table *table)
{
    int peers = 0;
    for (int i = 0; i < table->peer_count; ++i) {
        peers += table->peer[i].runs;
    }
    return peers;
}

/* The peers, then the twin of the first. */
static void add_others(at_gate_bench *on)
{
    int first = -1;
    for (int i = 0; i < on->table->peer_count; ++i) {
        if (on->table->peer[i].runs) {
            int arm = add_arm(on, on->table->peer[i].name, AT_PART_PEER, 0);
            first = first < 0 ? arm : first;
        }
    }
    if (first >= 0) {
        (void)add_arm(on, on->arm[first].name, AT_PART_TWIN, first);
    }
}

/* ---- Policy ----------------------------------------------------------------------------------------------------- */

/* Of the lengths that are timed. */
static attune_status set_floors(const at_gate *gate, const at_test_problem *test, at_session_policy *policy)
{
    at_least least;
    AT_FORWARD(at_timed_case_least(test, gate->options->seed, &least));
    double peak = at_cuda_peak_flops(&gate->target, gate->rates.sm_hz, test->problem.dtype);
    double bandwidth = at_cuda_peak_bytes(&gate->rates);
    for (int mode = 0; gate->target.kind == ATTUNE_TARGET_CUDA && mode < AT_MODE_COUNT; ++mode) {
        policy->floor_us[mode] = at_floor_us((at_mode)mode, least.flops, peak, least.bytes, bandwidth);
    }
    return ATTUNE_OK;
}

static attune_status open_session(const at_gate *gate, at_gate_bench *on)
{
    at_session_policy policy;
    const at_gate_options *options = gate->options;
    options->quick ? at_session_policy_quick(&policy, options->seed) : at_session_policy_init(&policy, options->seed);
    policy.must = options->must;
    policy.cold_decides = at_problem_is_decode(&on->table->test->problem);
    AT_FORWARD(set_floors(gate, on->table->test, &policy));
    return at_session_open(&policy, on->arm, on->arm_count, &on->session);
}

/* ---- Running ---------------------------------------------------------------------------------------------------- */

static bool is_over(const at_gate_bench *on)
{
    return on->status != ATTUNE_OK || on->session.stopped || on->session.processes >= on->session.policy.processes;
}

static attune_status run_part(at_gate *gate, at_gate_bench *on, at_gate_timing *timing, double *loaded_s)
{
    double began = at_gate_seconds(gate);
    at_executor executor;
    attune_status status = timing->open(timing->self, gate, on, &executor);
    if (status == ATTUNE_OK) {
        executor.loaded_s = *loaded_s;
        status = at_session_process(&on->session, &executor);
        *loaded_s = executor.loaded_s;
    }
    on->seconds += at_gate_seconds(gate) - began;
    on->status = status;
    at_sentence_print(on->detail, "%s", status == ATTUNE_OK ? "" : attune_last_detail());
    timing->leave(timing->self, status);
    AT_FAIL_IF(status == ATTUNE_INTERRUPTED || at_gate_stopped(gate), ATTUNE_INTERRUPTED, "interrupted");
    return ATTUNE_OK;
}

/* One process after the other, each with all that is left of all benches. */
static attune_status run_benches(at_gate *gate, at_gate_bench *benches, int count, at_gate_timing *timing)
{
    bool more = true;
    for (int process = 0; more; ++process) {
        double loaded_s = 0;
        more = false;
        for (int i = 0; i < count; ++i) {
            if (!is_over(&benches[i])) {
                at_gate_progress(gate, "speed", (process + (double)i / count) / benches[i].session.policy.processes);
                AT_FORWARD(run_part(gate, &benches[i], timing, &loaded_s));
                more = more || !is_over(&benches[i]);
            }
        }
        timing->end_process(timing->self);
    }
    return ATTUNE_OK;
}

/* ---- Verdicts --------------------------------------------------------------------------------------------------- */

static void name_absent(const at_gate_table *table, at_verdict *verdict)
{
    verdict->absent_count = 0;
    for (int i = 0; i < table->peer_count; ++i) {
        if (!table->peer[i].runs && verdict->absent_count < AT_VERDICT_ABSENT) {
            at_arm_facts *absent = &verdict->absent[verdict->absent_count++];
            at_arm_label(table->peer[i].name, absent->name);
            (void)snprintf(absent->account, sizeof absent->account, "%s", table->peer[i].account);
        }
    }
}

static void describe_arms(const at_gate_bench *on, at_verdict *verdict)
{
    for (int arm = 0; arm < verdict->session.arm_count; ++arm) {
        for (int i = 0; i < on->table->peer_count; ++i) {
            const at_gate_peer *peer = &on->table->peer[i];
            char label[AT_KERNEL_TEXT_MAX];
            at_arm_label(peer->name, label);
            if (strcmp(verdict->arm[arm].name, label) == 0) {
                verdict->arm[arm].traits = peer->traits;
                (void)snprintf(verdict->arm[arm].account, sizeof verdict->arm[arm].account, "%s", peer->account);
            }
        }
    }
    verdict->arm[0].traits = verdict->traits;
}

/* Gives the candidate what its bench saw. */
static attune_status finish(at_gate *gate, const at_gate_bench *on)
{
    at_verdict *verdict = on->entry->verdict;
    name_absent(on->table, verdict);
    if (on->session.arm_count > 0) {
        AT_FORWARD(at_verdict_session(verdict, &on->session, NULL, 0));
        describe_arms(on, verdict);
    }
    return at_gate_end_stage(gate, on->entry, AT_STAGE_SPEED, on->status, on->detail, on->seconds);
}

/* ---- Benches ---------------------------------------------------------------------------------------------------- */

static void close_bench(at_gate_bench *on)
{
    at_session_close(&on->session);
    if (on->close_run != NULL) {
        on->close_run(on->run_state);
    }
}

static attune_status open_bench(const at_gate *gate, at_gate_table *table, const at_gate_entry *entry,
                                at_gate_bench *on)
{
    *on = (at_gate_bench){.table = table, .entry = entry};
    if (running_peers(table) == 0) {
        on->session.stopped = true; /* nothing to time, and so the verdict will say */
        return ATTUNE_OK;
    }
    (void)add_arm(on, entry->verdict->kernel, AT_PART_CANDIDATE, 0);
    add_others(on);
    return open_session(gate, on);
}

static attune_status run_all(at_gate *gate, at_gate_table *tables, int count, at_gate_bench *benches, int *opened)
{
    at_gate_timing timing;
    for (int i = 0; i < count; ++i) {
        for (int k = 0; k < tables[i].count; ++k) {
            const at_gate_entry *entry = &tables[i].entry[k];
            if (entry->verdict->right == AT_PASS) {
                AT_FORWARD(open_bench(gate, &tables[i], entry, &benches[(*opened)++]));
            }
        }
    }
    AT_FORWARD(at_gate_timing_open(gate, &timing));
    attune_status status = run_benches(gate, benches, *opened, &timing);
    for (int i = 0; i < *opened && status == ATTUNE_OK; ++i) {
        status = finish(gate, &benches[i]);
    }
    timing.close(timing.self);
    return status;
}

attune_status at_gate_speed(at_gate *gate, at_gate_table *tables, int count)
{
    int most = 0;
    int opened = 0;
    for (int i = 0; i < count; ++i) {
        most += tables[i].count;
    }
    at_gate_bench *benches = calloc((size_t)most + 1, sizeof *benches);
    AT_FAIL_IF(benches == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %d sessions", most);
    attune_status status = run_all(gate, tables, count, benches, &opened);
    for (int i = 0; i < opened; ++i) {
        close_bench(&benches[i]);
    }
    free(benches);
    return status;
}
