/* A search's ledger as a table and as a page. */
#include "evolve/example_ledger.h"

#include "cli/command.h"
#include "evolve/ledger_line.h"
#include "report/html.h"
#include "report/search.h"

/* Every candidate up to `count`, two pairs each; one of them is refused for a reason that is no HTML. */
static at_ledger_log *record(int count)
{
    at_space *space = landscape_open();
    at_event event = example_event(AT_EVENT_START, NULL);
    char digest[AT_DIGEST_TEXT_MAX] = "";
    int64_t seq = 0;
    at_text text;
    at_text_init(&text);
    assert_ok(at_ledger_line(&event, seq++, digest, &text));
    event = example_event(AT_EVENT_SPACE, space);
    assert_ok(at_ledger_line(&event, seq++, digest, &text));
    for (int candidate = 0; candidate < space->count && candidate < count; ++candidate) {
        double us = 100 * exp(landscape_log_us(space, candidate));
        event = (at_event){
            .kind = AT_EVENT_MEASUREMENT,
            .as.measurement = {.champion = EXAMPLE_OTHER, .pairs = 2, .us = {us, us}, .champion_us = {100, 100}}};
        if (candidate == 1) {
            event = (at_event){.kind = AT_EVENT_REFUSAL,
                               .as.refusal = {.refused = AT_REFUSED_COMPILE, .why = "a < b && \"c\" > <script>"}};
        }
        at_space_print(space, candidate, candidate == 1 ? event.as.refusal.config : event.as.measurement.config);
        assert_ok(at_ledger_line(&event, seq++, digest, &text));
    }
    event = example_event(AT_EVENT_CHECK, NULL);
    assert_ok(at_ledger_line(&event, seq++, digest, &text));
    event = example_event(AT_EVENT_END, NULL);
    assert_ok(at_ledger_line(&event, seq++, digest, &text));
    at_ledger_log *log;
    assert_ok(at_ledger_parse("made up", text.data, text.length, &log));
    at_text_free(&text);
    at_space_close(space);
    return log;
}

static char *page_of(int count)
{
    at_ledger_log *log = record(count);
    char *page;
    size_t bytes;
    assert_ok(at_report_search_page(log, &page, &bytes));
    assert_int_equal(strlen(page), bytes);
    at_ledger_free(log);
    return page;
}

static void holds(const char *text, const char *words)
{
    if (strstr(text, words) == NULL) {
        fail_msg("the page lacks \"%s\"", words);
    }
}

static int count_of(const char *text, const char *words)
{
    int count = 0;
    for (; (text = strstr(text, words)) != NULL; ++text) {
        ++count;
    }
    return count;
}

static void a_whole_space_shows_every_strategy(void **state)
{
    (void)state;
    char *page = page_of(100000);
    for (const at_strategy_kind *const *kind = at_strategy_kinds; *kind != NULL; ++kind) {
        holds(page, (*kind)->name);
    }
    assert_int_equal(count_of(page, "<path"), 3);
    holds(page, "replayed on this ledger");
    free(page);
}

static void a_search_shows_its_own_way(void **state)
{
    (void)state;
    char *page = page_of(50);
    assert_int_equal(count_of(page, "<path"), 1);
    assert_int_equal(count_of(page, "<rect"), LANDSCAPE_PARAMS);
    holds(page, "49 were timed, 1 refused");
    holds(page, "b1,h1,s64,d64,fp32");
    holds(page, "STAGES 4 with TILE 64: at most 32");
    holds(page, "<tr><th>mutant</th><td>holds</td>");
    holds(page, "it was enough");
    assert_int_equal(count_of(page, "<code>"), 8);
    free(page);
}

/* The first champion has no measurement of its own until the final, and may be the best all the same: the line is then
 * at the plot's top from its first point on. */
static void who_a_search_begins_with_is_seen_from_the_first_on(void **state)
{
    (void)state;
    static const char top[] = "d=\"M62.0 14.0L";
    char *without = page_of(50), *with;
    at_ledger_log *log = record(50);
    at_event_measurement *last = &log->event[log->count - 3].as.measurement;
    size_t bytes;
    assert_int_equal(log->event[log->count - 3].kind, AT_EVENT_MEASUREMENT);
    last->round = 2; /* of the final, and of the champion: EXAMPLE_OTHER is the best of all */
    memcpy(last->config, last->champion, sizeof last->config);
    memcpy(last->us, last->champion_us, sizeof last->us);
    assert_ok(at_report_search_page(log, &with, &bytes));
    holds(with, top);
    assert_null(strstr(without, top));
    at_ledger_free(log);
    free(with);
    free(without);
}

/* Nothing of what a ledger says becomes part of the page's own language, and nothing is fetched from elsewhere. */
static void words_stay_words(void **state)
{
    (void)state;
    char *page = page_of(50);
    holds(page, "a &lt; b &amp;&amp; &quot;c&quot; &gt; &lt;script&gt;");
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "src="));
    assert_null(strstr(page, "http"));
    assert_null(strstr(page, "nan"));
    assert_int_equal(count_of(page, "<svg"), count_of(page, "</svg>"));
    assert_int_equal(count_of(page, "<table"), count_of(page, "</table>"));
    free(page);
}

static void little_was_seen(void **state)
{
    (void)state;
    char *page = page_of(0);
    holds(page, "Nothing ran.");
    holds(page, "0 candidates ran");
    free(page);
    page = page_of(1);
    assert_int_equal(count_of(page, "<path"), 1);
    holds(page, "1 candidates ran");
    free(page);
}

static void the_verb_reads_ledgers(void **state)
{
    (void)state;
    const char *kept = ATTUNE_SOURCE_DIR "/tests/evolve/data/version_1.jsonl";
    outcome table = COMMAND("report", kept, "--format", "tsv");
    outcome page = COMMAND("report", kept, "--format", "html");
    outcome none = COMMAND("report", "/nowhere.jsonl");
    assert_int_equal(table.code, AT_EXIT_OK);
    assert_int_equal(count_of(table.out, "\n"), 2);
    holds(table.out, "config\tus\tof_best\tpairs\trefused\nlandscape:TILE=8");
    assert_int_equal(page.code, AT_EXIT_OK);
    holds(page.out, "<!DOCTYPE html>");
    assert_int_equal(none.code, at_cli_exit(ATTUNE_NOT_FOUND));
    outcome_free(&table);
    outcome_free(&page);
    outcome_free(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_space_shows_every_strategy),
        cmocka_unit_test(a_search_shows_its_own_way),
        cmocka_unit_test(who_a_search_begins_with_is_seen_from_the_first_on),
        cmocka_unit_test(words_stay_words),
        cmocka_unit_test(little_was_seen),
        cmocka_unit_test(the_verb_reads_ledgers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
