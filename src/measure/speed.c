#include "measure/speed.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

/* Says what decided; the first to speak is heard. */
static void decide(at_speed *speed, at_outcome outcome, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void decide(at_speed *speed, at_outcome outcome, const char *format, ...)
{
    va_list list;
    if (speed->outcome == AT_NOT_RUN) {
        speed->outcome = outcome;
        va_start(list, format);
        (void)vsnprintf(speed->why, sizeof speed->why, format, list);
        va_end(list);
    }
}

static bool has_blocks(const at_session *session, at_mode mode)
{
    int64_t count = 0;
    for (size_t i = 0; i < session->block_count; ++i) {
        count += session->block[i].mode == mode && at_block_counts(&session->block[i]);
    }
    return count >= 2;
}

static attune_status find_ratios(const at_session *session, int candidate, int peer, at_speed *speed)
{
    for (int mode = 0; mode < AT_MODE_COUNT; ++mode) {
        if (has_blocks(session, (at_mode)mode)) {
            AT_FORWARD(at_ratio_of(session, (at_mode)mode, candidate, peer, &speed->ratio[mode]));
            speed->known[mode] = true;
        }
    }
    return ATTUNE_OK;
}

/* ---- The steps, in order of who may speak first ------------------------------------------------------------------ */

static attune_status look_at_floor(const at_session *session, int candidate, at_speed *speed)
{
    for (int mode = 0; mode < AT_MODE_COUNT; ++mode) {
        at_check check;
        AT_FORWARD(at_check_floor(session, (at_mode)mode, candidate, &check));
        if (check.outcome == AT_FAIL) {
            decide(speed, AT_FAIL, "%s", check.what);
        }
    }
    return ATTUNE_OK;
}

static void need(at_speed *speed, const at_check *check)
{
    if (check->outcome == AT_INCONCLUSIVE) {
        decide(speed, AT_INCONCLUSIVE, "%s", check->what);
    }
}

/* The mode whose interval is held against the bound. */
static at_mode deciding(const at_session *session)
{
    return session->policy.cold_decides ? AT_MODE_COLD : AT_MODE_WARM;
}

/* How far what decides is from where it would decide otherwise, as a logarithm: r's interval from the bound, and, where
 * it lies above, the cold median from 1. */
static double distance_of(const at_session *session, const at_speed *speed)
{
    const at_interval *r = &speed->ratio[deciding(session)].r;
    double bound = 1 / session->policy.must;
    if (r->low <= bound) {
        return r->high < bound ? log(bound / r->high) : 0;
    }
    double warm = log(r->low / bound);
    const bool too = speed->known[AT_MODE_COLD] && deciding(session) == AT_MODE_WARM;
    return too ? fmin(warm, fabs(log(speed->ratio[AT_MODE_COLD].median_r))) : warm;
}

static void need_twin(const at_session *session, at_speed *speed, const at_check *check)
{
    static const double sure = 0.95;
    double reach = at_student_quantile((1 + sure) / 2, 1) * fabs(log1p(check->worst));
    if (!session->policy.twin_by_reach || !(distance_of(session, speed) > reach)) {
        need(speed, check);
    }
}

static attune_status look_at_controls(const at_session *session, int candidate, int peer, at_speed *speed)
{
    at_check check;
    for (int mode = 0; mode < AT_MODE_COUNT; ++mode) {
        at_check_dropped(session, (at_mode)mode, &check);
        need(speed, &check);
    }
    at_check_company(session, &check);
    need(speed, &check);
    at_check_clocks(session, candidate, &check);
    need(speed, &check);
    at_check_clocks(session, peer, &check);
    need(speed, &check);
    AT_FORWARD(at_check_swap(session, candidate, peer, &check));
    need(speed, &check);
    for (int arm = 0; arm < session->arm_count; ++arm) {
        if (session->arm[arm].part == AT_PART_TWIN) {
            at_check_clocks(session, arm, &check);
            need(speed, &check);
            AT_FORWARD(at_check_twin(session, arm, &check, &speed->twin));
            need_twin(session, speed, &check);
        }
    }
    return ATTUNE_OK;
}

static void look_at_ratio(const at_session *session, at_speed *speed)
{
    const at_ratio *ratio = &speed->ratio[deciding(session)];
    const at_ratio *cold = &speed->ratio[AT_MODE_COLD];
    const char *which = deciding(session) == AT_MODE_COLD ? "cold, " : "";
    double bound = 1 / session->policy.must;
    at_outcome lies = at_ratio_against(ratio, session->policy.must);
    const char *where = lies == AT_PASS ? "above" : lies == AT_FAIL ? "below" : "on both sides of";
    if (lies != AT_PASS) {
        decide(speed, lies, "%sr %.4f, 95 %% interval %.4f to %.4f, lies %s %.4f", which, ratio->r.middle, ratio->r.low,
               ratio->r.high, where, bound);
    }
    if (!(ratio->difference_us.high < 0)) {
        decide(speed, AT_INCONCLUSIVE, "%sthe difference of medians, %.4g us, has a 95 %% interval up to %.4g us",
               which, ratio->difference_us.middle, ratio->difference_us.high);
    }
    if (speed->known[AT_MODE_COLD] && !(cold->median_r >= 1)) {
        decide(speed, AT_FAIL, "cold, the medians' ratio is %.4f: at least 1 is needed", cold->median_r);
    }
    decide(speed, AT_PASS, "%sr %.4f, 95 %% interval %.4f to %.4f, lies above %.4f", which, ratio->r.middle,
           ratio->r.low, ratio->r.high, bound);
}

attune_status at_speed_judge(const at_session *session, int candidate, int peer, at_speed *speed)
{
    memset(speed, 0, sizeof *speed);
    AT_FORWARD(find_ratios(session, candidate, peer, speed));
    const at_mode mode = deciding(session);
    if (!speed->known[mode]) {
        at_check dropped;
        at_check_dropped(session, mode, &dropped);
        need(speed, &dropped);
        return ATTUNE_OK;
    }
    const at_ratio *ratio = &speed->ratio[mode];
    AT_FORWARD(look_at_floor(session, candidate, speed));
    if (session->stopped && ratio->r.high < 1 / session->policy.must) {
        decide(speed, AT_FAIL, "r %.4f after %lld blocks: stopped, it could only fail", ratio->r.middle,
               (long long)ratio->blocks);
    }
    if (ratio->processes < 2) {
        decide(speed, AT_INCONCLUSIVE, "%d process was measured: an interval needs at least 2", ratio->processes);
    }
    AT_FORWARD(look_at_controls(session, candidate, peer, speed));
    look_at_ratio(session, speed);
    return ATTUNE_OK;
}
