#include "measure/controls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

static void conclude(at_check *check, bool holds, at_outcome otherwise)
{
    check->outcome = holds ? AT_PASS : otherwise;
}

/* The means of log r of the processes for which `parity` is 0 or 1; 2: for all. */
static int process_means(const at_session *session, int candidate, int peer, int parity,
                         double means[AT_SESSION_PROCESSES_MAX])
{
    at_spread spread = {{0}, {0}};
    for (size_t i = 0; i < session->block_count; ++i) {
        const at_block *block = &session->block[i];
        if (block->mode == AT_MODE_WARM && at_block_counts(block) && (parity == 2 || block->process % 2 == parity)) {
            const double *own = block->us[candidate];
            const double *other = block->us[peer];
            at_spread_add(&spread, block->process, log(other[0] / own[0]) / 2 + log(other[1] / own[1]) / 2);
        }
    }
    return at_spread_means(&spread, means);
}

/* ---- A/A --------------------------------------------------------------------------------------------------------- */

attune_status at_check_twin(const at_session *session, int twin, at_check *check, at_interval *r)
{
    static const double sure = 0.99, confidence = 0.95, near = 0.0025;
    double means[AT_SESSION_PROCESSES_MAX];
    at_interval wide = {0, 0, 0}, narrow = {0, 0, 0};
    int of = session->arm[twin].twin_of;
    int count = process_means(session, twin, of, 2, means);
    *check = (at_check){.limit = near};
    if (count < 2) {
        return ATTUNE_OK;
    }
    AT_FORWARD(at_student_mean(means, (size_t)count, sure, &wide));
    AT_FORWARD(at_student_mean(means, (size_t)count, confidence, &narrow));
    check->worst = exp(wide.middle) - 1;
    conclude(check, (wide.low <= 0 && wide.high >= 0) || fabs(wide.middle) <= near, AT_INCONCLUSIVE);
    (void)snprintf(check->what, sizeof check->what,
                   "A/A: %s against itself gives %.4f (99 %% interval %.4f to %.4f), which must include 1",
                   session->arm[of].name, exp(wide.middle), exp(wide.low), exp(wide.high));
    if (r != NULL) {
        *r = (at_interval){exp(narrow.middle), exp(narrow.low), exp(narrow.high)};
    }
    return ATTUNE_OK;
}

/* ---- Label swap -------------------------------------------------------------------------------------------------- */

attune_status at_check_swap(const at_session *session, int candidate, int peer, at_check *check)
{
    static const double sure = 0.9999, near = 0.01;
    double even[AT_SESSION_PROCESSES_MAX], odd[AT_SESSION_PROCESSES_MAX];
    int n = process_means(session, candidate, peer, 0, even);
    int m = process_means(session, peer, candidate, 1, odd);
    *check = (at_check){.limit = near};
    if (n < 2 || m < 2) {
        return ATTUNE_OK;
    }
    /* Swapped labels: the sum of the two logarithms is 0 where the order of the arms does not matter. */
    double apart = at_mean(even, (size_t)n) + at_mean(odd, (size_t)m);
    double a = at_deviation(even, (size_t)n) * at_deviation(even, (size_t)n) / n;
    double b = at_deviation(odd, (size_t)m) * at_deviation(odd, (size_t)m) / m;
    double degrees = (a + b) * (a + b) / (a * a / (n - 1) + b * b / (m - 1));
    double reach = a + b > 0 ? at_student_quantile((1 + sure) / 2, degrees) * sqrt(a + b) : 0;
    check->worst = fabs(apart);
    check->limit = reach > near ? reach : near;
    conclude(check, check->worst <= check->limit, AT_INCONCLUSIVE);
    (void)snprintf(check->what, sizeof check->what,
                   "label swap: %s against %s gives %.4f, swapped %.4f: the product may be %.2f %% off 1",
                   session->arm[candidate].name, session->arm[peer].name, exp(at_mean(even, (size_t)n)),
                   exp(at_mean(odd, (size_t)m)), 100 * check->limit);
    return ATTUNE_OK;
}

/* ---- Two clocks -------------------------------------------------------------------------------------------------- */

double at_clocks_apart(const at_two_clocks *clocks)
{
    static const double least_us = 1, share = AT_CLOCKS_PERCENT / 100.0;
    return fabs(clocks->us - clocks->slope_us) / fmax(share * clocks->us, least_us);
}

void at_check_clocks(const at_session *session, int arm, at_check *check)
{
    double over[AT_SESSION_PROCESSES_MAX], us = 0, slope = 0;
    size_t count = 0;
    *check = (at_check){.limit = 1};
    for (size_t i = 0; i < session->clocks_count && count < AT_SESSION_PROCESSES_MAX; ++i) {
        const at_two_clocks *clocks = &session->clocks[i];
        if (clocks->arm == arm) {
            us = clocks->us;
            slope = clocks->slope_us;
            over[count++] = at_clocks_apart(clocks);
        }
    }
    if (count == 0) {
        return;
    }
    at_sort(over, count);
    check->worst = at_quantile(over, count, 0.5);
    conclude(check, check->worst <= check->limit, AT_INCONCLUSIVE);
    (void)snprintf(check->what, sizeof check->what,
                   "two clocks: of %s they differ by %.2f of max(1 us, %d %%) (in the last process %.4g and %.4g us)",
                   session->arm[arm].name, check->worst, AT_CLOCKS_PERCENT, us, slope);
}

/* ---- Throttling -------------------------------------------------------------------------------------------------- */

void at_check_dropped(const at_session *session, at_mode mode, at_check *check)
{
    int64_t all = 0, dropped = 0;
    *check = (at_check){.limit = session->policy.dropped_most};
    for (size_t i = 0; i < session->block_count; ++i) {
        if (session->block[i].mode == mode) {
            ++all;
            dropped += !at_block_counts(&session->block[i]);
        }
    }
    if (all == 0) {
        return;
    }
    check->worst = (double)dropped / (double)all;
    conclude(check, check->worst <= check->limit, AT_INCONCLUSIVE);
    (void)snprintf(check->what, sizeof check->what,
                   "throttling: %lld of %lld %s blocks were dropped, at most %.0f %% may be", (long long)dropped,
                   (long long)all, at_mode_name(mode), 100 * check->limit);
}

void at_check_company(const at_session *session, at_check *check)
{
    size_t disturbed = 0;
    *check = (at_check){.limit = session->policy.dropped_most};
    for (size_t i = 0; i < session->block_count; ++i) {
        disturbed += (session->block[i].throttle & AT_THROTTLE_COMPANY) != 0;
    }
    if (disturbed == 0) {
        return;
    }
    check->worst = (double)disturbed / (double)session->block_count;
    conclude(check, check->worst <= check->limit, AT_INCONCLUSIVE);
    (void)snprintf(check->what, sizeof check->what,
                   "company: others worked on these processors during %zu of %zu blocks, at most %.0f %% may be such",
                   disturbed, session->block_count, 100 * check->limit);
}

/* ---- Impossible speed -------------------------------------------------------------------------------------------- */

double at_floor_us(at_mode mode, double flops, double peak_flops, double bytes, double peak_bytes)
{
    static const double share = 0.95; /* a peak is a nominal figure, and an event's clock has a grain */
    double by_flops = peak_flops > 0 ? flops / peak_flops : 0;
    double by_bytes = peak_bytes > 0 && mode == AT_MODE_COLD ? bytes / peak_bytes : 0;
    return 1e6 * share * (by_flops > by_bytes ? by_flops : by_bytes);
}

attune_status at_check_floor(const at_session *session, at_mode mode, int arm, at_check *check)
{
    double *samples = calloc(2 * session->block_count + 1, sizeof *samples);
    size_t count = 0;
    AT_FAIL_IF(samples == NULL, ATTUNE_OUT_OF_MEMORY, "no memory for %zu samples", 2 * session->block_count);
    for (size_t i = 0; i < session->block_count; ++i) {
        const at_block *block = &session->block[i];
        if (block->mode == mode && at_block_counts(block)) {
            samples[count++] = block->us[arm][0];
            samples[count++] = block->us[arm][1];
        }
    }
    *check = (at_check){.limit = session->policy.floor_us[mode]};
    if (count > 0 && check->limit > 0) {
        at_sort(samples, count);
        check->worst = at_quantile(samples, count, 0.5);
        conclude(check, check->worst >= check->limit, AT_FAIL);
        (void)snprintf(check->what, sizeof check->what,
                       "floor: %s takes %.4g us %s, and this device cannot do such a call in less than %.4g us",
                       session->arm[arm].name, check->worst, at_mode_name(mode), check->limit);
    }
    free(samples);
    return ATTUNE_OK;
}
