/* Whole searches on a machine made of numbers: what they find, and that they find themselves out. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cm.h"
#include "base/folder.h"
#include "evolve/watched.h"

static double least_log_us(const at_space *space)
{
    double least = HUGE_VAL;
    for (int i = 0; i < space->count; ++i) {
        least = landscape_refused(space, i) ? least : fmin(least, landscape_log_us(space, i));
    }
    return least;
}

/* A search that begins with the kernel's own first choice, on a machine made of numbers. */
typedef struct scene {
    seen_events seen;
    fake_machine on;
    at_seed first[1];
    at_search_options options;
} scene;

static void set(scene *a, uint64_t seed, double noise)
{
    a->seen = (seen_events){0};
    a->on = fake_open(seed, noise);
    a->first[0] = (at_seed){a->on.space->order[0], "heuristic"};
    a->options = options_of(&a->on, a->first, 1, &a->seen);
}

/* ---- What is found ----------------------------------------------------------------------------------------------- */

static void what_is_found_is_near_the_best(void **state)
{
    (void)state;
    seen_events seen;
    fake_machine on = fake_open(1, 0.01);
    on.machine.process = 0.002;
    at_search_result result = run(&on, &seen);
    assert_int_equal(result.end, AT_SEARCH_GAIN);
    assert_true(landscape_log_us(on.space, result.winner) - least_log_us(on.space) < 0.03);
    assert_true(result.gain.low > 1);
    assert_float_equal(log(result.gain.middle),
                       landscape_log_us(on.space, on.space->order[0]) - landscape_log_us(on.space, result.winner),
                       0.02);
    assert_int_equal(result.measured + result.refused, 80);
    assert_int_equal(result.opponent, on.space->order[0]);
    assert_int_equal(result.author, on.space->order[0]);
    assert_float_equal(result.tuned.middle, result.gain.middle, 0.01);
    assert_true(seen.champions >= 1 && result.champions == seen.champions);
    assert_int_equal(on.mutants, 1);
    assert_false(seen.failed[AT_CHECK_PLACEBO] || seen.failed[AT_CHECK_MUTANT] || seen.failed[AT_CHECK_ALARM]);
    assert_non_null(strstr(seen.why[AT_CHECK_EXECUTION], "candidates were launched beside the champion"));
    assert_true(result.top_count == 8 && result.top_us[0] <= result.top_us[7]);
    fake_close(&on);
}

/* Whoever won twice stays, where the race is somebody's who compares afterwards. */
static void a_brief_search_may_do_without_a_final(void **state)
{
    (void)state;
    scene a;
    set(&a, 1, 0.002);
    a.options.brief = true;
    a.options.final_processes = a.options.final_processes_max = 0;
    at_search_result result = run_with(&a.on, &a.options);
    assert_int_equal(result.end, AT_SEARCH_GAIN);
    assert_int_equal(result.opponent, a.on.space->order[0]);
    assert_true(result.champions >= 1 && result.champions == a.seen.champions);
    assert_true(landscape_log_us(a.on.space, result.winner) - least_log_us(a.on.space) < 0.06);
    assert_float_equal(log(result.us / 100), landscape_log_us(a.on.space, result.winner), 0.05);
    assert_non_null(strstr(result.why, "no final"));
    fake_close(&a.on);
}

/* What tuning gained is measured from the first config of the kernel's own order, whatever the search began with. */
static void what_tuning_gained_is_over_the_authors_own(void **state)
{
    (void)state;
    scene a;
    set(&a, 1, 0.01);
    int near = a.on.space->order[1];
    for (int i = 0; i < a.on.space->count; ++i) {
        bool better = !landscape_refused(a.on.space, i) &&
                      landscape_log_us(a.on.space, i) < landscape_log_us(a.on.space, near) && i != a.on.space->order[0];
        near = better ? i : near;
    }
    const at_seed first[] = {{near, "wisdom"}, {a.on.space->order[0], "heuristic"}};
    a.options.first = first;
    a.options.first_count = 2;
    at_search_result result = run_with(&a.on, &a.options);
    assert_int_equal(result.author, a.on.space->order[0]);
    assert_true(result.tuned.low > 1 && result.tuned.low <= result.tuned.middle);
    assert_float_equal(log(result.tuned.middle),
                       landscape_log_us(a.on.space, a.on.space->order[0]) - landscape_log_us(a.on.space, result.winner),
                       0.02);
    fake_close(&a.on);
}

/* The best of all candidates, where the search begins with it: nothing is faster, and that is the answer. */
static void no_gain_is_an_answer(void **state)
{
    (void)state;
    seen_events seen = {0};
    fake_machine on = fake_open(2, 0.01);
    int best = 0;
    for (int i = 0; i < on.space->count; ++i) {
        best = !landscape_refused(on.space, i) && landscape_log_us(on.space, i) < landscape_log_us(on.space, best)
                   ? i
                   : best;
    }
    const at_seed first[] = {{best, "wisdom"}};
    at_search_options options = options_of(&on, first, 1, &seen);
    at_search_result result = run_with(&on, &options);
    assert_int_equal(result.end, AT_SEARCH_NO_GAIN);
    assert_true(landscape_log_us(on.space, result.winner) - least_log_us(on.space) < 0.03);
    fake_close(&on);
}

static void two_seeds_agree_within_the_band(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; ++seed) {
        double found[2];
        for (int i = 0; i < 2; ++i) {
            scene a;
            set(&a, 10 * seed + (uint64_t)i, 0.01);
            a.options.seed = a.options.policy.seed = 10 * seed + (uint64_t)i;
            a.options.budget_runs = 160;
            at_search_result result = run_with(&a.on, &a.options);
            found[i] = landscape_log_us(a.on.space, result.winner);
            fake_close(&a.on);
        }
        assert_true(fabs(found[0] - found[1]) < 0.02);
    }
}

/* Processes that differ leave it open who ties: more follow while there is time, and no more than the least without. */
static void a_final_takes_the_time_it_is_given(void **state)
{
    (void)state;
    static const double final_s[] = {0, 1};
    int processes[2] = {0};
    for (uint64_t seed = 1; seed <= 5; ++seed) {
        for (int i = 0; i < 2; ++i) {
            scene a;
            set(&a, seed, 0.002);
            a.on.second_s = 1;
            a.on.machine.process = 0.015;
            a.options.final_processes_max = 22;
            a.options.final_s = final_s[i];
            (void)run_with(&a.on, &a.options);
            processes[i] += a.on.machine.processes;
            fake_close(&a.on);
        }
    }
    assert_int_equal(processes[1], 5 * 4);
    assert_true(processes[0] > processes[1]);
}

/* What would run without the search may be another kernel's: it takes part in the final, and may win it. */
static void a_baseline_may_be_faster(void **state)
{
    (void)state;
    scene a;
    set(&a, 3, 0.01);
    a.options.baseline = a.on.space->count;
    a.on.machine.us[a.on.space->count] = 50;
    at_search_result result = run_with(&a.on, &a.options);
    assert_int_equal(result.end, AT_SEARCH_NO_GAIN);
    assert_int_equal(result.opponent, a.options.baseline);
    assert_true(result.winner >= 0 && result.gain.high < 1);
    fake_close(&a.on);
}

static void an_exhaustive_search_measures_every_candidate(void **state)
{
    (void)state;
    scene a;
    set(&a, 4, 0.005);
    a.options.exhaustive = true;
    a.options.budget_runs = 0;
    a.options.batch = AT_SEARCH_BATCH_MAX;
    at_search_result result = run_with(&a.on, &a.options);
    assert_int_equal(result.measured + result.refused, a.on.space->count);
    assert_true(landscape_log_us(a.on.space, result.winner) - least_log_us(a.on.space) < 0.02);
    fake_close(&a.on);
}

/* The origin's composite score may lead a strategy, and is reported; time alone makes champions. */
static void a_search_by_the_composite_score_is_judged_by_time(void **state)
{
    (void)state;
    scene a;
    set(&a, 13, 0.01);
    a.options.fitness = AT_FITNESS_COMPOSITE;
    a.options.strategy = "generations";
    at_search_result result = run_with(&a.on, &a.options);
    assert_int_equal(result.end, AT_SEARCH_GAIN);
    for (int i = 0; i < result.top_count;
         ++i) { /* nothing but speed is known of these: 1000 for the first champion's */
        double speedup = fake_us(&a.on, a.on.space->order[0]) / result.top_us[i];
        assert_float_equal(result.top_score[i], 1000 * speedup, 30);
    }
    fake_close(&a.on);
}

static void a_budget_in_seconds_ends_it(void **state)
{
    (void)state;
    scene a;
    set(&a, 5, 0.01);
    a.options.budget_runs = 0;
    a.options.budget_s = 10;
    a.on.second_s = 0.1; /* a question */
    at_search_result result = run_with(&a.on, &a.options);
    assert_true(result.measured > 8 && result.measured < 100);
    fake_close(&a.on);
}

/* ---- Who loses the machine --------------------------------------------------------------------------------------- */

static void a_device_that_fails_once_is_nobodys_fault(void **state)
{
    (void)state;
    seen_events seen;
    fake_machine on = fake_open(6, 0.01);
    on.machine.fails_at = 2; /* a block of the first heat */
    at_search_result result = run(&on, &seen);
    assert_int_equal(result.end, AT_SEARCH_GAIN);
    assert_true(on.machine.processes > 4);
    assert_int_equal(seen.launch_refusals, 0);
    fake_close(&on);
}

static void who_takes_the_device_down_is_found_and_refused(void **state)
{
    (void)state;
    for (int batch = 1; batch <= 8; batch += 7) {
        seen_events seen = {0};
        fake_machine on = fake_open(6, 0.01);
        on.machine.deadly = on.space->order[1];
        const at_seed first[] = {{on.space->order[0], "heuristic"}, {on.machine.deadly, "heuristic"}};
        at_search_options options = options_of(&on, first, 2, &seen);
        options.batch = batch;
        at_search_result result = run_with(&on, &options);
        assert_int_equal(result.end, AT_SEARCH_GAIN);
        assert_int_equal(seen.launch_refusals, 1);
        assert_int_equal(seen.last_launch_refusal, on.machine.deadly);
        fake_close(&on);
    }
}

/* Candidates are not to blame for what others do: the search ends, and may go on when the device is free. */
static void a_disturbed_device_refuses_nobody(void **state)
{
    (void)state;
    scene a;
    set(&a, 6, 0.01);
    at_search_result result;
    a.on.machine.disturbed = true;
    const at_machine at = fake_of(&a.on);
    assert_fails(at_search_run(&a.options, &at, NULL, NULL, &result), AT_DISTURBED, "others use the device");
    assert_int_equal(a.seen.launch_refusals, 0);
    fake_close(&a.on);
}

/* ---- Killed and gone on with ------------------------------------------------------------------------------------- */

static int questions_left; /* of the process that is to be killed; below 0: all it likes */

static void die_at_last(fake_machine *on)
{
    (void)on;
    if (questions_left >= 0 && questions_left-- == 0) {
        (void)kill(getpid(), SIGKILL);
    }
}

/* A search with a ledger, noiseless so that its course is known; exit code 0 at its end. */
static int search_with_ledger(const char *path, int questions)
{
    scene a;
    set(&a, 1, 0);
    at_event start = {.kind = AT_EVENT_START};
    at_ledger *ledger;
    at_ledger_log *before = NULL;
    at_search_result result;
    questions_left = questions;
    a.on.passes = die_at_last;
    const at_machine at = fake_of(&a.on);
    attune_status status =
        access(path, F_OK) == 0 ? at_ledger_resume(path, &ledger, &before) : at_ledger_create(path, &start, &ledger);
    status = status == ATTUNE_OK ? at_search_run(&a.options, &at, ledger, before, &result) : status;
    if (status != ATTUNE_OK) {
        (void)fprintf(stderr, "%s\n", attune_last_detail());
        return 1;
    }
    at_event end = {.kind = AT_EVENT_END, .as.end = {.measured = result.measured}};
    (void)snprintf(end.as.end.outcome, sizeof end.as.end.outcome, "%s", at_search_end_name(result.end));
    at_space_print(a.on.space, result.winner, end.as.end.best);
    status = at_ledger_append(ledger, &end);
    at_ledger_close(ledger);
    at_ledger_free(before);
    fake_close(&a.on);
    return status == ATTUNE_OK ? 0 : 1;
}

/* A duel has three arms: champion, copy and challenger. */
static void spoil_duels(fake_machine *on)
{
    on->machine.second_place = on->machine.arms == 3 ? 0.2 : 0;
}

static int champions_of(const char *path, bool resumed)
{
    scene a;
    set(&a, 1, 0);
    at_event start = {.kind = AT_EVENT_START};
    at_ledger *ledger;
    at_ledger_log *before = NULL;
    at_search_result result;
    a.on.passes = spoil_duels;
    const at_machine at = fake_of(&a.on);
    assert_ok(resumed ? at_ledger_resume(path, &ledger, &before) : at_ledger_create(path, &start, &ledger));
    assert_ok(at_search_run(&a.options, &at, ledger, before, &result));
    assert_int_not_equal(result.end, AT_SEARCH_VOID);
    assert_true(!resumed || result.reused > 0);
    at_ledger_close(ledger);
    at_ledger_free(before);
    fake_close(&a.on);
    return result.champions;
}

/* Whoever won a duel in which the copy of the champion did not tie has won nothing, in the process after it too. */
static void a_duel_that_was_not_fair_stays_so(void **state)
{
    (void)state;
    folder in;
    assert_int_equal(folder_make(&in), 0);
    const char *path = folder_file(&in, "search.jsonl");
    assert_int_equal(champions_of(path, false), 0);
    assert_int_equal(champions_of(path, true), 0);
    folder_remove(&in);
}

/* Each is held against the champion as it was timed beside it, and not in another process on a slower day. */
static void times_are_written_beside_their_own_champion(void **state)
{
    (void)state;
    folder in;
    seen_events seen = {0};
    fake_machine on = fake_open(1, 0);
    at_event start = {.kind = AT_EVENT_START};
    at_ledger *ledger;
    at_ledger_log *read;
    at_search_result result;
    on.machine.drift = 0.01; /* a block: all of a block alike */
    on.machine.deadly = on.space->order[1];
    const at_seed first[] = {{on.space->order[0], "heuristic"}, {on.machine.deadly, "heuristic"}};
    at_search_options options = options_of(&on, first, 2, &seen);
    const at_machine at = fake_of(&on);
    assert_int_equal(folder_make(&in), 0);
    const char *path = folder_file(&in, "search.jsonl");
    assert_ok(at_ledger_create(path, &start, &ledger));
    assert_ok(at_search_run(&options, &at, ledger, NULL, &result));
    at_ledger_close(ledger);
    assert_int_equal(seen.launch_refusals, 1);
    assert_ok(at_ledger_read(path, &read));
    int looked_at = 0;
    for (size_t i = 0; i < read->count; ++i) {
        const at_event_measurement *one = &read->event[i].as.measurement;
        if (read->event[i].kind != AT_EVENT_MEASUREMENT || one->round != 0 || one->pairs == 1) {
            continue;
        }
        double wanted = landscape_log_us(on.space, at_space_find_text(on.space, one->config)) -
                        landscape_log_us(on.space, at_space_find_text(on.space, one->champion));
        for (int k = 0; k < one->pairs; ++k) {
            assert_float_equal(log(one->us[k] / one->champion_us[k]), wanted, 1e-9);
        }
        ++looked_at;
    }
    assert_true(looked_at > 20);
    at_ledger_free(read);
    folder_remove(&in);
    fake_close(&on);
}

/* In a process of its own, started by exec. Whether it came to its end. */
static bool run_apart(const char *path, int questions)
{
    char number[16];
    int status = 0;
    (void)snprintf(number, sizeof number, "%d", questions);
    pid_t child = fork();
    if (child == 0) {
        (void)execl("/proc/self/exe", "test_search", path, number, (char *)NULL);
        _exit(9);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return false;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    return true;
}

static at_ledger_log *read_log(const char *path)
{
    at_ledger_log *log;
    assert_ok(at_ledger_read(path, &log));
    return log;
}

/* A machine that lost its power in the middle of a write. */
static void tear(const char *path, at_random *random)
{
    at_ledger_log *log = read_log(path);
    off_t bytes = (off_t)log->bytes;
    at_ledger_free(log);
    if (at_random_below(random, 3) == 0) {
        FILE *file = fopen(path, "a");
        assert_non_null(file);
        (void)fputs("{\"seq\":12,\"kind\":\"measu", file);
        assert_int_equal(fclose(file), 0);
        assert_true(bytes > 0);
    }
}

/* No candidate is measured twice beside the same champion in the same round. */
static int count_measurements(const at_ledger_log *log)
{
    int count = 0;
    for (size_t i = 0; i < log->count; ++i) {
        const at_event_measurement *one = &log->event[i].as.measurement;
        if (log->event[i].kind != AT_EVENT_MEASUREMENT) {
            continue;
        }
        ++count;
        for (size_t k = 0; k < i; ++k) {
            const at_event_measurement *other = &log->event[k].as.measurement;
            bool twice = log->event[k].kind == AT_EVENT_MEASUREMENT && one->round == other->round &&
                         strcmp(one->config, other->config) == 0 && strcmp(one->champion, other->champion) == 0;
            if (twice) {
                fail_msg("%s was measured twice in round %d", one->config, one->round);
            }
        }
    }
    return count;
}

static void killed_at_fifty_points_it_ends_as_if_it_had_not_been(void **state)
{
    (void)state;
    folder in;
    char killed[PATH_MAX], whole[PATH_MAX];
    at_random random = at_random_seed(5, 5);
    int kills = 0;
    assert_int_equal(folder_make(&in), 0);
    (void)folder_path(&in, "killed.jsonl", killed);
    (void)folder_path(&in, "whole.jsonl", whole);
    assert_true(run_apart(whole, -1));
    for (bool over = false; kills < 50 && !over;) {
        /* Few questions beyond what the ledger has: in the making of its start, in tries, blocks, duels, the final. */
        over = run_apart(killed, (int)at_random_below(&random, 14));
        kills += !over;
        if (!over && access(killed, F_OK) == 0) {
            tear(killed, &random);
        }
    }
    assert_int_equal(kills, 50);
    assert_true(run_apart(killed, -1));
    at_ledger_log *one = read_log(whole), *other = read_log(killed);
    assert_true(one->ended && other->ended);
    assert_string_equal(one->event[one->count - 1].as.end.best, other->event[other->count - 1].as.end.best);
    assert_string_equal(one->event[one->count - 1].as.end.outcome, other->event[other->count - 1].as.end.outcome);
    assert_int_equal(count_measurements(one), count_measurements(other));
    at_ledger_free(one);
    at_ledger_free(other);
    folder_remove(&in);
}

static void what_is_asked_for_must_be_possible(void **state)
{
    (void)state;
    seen_events seen = {0};
    fake_machine on = fake_open(1, 0);
    at_search_result result;
    const at_seed first[] = {{0, "heuristic"}};
    at_search_options options = options_of(&on, first, 0, &seen);
    const at_machine at = fake_of(&on);
    assert_fails(at_search_run(&options, &at, NULL, NULL, &result), ATTUNE_INVALID_ARGUMENT, "to begin with");
    options.first_count = 1;
    options.batch = 99;
    assert_fails(at_search_run(&options, &at, NULL, NULL, &result), ATTUNE_INVALID_ARGUMENT, "batches of 99");
    options.batch = 8;
    options.strategy = "luck";
    assert_fails(at_search_run(&options, &at, NULL, NULL, &result), ATTUNE_NOT_FOUND, "luck");
    options.strategy = NULL;
    for (int i = 0; i < on.space->count; ++i) {
        on.machine.refused[i] = AT_REFUSED_LAUNCH;
    }
    assert_fails(at_search_run(&options, &at, NULL, NULL, &result), ATTUNE_UNSUPPORTED, "none of the 1 configs");
    fake_close(&on);
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        return search_with_ledger(argv[1], atoi(argv[2]));
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_found_is_near_the_best),
        cmocka_unit_test(a_brief_search_may_do_without_a_final),
        cmocka_unit_test(what_tuning_gained_is_over_the_authors_own),
        cmocka_unit_test(no_gain_is_an_answer),
        cmocka_unit_test(two_seeds_agree_within_the_band),
        cmocka_unit_test(a_final_takes_the_time_it_is_given),
        cmocka_unit_test(a_baseline_may_be_faster),
        cmocka_unit_test(an_exhaustive_search_measures_every_candidate),
        cmocka_unit_test(a_search_by_the_composite_score_is_judged_by_time),
        cmocka_unit_test(a_budget_in_seconds_ends_it),
        cmocka_unit_test(a_device_that_fails_once_is_nobodys_fault),
        cmocka_unit_test(who_takes_the_device_down_is_found_and_refused),
        cmocka_unit_test(a_disturbed_device_refuses_nobody),
        cmocka_unit_test(a_duel_that_was_not_fair_stays_so),
        cmocka_unit_test(times_are_written_beside_their_own_champion),
        cmocka_unit_test(killed_at_fifty_points_it_ends_as_if_it_had_not_been),
        cmocka_unit_test(what_is_asked_for_must_be_possible),
    };
    return cmocka_run_group_tests_name("evolve.search", tests, NULL, NULL);
}
