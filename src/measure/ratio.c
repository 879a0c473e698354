#include "measure/ratio.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"

static const double confidence = 0.95;

const char *at_outcome_name(at_outcome outcome)
{
    static const char *const names[] = {"not run", "pass", "fail", "inconclusive"};
    return names[outcome];
}

/* ---- Process spread ---------------------------------------------------------------------------------------------- */

void at_spread_add(at_spread *spread, int process, double value)
{
    spread->sum[process] += value;
    ++spread->count[process];
}

int at_spread_means(const at_spread *spread, double means[AT_SESSION_PROCESSES_MAX])
{
    int count = 0;
    for (int i = 0; i < AT_SESSION_PROCESSES_MAX; ++i) {
        if (spread->count[i] > 0) {
            means[count++] = spread->sum[i] / (double)spread->count[i];
        }
    }
    return count;
}

/* ---- Ratio ------------------------------------------------------------------------------------------------------- */

/* What is gathered of one pair in one mode. */
typedef struct gathering {
    at_spread spread;
    double *logs;    /* of the blocks */
    double *samples; /* the candidate's, then the peer's */
    int64_t blocks, dropped;
} gathering;

static attune_status gather_block(const at_block *block, int candidate, int peer, gathering *to)
{
    double sum = 0;
    for (int i = 0; i < 2; ++i) {
        double own = block->us[candidate][i];
        double other = block->us[peer][i];
        double ratio = other / own;
        AT_FAIL_IF(!(own > 0) || !(ratio > 0) || !isfinite(ratio), ATTUNE_INVALID_ARGUMENT,
                   "process %d: times of %g and %g us: both must be > 0 and finite", block->process, own, other);
        to->samples[2 * to->blocks + i] = own;
        sum += log(ratio) / 2;
    }
    to->logs[to->blocks++] = sum;
    at_spread_add(&to->spread, block->process, sum);
    return ATTUNE_OK;
}

/* The peer's samples follow all of the candidate's. */
static void gather_peer(const at_session *session, at_mode mode, int peer, gathering *to)
{
    double *at = to->samples + 2 * to->blocks;
    for (size_t i = 0; i < session->block_count; ++i) {
        const at_block *block = &session->block[i];
        if (block->mode == mode && at_block_counts(block)) {
            *at++ = block->us[peer][0];
            *at++ = block->us[peer][1];
        }
    }
}

static attune_status gather(const at_session *session, at_mode mode, int candidate, int peer, gathering *to)
{
    for (size_t i = 0; i < session->block_count; ++i) {
        const at_block *block = &session->block[i];
        if (block->mode != mode) {
            continue;
        }
        if (at_block_counts(block)) {
            AT_FORWARD(gather_block(block, candidate, peer, to));
        } else {
            ++to->dropped;
        }
    }
    gather_peer(session, mode, peer, to);
    AT_FAIL_IF(to->blocks < 2, ATTUNE_INVALID_ARGUMENT, "%s: %lld blocks count: at least 2 are needed",
               at_mode_name(mode), (long long)to->blocks);
    return ATTUNE_OK;
}

static void exponential(at_interval *interval)
{
    interval->middle = exp(interval->middle);
    interval->low = exp(interval->low);
    interval->high = exp(interval->high);
}

/* The interval over processes, or over blocks where there is one process. */
static attune_status find_interval(const gathering *from, double must, at_ratio *ratio)
{
    ratio->processes = at_spread_means(&from->spread, ratio->process_r);
    bool single = ratio->processes < 2;
    const double *values = single ? from->logs : ratio->process_r;
    size_t count = single ? (size_t)from->blocks : (size_t)ratio->processes;
    AT_FORWARD(at_student_mean(values, count, confidence, &ratio->r));
    double error = at_deviation(values, count) / sqrt((double)count);
    double beyond = ratio->r.middle + log(must);
    ratio->p_above = error > 0 ? at_student_above(beyond / error, (double)(count - 1)) : beyond > 0 ? 0 : 1;
    exponential(&ratio->r);
    for (int i = 0; i < ratio->processes; ++i) {
        ratio->process_r[i] = exp(ratio->process_r[i]);
    }
    return ATTUNE_OK;
}

static attune_status find_medians(const at_session *session, const gathering *from, at_ratio *ratio)
{
    size_t count = 2 * (size_t)from->blocks;
    double *peer = from->samples + count;
    AT_FORWARD(at_median(from->samples, count, &ratio->candidate_us));
    AT_FORWARD(at_median(peer, count, &ratio->peer_us));
    ratio->median_r = ratio->peer_us / ratio->candidate_us;
    for (size_t i = 0; i < count && session->policy.must > 1; ++i) {
        peer[i] *= session->policy.must;
    }
    return at_bootstrap_difference(from->samples, count, peer, count, confidence, AT_RESAMPLES, session->policy.seed,
                                   &ratio->difference_us);
}

attune_status at_ratio_of(const at_session *session, at_mode mode, int candidate, int peer, at_ratio *ratio)
{
    gathering from = {.logs = calloc(session->block_count + 1, sizeof(double)),
                      .samples = calloc(4 * session->block_count + 1, sizeof(double))};
    attune_status status = ATTUNE_OUT_OF_MEMORY;
    *ratio = (at_ratio){.p_above = 1};
    if (from.logs != NULL && from.samples != NULL) {
        status = gather(session, mode, candidate, peer, &from);
        ratio->blocks = from.blocks;
        ratio->dropped = from.dropped;
        status = status == ATTUNE_OK ? find_interval(&from, session->policy.must, ratio) : status;
        status = status == ATTUNE_OK ? find_medians(session, &from, ratio) : status;
    } else {
        status = at_fail(ATTUNE_OUT_OF_MEMORY, "no memory for the ratios of %zu blocks", session->block_count);
    }
    free(from.logs);
    free(from.samples);
    return status;
}

at_outcome at_ratio_against(const at_ratio *ratio, double must)
{
    if (ratio->r.low > 1 / must) {
        return AT_PASS;
    }
    return ratio->r.high < 1 / must ? AT_FAIL : AT_INCONCLUSIVE;
}

/* ---- Many questions ---------------------------------------------------------------------------------------------- */

void at_holm(const double *p, int count, double level, bool *holds)
{
    for (int i = 0; i < count; ++i) {
        holds[i] = false;
    }
    for (int done = 0; done < count; ++done) {
        int least = -1;
        for (int i = 0; i < count; ++i) {
            if (!holds[i] && (least < 0 || p[i] < p[least])) {
                least = i;
            }
        }
        if (!(p[least] <= level / (count - done))) {
            return;
        }
        holds[least] = true;
    }
}
