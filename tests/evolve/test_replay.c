/* Replays of ledgers that are made up: what is known of every candidate is known here too. */
#include "evolve/example_ledger.h"

#include <stdlib.h>

#include "evolve/importance.h"
#include "evolve/ledger_line.h"
#include "evolve/study.h"

static at_space *space;

static int setup(void **state)
{
    (void)state;
    space = landscape_open();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    at_space_close(space);
    return 0;
}

/* ---- Ledgers ----------------------------------------------------------------------------------------------------- */

typedef struct book {
    at_text text;
    int64_t seq;
    char digest[AT_DIGEST_TEXT_MAX];
} book;

static void add(book *to, const at_event *event)
{
    assert_ok(at_ledger_line(event, to->seq++, to->digest, &to->text));
}

/* A measurement of 8 pairs beside a champion of `champion_us`; one pair in 20 is disturbed, and seems far too fast. */
static at_event measured(int candidate, double champion_us, double noise, at_random *random)
{
    at_event event = {.kind = AT_EVENT_MEASUREMENT};
    at_event_measurement *of = &event.as.measurement;
    *of = (at_event_measurement){.champion = EXAMPLE_OTHER, .pairs = 8};
    at_space_print(space, candidate, of->config);
    for (int i = 0; i < of->pairs; ++i) {
        double drift = 1 + 0.3 * at_random_uniform(random); /* of both alike */
        of->champion_us[i] = champion_us * drift * exp(noise * at_random_normal(random));
        of->us[i] = 100 * exp(landscape_log_us(space, candidate) + noise * at_random_normal(random)) * drift;
        of->us[i] *= noise > 0 && at_random_below(random, 20) == 0 ? 0.8 : 1;
    }
    return event;
}

/* A full ledger but for the last `missing` candidates. */
static at_ledger_log *record(double noise, int missing)
{
    book to = {.seq = 0};
    at_random random = at_random_seed(11, 0);
    at_event event = example_event(AT_EVENT_START, NULL);
    at_text_init(&to.text);
    add(&to, &event);
    event = example_event(AT_EVENT_SPACE, space);
    add(&to, &event);
    for (int candidate = 0; candidate < space->count - missing; ++candidate) {
        if (landscape_refused(space, candidate)) {
            event = (at_event){.kind = AT_EVENT_REFUSAL, .as.refusal.refused = AT_REFUSED_COMPILE};
            at_space_print(space, candidate, event.as.refusal.config);
        } else {
            event = measured(candidate, 100, noise, &random);
        }
        add(&to, &event);
    }
    at_ledger_log *log;
    assert_ok(at_ledger_parse("made up", to.text.data, to.text.length, &log));
    at_text_free(&to.text);
    return log;
}

/* ---- Records ----------------------------------------------------------------------------------------------------- */

static void records_hold_what_was_measured(void **state)
{
    (void)state;
    at_ledger_log *log = record(0, 0);
    at_recorded *recorded;
    char best[AT_KERNEL_TEXT_MAX];
    assert_ok(at_recorded_open(log, &recorded));
    int refused = 0;
    for (int candidate = 0; candidate < space->count; ++candidate) {
        const at_record *one = &recorded->record[candidate];
        refused += one->refused == AT_REFUSED_COMPILE;
        if (one->refused == AT_RAN) {
            /* The level is the champion's median, drift included: it is the same for all. */
            double level = recorded->record[recorded->best].middle;
            assert_int_equal(one->pairs, 8);
            assert_true(fabs(one->middle - level - landscape_log_us(space, candidate)) < 1e-9);
        }
    }
    assert_int_equal(recorded->ran, space->count - refused);
    at_space_print(space, recorded->best, best);
    assert_string_equal(best, EXAMPLE_OTHER); /* the bottom of the landscape */
    at_recorded_close(recorded);
    at_ledger_free(log);
}

static void a_ledger_with_gaps_is_not_replayed(void **state)
{
    (void)state;
    at_recorded *recorded;
    at_ledger_log *log = record(0, 7);
    assert_ok(at_recorded_open(log, &recorded));
    assert_int_equal(recorded->missing, 7);
    assert_fails(at_replay_run(recorded, &(at_replay_options){.budget = 1}, &(double){0}), ATTUNE_UNSUPPORTED,
                 "7 of the ledger's");
    at_recorded_close(recorded);
    at_ledger_free(log);
    book to = {.seq = 0};
    at_event event = example_event(AT_EVENT_START, NULL);
    at_text_init(&to.text);
    add(&to, &event);
    assert_ok(at_ledger_parse("made up", to.text.data, to.text.length, &log));
    assert_fails(at_recorded_open(log, &recorded), ATTUNE_UNSUPPORTED, "no space event");
    assert_null(recorded);
    at_text_free(&to.text);
    at_ledger_free(log);
}

/* ---- What matters ------------------------------------------------------------------------------------------------ */

/* In the landscape the tile's shape matters most, then stages; what has one value does not matter. */
static void importance_tells_what_matters(void **state)
{
    (void)state;
    at_ledger_log *log = record(0.005, 200); /* of a search that did not see everything */
    at_recorded *recorded;
    double importance[ATTUNE_PARAMS_MAX];
    assert_ok(at_recorded_open(log, &recorded));
    assert_ok(at_importance(recorded, 1, importance));
    assert_true(importance[TILE] > 0.2 && importance[KEYS] > 0.2);
    assert_true(importance[STAGES] > 0.02 && importance[STAGES] < importance[KEYS]);
    assert_true(importance[STAGES] > importance[UNROLL]);
    assert_true(importance[IDLE] == 0);
    for (int p = 0; p < space->param_count; ++p) {
        assert_true(importance[p] >= 0);
    }
    at_recorded_close(recorded);
    at_ledger_free(log);
}

static void nothing_matters_where_little_was_seen(void **state)
{
    (void)state;
    at_ledger_log *log = record(0, space->count - 2);
    at_recorded *recorded;
    double importance[ATTUNE_PARAMS_MAX];
    assert_ok(at_recorded_open(log, &recorded));
    assert_fails(at_importance(recorded, 1, importance), ATTUNE_UNSUPPORTED, "2 candidates");
    at_recorded_close(recorded);
    at_ledger_free(log);
}

/* ---- Replays ----------------------------------------------------------------------------------------------------- */

static void replays_are_functions_of_their_options(void **state)
{
    (void)state;
    at_ledger_log *log = record(0.01, 0);
    at_recorded *recorded;
    assert_ok(at_recorded_open(log, &recorded));
    for (const at_strategy_kind *const *kind = at_strategy_kinds; *kind != NULL; ++kind) {
        double reached[2][50];
        at_replay_options options = {.strategy = (*kind)->name, .seed = 4, .budget = 50, .look = 3, .batch = 4};
        assert_int_equal(at_replay_budget(recorded, &options), 50);
        assert_ok(at_replay_run(recorded, &options, reached[0]));
        assert_ok(at_replay_run(recorded, &options, reached[1]));
        assert_memory_equal(reached[0], reached[1], sizeof reached[0]);
        for (int i = 0; i < 50; ++i) {
            assert_true(reached[0][i] >= 0 && reached[0][i] <= 1);
        }
        assert_true(reached[0][49] > 0.7);
    }
    at_replay_options unknown = {.strategy = "luck"};
    assert_fails(at_replay_run(recorded, &unknown, NULL), ATTUNE_NOT_FOUND, "luck");
    at_recorded_close(recorded);
    at_ledger_free(log);
}

static void everything_measured_well_is_the_optimum(void **state)
{
    (void)state;
    at_ledger_log *log = record(0.01, 0);
    at_recorded *recorded;
    double *reached = malloc((size_t)space->count * sizeof *reached);
    at_replay_options options = {.strategy = "random", .seed = 1};
    assert_non_null(reached);
    assert_ok(at_recorded_open(log, &recorded));
    assert_int_equal(at_replay_budget(recorded, &options), space->count);
    assert_ok(at_replay_run(recorded, &options, reached));
    assert_true(reached[space->count - 1] == 1);
    free(reached);
    at_recorded_close(recorded);
    at_ledger_free(log);
}

static void without_its_order_the_heuristic_is_no_help(void **state)
{
    (void)state;
    at_ledger_log *log = record(0, 0);
    at_recorded *recorded;
    double reached[5];
    at_replay_options options = {.strategy = "surrogate", .seed = 1, .budget = 5, .blind = true};
    double blind;
    assert_ok(at_recorded_open(log, &recorded));
    assert_ok(at_replay_run(recorded, &options, reached));
    blind = reached[4];
    options.blind = false;
    assert_ok(at_replay_run(recorded, &options, reached));
    print_message("with its order %.4f, without %.4f\n", reached[4], blind);
    assert_true(reached[4] > 0.8 && blind < reached[4] - 0.1);
    at_recorded_close(recorded);
    at_ledger_free(log);
}

/* One pair in twenty lies. With one look at each, who leads after a while is the luckiest; who leads here was looked at
 * again. */
static void luck_does_not_lead(void **state)
{
    (void)state;
    at_ledger_log *log = record(0.01, 0);
    at_recorded *recorded;
    at_study *study;
    at_replay_options options = {.strategy = "random", .seed = 1, .budget = 300, .look = 1};
    assert_ok(at_recorded_open(log, &recorded));
    assert_ok(at_study_run(recorded, &options, 20, 0.97, &study));
    assert_true(study->mean[299] > 0.95);
    at_study_free(study);
    at_recorded_close(recorded);
    at_ledger_free(log);
}

/* ---- Studies ----------------------------------------------------------------------------------------------------- */

static void studies_sum_up_their_seeds(void **state)
{
    (void)state;
    at_ledger_log *log = record(0, 0);
    at_recorded *recorded;
    at_study *study;
    double reached[3][40];
    at_replay_options options = {.strategy = "random", .seed = 7, .budget = 40};
    assert_ok(at_recorded_open(log, &recorded));
    assert_ok(at_study_run(recorded, &options, 3, 0.9, &study));
    assert_int_equal(study->seeds, 3);
    assert_int_equal(study->budget, 40);
    int arrived = 0;
    for (int seed = 0; seed < 3; ++seed) {
        options.seed = 7 + (uint64_t)seed;
        assert_ok(at_replay_run(recorded, &options, reached[seed]));
        arrived += reached[seed][39] >= 0.9; /* without noise it never gets worse */
    }
    assert_int_equal(study->arrived, arrived);
    for (int i = 0; i < 40; ++i) {
        assert_true(fabs(study->mean[i] - (reached[0][i] + reached[1][i] + reached[2][i]) / 3) < 1e-12);
        assert_true(study->low[i] == fmin(reached[0][i], fmin(reached[1][i], reached[2][i])));
    }
    at_study_free(study);
    assert_fails(at_study_run(recorded, &options, 0, 0.9, &study), ATTUNE_INVALID_ARGUMENT, "0 seeds");
    at_recorded_close(recorded);
    at_ledger_free(log);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(records_hold_what_was_measured),
        CASE(a_ledger_with_gaps_is_not_replayed),
        CASE(importance_tells_what_matters),
        CASE(nothing_matters_where_little_was_seen),
        CASE(replays_are_functions_of_their_options),
        CASE(everything_measured_well_is_the_optimum),
        CASE(without_its_order_the_heuristic_is_no_help),
        CASE(luck_does_not_lead),
        CASE(studies_sum_up_their_seeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
