/* What a gate leaves behind: evidence, and rows of wisdom. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/problem.h"
#include "gate/gate_parts.h"
#include "library/catalogue.h"
#include "library/wisdom.h"

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

/* A row that is there already was won by its kernel: who did not race against it cannot take its place. */
static bool raced(const at_gate_table *table, const char *kernel_text)
{
    for (int i = 0; i < table->count; ++i) {
        if (at_catalogue_same(table->entry[i].verdict->kernel, kernel_text)) {
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
    const at_wisdom_row *kept =
        status == ATTUNE_OK ? at_wisdom_find(there, row->class_text, row->target_text, NULL) : NULL;
    if (kept != NULL && kept->kind == AT_PROVEN && strcmp(kept->target_text, row->target_text) == 0 &&
        !raced(table, kept->kernel_text)) {
        *may = false;
        at_gate_note(gate, "wisdom: %s has the row of %s; name it as a candidate too, so that there is a race",
                     kept->kernel_text, row->class_text);
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
    at_problem_class(&best->test->problem, class_text);
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
