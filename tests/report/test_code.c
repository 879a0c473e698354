/* A search for code as a page. */
#include "evolve/example_ledger.h"

#include <stdlib.h>

#include "evolve/ledger_line.h"
#include "report/code.h"

static void add(at_text *text, const at_event *event, int64_t *seq, char digest[AT_DIGEST_TEXT_MAX])
{
    assert_ok(at_ledger_line(event, (*seq)++, digest, text));
}

static void add_proposal(at_text *text, int64_t *seq, char *digest, int id, at_code_arm arm, at_code_verdict verdict,
                         double ratio)
{
    at_event proposal = example_event(AT_EVENT_PROPOSAL, NULL), judged = example_event(AT_EVENT_JUDGED, NULL);
    proposal.as.proposal.id = id;
    proposal.as.proposal.parent = id == 2 ? 1 : 0;
    proposal.as.proposal.arm = (int32_t)arm;
    (void)snprintf(proposal.as.proposal.idea, sizeof proposal.as.proposal.idea, "<idea %d>", id);
    judged.as.judged = (at_event_judged){.id = id, .verdict = (int32_t)verdict, .ratio = {ratio, ratio, ratio}};
    (void)snprintf(judged.as.judged.why, sizeof judged.as.judged.why, "because of %d & more", id);
    add(text, &proposal, seq, digest);
    add(text, &judged, seq, digest);
}

static void add_final(at_text *text, int64_t *seq, char *digest, int id, double ratio)
{
    at_event judged = example_event(AT_EVENT_JUDGED, NULL);
    judged.as.judged = (at_event_judged){.id = id, .verdict = AT_CODE_ACCEPTED, .ratio = {ratio, ratio, ratio}};
    add(text, &judged, seq, digest);
}

/* The gate calls a finalist wrong: it has no gain any more. */
static void add_refusal(at_text *text, int64_t *seq, char *digest, int id)
{
    at_event gate = example_event(AT_EVENT_GATE, NULL), judged = example_event(AT_EVENT_JUDGED, NULL);
    gate.as.gate.right = AT_FAIL;
    judged.as.judged = (at_event_judged){.id = id, .verdict = AT_CODE_REFUSED};
    (void)snprintf(judged.as.judged.why, sizeof judged.as.judged.why, "final: fast; the gate calls it wrong");
    add(text, &gate, seq, digest);
    add(text, &judged, seq, digest);
}

static at_ledger_log *record(bool controls)
{
    at_event start = example_event(AT_EVENT_START, NULL), end = example_event(AT_EVENT_END, NULL);
    char digest[AT_DIGEST_TEXT_MAX] = "";
    int64_t seq = 0;
    at_text text;
    at_ledger_log *log;
    at_text_init(&text);
    (void)snprintf(start.as.start.strategy, sizeof start.as.start.strategy, "code");
    add(&text, &start, &seq, digest);
    add_proposal(&text, &seq, digest, 1, AT_ARM_ENGINE, AT_CODE_ACCEPTED, 1.25);
    add_proposal(&text, &seq, digest, 2, AT_ARM_ENGINE, AT_CODE_REFUSED, 0);
    if (controls) {
        add_proposal(&text, &seq, digest, 3, AT_ARM_SAMPLES, AT_CODE_SLOWER, 0.5);
    }
    if (controls) {
        add_proposal(&text, &seq, digest, 4, AT_ARM_ENGINE, AT_CODE_ACCEPTED, 1.5);
        add_final(&text, &seq, digest, 4, 1.5);
    }
    add_final(&text, &seq, digest, 1, 1.25);
    if (controls) {
        add_refusal(&text, &seq, digest, 4);
    }
    add(&text, &end, &seq, digest);
    assert_ok(at_ledger_parse("a ledger", text.data, text.length, &log));
    at_text_free(&text);
    return log;
}

static void expect(const char *page, const char *words)
{
    if (strstr(page, words) == NULL) {
        fail_msg("the page lacks \"%s\"", words);
    }
}

static void the_page_has_lineage_costs_and_reasons(void **state)
{
    (void)state;
    char *page;
    size_t bytes;
    at_ledger_log *log = record(true);
    assert_ok(at_report_code_page(log, &page, &bytes));
    expect(page, "&lt;idea 1&gt;: 1.250 times as fast as 0");
    expect(page, "because of 2 &amp; more");
    expect(page, "independent samples");
    expect(page, "the engine's best is 1.250 times as fast");
    expect(page, "the gain is the engine's");
    /* Tokens that nobody counted are reckoned, and called so. */
    expect(page, "(from bytes)");
    expect(page, "<td class=\"n\">0.060</td>"); /* three times 0.5 USD for 25 percent */
    expect(page, "finalists it called wrong</th><td>1, each the fastest until then");
    expect(page, "final: fast; the gate calls it wrong");
    assert_null(strstr(page, "<idea"));
    free(page);
    at_ledger_free(log);
    log = record(false);
    assert_ok(at_report_code_page(log, &page, &bytes));
    expect(page, "No controls were run");
    assert_null(strstr(page, "called wrong"));
    free(page);
    at_ledger_free(log);
}

/* A line of many steps is there whole. */
static void no_source_is_left_out(void **state)
{
    enum { STEPS = 300 };
    (void)state;
    at_event start = example_event(AT_EVENT_START, NULL);
    char digest[AT_DIGEST_TEXT_MAX] = "", *page;
    int64_t seq = 0;
    size_t bytes;
    at_text text;
    at_ledger_log *log;
    at_text_init(&text);
    (void)snprintf(start.as.start.strategy, sizeof start.as.start.strategy, "code");
    add(&text, &start, &seq, digest);
    for (int id = 1; id <= STEPS; ++id) {
        at_event proposal = example_event(AT_EVENT_PROPOSAL, NULL);
        proposal.as.proposal.id = id;
        proposal.as.proposal.parent = id - 1;
        add(&text, &proposal, &seq, digest);
    }
    assert_ok(at_ledger_parse("a ledger", text.data, text.length, &log));
    at_text_free(&text);
    assert_ok(at_report_code_page(log, &page, &bytes));
    expect(page, "<li>300 of 299, ");
    free(page);
    at_ledger_free(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_page_has_lineage_costs_and_reasons),
                                       cmocka_unit_test(no_source_is_left_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
