/* attune evolve replay, as it is called. */
#include "evolve/example_ledger.h"

#include "base/file.h"
#include "base/folder.h"
#include "cli/command.h"
#include "evolve/ledger_line.h"

static folder here;

static int setup(void **state)
{
    (void)state;
    return folder_make(&here);
}

static int teardown(void **state)
{
    (void)state;
    folder_remove(&here);
    return 0;
}

/* Every candidate once, two pairs each; written at once, as syncing every line takes seconds. */
static const char *record(const char *name)
{
    const char *path = folder_file(&here, name);
    at_space *space = landscape_open();
    at_event event = example_event(AT_EVENT_START, NULL);
    char digest[AT_DIGEST_TEXT_MAX] = "";
    at_text text;
    at_text_init(&text);
    assert_ok(at_ledger_line(&event, 0, digest, &text));
    event = example_event(AT_EVENT_SPACE, space);
    assert_ok(at_ledger_line(&event, 1, digest, &text));
    for (int candidate = 0; candidate < space->count; ++candidate) {
        double us = 100 * exp(landscape_log_us(space, candidate));
        event = (at_event){
            .kind = AT_EVENT_MEASUREMENT,
            .as.measurement = {.champion = EXAMPLE_OTHER, .pairs = 2, .us = {us, us}, .champion_us = {100, 100}}};
        at_space_print(space, candidate, event.as.measurement.config);
        assert_ok(at_ledger_line(&event, candidate + 2, digest, &text));
    }
    assert_ok(at_file_write(path, text.data, text.length));
    at_text_free(&text);
    at_space_close(space);
    return path;
}

static int lines_of(const char *text)
{
    int lines = 0;
    for (; *text != '\0'; ++text) {
        lines += *text == '\n';
    }
    return lines;
}

static void shows_every_strategy(void **state)
{
    (void)state;
    outcome shown = COMMAND("evolve", "replay", record("a.jsonl"), "--repeat", "2", "--budget", "30runs");
    assert_int_equal(shown.code, AT_EXIT_OK);
    assert_int_equal(lines_of(shown.out), 1 + 3);
    for (const at_strategy_kind *const *kind = at_strategy_kinds; *kind != NULL; ++kind) {
        assert_non_null(strstr(shown.out, (*kind)->name));
    }
    outcome_free(&shown);
}

static void sums_up_several_ledgers(void **state)
{
    (void)state;
    char other[PATH_MAX];
    (void)snprintf(other, sizeof other, "%s", record("b.jsonl"));
    outcome shown = COMMAND("evolve", "replay", record("a.jsonl"), other, "--repeat", "2", "--strategy", "random",
                            "--format", "tsv");
    assert_int_equal(shown.code, AT_EXIT_OK);
    assert_int_equal(lines_of(shown.out), 1 + 3);
    assert_non_null(strstr(shown.out, "\nall\t"));
    outcome_free(&shown);
}

static void says_what_it_cannot_do(void **state)
{
    (void)state;
    outcome none = COMMAND("evolve", "replay");
    outcome missing = COMMAND("evolve", "replay", "/nowhere.jsonl");
    outcome seconds = COMMAND("evolve", "replay", "/nowhere.jsonl", "--budget", "10s");
    assert_int_equal(none.code, AT_EXIT_USAGE);
    assert_non_null(strstr(none.err, "ledgers of exhaustive searches are needed"));
    assert_int_equal(missing.code, at_cli_exit(ATTUNE_NOT_FOUND));
    assert_non_null(strstr(missing.err, "/nowhere.jsonl cannot be opened"));
    assert_int_equal(seconds.code, AT_EXIT_USAGE);
    assert_non_null(strstr(seconds.err, "a number of measurements"));
    outcome_free(&none);
    outcome_free(&missing);
    outcome_free(&seconds);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(shows_every_strategy),
        CASE(sums_up_several_ledgers),
        CASE(says_what_it_cannot_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
