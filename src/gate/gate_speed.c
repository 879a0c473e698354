/* Is it faster? Those candidates of each problem that are right, and its peers, in sessions that share processes. */
#include "gate/gate_speed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/problem.h"
#include "cuda/rates.h"
#include "gate/verdict_parts.h"

/* ---- Arms ------------------------------------------------------------------------------------------------------- */

static int add_arm(at_gate_bench *on, const char *name, at_arm_part part, int twin_of)
{
    on->arm[on->arm_count] = (at_session_arm){name, part, twin_of};
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
    (void)add_arm(on, on->arm[first].name, AT_PART_TWIN, first);
}

/* ---- Policy ----------------------------------------------------------------------------------------------------- */

/* Bytes that every call must read or write at least, where that can be said without looking at values. */
static double compulsory_bytes(const attune_problem *problem)
{
    int64_t element = (int64_t)at_dtype_bytes((int)problem->dtype);
    int64_t queries = problem->batch * problem->heads_q * problem->seqlen_q;
    int64_t keys = problem->batch * problem->heads_kv * problem->seqlen_kv;
    bool hidden = problem->varlen || problem->seqused_kv || problem->mask || problem->window_left >= 0 ||
                  problem->window_right >= 0 || problem->causal;
    int64_t columns = problem->head_dim_qk + problem->head_dim_v;
    return (double)((queries + (hidden ? 0 : keys)) * columns * element);
}

static void set_floors(const at_gate *gate, const attune_problem *problem, at_session_policy *policy)
{
    double flops = attune_problem_flops(problem);
    double peak = at_cuda_peak_flops(&gate->target, gate->rates.sm_hz, problem->dtype);
    double bandwidth = 2 * gate->rates.memory_hz * (double)gate->rates.bus_bits / 8; /* two transfers a clock */
    for (int mode = 0; gate->target.kind == ATTUNE_TARGET_CUDA && mode < AT_MODE_COUNT; ++mode) {
        policy->floor_us[mode] =
            at_floor_us((at_mode)mode, flops, peak, problem->varlen ? 0 : compulsory_bytes(problem), bandwidth);
    }
}

static attune_status open_session(const at_gate *gate, at_gate_bench *on)
{
    at_session_policy policy;
    const at_gate_options *options = gate->options;
    options->quick ? at_session_policy_quick(&policy, options->seed) : at_session_policy_init(&policy, options->seed);
    policy.must = options->must;
    set_floors(gate, on->table->problem, &policy);
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
    at_verdict_say(on->detail, "%s", status == ATTUNE_OK ? "" : attune_last_detail());
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
            (void)snprintf(absent->name, sizeof absent->name, "%s", table->peer[i].name);
            (void)snprintf(absent->account, sizeof absent->account, "%s", table->peer[i].account);
        }
    }
}

static void describe_arms(const at_gate_bench *on, at_verdict *verdict)
{
    for (int arm = 0; arm < verdict->session.arm_count; ++arm) {
        for (int i = 0; i < on->table->peer_count; ++i) {
            const at_gate_peer *peer = &on->table->peer[i];
            if (strcmp(verdict->arm[arm].name, peer->name) == 0) {
                verdict->arm[arm].traits = peer->traits;
                (void)snprintf(verdict->arm[arm].account, sizeof verdict->arm[arm].account, "%s", peer->account);
            }
        }
    }
    verdict->arm[0].traits = verdict->traits;
}

/* Gives one candidate its part of what the bench saw. */
static attune_status finish(at_gate *gate, const at_gate_bench *on, int candidate)
{
    int arms[AT_SESSION_ARMS_MAX] = {candidate};
    int count = 1;
    const at_gate_entry *entry = on->entry[candidate];
    at_verdict *verdict = entry->verdict;
    for (int arm = on->candidates; arm < on->arm_count; ++arm) {
        arms[count++] = arm;
    }
    name_absent(on->table, verdict);
    if (on->session.arm_count > 0) {
        AT_FORWARD(at_verdict_session(verdict, &on->session, arms, count));
        describe_arms(on, verdict);
    }
    return at_gate_end_stage(gate, entry, AT_STAGE_SPEED, on->status, on->detail, on->seconds);
}

/* ---- Benches ---------------------------------------------------------------------------------------------------- */

static void close_bench(at_gate_bench *on)
{
    at_session_close(&on->session);
    if (on->close_course != NULL) {
        on->close_course(on->course);
    }
}

/* A bench for as many of the entries, from *next on, as fit beside the peers. */
static attune_status open_bench(const at_gate *gate, at_gate_table *table, int *next, int most, at_gate_bench *on)
{
    int peers = running_peers(table);
    int room = AT_SESSION_ARMS_MAX - 1 - peers;
    *on = (at_gate_bench){.table = table};
    for (; *next < table->count && on->candidates < room && on->candidates < most; ++*next) {
        if (table->entry[*next].verdict->right == AT_PASS) {
            on->entry[on->candidates] = &table->entry[*next];
            on->candidates = add_arm(on, table->entry[*next].verdict->kernel, AT_PART_CANDIDATE, 0) + 1;
        }
    }
    if (on->candidates == 0 || peers == 0) {
        on->session.stopped = true; /* nothing to time; what candidates there are hear so */
        return ATTUNE_OK;
    }
    add_others(on);
    return open_session(gate, on);
}

/* Alone, so that one that failed in front of the clock spoils nothing for others. */
static attune_status run_alone(at_gate *gate, const at_gate_bench *together, at_gate_timing *timing)
{
    for (int i = 0; i < together->candidates; ++i) {
        at_gate_bench alone;
        int next = (int)(together->entry[i] - together->table->entry);
        attune_status status = open_bench(gate, together->table, &next, 1, &alone);
        status = status == ATTUNE_OK ? run_benches(gate, &alone, 1, timing) : status;
        status = status == ATTUNE_OK ? finish(gate, &alone, 0) : status;
        close_bench(&alone);
        AT_FORWARD(status);
    }
    return ATTUNE_OK;
}

static attune_status finish_bench(at_gate *gate, const at_gate_bench *on, at_gate_timing *timing)
{
    if (on->status != ATTUNE_OK && on->candidates > 1) {
        at_gate_note(gate, "timed together: %s; each is timed alone", on->detail);
        return run_alone(gate, on, timing);
    }
    for (int i = 0; i < on->candidates; ++i) {
        AT_FORWARD(finish(gate, on, i));
    }
    return ATTUNE_OK;
}

static attune_status run_all(at_gate *gate, at_gate_table *tables, int count, at_gate_bench *benches, int *opened)
{
    at_gate_timing timing;
    for (int i = 0; i < count; ++i) {
        int next = 0;
        while (next < tables[i].count) {
            AT_FORWARD(open_bench(gate, &tables[i], &next, AT_SESSION_ARMS_MAX, &benches[(*opened)++]));
        }
    }
    AT_FORWARD(at_gate_timing_open(gate, &timing));
    attune_status status = run_benches(gate, benches, *opened, &timing);
    for (int i = 0; i < *opened && status == ATTUNE_OK; ++i) {
        status = finish_bench(gate, &benches[i], &timing);
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
