#include "report/code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "report/html.h"

/* What the ledger says of one source. NULL: nothing. */
typedef struct row {
    const at_event_proposal *proposal;
    const at_event_made *made;
    const at_event_tuned *tuned;
    const at_event_judged *judged, *final; /* final: the gate's word after it, too, where that is "wrong" */
} row;

typedef struct sheet {
    const at_ledger_log *log;
    at_text *page;
    int count;
    row *row;
    const at_event_gate *gate; /* the last */
    int refuted;               /* finalists that it called wrong */
    const at_event_end *end;
} sheet;

bool at_report_is_code(const at_ledger_log *log)
{
    return log->count > 0 && strcmp(log->event[0].as.start.strategy, "code") == 0;
}

/* ---- Reading -------------------------------------------------------------------------------------------------------
 */

static int id_of(const at_event *event)
{
    switch (event->kind) {
    case AT_EVENT_PROPOSAL:
        return event->as.proposal.id;
    case AT_EVENT_MADE:
        return event->as.made.id;
    case AT_EVENT_TUNED:
        return event->as.tuned.id;
    case AT_EVENT_DUEL:
        return event->as.duel.id;
    case AT_EVENT_JUDGED:
        return event->as.judged.id;
    default:
        return -1;
    }
}

static void take(sheet *of, const at_event *event)
{
    const int id = id_of(event);
    row *one = id >= 0 && id < of->count ? &of->row[id] : NULL;
    of->gate = event->kind == AT_EVENT_GATE ? &event->as.gate : of->gate;
    of->refuted += event->kind == AT_EVENT_GATE && event->as.gate.right == AT_FAIL;
    of->end = event->kind == AT_EVENT_END ? &event->as.end : of->end;
    if (one == NULL) {
        return;
    }
    one->proposal = event->kind == AT_EVENT_PROPOSAL ? &event->as.proposal : one->proposal;
    one->made = event->kind == AT_EVENT_MADE ? &event->as.made : one->made;
    one->tuned = event->kind == AT_EVENT_TUNED ? &event->as.tuned : one->tuned;
    if (event->kind == AT_EVENT_JUDGED) {
        const at_event_judged **to = one->judged == NULL ? &one->judged : &one->final;
        *to = &event->as.judged;
    }
}

static attune_status read_log(sheet *of)
{
    for (size_t i = 0; i < of->log->count; ++i) {
        int id = id_of(&of->log->event[i]);
        of->count = id >= of->count ? id + 1 : of->count;
    }
    of->row = calloc((size_t)of->count + 1, sizeof *of->row);
    AT_FAIL_IF(of->row == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for a report");
    for (size_t i = 0; i < of->log->count; ++i) {
        take(of, &of->log->event[i]);
    }
    return ATTUNE_OK;
}

/* Parameters alone have no proposal: they are what is no other's and not the first source. */
static at_code_arm arm_of(const row *one)
{
    return one->proposal != NULL ? (at_code_arm)one->proposal->arm : AT_ARM_PARAMETERS;
}

/* ---- Facts ---------------------------------------------------------------------------------------------------------
 */

static void fact(const sheet *of, const char *name, const char *words)
{
    at_text_add(of->page, "<tr><th>%s</th><td>", name);
    at_html_words(of->page, words);
    at_text_add(of->page, "</td></tr>\n");
}

static void add_facts(const sheet *of)
{
    static const char *const rights[] = {"not run", "right", "wrong", "inconclusive"};
    const at_event_start *start = &of->log->event[0].as.start;
    at_text_add(of->page, "<table class=\"facts\">\n");
    fact(of, "kernel", start->kernel);
    fact(of, "problem", start->problem);
    fact(of, "target", start->target);
    fact(of, "budget", start->budget);
    fact(of, "how", start->policy);
    fact(of, "outcome", of->end != NULL ? of->end->outcome : "unfinished");
    fact(of, "", of->end != NULL ? of->end->why : "");
    fact(of, "the gate", of->gate != NULL ? rights[of->gate->right] : "not asked");
    fact(of, "", of->gate != NULL ? of->gate->why : "");
    if (of->refuted > 0) {
        char words[120];
        (void)snprintf(words, sizeof words, "%d, each the fastest until then: see the final", of->refuted);
        fact(of, "finalists it called wrong", words);
    }
    at_text_add(of->page, "</table>\n");
}

/* ---- Arms ----------------------------------------------------------------------------------------------------------
 */

typedef struct arm_sums {
    int proposals, accepted, tries, measured;
    double seconds, usd, tokens, best; /* best: the first source's time / the best one's, in the final */
    bool usd_known, tokens_known, timed;
} arm_sums;

static double number_or(const char *text, double fallback, bool *known)
{
    char *end;
    double value = strtod(text, &end);
    bool is = end != text && *end == '\0';
    *known = *known && is;
    return is ? value : fallback;
}

static void add_up(const sheet *of, at_code_arm arm, arm_sums *sums)
{
    *sums = (arm_sums){.best = 1, .usd_known = true, .tokens_known = true};
    for (int i = 1; i < of->count; ++i) {
        const row *one = &of->row[i];
        if (arm_of(one) != arm) {
            continue;
        }
        sums->measured += one->tuned != NULL ? one->tuned->measured : 0;
        sums->accepted += one->judged != NULL && one->judged->verdict == AT_CODE_ACCEPTED;
        if (one->final != NULL && one->final->ratio.middle > sums->best) {
            sums->best = one->final->ratio.middle;
        }
        sums->timed = sums->timed || one->final != NULL;
        if (one->proposal != NULL) {
            ++sums->proposals;
            sums->tries += one->proposal->tries;
            sums->seconds += one->proposal->seconds;
            sums->usd += number_or(one->proposal->usd, 0, &sums->usd_known);
            sums->tokens +=
                number_or(one->proposal->tokens_in, (double)one->proposal->bytes_in / 4, &sums->tokens_known) +
                number_or(one->proposal->tokens_out, (double)one->proposal->bytes_out / 4, &sums->tokens_known);
        }
    }
}

/* What the sources of an arm took, from a question to its answer; the final and the gate are nobody's. */
static double seconds_of(const sheet *of, at_code_arm arm)
{
    double sum = 0;
    for (size_t i = 1; i < of->log->count; ++i) {
        const at_event *event = &of->log->event[i];
        const int id = id_of(event);
        const bool counts = id > 0 && id < of->count && arm_of(&of->row[id]) == arm;
        sum += counts ? event->at_s - of->log->event[i - 1].at_s : 0;
    }
    return sum;
}

static void cell(const sheet *of, double value, int digits, bool known)
{
    char text[48];
    (void)snprintf(text, sizeof text, "%.*f", digits, value);
    at_text_add(of->page, "<td class=\"n\">%s</td>", known ? text : "unknown");
}

/* Cost of each percent that was gained in the final. */
static void add_arm(const sheet *of, at_code_arm arm)
{
    arm_sums sums;
    add_up(of, arm, &sums);
    const double percent = 100 * (sums.best - 1);
    const bool gained = percent > 0;
    at_text_add(of->page,
                "<tr><td>%s</td><td class=\"n\">%d</td><td class=\"n\">%d</td><td class=\"n\">%d</td>"
                "<td class=\"n\">%d</td>",
                at_names_of_arms[arm], sums.proposals, sums.accepted, sums.tries, sums.measured);
    if (!sums.timed) {
        at_text_add(of->page, "<td>none reached the final</td>");
    } else {
        cell(of, sums.best, 3, true);
    }
    cell(of, seconds_of(of, arm), 1, true);
    cell(of, sums.seconds, 1, true);
    cell(of, sums.usd, 2, sums.usd_known);
    at_text_add(of->page, "<td class=\"n\">%.0f%s</td>", sums.tokens, sums.tokens_known ? "" : " (from bytes)");
    cell(of, gained ? sums.usd / percent : 0, 3, gained && sums.usd_known);
    cell(of, gained ? sums.tokens / percent : 0, 0, gained);
    cell(of, gained ? seconds_of(of, arm) / percent : 0, 1, gained);
    at_text_add(of->page, "</tr>\n");
}

/* Whether what the engine found is the engine's. */
static void add_comparison(const sheet *of)
{
    static const double band = 1.02;
    arm_sums engine, best = {.best = 0}, one;
    at_code_arm which = AT_ARM_PARAMETERS;
    add_up(of, AT_ARM_ENGINE, &engine);
    for (int arm = AT_ARM_PARAMETERS; arm < AT_ARM_COUNT; ++arm) {
        add_up(of, (at_code_arm)arm, &one);
        which = one.best > best.best ? (at_code_arm)arm : which;
        best = one.best > best.best ? one : best;
    }
    at_text_add(
        of->page,
        "<p>In the final the engine's best is %.3f times as fast as the first source, the best of its controls, "
        "%s, %.3f times: %s.</p>\n",
        engine.best, at_names_of_arms[which], best.best,
        engine.best >= band * best.best   ? "the gain is the engine's"
        : best.best >= band * engine.best ? "more came without the engine"
        : engine.best > 1                 ? "as much came without the engine"
                                          : "no gain");
}

static void add_arms(const sheet *of)
{
    bool controls = false;
    for (int i = 1; i < of->count; ++i) {
        controls = controls || arm_of(&of->row[i]) != AT_ARM_ENGINE;
    }
    at_html_element(of->page, "h2", "The engine and its controls");
    at_text_add(
        of->page,
        "<table>\n<tr><th>arm</th><th>proposals</th><th>accepted</th><th>tries</th>"
        "<th>measured</th><th>gain in the final</th><th>s</th><th>of the proposer</th><th>USD</th><th>tokens</th>"
        "<th>USD a percent</th><th>tokens a percent</th><th>s a percent</th></tr>\n");
    for (int arm = 0; arm < (controls ? AT_ARM_COUNT : 1); ++arm) {
        add_arm(of, (at_code_arm)arm);
    }
    at_text_add(of->page, "</table>\n");
    if (controls) {
        add_comparison(of);
    } else {
        at_html_element(of->page, "p",
                        "No controls were run: what parameters alone, independent samples or sequential "
                        "refinement would have given is not known.");
    }
}

/* ---- Sources -------------------------------------------------------------------------------------------------------
 */

/* The next source after `after` whose parent this is; -1: none. */
static int next_child(const sheet *of, int parent, int after)
{
    for (int i = after + 1; i < of->count; ++i) {
        if (of->row[i].proposal != NULL && of->row[i].proposal->parent == parent) {
            return i;
        }
    }
    return -1;
}

static void add_source(const sheet *of, int id)
{
    const row *one = &of->row[id];
    at_text_add(of->page, "<li>%d of %d, %s, %s, <b>%s</b> ", id, one->proposal->parent,
                at_names_of_arms[one->proposal->arm], at_names_of_code_kinds[one->proposal->kind],
                one->judged != NULL ? at_names_of_verdicts[one->judged->verdict] : "not judged");
    at_html_words(of->page, one->proposal->idea);
    if (one->judged != NULL && one->judged->ratio.middle > 0) {
        at_text_add(of->page, ": %.3f times as fast as %d", one->judged->ratio.middle, one->judged->against);
    }
    at_text_add(of->page, "</li>\n");
}

/* A source with one child goes on in its own list: a line of many steps needs no indenting. */
static void add_branch(const sheet *of, int parent, int depth)
{
    enum { DEPTH_MAX = 64 };
    int child = next_child(of, parent, parent);
    while (child >= 0 && next_child(of, parent, child) < 0) {
        add_source(of, child);
        parent = child;
        child = next_child(of, parent, parent);
    }
    if (child >= 0 && depth == DEPTH_MAX) {
        at_text_add(of->page, "<li>what comes of %d is in the tables below</li>\n", parent);
        return;
    }
    at_text_add(of->page, child >= 0 ? "<li><ul>\n" : "");
    const bool open = child >= 0;
    for (; child >= 0; child = next_child(of, parent, child)) {
        add_source(of, child);
        add_branch(of, child, depth + 1);
    }
    at_text_add(of->page, open ? "</ul></li>\n" : "");
}

static void add_tree(const sheet *of)
{
    at_html_element(of->page, "h2", "Lineage");
    at_text_add(of->page, "<ul>\n<li>0, the first source</li>\n");
    add_branch(of, 0, 0);
    at_text_add(of->page, "</ul>\n");
}

static bool is_timed(const row *one)
{
    return one->judged != NULL && one->judged->ratio.middle > 0;
}

static void add_ideas(const sheet *of)
{
    at_html_element(of->page, "h2", "Gain by idea");
    at_text_add(of->page, "<table>\n<tr><th>proposal</th><th>idea</th><th>outcome</th><th>gain</th><th>from</th>"
                          "<th>to</th><th>config</th><th>code</th></tr>\n");
    for (int i = 1; i < of->count; ++i) {
        const row *one = &of->row[i];
        if (one->proposal == NULL || !is_timed(one)) {
            continue;
        }
        at_text_add(of->page, "<tr><td class=\"n\">%d</td><td>", i);
        at_html_words(of->page, one->proposal->idea[0] != '\0' ? one->proposal->idea : "not said");
        at_text_add(of->page, "</td><td>%s</td>", at_names_of_verdicts[one->judged->verdict]);
        cell(of, one->judged->ratio.middle, 3, true);
        cell(of, one->judged->ratio.low, 3, true);
        cell(of, one->judged->ratio.high, 3, true);
        at_text_add(of->page, "<td>");
        at_html_words(of->page, one->tuned != NULL ? one->tuned->config : "");
        at_text_add(of->page, "</td><td>");
        at_html_words(of->page, one->made != NULL ? one->made->facts : "");
        at_text_add(of->page, "</td></tr>\n");
    }
    at_text_add(of->page, "</table>\n");
}

static void add_refusals(const sheet *of)
{
    at_html_element(of->page, "h2", "Refused");
    at_text_add(of->page, "<table>\n<tr><th>proposal</th><th>verdict</th><th>idea</th><th>why</th></tr>\n");
    for (int i = 1; i < of->count; ++i) {
        const row *one = &of->row[i];
        if (one->judged == NULL || is_timed(one) || one->judged->verdict == AT_CODE_ACCEPTED) {
            continue;
        }
        at_text_add(of->page, "<tr><td class=\"n\">%d</td><td>%s</td><td>", i,
                    at_names_of_verdicts[one->judged->verdict]);
        at_html_words(of->page, one->proposal != NULL ? one->proposal->idea : "");
        at_text_add(of->page, "</td><td>");
        at_html_words(of->page, one->judged->why);
        at_text_add(of->page, "</td></tr>\n");
    }
    at_text_add(of->page, "</table>\n");
}

static void add_final(const sheet *of)
{
    at_html_element(of->page, "h2", "Final, on fresh inputs in fresh processes");
    at_text_add(of->page, "<table>\n<tr><th>proposal</th><th>arm</th><th>what</th></tr>\n");
    for (int i = 1; i < of->count; ++i) {
        if (of->row[i].final != NULL) {
            at_text_add(of->page, "<tr><td class=\"n\">%d</td><td>%s</td><td>", i,
                        at_names_of_arms[arm_of(&of->row[i])]);
            at_html_words(of->page, of->row[i].final->why);
            at_text_add(of->page, "</td></tr>\n");
        }
    }
    at_text_add(of->page, "</table>\n");
}

attune_status at_report_code_page(const at_ledger_log *log, char **page, size_t *bytes)
{
    at_text text;
    char title[160];
    sheet of = {.log = log, .page = &text};
    *page = NULL;
    AT_FAIL_IF(!at_report_is_code(log), ATTUNE_UNSUPPORTED, "the ledger is of no search for code");
    AT_FORWARD(read_log(&of));
    at_text_init(&text);
    (void)snprintf(title, sizeof title, "%.100s: a search for code", log->event[0].as.start.kernel);
    at_html_begin(&text, title);
    add_facts(&of);
    add_arms(&of);
    add_final(&of);
    add_tree(&of);
    add_ideas(&of);
    add_refusals(&of);
    at_html_end(&text);
    free(of.row);
    return at_text_take(&text, "a page", page, bytes);
}
