/* Races on machines made of numbers, whose truth is known. */
#include "base/cm.h"
#include "evolve/synthetic.h"

enum { SEEDS = 200 };

static int64_t by_number(void *self, int candidate)
{
    (void)self;
    return candidate;
}

/* Candidates 1 ... count race against candidate 0. */
static at_heat run(synthetic *on, uint64_t seed, int count)
{
    static at_heat heat;
    at_race_policy policy;
    const at_racer racer = synthetic_racer(on);
    at_race_policy_init(&policy, seed);
    memset(&heat, 0, sizeof heat);
    heat.count = count;
    for (int i = 0; i < count; ++i) {
        heat.entrant[i].candidate = i + 1;
    }
    assert_ok(at_heat_run(&policy, &racer, &heat));
    return heat;
}

static int winner_of(const at_heat *heat)
{
    at_race_policy policy;
    at_race_policy_init(&policy, 1);
    return at_heat_winner(&policy, heat, by_number, NULL);
}

static at_race_result duel(synthetic *on, uint64_t seed, int challenger)
{
    at_race_policy policy;
    const at_racer racer = synthetic_racer(on);
    at_heat heat = {.count = 1, .entrant = {{.candidate = challenger}}};
    at_race_policy_init(&policy, seed);
    assert_ok(at_heat_duel(&policy, &racer, &heat));
    return heat.entrant[0].result;
}

/* ---- Arithmetic -------------------------------------------------------------------------------------------------- */

static void a_trimmed_mean_bears_an_extreme(void **state)
{
    (void)state;
    const double even[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const double torn[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1200};
    at_interval plain, bent;
    assert_ok(at_trimmed_mean(even, 12, 0.95, &plain));
    assert_ok(at_trimmed_mean(torn, 12, 0.95, &bent));
    assert_float_equal(plain.middle, 6.5, 1e-12);
    assert_float_equal(bent.middle, 6.5, 1e-12);
    assert_float_equal(bent.high, plain.high, 1e-12);
    /* 8 values are kept; the winsorised deviation is sqrt(91 / 11): 2.8762; times sqrt(12) / 8 and t(7) = 2.3646. */
    assert_float_equal(plain.high - 6.5, 2.3646 * 2.8762 * 3.4641 / 8, 1e-3);
}

static void of_three_values_it_is_students(void **state)
{
    (void)state;
    const double values[] = {1, 2, 3};
    at_interval got, wanted;
    assert_ok(at_trimmed_mean(values, 3, 0.95, &got));
    assert_ok(at_student_mean(values, 3, 0.95, &wanted));
    assert_float_equal(got.low, wanted.low, 1e-12);
    assert_float_equal(got.high, wanted.high, 1e-12);
}

static void two_values_bound_nothing(void **state)
{
    (void)state;
    const double values[] = {1, 2};
    at_interval got;
    assert_ok(at_trimmed_mean(values, 2, 0.95, &got));
    assert_float_equal(got.middle, 1.5, 1e-12);
    assert_true(isinf(got.low) && isinf(got.high));
    assert_fails(at_trimmed_mean(values, 0, 0.95, &got), ATTUNE_INVALID_ARGUMENT, "0 values");
}

/* An interruption makes one of two samples longer. */
static void the_shorter_of_two_samples_can_count(void **state)
{
    (void)state;
    const double us[][2] = {{100, 160}, {102, 101}, {150, 99}, {100, 100}, {101, 220}, {100, 101}};
    const double champion_us[][2] = {{110, 110}, {112, 111}, {109, 110}, {240, 110}, {110, 111}, {111, 110}};
    at_race_policy policy;
    at_interval mean, shorter;
    at_race_policy_init(&policy, 1);
    assert_ok(at_race_ratio(&policy, us, champion_us, 6, &mean));
    policy.shorter = true;
    assert_ok(at_race_ratio(&policy, us, champion_us, 6, &shorter));
    assert_float_equal(shorter.middle, log(100.0 / 110), 0.01);
    assert_true(shorter.high < -0.05 && mean.high > 0);
}

/* Who seems faster, and is not shown to be, is timed for longer where the policy has more blocks; who does not is not.
 */
static void what_is_open_is_timed_for_longer(void **state)
{
    enum { MORE = 36, FEW = 12 };
    (void)state;
    int shown[2] = {0}, longer[2] = {0}, copies = 0;
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        for (int more = 0; more < 2; ++more) {
            synthetic on = synthetic_of(seed, 0.06);
            const at_racer racer = synthetic_racer(&on);
            on.us[1] = 94;
            for (int candidate = 1; candidate <= 2; ++candidate) {
                at_race_policy policy;
                at_race_policy_init(&policy, seed);
                policy.blocks_more = more * MORE;
                at_heat heat = {.count = 1, .entrant = {{.candidate = candidate}}};
                assert_ok(at_heat_run(&policy, &racer, &heat));
                assert_in_range(heat.blocks, 3, more > 0 ? MORE : FEW);
                shown[more] += candidate == 1 && heat.entrant[0].result == AT_RACE_WON;
                longer[candidate - 1] += more > 0 && heat.blocks > FEW;
                copies += candidate == 2 && heat.entrant[0].result == AT_RACE_WON;
            }
        }
    }
    assert_true(shown[1] > shown[0] + SEEDS / 10);
    assert_true(longer[1] < longer[0] && longer[1] < SEEDS / 2);
    assert_in_range(copies, 0, SEEDS / 20); /* who wins must win twice */
}

/* ---- Heats ------------------------------------------------------------------------------------------------------- */

/* Interrupts may hide who is faster in one race of a hundred; they never make another one win. */
static void the_faster_one_wins_and_the_slower_leaves(void **state)
{
    (void)state;
    int wins = 0, losses = 0, ties = 0;
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        synthetic on = synthetic_of(seed, 0.02);
        on.spikes = 0.02;
        on.drift = 0.01;
        on.us[1] = 120;
        on.us[2] = 80;
        at_heat heat = run(&on, seed, 3);
        int winner = winner_of(&heat);
        assert_true(winner == 1 || winner == -1);
        assert_true(heat.fair);
        assert_float_equal(heat.entrant[1].ratio.middle, log(0.8), 0.06);
        wins += winner == 1 && duel(&on, seed, 2) == AT_RACE_WON;
        losses += heat.entrant[0].result == AT_RACE_LOST;
        ties += heat.entrant[2].result == AT_RACE_TIED;
    }
    assert_true(wins >= SEEDS * 97 / 100 && losses >= SEEDS * 97 / 100 && ties >= SEEDS * 9 / 10);
}

/* The origin's "best" was the luckiest of 51 measurements of one and the same thing. */
static void the_luckiest_of_fifty_copies_does_not_win(void **state)
{
    (void)state;
    int naive = 0, lucky = 0;
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        synthetic on = synthetic_of(seed, 0.03);
        on.spikes = 0.02;
        double luckiest = 1e9, champion = 0;
        for (int heats = 0; heats < 4; ++heats) {
            at_heat heat = run(&on, seed * 10 + (uint64_t)heats, 13);
            int winner = winner_of(&heat);
            if (winner >= 0) {
                ++lucky;
                assert_int_not_equal(duel(&on, seed, heat.entrant[winner].candidate), AT_RACE_WON);
            }
            for (int i = 0; i < heat.count; ++i) {
                luckiest = fmin(luckiest, heat.entrant[i].us[0][0]);
                champion = heats == 0 ? heat.champion.us[0][0] : champion;
            }
        }
        naive += luckiest < 0.98 * champion;
    }
    assert_true(naive > SEEDS * 3 / 4); /* what one would have believed who takes the least of single samples */
    assert_true(lucky > 0);             /* one heat in many is won by luck, which is what the duel is for */
}

static void who_is_hopeless_is_timed_once(void **state)
{
    (void)state;
    synthetic on = synthetic_of(1, 0.01);
    on.us[1] = 400;
    on.us[2] = 90;
    at_heat heat = run(&on, 1, 2);
    assert_int_equal(heat.entrant[0].blocks, 1);
    assert_int_equal(heat.entrant[0].result, AT_RACE_LOST);
    assert_true(heat.entrant[1].blocks >= 3);
}

static void after_one_launch_that_is_too_slow_there_is_no_second(void **state)
{
    (void)state;
    synthetic on = synthetic_of(1, 0.01);
    on.us[1] = 100000;
    at_heat heat = run(&on, 1, 1);
    assert_int_equal(heat.entrant[0].result, AT_RACE_SLOW);
    assert_int_equal(on.staged, 0);
    assert_int_equal(on.tried, 2);
    assert_float_equal(heat.entrant[0].ratio.middle, log(100500. / 600), 1e-9);
}

static void who_is_refused_is_not_staged(void **state)
{
    (void)state;
    synthetic on = synthetic_of(1, 0.01);
    on.refused[1] = AT_REFUSED_WRONG;
    on.us[2] = 50;
    at_heat heat = run(&on, 1, 2);
    assert_int_equal(heat.entrant[0].result, AT_RACE_REFUSED);
    assert_int_equal(heat.entrant[0].first.refused, AT_REFUSED_WRONG);
    assert_string_equal(heat.entrant[0].first.why, "it cannot");
    assert_int_equal(winner_of(&heat), 1);
}

/* Right once, and wrong where it is timed: it leaves, and the others' times machine. */
static void who_is_wrong_when_timed_has_no_time(void **state)
{
    (void)state;
    synthetic on = synthetic_of(1, 0.01);
    on.bad_stage = 1;
    on.bad_block = 3;
    on.us[1] = on.us[3] = 50;
    on.us[2] = 80;
    at_heat heat = run(&on, 1, 3);
    assert_int_equal(heat.entrant[0].result, AT_RACE_REFUSED);
    assert_string_equal(heat.entrant[0].first.why, "wrong on other inputs");
    assert_int_equal(heat.entrant[2].result, AT_RACE_REFUSED);
    assert_string_equal(heat.entrant[2].first.why, "wrong in a timed call");
    assert_int_equal(winner_of(&heat), 1);
    assert_true(heat.entrant[1].blocks > 3);
}

static void a_champion_that_is_refused_fails_the_heat(void **state)
{
    (void)state;
    at_race_policy policy;
    at_heat heat = {.count = 0};
    synthetic on = synthetic_of(1, 0.01);
    const at_racer racer = synthetic_racer(&on);
    at_race_policy_init(&policy, 1);
    on.refused[0] = AT_REFUSED_LAUNCH;
    assert_fails(at_heat_run(&policy, &racer, &heat), ATTUNE_WRONG_RESULT, "the champion: it cannot");
}

static void ties_are_broken_by_the_key_whatever_was_measured(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        synthetic on = synthetic_of(seed, 0.005);
        on.us[1] = 80.5; /* the lesser key of two that differ by less than the band */
        on.us[2] = 80;
        on.us[3] = 92;
        at_heat heat = run(&on, seed, 3);
        assert_int_equal(winner_of(&heat), 0);
    }
}

/* A heat whose arms are not treated alike shows it by the copy of its own champion. */
static void the_placebo_shows_an_unfair_heat(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        synthetic on = synthetic_of(seed, 0.005);
        on.us[1] = 50;
        on.second_place = 0.1;
        at_heat heat = run(&on, seed, 1);
        assert_false(heat.fair);
    }
}

static void the_whole_of_a_heat_is_timed_for_ground_truth(void **state)
{
    (void)state;
    at_race_policy policy;
    synthetic on = synthetic_of(1, 0.01);
    const at_racer racer = synthetic_racer(&on);
    at_heat heat = {.champion = {.candidate = 0}, .count = 2, .entrant = {{.candidate = 1}, {.candidate = 2}}};
    at_race_policy_init(&policy, 1);
    policy.whole = true;
    policy.blocks_max = 8;
    on.us[1] = 120;
    on.us[2] = 1000;
    assert_ok(at_heat_run(&policy, &racer, &heat));
    assert_int_equal(heat.entrant[0].blocks, 8);
    assert_int_equal(heat.entrant[1].blocks, 3); /* far off: known well enough */
}

static void what_fails_is_forwarded(void **state)
{
    (void)state;
    at_race_policy policy;
    synthetic on = synthetic_of(1, 0.01);
    const at_racer racer = synthetic_racer(&on);
    at_heat heat = {.count = 1, .entrant = {{.candidate = 1}}};
    at_race_policy_init(&policy, 1);
    on.fails_at = 2;
    assert_fails(at_heat_run(&policy, &racer, &heat), ATTUNE_DEVICE_ERROR, "the machine is gone");
    heat.count = AT_HEAT_MAX + 1;
    assert_fails(at_heat_run(&policy, &racer, &heat), ATTUNE_INVALID_ARGUMENT, "at most 14");
    heat.count = 1;
    policy.blocks_min = 2;
    assert_fails(at_heat_run(&policy, &racer, &heat), ATTUNE_INVALID_ARGUMENT, "2 to 12 blocks");
}

/* ---- Finals ------------------------------------------------------------------------------------------------------ */

static at_final final_of(synthetic *on, uint64_t seed, int count, int from, int processes_max)
{
    at_race_policy policy;
    const at_racer racer = synthetic_racer(on);
    at_final final = {.count = count, .from = from, .processes_min = 4, .processes_max = processes_max, .blocks = 6};
    at_race_policy_init(&policy, seed);
    for (int i = 0; i < count; ++i) {
        final.candidate[i] = count - 1 - i;
    }
    assert_ok(at_final_run(&policy, &racer, by_number, NULL, &final));
    return final;
}

/* Every process favours others; what is shown to differ by less than the band is a tie, and the key decides it. */
static void two_finals_agree_where_processes_differ(void **state)
{
    (void)state;
    int others = 0;
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        synthetic on = synthetic_of(seed, 0.01);
        on.process = 0.005;
        on.us[1] = 99.2;
        on.us[2] = 120;
        at_final final = final_of(&on, seed, 3, 0, 19);
        assert_int_equal(on.processes, final.processes);
        assert_int_equal(final.candidate[0], 2);
        others += final.candidate[final.winner] != 0;
    }
    assert_true(others <= SEEDS / 100);
}

static void a_final_finds_who_is_faster(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        synthetic on = synthetic_of(seed, 0.01);
        on.process = 0.003;
        on.us[1] = 90;
        at_final final = final_of(&on, seed, 3, 0, 16);
        int winner = final.winner;
        assert_int_equal(final.candidate[winner], 1);
        assert_int_equal(final.processes, 4);
        assert_true(final.fair);
        assert_float_equal(final.us[winner], 90, 3);
        assert_true(final.ratio[winner].high < 0);
    }
}

/* Those before `from` are for comparison: here the fastest, which cannot win. */
static void who_is_there_for_comparison_does_not_win(void **state)
{
    (void)state;
    synthetic on = synthetic_of(1, 0.01);
    on.us[2] = 50;
    on.us[1] = 90;
    at_final final = final_of(&on, 1, 3, 1, 4);
    assert_int_equal(final.candidate[final.winner], 1);
    assert_true(final.ratio[1].low > 0);
    assert_float_equal(final.behind[1].middle, 0, 1e-12);
}

/* Of finals between 0, which the key prefers, and 1: how many took 0. Every process favours one of them. */
static int preferred_of(double us, double process, int processes_max, int *longer)
{
    int preferred = 0;
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        synthetic on = synthetic_of(seed, 0.01);
        on.process = process;
        on.us[1] = us;
        at_final final = final_of(&on, seed, 2, 0, processes_max);
        assert_int_equal(on.processes, final.processes);
        assert_true(final.processes % 3 == 1);
        preferred += final.candidate[final.winner] == 0;
        *longer += final.processes > 4;
    }
    return preferred;
}

/* However much processes differ, by two or three percent here: what is four percent slower does not win by the key,
 * and what is as fast does. Four processes alone cannot tell the two. */
static void a_tie_that_the_key_decides_is_a_tie(void **state)
{
    (void)state;
    const double bias[] = {0.02, 0.025, 0.03};
    int longer = 0;
    for (int i = 0; i < 3; ++i) {
        assert_true(preferred_of(100, bias[i], 22, &longer) >= SEEDS * 95 / 100);
        assert_true(preferred_of(96, bias[i], 22, &longer) <= SEEDS * 5 / 100);
    }
    assert_true(longer > 4 * SEEDS);
    assert_true(preferred_of(96, 0.03, 4, &longer) > SEEDS * 10 / 100);
}

/* At the band's edge finals may differ, by no more than the band: that 0 is within it has to be shown. */
static void what_is_not_shown_to_be_within_the_band_is_no_tie(void **state)
{
    (void)state;
    int longer = 0;
    assert_true(preferred_of(100 / 1.022, 0.006, 19, &longer) <= SEEDS / 100);
    assert_true(preferred_of(100 / 1.02, 0.006, 19, &longer) <= SEEDS * 2 / 100);
    assert_true(preferred_of(100 / 1.006, 0.006, 19, &longer) >= SEEDS * 98 / 100);
}

/* Neither does one whose slower ones are shown to be slower, nor one whose fastest the key prefers, whoever else may
 * tie with it. */
static void a_final_is_no_longer_than_the_winner_needs(void **state)
{
    (void)state;
    int longer = 0;
    assert_int_equal(preferred_of(94, 0.002, 19, &longer), 0);
    assert_int_equal(preferred_of(100, 0.0005, 19, &longer), SEEDS);
    assert_int_equal(preferred_of(108, 0.014, 19, &longer), SEEDS);
    assert_true(longer <= SEEDS / 10);
}

static bool there_is_no_time(void *self)
{
    ++*(int *)self;
    return false;
}

/* The least number of processes is always run, and then who is open is decided by what is known. */
static void a_final_ends_where_time_does(void **state)
{
    (void)state;
    synthetic on = synthetic_of(1, 0.01);
    at_race_policy policy;
    const at_racer racer = synthetic_racer(&on);
    int asked = 0;
    at_final final = {.count = 2,
                      .candidate = {0, 1},
                      .processes_min = 4,
                      .processes_max = 22,
                      .blocks = 6,
                      .may_go_on = there_is_no_time};
    at_race_policy_init(&policy, 1);
    on.process = 0.03;
    assert_ok(at_final_run(&policy, &racer, by_number, &asked, &final));
    assert_int_equal(final.processes, 4);
    assert_int_equal(asked, 1);
    assert_true(final.winner >= 0);
}

/* What a place on the stage is worth is nobody's: arms change places. */
static void a_final_is_fair_to_every_place(void **state)
{
    (void)state;
    int preferred = 0;
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        synthetic on = synthetic_of(seed, 0.005);
        on.second_place = 0.03; /* candidate 0 has it, by the list */
        at_final final = final_of(&on, seed, 2, 0, 19);
        preferred += final.candidate[final.winner] == 0;
    }
    assert_true(preferred >= SEEDS * 95 / 100);
}

static void a_final_needs_three_processes(void **state)
{
    (void)state;
    at_race_policy policy;
    synthetic on = synthetic_of(1, 0.01);
    const at_racer racer = synthetic_racer(&on);
    at_final final = {.count = 1, .processes_min = 2, .processes_max = 4, .blocks = 6};
    at_race_policy_init(&policy, 1);
    assert_fails(at_final_run(&policy, &racer, by_number, NULL, &final), ATTUNE_INVALID_ARGUMENT, "2 to 4 processes");
    final.processes_min = 5;
    assert_fails(at_final_run(&policy, &racer, by_number, NULL, &final), ATTUNE_INVALID_ARGUMENT, "5 to 4 processes");
    final.processes_min = 4;
    final.from = 1;
    assert_fails(at_final_run(&policy, &racer, by_number, NULL, &final), ATTUNE_INVALID_ARGUMENT,
                 "1 candidates from 1 on");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trimmed_mean_bears_an_extreme),
        cmocka_unit_test(of_three_values_it_is_students),
        cmocka_unit_test(two_values_bound_nothing),
        cmocka_unit_test(the_shorter_of_two_samples_can_count),
        cmocka_unit_test(what_is_open_is_timed_for_longer),
        cmocka_unit_test(the_faster_one_wins_and_the_slower_leaves),
        cmocka_unit_test(the_luckiest_of_fifty_copies_does_not_win),
        cmocka_unit_test(who_is_hopeless_is_timed_once),
        cmocka_unit_test(after_one_launch_that_is_too_slow_there_is_no_second),
        cmocka_unit_test(who_is_refused_is_not_staged),
        cmocka_unit_test(who_is_wrong_when_timed_has_no_time),
        cmocka_unit_test(a_champion_that_is_refused_fails_the_heat),
        cmocka_unit_test(ties_are_broken_by_the_key_whatever_was_measured),
        cmocka_unit_test(the_placebo_shows_an_unfair_heat),
        cmocka_unit_test(the_whole_of_a_heat_is_timed_for_ground_truth),
        cmocka_unit_test(what_fails_is_forwarded),
        cmocka_unit_test(two_finals_agree_where_processes_differ),
        cmocka_unit_test(a_final_finds_who_is_faster),
        cmocka_unit_test(who_is_there_for_comparison_does_not_win),
        cmocka_unit_test(a_tie_that_the_key_decides_is_a_tie),
        cmocka_unit_test(what_is_not_shown_to_be_within_the_band_is_no_tie),
        cmocka_unit_test(a_final_is_no_longer_than_the_winner_needs),
        cmocka_unit_test(a_final_is_fair_to_every_place),
        cmocka_unit_test(a_final_ends_where_time_does),
        cmocka_unit_test(a_final_needs_three_processes),
    };
    return cmocka_run_group_tests_name("evolve.race", tests, NULL, NULL);
}
