/* What a ledger says already is found, and in the same time however long the ledger is. */
#include <stdlib.h>

#include "evolve/example_ledger.h"
#include "evolve/recall.h"

static at_event measurement(int config, int champion, int round)
{
    at_event event = {.kind = AT_EVENT_MEASUREMENT, .as.measurement = {.round = round, .pairs = 1}};
    (void)snprintf(event.as.measurement.config, sizeof event.as.measurement.config, "kernel:TILE=%d", config);
    (void)snprintf(event.as.measurement.champion, sizeof event.as.measurement.champion, "kernel:TILE=%d", champion);
    return event;
}

/* A log of measurements beside one champion, in two rounds. */
static at_ledger_log log_of(int count)
{
    at_ledger_log log = {.count = (size_t)count, .event = calloc((size_t)count, sizeof(at_event))};
    assert_non_null(log.event);
    for (int i = 0; i < count; ++i) {
        log.event[i] = measurement(i / 2, 7, i % 2);
        log.event[i].seq = i;
    }
    return log;
}

static void what_is_there_is_found_and_nothing_else(void **state)
{
    (void)state;
    at_ledger_log log = log_of(2000);
    at_recall *recall;
    assert_ok(at_recall_open(&log, &recall));
    for (int i = 0; i < 2000; ++i) {
        const at_event wanted = measurement(i / 2, 7, i % 2);
        assert_ptr_equal(at_recall_find(recall, &wanted), &log.event[i]);
    }
    const at_event others[] = {measurement(1000, 7, 0), measurement(3, 8, 0), measurement(3, 7, 2)};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; ++i) {
        assert_null(at_recall_find(recall, &others[i]));
    }
    at_recall_close(recall);
    free(log.event);
}

/* As many comparisons for each question in a long ledger as in a short one: going on is linear in its length. */
static void a_long_ledger_costs_no_more_for_each_question(void **state)
{
    (void)state;
    for (int count = 100; count <= 12800; count *= 2) {
        at_ledger_log log = log_of(count);
        at_recall *recall;
        assert_ok(at_recall_open(&log, &recall));
        for (int i = 0; i < count; ++i) {
            const at_event wanted = measurement(i / 2, 7, i % 2);
            assert_non_null(at_recall_find(recall, &wanted));
        }
        assert_true(at_recall_compared(recall) < 2 * count);
        at_recall_close(recall);
        free(log.event);
    }
}

/* Every kind of event is found that a search writes again when it goes on, and by all that it says of what it is of. */
static void events_are_known_by_what_they_are_of(void **state)
{
    (void)state;
    static const at_event_kind kinds[] = {AT_EVENT_CANDIDATE,   AT_EVENT_REFUSAL,  AT_EVENT_BUILD,
                                          AT_EVENT_MEASUREMENT, AT_EVENT_DECISION, AT_EVENT_CHECK};
    enum { KINDS = sizeof kinds / sizeof kinds[0] };
    at_event said[KINDS + 1];
    for (int i = 0; i < KINDS; ++i) {
        said[i] = example_event(kinds[i], NULL);
    }
    said[KINDS] = example_event(AT_EVENT_END, NULL);
    const at_ledger_log log = {.event = said, .count = KINDS + 1};
    at_recall *recall;
    assert_ok(at_recall_open(&log, &recall));
    for (int i = 0; i < KINDS; ++i) {
        at_event again = said[i];
        again.at_s = 99; /* whenever it is said */
        assert_ptr_equal(at_recall_find(recall, &again), &said[i]);
    }
    assert_null(at_recall_find(recall, &said[KINDS]));
    at_event decision = example_event(AT_EVENT_DECISION, NULL), check = example_event(AT_EVENT_CHECK, NULL);
    decision.as.decision.decision = AT_DECIDED_CHAMPION;
    check.as.check.holds = false;
    assert_null(at_recall_find(recall, &decision));
    assert_null(at_recall_find(recall, &check));
    at_recall_close(recall);
}

/* Of two that say the same the first counts: it was measured then, whatever came later. */
static void the_first_of_two_counts(void **state)
{
    (void)state;
    at_event said[] = {measurement(1, 7, 0), measurement(2, 7, 0), measurement(1, 7, 0)};
    const at_ledger_log log = {.event = said, .count = 3};
    at_recall *recall;
    assert_ok(at_recall_open(&log, &recall));
    assert_ptr_equal(at_recall_find(recall, &said[2]), &said[0]);
    at_recall_close(recall);
    assert_ok(at_recall_open(NULL, &recall)); /* a new search */
    assert_null(at_recall_find(recall, &said[0]));
    at_recall_close(recall);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_there_is_found_and_nothing_else),
        cmocka_unit_test(a_long_ledger_costs_no_more_for_each_question),
        cmocka_unit_test(events_are_known_by_what_they_are_of),
        cmocka_unit_test(the_first_of_two_counts),
    };
    return cmocka_run_group_tests_name("evolve.recall", tests, NULL, NULL);
}
