/* The instrument, tried on machines made of numbers: a clock turned by hand, arms of known speed, and each kind of
 * noise that it claims to cure. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/status.h"
#include "measure/batch.h"
#include "measure/flush.h"
#include "measure/interleave.h"
#include "measure/statistics.h"
#include "measure/warmup.h"

/* A machine whose speed changes with time. */
typedef struct machine {
    at_hand_clock hand;
    at_random random;
    double drift;       /* slower by this share a simulated second */
    double jitter;      /* log-normal sigma of a call */
    double outliers;    /* share of calls that take ten times as long */
    double first_times; /* extra length of an arm's first calls */
    int last_arm;       /* the one that ran before */
    int runs;
} machine;

typedef struct fake {
    machine *on;
    double call_ns;
    double penalty; /* share added when another arm ran just before: cold caches */
    int index;
    int calls;
    int fail_at; /* call that fails, from 1; 0: none */
    attune_arm arm;
} fake;

static attune_status fake_run(void *self, const attune_call *call)
{
    (void)call;
    fake *arm = self;
    machine *on = arm->on;
    double ns = arm->call_ns * (1 + on->drift * (double)on->hand.now_ns * 1e-9);
    ++arm->calls;
    ++on->runs;
    if (arm->calls == arm->fail_at) {
        return at_fail(ATTUNE_DEVICE_ERROR, "the cable came loose");
    }
    ns *= exp(on->jitter * at_random_normal(&on->random));
    ns *= at_random_uniform(&on->random) < on->outliers ? 10 : 1;
    ns *= on->last_arm != arm->index ? 1 + arm->penalty : 1;
    ns *= 1 + on->first_times * exp(-arm->calls / 20.0);
    on->last_arm = arm->index;
    on->hand.now_ns += (int64_t)ns;
    return ATTUNE_OK;
}

static at_bound arm_of(fake *self, const char *name)
{
    self->arm = (attune_arm){.name = name, .self = self, .run = fake_run};
    return (at_bound){.arm = &self->arm, .calls = 1};
}

static double median_us(const at_samples *samples)
{
    double median = 0;
    assert_int_equal(at_median(samples->us, samples->count, &median), ATTUNE_OK);
    return median;
}

/* Times two arms; returns the ratio of their medians. */
static double measured_ratio(machine *on, double a_ns, double b_ns, double budget_s, at_samples samples[2])
{
    fake a = {.on = on, .call_ns = a_ns, .index = 0}, b = {.on = on, .call_ns = b_ns, .index = 1};
    at_bound arms[] = {arm_of(&a, "a"), arm_of(&b, "b")};
    at_interleave how;
    at_interleave_init(&how);
    how.clock = at_clock_by_hand(&on->hand);
    how.budget_s = budget_s;
    how.samples_max = 400;
    assert_int_equal(at_interleave_run(&how, arms, 2, samples), ATTUNE_OK);
    return median_us(&samples[0]) / median_us(&samples[1]);
}

static void free_both(at_samples samples[2])
{
    at_samples_free(&samples[0]);
    at_samples_free(&samples[1]);
}

static void a_quiet_machine_is_measured_exactly(void **state)
{
    (void)state;
    machine quiet = {.hand = {.read_ns = 25}, .random = at_random_seed(1, 0)};
    at_samples samples[2];
    double ratio = measured_ratio(&quiet, 1000000, 500000, 1, samples);
    assert_true(fabs(ratio - 2) < 1e-3);
    assert_true(fabs(median_us(&samples[0]) - 1000) < 0.1);
    assert_true(samples[0].settled && samples[1].settled);
    assert_int_equal(samples[0].count, samples[1].count);
    free_both(samples);
}

/* A machine that becomes half as slow again during the trial. One arm after the other gets the ratio wrong by far
 * more than the arms differ; alternating gets it right. */
static void drift_that_fools_sequential_timing_cancels(void **state)
{
    (void)state;
    machine drifting = {.hand = {.read_ns = 25}, .random = at_random_seed(3, 0), .drift = 0.2, .jitter = 0.01};
    fake a = {.on = &drifting, .call_ns = 1020000, .index = 0}, b = {.on = &drifting, .call_ns = 1000000, .index = 1};
    double sequential[2][400];
    for (int i = 0; i < 800; ++i) {
        int64_t start = drifting.hand.now_ns;
        assert_int_equal(fake_run(i < 400 ? &a : &b, NULL), ATTUNE_OK);
        sequential[i / 400][i % 400] = (double)(drifting.hand.now_ns - start);
    }
    double before = 0, after = 0;
    assert_int_equal(at_median(sequential[0], 400, &before), ATTUNE_OK);
    assert_int_equal(at_median(sequential[1], 400, &after), ATTUNE_OK);
    assert_true(before / after < 0.98); /* the slower arm looks faster */

    drifting.hand.now_ns = 0;
    at_samples samples[2];
    double ratio = measured_ratio(&drifting, 1020000, 1000000, 2, samples);
    assert_true(fabs(ratio - 1.02) < 0.005);
    double a_us[400], b_us[400];
    size_t blocks = samples[0].count / 2;
    for (size_t block = 0; block < blocks; ++block) {
        a_us[block] = samples[0].us[2 * block] + samples[0].us[2 * block + 1];
        b_us[block] = samples[1].us[2 * block] + samples[1].us[2 * block + 1];
    }
    at_interval paired;
    assert_int_equal(at_bootstrap_ratio(a_us, b_us, blocks, 0.95, 2000, 1, &paired), ATTUNE_OK);
    assert_true(paired.low < 1.02 && paired.high > 1.02 && paired.low > 1.01 && paired.high < 1.03);
    free_both(samples);
}

static void outliers_are_kept_and_do_not_move_the_medians(void **state)
{
    (void)state;
    machine bursty = {.hand = {.read_ns = 25}, .random = at_random_seed(3, 0), .jitter = 0.005, .outliers = 0.05};
    at_samples samples[2];
    double ratio = measured_ratio(&bursty, 1000000, 800000, 2, samples);
    assert_true(fabs(ratio - 1.25) < 0.01);
    size_t far = 0;
    for (size_t i = 0; i < samples[0].count; ++i) {
        far += samples[0].us[i] > 5000;
    }
    assert_true(far > 0);
    free_both(samples);
}

static void equal_arms_are_found_equal(void **state)
{
    (void)state;
    machine noisy = {
        .hand = {.read_ns = 25}, .random = at_random_seed(4, 0), .jitter = 0.03, .drift = 0.1, .outliers = 0.02};
    at_samples samples[2];
    double ratio = measured_ratio(&noisy, 700000, 700000, 2, samples);
    assert_true(fabs(ratio - 1) < 0.01);
    free_both(samples);
}

static void a_coarse_clock_makes_longer_batches(void **state)
{
    (void)state;
    machine coarse = {.hand = {.tick_ns = 1000, .read_ns = 100}, .random = at_random_seed(5, 0)};
    at_samples samples[2];
    double ratio = measured_ratio(&coarse, 3000, 2000, 1, samples);
    assert_true(samples[0].runs * 3000 >= 2000 * 1000);
    assert_true(fabs(ratio - 1.5) < 0.005);
    free_both(samples);
}

static void warm_up_outlasts_slow_first_calls(void **state)
{
    (void)state;
    machine cold = {.hand = {.read_ns = 25}, .random = at_random_seed(6, 0), .first_times = 3};
    at_samples samples[2];
    double ratio = measured_ratio(&cold, 500000, 500000, 4, samples);
    double worst = 0;
    for (size_t i = 0; i < samples[0].count; ++i) {
        worst = samples[0].us[i] > worst ? samples[0].us[i] : worst;
    }
    assert_true(samples[0].settled);
    assert_true(worst < 550); /* the first call took 2000 us; 2 % from group to group are let pass */
    assert_true(fabs(ratio - 1) < 0.005);
    free_both(samples);
}

static void a_machine_that_never_settles_is_measured_and_reported(void **state)
{
    (void)state;
    machine wild = {.hand = {.read_ns = 25}, .random = at_random_seed(7, 0), .jitter = 0.6};
    at_samples samples[2];
    (void)measured_ratio(&wild, 2000000, 2000000, 0.2, samples);
    assert_false(samples[0].settled && samples[1].settled);
    assert_true(samples[0].count >= 10);
    free_both(samples);
}

static void budget_minimum_and_maximum_are_kept(void **state)
{
    (void)state;
    machine slow = {.hand = {.read_ns = 25}, .random = at_random_seed(8, 0)};
    at_samples samples[2];
    /* 2 arms of 1 s and a budget of 0.1 s: one block to warm up, then the 10 samples of each arm that are the least. */
    (void)measured_ratio(&slow, 1e9, 1e9, 0.1, samples);
    assert_int_equal(samples[0].count, 10);
    assert_int_equal(slow.runs, 4 + 20);
    free_both(samples);
    /* Fast arms and a long budget: the most. */
    machine fast = {.hand = {.read_ns = 25}, .random = at_random_seed(9, 0)};
    (void)measured_ratio(&fast, 100000, 100000, 1000, samples);
    assert_int_equal(samples[0].count, 400);
    free_both(samples);
    /* In between: the budget is used and not overrun. */
    machine middle = {.hand = {.read_ns = 25}, .random = at_random_seed(10, 0)};
    (void)measured_ratio(&middle, 10e6, 10e6, 2, samples);
    assert_in_range(samples[0].count, 90, 100);
    free_both(samples);
}

/* ---- Hooks and failures
 * ---------------------------------------------------------------------------------------------- */

typedef struct hooks {
    machine *on;
    int before_count, stop_after;
    double done, last_done;
    bool backwards;
} hooks;

static attune_status hook_before(void *self)
{
    hooks *seen = self;
    ++seen->before_count;
    seen->on->hand.now_ns += 5000000; /* flushing takes time that must not be counted */
    return ATTUNE_OK;
}

static bool hook_stop(void *self)
{
    hooks *seen = self;
    return seen->stop_after > 0 && seen->on->runs >= seen->stop_after;
}

static void hook_progress(void *self, double done)
{
    hooks *seen = self;
    seen->backwards = seen->backwards || done < seen->last_done || done > 1;
    seen->last_done = done;
}

static at_interleave hooked(hooks *seen)
{
    at_interleave how;
    at_interleave_init(&how);
    how.clock = at_clock_by_hand(&seen->on->hand);
    how.stop = hook_stop;
    how.stop_self = seen;
    how.progress = hook_progress;
    how.progress_self = seen;
    return how;
}

static void cold_samples_are_single_calls_after_an_untimed_hook(void **state)
{
    (void)state;
    machine on = {.hand = {.read_ns = 25}, .random = at_random_seed(11, 0)};
    hooks seen = {.on = &on};
    fake self = {.on = &on, .call_ns = 10000};
    at_bound arm = arm_of(&self, "cold");
    at_interleave how = hooked(&seen);
    at_samples samples;
    how.before = hook_before;
    how.before_self = &seen;
    assert_int_equal(at_interleave_run(&how, &arm, 1, &samples), ATTUNE_OK);
    assert_int_equal(samples.runs, 1);
    assert_int_equal(seen.before_count, self.calls);
    assert_true(fabs(median_us(&samples) - 10) < 0.1);
    assert_false(seen.backwards);
    assert_true(seen.last_done > 0.5);
    at_samples_free(&samples);
}

/* A queue: calls return at once, the work is waited for. */
static attune_status enqueue(void *self, const attune_call *call)
{
    (void)call;
    fake *arm = self;
    ++arm->calls;
    arm->on->hand.now_ns += 1000;
    return ATTUNE_OK;
}

/* Its own clock sees all of the work. */
static attune_status time_queue(void *self, int64_t runs, double *ns)
{
    fake *arm = self;
    int64_t start = arm->on->hand.now_ns;
    for (int64_t i = 0; i < runs; ++i) {
        assert_int_equal(enqueue(self, NULL), ATTUNE_OK);
    }
    arm->on->hand.now_ns += (int64_t)(arm->calls * arm->call_ns);
    arm->calls = 0;
    *ns = (double)(arm->on->hand.now_ns - start);
    return ATTUNE_OK;
}

static void an_arm_may_bring_its_own_clock(void **state)
{
    (void)state;
    machine on = {.hand = {.read_ns = 25}, .random = at_random_seed(14, 0)};
    hooks seen = {.on = &on};
    fake self = {.on = &on, .call_ns = 20000};
    self.arm = (attune_arm){.name = "queue", .self = &self, .run = enqueue};
    at_bound arm = {.arm = &self.arm, .calls = 2, .time = time_queue, .time_self = &self, .least_ns = 300000};
    at_interleave how = hooked(&seen);
    at_samples samples;
    assert_int_equal(at_interleave_run(&how, &arm, 1, &samples), ATTUNE_OK);
    assert_int_equal(samples.runs, 15); /* 0.3 ms of runs of 21 us, which make two calls each */
    assert_true(fabs(median_us(&samples) - 10.5) < 0.05);
    at_samples_free(&samples);
}

static void a_stop_is_an_interrupt(void **state)
{
    (void)state;
    machine on = {.hand = {.read_ns = 25}, .random = at_random_seed(12, 0)};
    hooks seen = {.on = &on, .stop_after = 30};
    fake self = {.on = &on, .call_ns = 10000000};
    at_bound arm = arm_of(&self, "stopped");
    at_interleave how = hooked(&seen);
    at_samples samples;
    assert_int_equal(at_interleave_run(&how, &arm, 1, &samples), ATTUNE_INTERRUPTED);
    assert_null(samples.us);
    assert_int_equal(self.calls, 30);
}

static void a_failing_arm_is_named(void **state)
{
    (void)state;
    machine on = {.hand = {.read_ns = 25}, .random = at_random_seed(13, 0)};
    fake good = {.on = &on, .call_ns = 1000000}, bad = {.on = &on, .call_ns = 1000000, .index = 1, .fail_at = 7};
    at_bound arms[] = {arm_of(&good, "good"), arm_of(&bad, "bad")};
    hooks seen = {.on = &on};
    at_interleave how = hooked(&seen);
    at_samples samples[2];
    assert_int_equal(at_interleave_run(&how, arms, 2, samples), ATTUNE_DEVICE_ERROR);
    assert_string_equal(attune_last_detail(), "arm bad: the cable came loose");
    assert_null(samples[0].us);
    assert_int_equal(at_interleave_run(&how, arms, 0, samples), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(at_interleave_run(&how, arms, AT_ARMS_MAX + 1, samples), ATTUNE_INVALID_ARGUMENT);
    how.samples_max = 2;
    assert_int_equal(at_interleave_run(&how, arms, 2, samples), ATTUNE_INVALID_ARGUMENT);
}

/* ---- The small parts
 * -------------------------------------------------------------------------------------------------- */

static void blocks_are_balanced_permutations(void **state)
{
    (void)state;
    enum { ARMS = 5, BLOCKS = 2000 };
    at_order order = at_order_seed(3, ARMS);
    int followed[ARMS][ARMS] = {{0}};
    for (int i = 0; i < BLOCKS; ++i) {
        int block[2 * AT_ARMS_MAX], place[ARMS] = {0}, times[ARMS] = {0};
        at_order_block(&order, block);
        for (int at = 0; at < 2 * ARMS; ++at) {
            assert_in_range(block[at], 0, ARMS - 1);
            place[block[at]] += at;
            ++times[block[at]];
            followed[at > 0 ? block[at - 1] : block[at]][block[at]] += at > 0;
        }
        for (int arm = 0; arm < ARMS; ++arm) {
            assert_int_equal(times[arm], 2);
            assert_int_equal(place[arm], 2 * ARMS - 1); /* equal mean places */
        }
    }
    for (int a = 0; a < ARMS; ++a) {
        for (int b = 0; b < ARMS; ++b) {
            /* 8 pairs of distinct neighbours and one of equals a block. */
            double expected = a == b ? BLOCKS / (double)ARMS : 8.0 * BLOCKS / (ARMS * (ARMS - 1));
            assert_true(fabs(followed[a][b] - expected) < 6 * sqrt(expected));
        }
    }
}

static void orders_depend_on_the_seed_alone(void **state)
{
    (void)state;
    at_order a = at_order_seed(1, 8), same = at_order_seed(1, 8), other = at_order_seed(2, 8);
    int first[2 * AT_ARMS_MAX], second[2 * AT_ARMS_MAX], third[2 * AT_ARMS_MAX];
    at_order_block(&a, first);
    at_order_block(&same, second);
    at_order_block(&other, third);
    assert_memory_equal(first, second, 16 * sizeof(int));
    assert_memory_not_equal(first, third, 16 * sizeof(int));
}

static void grains_are_found(void **state)
{
    (void)state;
    at_hand_clock coarse = {.tick_ns = 1000, .read_ns = 30}, fine = {.read_ns = 30}, dead = {0};
    at_clock clock = at_clock_by_hand(&coarse);
    assert_int_equal(at_clock_grain(&clock), 1000);
    clock = at_clock_by_hand(&fine);
    assert_int_equal(at_clock_grain(&clock), 30);
    clock = at_clock_by_hand(&dead);
    assert_int_equal(at_clock_grain(&clock), 1);
    clock = at_clock_monotonic();
    assert_true(at_clock_grain(&clock) > 0);
}

static void batches_are_long_and_bounded(void **state)
{
    (void)state;
    assert_int_equal(at_batch_length(25), 100000);
    assert_int_equal(at_batch_length(1000), 2000000);
    assert_int_equal(at_batch_length(INT64_MAX), INT64_MAX);
    assert_int_equal(at_batch_calls(30000, 100000), 4);
    assert_int_equal(at_batch_calls(50000, 100000), 2);
    assert_int_equal(at_batch_calls(INT64_MAX, 100000), 1);
    assert_int_equal(at_batch_calls(0, 100000), 1000000);
    assert_int_equal(at_batch_calls(1, INT64_MAX), 1000000);
}

static void warm_up_settles_when_groups_agree(void **state)
{
    (void)state;
    at_warmup warmup = {0};
    assert_true(at_warmup_recent(&warmup) == 0);
    for (int i = 0; i < 10; ++i) {
        assert_false(at_warmup_settled(&warmup, 0.02));
        at_warmup_add(&warmup, i < 5 ? 200 : 100);
    }
    assert_false(at_warmup_settled(&warmup, 0.02));
    assert_true(at_warmup_recent(&warmup) == 100);
    for (int i = 0; i < 5; ++i) {
        at_warmup_add(&warmup, i == 2 ? 900 : 101); /* one outlier in a group is no unrest */
    }
    assert_true(at_warmup_settled(&warmup, 0.02));
    assert_false(at_warmup_settled(&warmup, 0.005));
}

/* What a group scatters by is no drift; what drifts scatters a group by less than it parts two of them. */
static void warm_up_tells_noise_from_drift(void **state)
{
    (void)state;
    static const double noise[] = {100, 103, 96, 105, 98, 101, 99, 105, 102, 107};
    at_warmup noisy = {0}, drifting = {0};
    for (int i = 0; i < 10; ++i) {
        at_warmup_add(&noisy, noise[i]);
        at_warmup_add(&drifting, 100 - i);
    }
    assert_true(at_warmup_settled(&noisy, 0.005));
    assert_false(at_warmup_settled(&drifting, 0.005));
    assert_true(at_warmup_settled(&drifting, 0.06));
}

static void flushing_touches_every_line(void **state)
{
    (void)state;
    at_pool *pool = NULL;
    at_flush flush;
    assert_int_equal(at_pool_create(2, 0, &pool), ATTUNE_OK);
    assert_int_equal(at_flush_create(pool, 1000000, &flush), ATTUNE_OK);
    assert_true(flush.bytes >= 3000000);
    assert_int_equal(at_flush_run(&flush), ATTUNE_OK);
    assert_int_equal(at_flush_run(&flush), ATTUNE_OK);
    for (size_t at = 0; at < flush.bytes; at += 64) {
        assert_int_equal(flush.buffer[at], 2);
    }
    at_flush_free(&flush);
    at_flush_free(&flush);
    at_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quiet_machine_is_measured_exactly),
        cmocka_unit_test(drift_that_fools_sequential_timing_cancels),
        cmocka_unit_test(outliers_are_kept_and_do_not_move_the_medians),
        cmocka_unit_test(equal_arms_are_found_equal),
        cmocka_unit_test(a_coarse_clock_makes_longer_batches),
        cmocka_unit_test(warm_up_outlasts_slow_first_calls),
        cmocka_unit_test(a_machine_that_never_settles_is_measured_and_reported),
        cmocka_unit_test(budget_minimum_and_maximum_are_kept),
        cmocka_unit_test(cold_samples_are_single_calls_after_an_untimed_hook),
        cmocka_unit_test(an_arm_may_bring_its_own_clock),
        cmocka_unit_test(a_stop_is_an_interrupt),
        cmocka_unit_test(a_failing_arm_is_named),
        cmocka_unit_test(blocks_are_balanced_permutations),
        cmocka_unit_test(orders_depend_on_the_seed_alone),
        cmocka_unit_test(grains_are_found),
        cmocka_unit_test(batches_are_long_and_bounded),
        cmocka_unit_test(warm_up_settles_when_groups_agree),
        cmocka_unit_test(warm_up_tells_noise_from_drift),
        cmocka_unit_test(flushing_touches_every_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
