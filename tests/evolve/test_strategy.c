#include "evolve/landscape.h"

static at_space *made;

static int setup(void **state)
{
    (void)state;
    made = landscape_open();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    at_space_close(made);
    return 0;
}

static at_strategy *create(const char *name, uint64_t seed, int budget)
{
    at_strategy_options options = {.seed = seed, .budget = budget};
    at_strategy *strategy;
    assert_ok(at_strategy_create(name, made, &options, &strategy));
    return strategy;
}

/* Runs up to `budget` candidates; returns how many there were, and which, if `asked` is there. */
static int drive(at_strategy *strategy, int budget, double noise, int *asked)
{
    at_random random = at_random_seed(strategy->options.seed, 9);
    int count = 0;
    for (; count < budget; ++count) {
        int candidate = at_strategy_ask(strategy);
        if (candidate < 0) {
            break;
        }
        at_tried tried = landscape_try(made, candidate, noise, &random);
        assert_ok(at_strategy_tell(strategy, &tried));
        if (asked != NULL) {
            asked[count] = candidate;
        }
    }
    return count;
}

/* ---- What all kinds keep ----------------------------------------------------------------------------------------- */

static void asks_for_everything_once(void **state)
{
    (void)state;
    for (const at_strategy_kind *const *kind = at_strategy_kinds; *kind != NULL; ++kind) {
        bool seen[LANDSCAPE_TOTAL] = {false};
        int asked[LANDSCAPE_TOTAL] = {0};
        at_strategy *strategy = create((*kind)->name, 1, 0);
        int count = drive(strategy, made->count, 0, asked);
        assert_int_equal(count, made->count);
        for (int i = 0; i < count; ++i) {
            assert_true(asked[i] >= 0 && asked[i] < made->count && !seen[asked[i]]);
            seen[asked[i]] = true;
        }
        assert_int_equal(at_strategy_ask(strategy), -1);
        at_strategy_destroy(strategy);
    }
}

static void equal_seeds_search_alike(void **state)
{
    (void)state;
    for (const at_strategy_kind *const *kind = at_strategy_kinds; *kind != NULL; ++kind) {
        int asked[3][60] = {{0}};
        for (int run = 0; run < 3; ++run) {
            at_strategy *strategy = create((*kind)->name, run == 2 ? 6 : 5, 60);
            (void)drive(strategy, 60, 0.01, asked[run]);
            at_strategy_destroy(strategy);
        }
        assert_memory_equal(asked[0], asked[1], sizeof asked[0]);
        assert_memory_not_equal(asked[0], asked[2], sizeof asked[0]);
    }
}

static void looks_at_what_was_known_before_first(void **state)
{
    (void)state;
    int first[] = {17, 4, 17, 99};
    for (const at_strategy_kind *const *kind = at_strategy_kinds; *kind != NULL; ++kind) {
        at_strategy_options options = {.first = first, .first_count = 4};
        at_strategy *strategy;
        assert_ok(at_strategy_create((*kind)->name, made, &options, &strategy));
        first[0] = 17;
        assert_int_equal(at_strategy_ask(strategy), 17);
        assert_int_equal(at_strategy_ask(strategy), 4);
        assert_int_equal(at_strategy_ask(strategy), 99);
        at_strategy_destroy(strategy);
    }
}

static void several_may_be_asked_for_before_one_is_measured(void **state)
{
    (void)state;
    for (const at_strategy_kind *const *kind = at_strategy_kinds; *kind != NULL; ++kind) {
        at_strategy *strategy = create((*kind)->name, 3, 40);
        at_random random = at_random_seed(3, 9);
        for (int group = 0; group < 10; ++group) {
            int asked[4];
            for (int i = 0; i < 4; ++i) {
                asked[i] = at_strategy_ask(strategy);
                assert_true(asked[i] >= 0);
            }
            for (int i = 3; i >= 0; --i) {
                at_tried tried = landscape_try(made, asked[i], 0, &random);
                assert_ok(at_strategy_tell(strategy, &tried));
            }
        }
        at_strategy_destroy(strategy);
    }
}

static void what_others_looked_at_is_not_asked_for(void **state)
{
    (void)state;
    for (const at_strategy_kind *const *kind = at_strategy_kinds; *kind != NULL; ++kind) {
        at_strategy *strategy = create((*kind)->name, 3, 0);
        for (int candidate = 0; candidate < made->count; ++candidate) {
            if (candidate != made->order[1]) {
                at_strategy_offer(strategy, candidate);
            }
        }
        assert_int_equal(at_strategy_ask(strategy), made->order[1]);
        assert_int_equal(at_strategy_ask(strategy), -1);
        at_strategy_destroy(strategy);
    }
}

static void the_last_word_on_a_candidate_counts(void **state)
{
    (void)state;
    at_strategy *strategy = create("random", 3, 0);
    at_strategy_offer(strategy, 1);
    at_strategy_offer(strategy, 2);
    assert_ok(at_strategy_tell(strategy, &(at_tried){.candidate = 1, .log_us = 1}));
    assert_ok(at_strategy_tell(strategy, &(at_tried){.candidate = 2, .log_us = 2}));
    assert_int_equal(strategy->best, 1);
    assert_ok(at_strategy_tell(strategy, &(at_tried){.candidate = 1, .log_us = 3}));
    assert_int_equal(strategy->best, 2);
    assert_ok(at_strategy_tell(strategy, &(at_tried){.candidate = 2, .refused = AT_REFUSED_WRONG}));
    assert_int_equal(strategy->best, 1);
    assert_int_equal(strategy->tried_count, 2);
    at_strategy_destroy(strategy);
}

static void refuses_what_makes_no_sense(void **state)
{
    (void)state;
    at_strategy *strategy;
    at_strategy_options options = {.first = &(int){-1}, .first_count = 1};
    assert_fails(at_strategy_create("luck", made, &options, &strategy), ATTUNE_NOT_FOUND, "surrogate, generations");
    assert_null(strategy);
    assert_fails(at_strategy_create("random", made, &options, &strategy), ATTUNE_INVALID_ARGUMENT, "candidate -1");
    strategy = create(NULL, 1, 0);
    assert_string_equal(strategy->kind->name, at_strategy_kinds[0]->name);
    at_tried tried = {.candidate = 7, .log_us = 1};
    assert_fails(at_strategy_tell(strategy, &tried), ATTUNE_INVALID_ARGUMENT, "not asked for");
    at_strategy_offer(strategy, 7);
    tried.log_us = NAN;
    assert_fails(at_strategy_tell(strategy, &tried), ATTUNE_INVALID_ARGUMENT, "no number");
    at_strategy_destroy(strategy);
}

/* ---- Searching --------------------------------------------------------------------------------------------------- */

enum { SEEDS = 20, BUDGET = 60 };

/* Mean over seeds of the true log time of what was chosen; the bottom is 0. */
static double left_by(const char *name, double noise)
{
    double sum = 0;
    for (uint64_t seed = 0; seed < SEEDS; ++seed) {
        at_strategy *strategy = create(name, seed, BUDGET);
        assert_int_equal(drive(strategy, BUDGET, noise, NULL), BUDGET);
        sum += landscape_log_us(made, strategy->best);
        at_strategy_destroy(strategy);
    }
    return sum / SEEDS;
}

static void every_search_beats_chance(void **state)
{
    (void)state;
    double chance = left_by("random", 0);
    double noisy_chance = left_by("random", 0.02);
    assert_true(chance > 0.02);
    for (const at_strategy_kind *const *kind = at_strategy_kinds; *kind != NULL; ++kind) {
        if (*kind != at_strategy_find("random")) {
            double left = left_by((*kind)->name, 0);
            double noisy = left_by((*kind)->name, 0.02);
            if (left > chance / 2 || noisy > noisy_chance) {
                fail_msg("%s leaves %.4f (with noise %.4f), chance %.4f (%.4f)", (*kind)->name, left, noisy, chance,
                         noisy_chance);
            }
        }
    }
}

/* How many of the candidates after the first 20 are in the region that the compiler refuses. */
static int refusals_of(const char *name)
{
    int refused = 0;
    for (uint64_t seed = 0; seed < SEEDS; ++seed) {
        int asked[BUDGET] = {0};
        at_strategy *strategy = create(name, seed, BUDGET);
        (void)drive(strategy, BUDGET, 0, asked);
        for (int i = 20; i < BUDGET; ++i) {
            refused += landscape_refused(made, asked[i]);
        }
        at_strategy_destroy(strategy);
    }
    return refused;
}

static void refusals_teach(void **state)
{
    (void)state;
    int chance = refusals_of("random");
    for (const at_strategy_kind *const *kind = at_strategy_kinds; *kind != NULL; ++kind) {
        if (*kind != at_strategy_find("random")) {
            int refused = refusals_of((*kind)->name);
            if (refused > chance / 2) {
                fail_msg("%s asks for %d that are refused, chance for %d", (*kind)->name, refused, chance);
            }
        }
    }
}

/* ---- The origin's score ------------------------------------------------------------------------------------------ */

static void scores_as_the_origin_did(void **state)
{
    (void)state;
    at_figures none = {0};
    at_figures busy = {.tensor_percent = 40, .sm_percent = 70, .barriers = 3, .registers = 168, .spill_bytes = 16};
    assert_true(at_composite(2, &none) == 2000);
    assert_true(at_composite(2, &busy) == 2000 + 80 + 70 - 15 - 40 - 16);
}

static void the_score_can_be_the_fitness(void **state)
{
    (void)state;
    at_strategy_options options = {.fitness = AT_FITNESS_COMPOSITE};
    at_strategy *strategy;
    assert_ok(at_strategy_create("random", made, &options, &strategy));
    at_strategy_offer(strategy, 1);
    at_strategy_offer(strategy, 2);
    assert_ok(at_strategy_tell(strategy, &(at_tried){.candidate = 1, .log_us = 1, .figures.tensor_percent = 30}));
    assert_ok(at_strategy_tell(strategy, &(at_tried){.candidate = 2, .log_us = 0.99}));
    assert_int_equal(strategy->best, 1); /* 1060 against 1010: busier, not faster */
    assert_true(fabs(strategy->cost[1] + 1.06) < 1e-12);
    at_strategy_destroy(strategy);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(asks_for_everything_once),
        CASE(equal_seeds_search_alike),
        CASE(looks_at_what_was_known_before_first),
        CASE(several_may_be_asked_for_before_one_is_measured),
        CASE(what_others_looked_at_is_not_asked_for),
        CASE(the_last_word_on_a_candidate_counts),
        CASE(refuses_what_makes_no_sense),
        CASE(every_search_beats_chance),
        CASE(refusals_teach),
        CASE(scores_as_the_origin_did),
        CASE(the_score_can_be_the_fitness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
