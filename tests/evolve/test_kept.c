/* The default strategy on the kept ledgers of exhaustive searches: no clock, no device, always the same answer.
 *
 * The problems in held_out were not looked at before the default was fixed; those in training are what it was chosen
 * on, and are there for whoever wants to choose again. Sanitized builds take some of the seeds. */
#include "base/cm.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "evolve/study.h"

#ifdef ATTUNE_SANITIZED
enum { SEEDS = 2 };
#else
enum { SEEDS = 20 };
#endif

#define LEDGERS ATTUNE_SOURCE_DIR "/tests/evolve/ledgers/"

/* What a strategy reached on a folder's ledgers, with 15 % of their measurements, and with 5 %. */
typedef struct reached {
    int ledgers;
    double all, third; /* means over ledgers and seeds */
    double worst;      /* mean over the seeds of the ledger that is worst */
} reached;

static void replay(const at_recorded *recorded, const char *strategy, bool blind, reached *of)
{
    at_study *study;
    at_replay_options options = {
        .strategy = strategy, .seed = 1, .budget = recorded->space->count * 15 / 100, .look = 5, .blind = blind};
    assert_ok(at_study_run(recorded, &options, SEEDS, 0.97, &study));
    double all = study->mean[study->budget - 1];
    double third = study->mean[study->budget / 3 - 1];
    of->all += (all - of->all) / (of->ledgers + 1);
    of->third += (third - of->third) / (of->ledgers + 1);
    of->worst = of->ledgers == 0 || all < of->worst ? all : of->worst;
    ++of->ledgers;
    at_study_free(study);
}

/* The smallest space is large enough to be searched. */
static void look_at_space(const at_space *space)
{
    assert_true(space->count >= 300);
    assert_true(at_space_live(space) >= 5);
}

static reached replay_all(const char *folder, const char *strategy, bool blind)
{
    reached of = {0};
    char path[512];
    (void)snprintf(path, sizeof path, "%s%s", LEDGERS, folder);
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        at_ledger_log *log;
        at_recorded *recorded;
        (void)snprintf(path, sizeof path, "%s%s/%s", LEDGERS, folder, entry->d_name);
        assert_ok(at_ledger_read(path, &log));
        assert_true(log->ended && log->torn_bytes == 0);
        assert_ok(at_recorded_open(log, &recorded));
        look_at_space(recorded->space);
        replay(recorded, strategy, blind, &of);
        at_recorded_close(recorded);
        at_ledger_free(log);
    }
    (void)closedir(directory);
    return of;
}

/* The default's claim, and that it is one: chance does worse with as many measurements, and with a third of them. */
static void the_default_is_worth_its_measurements(void **state)
{
    (void)state;
    reached found = replay_all("held_out", NULL, false);
    reached chance = replay_all("held_out", "random", false);
    print_message("the default reached %.4f, on the worst %.4f; random %.4f\n", found.all, found.worst, chance.all);
    assert_int_equal(found.ledgers, 6);
    assert_true(found.worst >= 0.97);
    assert_true(found.all > chance.all);
    assert_true(found.third >= 0.97);
    assert_true(found.third > chance.third);
}

/* It is a search that finds, and not the heuristic's order alone. */
static void without_the_heuristic_too(void **state)
{
    (void)state;
    reached found = replay_all("held_out", NULL, true);
    reached chance = replay_all("held_out", "random", true);
    print_message("blind, the default reached %.4f, on the worst %.4f; random %.4f\n", found.all, found.worst,
                  chance.all);
    assert_true(found.worst >= 0.97);
    assert_true(found.all > chance.all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_worth_its_measurements),
        cmocka_unit_test(without_the_heuristic_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
