/* What earlier calls of the gate have found already. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/problem.h"
#include "evidence/verify.h"
#include "gate/gate_parts.h"
#include "worker/arms.h"

/* DIR/.../NAME.json.gz, or as version 1 has it, NAME.json */
static bool is_file_of(const char *path, const char *kernel)
{
    const char *base = strrchr(path, '/');
    size_t length = strcspn(kernel, ":");
    base = base == NULL ? path : base + 1;
    return strncmp(base, kernel, length) == 0 &&
           (strcmp(base + length, ".json") == 0 || strcmp(base + length, ".json.gz") == 0);
}

static bool is_wanted(const at_gate *gate, const char *path)
{
    for (int i = 0; i < gate->options->candidate_count; ++i) {
        const at_gate_candidate *candidate = &gate->candidate[i];
        if (candidate->kernel != NULL && is_file_of(path, candidate->kernel->name)) {
            return true;
        }
    }
    return false;
}

static attune_status read_known(at_gate *gate, const char *path)
{
    at_evidence *more = realloc(gate->known, (gate->known_count + 1) * sizeof *more);
    AT_FAIL_IF(more == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %s", path);
    gate->known = more;
    gate->known[gate->known_count] = (at_evidence){0};
    AT_FORWARD(at_evidence_read(path, &gate->known[gate->known_count]));
    ++gate->known_count;
    return ATTUNE_OK;
}

attune_status at_gate_read_known(at_gate *gate)
{
    char **files = NULL;
    size_t count = 0;
    if (gate->options->evidence == NULL || gate->options->again) {
        return ATTUNE_OK;
    }
    attune_status status = at_evidence_find(gate->options->evidence, &files, &count);
    if (status == ATTUNE_NOT_FOUND) { /* the folder is made by the first verdict */
        return ATTUNE_OK;
    }
    for (size_t i = 0; i < count; ++i) {
        if (status == ATTUNE_OK && is_wanted(gate, files[i])) {
            status = read_known(gate, files[i]);
        }
        free(files[i]);
    }
    free(files);
    return status;
}

void at_gate_forget_known(at_gate *gate)
{
    for (size_t i = 0; i < gate->known_count; ++i) {
        at_evidence_close(&gate->known[i]);
    }
    free(gate->known);
    gate->known = NULL;
    gate->known_count = 0;
}

/* Older evidence has files of Python's with their folders. */
static bool is_called(const at_arm_facts *facts, const char *name)
{
    char label[AT_KERNEL_TEXT_MAX], recorded[AT_KERNEL_TEXT_MAX];
    at_arm_label(name, label);
    at_arm_label(facts->name, recorded);
    return strcmp(label, recorded) == 0;
}

/* Whether a verdict says something of this peer: that it was timed, or why not. */
static bool mentions_one(const at_verdict *verdict, const char *name)
{
    for (int arm = 0; arm < verdict->session.arm_count; ++arm) {
        if (at_verdict_is_peer(verdict, arm) && is_called(&verdict->arm[arm], name) &&
            at_arm_is_file_of(name, verdict->arm[arm].account)) {
            return true;
        }
    }
    for (int i = 0; i < verdict->absent_count; ++i) {
        if (is_called(&verdict->absent[i], name)) {
            return true;
        }
    }
    return false;
}

/* Of the best, a verdict may leave out those that do not run its problem; what was asked for by name alone does not
 * do for all: the last, which runs whatever the others refuse, must be there. */
static bool mentions(const at_verdict *verdict, const char *peer)
{
    const char *const *best = at_arms_best(verdict->target.kind);
    if (strcmp(peer, "best") != 0) {
        return mentions_one(verdict, peer);
    }
    while (best[0] != NULL && best[1] != NULL) {
        ++best;
    }
    return best[0] != NULL && mentions_one(verdict, best[0]);
}

/* A candidate that is not right was not timed, and need not be. */
static bool answers_peers(const at_gate *gate, const at_verdict *verdict)
{
    for (int i = 0; verdict->right == AT_PASS && i < gate->options->peer_count; ++i) {
        if (!mentions(verdict, gate->options->peer[i])) {
            return false;
        }
    }
    return true;
}

static bool same_build(const at_verdict *a, const at_verdict *b)
{
    bool same = a->build.code[0] != '\0'
                    ? strcmp(a->build.code, b->build.code) == 0
                    : strcmp(a->build.source, b->build.source) == 0 && strcmp(a->build.cubin, b->build.cubin) == 0;
    return same && a->build.threads == b->build.threads && a->build.smem_bytes == b->build.smem_bytes &&
           strcmp(a->build.compiler, b->build.compiler) == 0;
}

static bool same_question(const at_verdict *a, const at_verdict *b)
{
    char here[AT_TARGET_TEXT_MAX], there[AT_TARGET_TEXT_MAX];
    at_target_print(&a->target, here);
    at_target_print(&b->target, there);
    return strcmp(a->kernel, b->kernel) == 0 && strcmp(a->problem, b->problem) == 0 && strcmp(here, there) == 0 &&
           a->options.must == b->options.must && a->options.cases == b->options.cases &&
           a->options.seed == b->options.seed && a->options.quick == b->options.quick;
}

/* What was timed otherwise than it would be today answers another question; so does what was judged by another rule for
 * an A/A that did not hold, or by another of warm and cold. */
static bool same_policy(const at_verdict *kept)
{
    const at_session_policy *then = &kept->session.policy;
    at_session_policy now;
    kept->options.quick ? at_session_policy_quick(&now, kept->options.seed)
                        : at_session_policy_init(&now, kept->options.seed);
    at_test_problem test;
    const bool decode = at_test_problem_parse(kept->problem, &test) == ATTUNE_OK && at_problem_is_decode(&test.problem);
    bool alike = then->twin_by_reach == now.twin_by_reach || kept->control[AT_CONTROL_TWIN].outcome != AT_INCONCLUSIVE;
    return kept->session.arm_count == 0 ||
           (alike && then->cold_decides == decode && then->processes == now.processes && then->pairs == now.pairs &&
            then->modes == now.modes && then->warmup_s == now.warmup_s && then->drift == now.drift &&
            then->sustained_s == now.sustained_s && then->hopeless == now.hopeless &&
            then->hopeless_pairs == now.hopeless_pairs && then->dropped_most == now.dropped_most &&
            then->seed == now.seed);
}

attune_status at_gate_find_known(const at_gate *gate, const at_verdict *verdict, const at_verdict **known)
{
    enum { COULD_NOT_RUN = 3 };
    at_verdict *newest = NULL;
    bool follows = false;
    for (size_t i = 0; i < gate->known_count; ++i) {
        for (size_t k = 0; k < gate->known[i].count; ++k) {
            at_verdict *kept = gate->known[i].entry[k].verdict;
            if (kept != NULL && at_verdict_exit(kept) != COULD_NOT_RUN && same_question(kept, verdict) &&
                same_build(kept, verdict) && same_policy(kept) && answers_peers(gate, kept) &&
                (newest == NULL || strcmp(kept->when, newest->when) >= 0)) {
                newest = kept;
            }
        }
    }
    /* A digest only shows that a file is whole: what it concludes must follow from what it says was seen. */
    AT_FORWARD(newest != NULL ? at_verify_follows(newest, &follows) : ATTUNE_OK);
    *known = follows ? newest : NULL;
    return ATTUNE_OK;
}
