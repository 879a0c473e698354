/* What a gate leaves behind and finds again: evidence, and rows of wisdom. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/problem.h"
#include "gate/contenders.h"
#include "gate/gate_parts.h"
#include "library/wisdom.h"

/* ---- What is known already -------------------------------------------------------------------------------------- */

/* DIR/.../NAME.json */
static bool is_file_of(const char *path, const char *kernel)
{
    const char *base = strrchr(path, '/');
    size_t length = strcspn(kernel, ":");
    base = base == NULL ? path : base + 1;
    return strncmp(base, kernel, length) == 0 && strcmp(base + length, ".json") == 0;
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

/* Whether a verdict says something of this peer: that it was timed, or why not. */
static bool mentions_one(const at_verdict *verdict, const char *peer)
{
    for (int arm = 0; arm < verdict->session.arm_count; ++arm) {
        if (at_verdict_is_peer(verdict, arm) && strcmp(verdict->arm[arm].name, peer) == 0) {
            return true;
        }
    }
    for (int i = 0; i < verdict->absent_count; ++i) {
        if (strcmp(verdict->absent[i].name, peer) == 0) {
            return true;
        }
    }
    return false;
}

/* Of the best, a verdict may leave out those that do not run its problem; what was asked for by name alone does not
 * stand for all: the last, which runs whatever the others refuse, must be there. */
static bool mentions(const at_verdict *verdict, const char *peer)
{
    const char *const *best = at_contenders_best(verdict->target.kind);
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
    return strcmp(a->build.source, b->build.source) == 0 && strcmp(a->build.cubin, b->build.cubin) == 0 &&
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

const at_verdict *at_gate_find_known(const at_gate *gate, const at_verdict *verdict)
{
    enum { COULD_NOT_RUN = 3 };
    const at_verdict *newest = NULL;
    for (size_t i = 0; i < gate->known_count; ++i) {
        for (size_t k = 0; k < gate->known[i].count; ++k) {
            const at_verdict *kept = gate->known[i].exhibit[k].verdict;
            if (kept != NULL && at_verdict_exit(kept) != COULD_NOT_RUN && same_question(kept, verdict) &&
                same_build(kept, verdict) && answers_peers(gate, kept) &&
                (newest == NULL || strcmp(kept->when, newest->when) >= 0)) {
                newest = kept;
            }
        }
    }
    return newest;
}

/* That a kernel is not for a problem is in its descriptor, and needs no evidence. */
attune_status at_gate_keep(const at_gate *gate, const at_verdict *verdict)
{
    bool refused = verdict->stage[AT_STAGE_BUILD].status == ATTUNE_UNSUPPORTED && !verdict->stranger;
    return gate->options->evidence == NULL || refused ? ATTUNE_OK : at_evidence_keep(gate->options->evidence, verdict);
}

/* ---- Wisdom ----------------------------------------------------------------------------------------------------- */

/* What the planner may choose, found right in earnest, and timed. */
static bool may_be_row(const at_gate_entry *entry)
{
    const at_verdict *verdict = entry->verdict;
    return verdict->right == AT_PASS && !verdict->options.quick && !verdict->stranger &&
           (verdict->traits & (ATTUNE_TRAIT_ACC16 | ATTUNE_TRAIT_NAMED_ONLY)) == 0 &&
           verdict->stage[AT_STAGE_SPEED].status == ATTUNE_OK && verdict->session.block_count > 0;
}

/* How much faster than the first peer, which was timed beside each of them, in the same processes. */
static double gain(const at_verdict *verdict)
{
    for (int arm = 1; arm < verdict->session.arm_count; ++arm) {
        if (at_verdict_is_peer(verdict, arm)) {
            return verdict->speed[arm].known[AT_MODE_WARM] ? verdict->speed[arm].ratio[AT_MODE_WARM].median_r : 0;
        }
    }
    return 0;
}

static const at_gate_entry *fastest(const at_gate_table *table)
{
    const at_gate_entry *best = NULL;
    for (int i = 0; i < table->count; ++i) {
        const at_gate_entry *one = &table->entry[i];
        if (may_be_row(one) && gain(one->verdict) > 0 && (best == NULL || gain(one->verdict) > gain(best->verdict))) {
            best = one;
        }
    }
    return best;
}

/* A row that stands there already was won by its kernel: who did not race against it cannot take its place. */
static bool raced(const at_gate_table *table, const char *kernel_text)
{
    for (int i = 0; i < table->count; ++i) {
        if (strcmp(table->entry[i].verdict->kernel, kernel_text) == 0) {
            return true;
        }
    }
    return false;
}

static attune_status may_replace(const at_gate *gate, const at_gate_table *table, const at_wisdom_row *row, bool *may)
{
    at_wisdom *there;
    *may = true;
    AT_FORWARD(at_wisdom_create(&there));
    attune_status status = at_wisdom_file_read(gate->options->wisdom, there);
    const at_wisdom_row *stands =
        status == ATTUNE_OK ? at_wisdom_find(there, row->class_text, row->target_text, NULL) : NULL;
    if (stands != NULL && stands->standing == AT_PROVEN && strcmp(stands->target_text, row->target_text) == 0 &&
        !raced(table, stands->kernel_text)) {
        *may = false;
        at_gate_note(gate, "wisdom: %s stands for %s; name it as a candidate too, so that there is a race",
                     stands->kernel_text, row->class_text);
    }
    at_wisdom_destroy(there);
    return status == ATTUNE_NOT_FOUND ? ATTUNE_OK : status;
}

static attune_status add_row(const at_gate *gate, const at_gate_table *table, const at_gate_entry *best)
{
    char class_text[AT_CLASS_TEXT_MAX], target_text[AT_TARGET_TEXT_MAX], digest[AT_DIGEST_TEXT_MAX];
    char *text;
    bool may;
    AT_FORWARD(at_verdict_print(best->verdict, &text, digest));
    free(text);
    at_problem_class(best->problem, class_text);
    at_target_print(&gate->target, target_text);
    const at_wisdom_row row = {AT_PROVEN, class_text, target_text, best->verdict->kernel, digest};
    AT_FORWARD(may_replace(gate, table, &row, &may));
    if (!may) {
        return ATTUNE_OK;
    }
    at_gate_note(gate, "wisdom: %s for %s", row.kernel_text, row.class_text);
    return at_wisdom_file_add(gate->options->wisdom, &row);
}

attune_status at_gate_learn(const at_gate *gate, const at_gate_table *table)
{
    const at_gate_entry *best = gate->options->wisdom == NULL ? NULL : fastest(table);
    return best == NULL ? ATTUNE_OK : add_row(gate, table, best);
}
