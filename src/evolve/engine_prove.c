/* What a search found is an assertion until the gate has judged it: verdicts, rows of wisdom, the ends of ledgers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/problem.h"
#include "evidence/evidence.h"
#include "evolve/engine_parts.h"
#include "library/wisdom.h"

/* The cells that a gate judges, and what it said. */
typedef struct proof {
    at_engine *engine;
    at_cell *cell[AT_CELLS_MAX];
    int count;
    at_test_problem problem[AT_CELLS_MAX];
    const char *candidate[AT_CELLS_MAX];
    attune_status status; /* the first failure to write */
} proof;

/* ---- Wisdom ------------------------------------------------------------------------------------------------------ */

/* A row is for whoever was found right in earnest and won attune's own race: nothing that would run without the search
 * is faster. "" where that holds. */
enum { EARNEST_CASES = 100 };

static const char *why_no_row(const at_cell *cell, const at_verdict *verdict)
{
    return verdict->right != AT_PASS                ? "it was not found right"
           : verdict->options.quick                 ? "a quick verdict is none for wisdom"
           : verdict->options.cases < EARNEST_CASES ? "100 cases are needed"
           : verdict->stranger                      ? "a folder's kernel is none that the planner has"
           : (verdict->traits & (ATTUNE_TRAIT_ACC16 | ATTUNE_TRAIT_NAMED_ONLY)) != 0
               ? "the planner never chooses this kernel by itself"
           : cell->result.opponent >= 0 && cell->result.gain.high < 1 ? "what would run without it is faster"
                                                                      : "";
}

static attune_status write_row(const proof *on, const at_cell *cell, const at_wisdom_row *row)
{
    at_event event = {.kind = AT_EVENT_WISDOM};
    (void)snprintf(event.as.wisdom.row, sizeof event.as.wisdom.row, "proven %s %s %s %s", row->class_text,
                   row->target_text, row->kernel_text, row->verdict);
    AT_FORWARD(at_wisdom_file_add(on->engine->options->wisdom, row));
    ++on->engine->result->rows;
    event.at_s = cell->result.seconds;
    return cell->ledger == NULL ? ATTUNE_OK : at_ledger_append(cell->ledger, &event);
}

static attune_status learn(const proof *on, const at_cell *cell, const at_verdict *verdict, char *digest)
{
    const at_evolve_watch *watch = &on->engine->options->watch;
    char class_text[AT_CLASS_TEXT_MAX];
    const char *why_not = why_no_row(cell, verdict);
    at_problem_class(&cell->test->problem, class_text);
    const at_wisdom_row row = {AT_PROVEN, class_text, (char *)(uintptr_t)on->engine->target_text,
                               (char *)(uintptr_t)cell->winner, digest};
    if (on->engine->options->wisdom == NULL) {
        return ATTUNE_OK;
    }
    if (watch->wisdom != NULL) {
        watch->wisdom(watch->self, &row, why_not[0] == '\0' ? NULL : why_not);
    }
    return why_not[0] == '\0' ? write_row(on, cell, &row) : ATTUNE_OK;
}

/* ---- Verdicts ---------------------------------------------------------------------------------------------------- */

static at_cell *cell_of(const proof *on, const at_verdict *verdict)
{
    for (int i = 0; i < on->count; ++i) {
        if (strcmp(on->cell[i]->text, verdict->problem) == 0 && strcmp(on->cell[i]->winner, verdict->kernel) == 0) {
            return on->cell[i];
        }
    }
    return NULL;
}

static void count_verdict(const proof *on, const at_verdict *verdict)
{
    at_evolve_result *result = on->engine->result;
    bool asked = on->engine->options->gate.peer_count > 0;
    result->right += verdict->right == AT_PASS;
    result->wrong += verdict->right == AT_FAIL;
    result->unproven += verdict->right != AT_PASS && verdict->right != AT_FAIL;
    result->slower += asked && verdict->right == AT_PASS && verdict->fast == AT_FAIL;
}

static attune_status take_verdict(const proof *on, const at_verdict *verdict)
{
    at_event event = {.kind = AT_EVENT_GATE, .as.gate = {.right = verdict->right, .fast = verdict->fast}};
    char digest[AT_DIGEST_TEXT_MAX];
    char *text;
    at_cell *cell = cell_of(on, verdict);
    if (cell == NULL || cell->judged) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_verdict_print(verdict, &text, digest));
    free(text);
    cell->judged = true;
    count_verdict(on, verdict);
    event.at_s = cell->result.seconds;
    (void)snprintf(event.as.gate.config, sizeof event.as.gate.config, "%s", verdict->kernel);
    (void)snprintf(event.as.gate.verdict, sizeof event.as.gate.verdict, "%s", digest);
    for (int stage = 0; stage < AT_STAGE_COUNT; ++stage) {
        if (verdict->finding[stage].outcome != AT_NOT_RUN) {
            (void)snprintf(event.as.gate.why, sizeof event.as.gate.why, "%.470s", verdict->finding[stage].sentence);
        }
    }
    AT_FORWARD(cell->ledger == NULL ? ATTUNE_OK : at_ledger_append(cell->ledger, &event));
    return learn(on, cell, verdict, digest);
}

/* Verdicts come while the gate runs; what cannot be written is reported when it is back. */
static void keep(void *self, const at_verdict *verdict)
{
    proof *on = self;
    attune_status status = on->status == ATTUNE_OK ? take_verdict(on, verdict) : on->status;
    on->status = status;
}

/* ---- The gate ---------------------------------------------------------------------------------------------------- */

/* Of what the engine may take, the rest; 0: no limit. */
static double limit_s(const at_engine *on)
{
    static const double least = 1e-3;
    double left = on->options->gate.limit_s - at_engine_seconds(on);
    return on->options->gate.limit_s <= 0 ? 0 : left > least ? left : least;
}

static attune_status run_gate(proof *on, int first, int count, const char *const *peer, int peer_count, double must)
{
    const at_evolve_options *options = on->engine->options;
    at_gate_result result;
    at_gate_options gate = options->gate;
    gate.candidate = on->candidate + first;
    gate.candidate_count = count;
    gate.paired = true;
    gate.problem = on->problem + first;
    gate.problem_count = count;
    gate.peer = peer;
    gate.peer_count = peer_count;
    gate.must = must;
    gate.limit_s = limit_s(on->engine);
    gate.target = on->engine->worker.target;
    gate.watch = options->watch.gate;
    gate.watch.keeper = on;
    gate.watch.keep = keep;
    AT_FORWARD(at_gate_run(&gate, &result));
    for (int i = first + count - result.left; i < first + count; ++i) {
        on->cell[i]->left = true;
    }
    return on->status;
}

/* Peers that were asked for are everyone's, and all share processes; else each has its own: who came second. */
static attune_status judge(proof *on)
{
    const at_evolve_options *options = on->engine->options;
    if (options->gate.peer_count > 0) {
        return run_gate(on, 0, on->count, options->gate.peer, options->gate.peer_count, options->gate.must);
    }
    for (int i = 0; i < on->count; ++i) {
        const char *peer[] = {on->cell[i]->opponent};
        AT_FORWARD(run_gate(on, i, 1, peer, peer[0][0] != '\0', 1));
    }
    return ATTUNE_OK;
}

/* ---- Ends -------------------------------------------------------------------------------------------------------- */

static attune_status write_end(const at_cell *cell)
{
    at_event event = {
        .kind = AT_EVENT_END, .at_s = cell->result.seconds, .as.end = {.measured = cell->result.measured}};
    (void)snprintf(event.as.end.outcome, sizeof event.as.end.outcome, "%s", at_search_end_name(cell->result.end));
    (void)snprintf(event.as.end.best, sizeof event.as.end.best, "%s", cell->winner);
    (void)snprintf(event.as.end.why, sizeof event.as.end.why, "%s", cell->result.why);
    return cell->ledger == NULL ? ATTUNE_OK : at_ledger_append(cell->ledger, &event);
}

attune_status at_engine_prove(at_engine *on, at_cell *cells, int count)
{
    proof of = {.engine = on, .status = ATTUNE_OK};
    for (int i = 0; i < count; ++i) {
        if (cells[i].searched && cells[i].winner[0] != '\0' && cells[i].result.end != AT_SEARCH_VOID) {
            of.problem[of.count] = *cells[i].test;
            of.candidate[of.count] = cells[i].winner;
            of.cell[of.count++] = &cells[i];
        }
    }
    AT_FORWARD(on->options->prove && of.count > 0 ? judge(&of) : ATTUNE_OK);
    for (int i = 0; i < count; ++i) {
        on->result->left += cells[i].left;
        on->result->unproven += on->options->prove && cells[i].searched && !cells[i].judged && !cells[i].left;
        AT_FORWARD(cells[i].searched && !cells[i].left ? write_end(&cells[i]) : ATTUNE_OK);
    }
    return ATTUNE_OK;
}
