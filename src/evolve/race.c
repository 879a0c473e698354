#include "evolve/race.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "measure/order.h"

enum { CHAMPION = 0, PLACEBO = 1, FIRST = 2 }; /* arms of a heat's stage */

const char *at_race_result_name(at_race_result result)
{
    static const char *const name[] = {"refused", "slow", "lost", "tied", "won"};
    return name[result];
}

void at_race_policy_init(at_race_policy *policy, uint64_t seed)
{
    *policy = (at_race_policy){.slow = 4,
                               .grain_us = 2000,
                               .far = 1.5,
                               .band = 0.02,
                               .confidence = 0.99,
                               .blocks_min = 3,
                               .blocks_max = 12,
                               .seed = seed};
}

/* ---- Arithmetic -------------------------------------------------------------------------------------------------- */

enum { TRIM = 6, TRIMMED_MIN = 3 }; /* a sixth at each end */

/* Student's with the winsorised deviation: what is cut off counts as the last that is not. `sorted` is changed. */
static attune_status trimmed(double *sorted, int count, double confidence, at_interval *interval)
{
    int cut = count / TRIM;
    int kept = count - 2 * cut;
    interval->middle = at_mean(sorted + cut, (size_t)kept);
    for (int i = 0; i < cut; ++i) {
        sorted[i] = sorted[cut];
        sorted[count - 1 - i] = sorted[count - 1 - cut];
    }
    double error = at_deviation(sorted, (size_t)count) * sqrt((double)count) / kept;
    double reach = at_student_quantile((1 + confidence) / 2, kept - 1) * error;
    interval->low = interval->middle - reach;
    interval->high = interval->middle + reach;
    return ATTUNE_OK;
}

attune_status at_trimmed_mean(const double *values, int count, double confidence, at_interval *interval)
{
    double sorted[AT_HEAT_BLOCKS_MAX];
    AT_FAIL_IF(count < 1 || count > AT_HEAT_BLOCKS_MAX, ATTUNE_INVALID_ARGUMENT, "%d values: 1 to %d are needed", count,
               AT_HEAT_BLOCKS_MAX);
    memcpy(sorted, values, (size_t)count * sizeof *values);
    at_sort(sorted, (size_t)count);
    if (count < TRIMMED_MIN) {
        *interval = (at_interval){at_mean(values, (size_t)count), -HUGE_VAL, HUGE_VAL};
        return ATTUNE_OK;
    }
    return trimmed(sorted, count, confidence, interval);
}

bool at_race_ties(const at_race_policy *policy, const at_interval *a, const at_interval *b)
{
    bool near = fabs(a->middle - b->middle) < log1p(policy->band);
    return near || (a->low <= b->high && b->low <= a->high);
}

static const at_interval same = {0, 0, 0}; /* the champion's own ratio */

/* Who left after one or two blocks was far off. */
at_race_result at_race_result_of(const at_race_policy *policy, const at_interval *ratio, int blocks)
{
    if (blocks < TRIMMED_MIN && ratio->middle > log(policy->far)) {
        return AT_RACE_LOST;
    }
    return at_race_ties(policy, ratio, &same) ? AT_RACE_TIED : ratio->middle < 0 ? AT_RACE_WON : AT_RACE_LOST;
}

static double time_of(const at_race_policy *policy, const double us[2])
{
    return policy->shorter ? fmin(us[0], us[1]) : (us[0] + us[1]) / 2;
}

attune_status at_race_ratio(const at_race_policy *policy, const double (*us)[2], const double (*champion_us)[2],
                            int blocks, at_interval *ratio)
{
    double log_ratio[AT_HEAT_BLOCKS_MAX];
    for (int i = 0; i < blocks && i < AT_HEAT_BLOCKS_MAX; ++i) {
        log_ratio[i] = log(time_of(policy, us[i])) - log(time_of(policy, champion_us[i]));
    }
    return at_trimmed_mean(log_ratio, blocks, policy->confidence, ratio);
}

/* ---- Who takes part ---------------------------------------------------------------------------------------------- */

static bool is_in(const at_entrant *entrant)
{
    return entrant->result != AT_RACE_REFUSED && entrant->result != AT_RACE_SLOW;
}

/* The first launch of each; one that took k times the champion's is known well enough. */
static attune_status try_one(const at_race_policy *policy, const at_racer *racer, const at_entrant *champion,
                             at_entrant *entrant)
{
    AT_FORWARD(racer->try(racer->self, entrant->candidate, &entrant->first));
    double us = entrant->first.us, best = champion->first.us;
    bool slow = us > policy->slow * best && us > best + policy->grain_us;
    entrant->result = entrant->first.refused != AT_RAN ? AT_RACE_REFUSED : slow ? AT_RACE_SLOW : AT_RACE_TIED;
    if (entrant->result == AT_RACE_SLOW) {
        double ratio = log(us / best);
        entrant->ratio = (at_interval){ratio, ratio, ratio};
    }
    return ATTUNE_OK;
}

static attune_status try_champion(const at_racer *racer, at_entrant *champion)
{
    AT_FORWARD(racer->try(racer->self, champion->candidate, &champion->first));
    AT_FAIL_IF(champion->first.refused != AT_RAN, ATTUNE_WRONG_RESULT, "the champion: %.280s", champion->first.why);
    champion->result = AT_RACE_TIED;
    return ATTUNE_OK;
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

/* A heat while it runs. */
typedef struct race_state {
    const at_race_policy *policy;
    const at_racer *racer;
    at_heat *heat;
    int arms; /* of the stage */
    at_entrant *arm[AT_RACE_ARMS_MAX];
    bool done[AT_RACE_ARMS_MAX]; /* timed enough */
} race_state;

/* The arms that are still running, twice each, in an order of their own. */
static int draw_order(const race_state *on, int order[2 * AT_ARMS_MAX])
{
    int running[AT_RACE_ARMS_MAX];
    int count = 0;
    for (int i = 0; i < on->arms; ++i) {
        if (!on->done[i]) {
            running[count++] = i;
        }
    }
    at_order drawn = at_order_seed(on->policy->seed + (uint64_t)on->heat->blocks * 7919U, count);
    at_order_block(&drawn, order);
    for (int i = 0; i < 2 * count; ++i) {
        order[i] = running[order[i]];
    }
    return 2 * count;
}

static attune_status keep_times(race_state *on, double (*us)[2])
{
    for (int i = 0; i < on->arms; ++i) {
        at_entrant *one = on->arm[i];
        if (!on->done[i]) {
            AT_FAIL_IF(!(us[i][0] > 0 && us[i][1] > 0), ATTUNE_INTERNAL, "arm %d took %g and %g us", i, us[i][0],
                       us[i][1]);
            memcpy(one->us[one->blocks++], us[i], sizeof one->us[0]);
        }
    }
    ++on->heat->blocks;
    return ATTUNE_OK;
}

static attune_status look(const race_state *on, at_entrant *one)
{
    AT_FORWARD(at_race_ratio(on->policy, (const double(*)[2])one->us, (const double(*)[2])on->heat->champion.us,
                             one->blocks, &one->ratio));
    one->result = at_race_result_of(on->policy, &one->ratio, one->blocks);
    return ATTUNE_OK;
}

/* Whether more blocks would change what is said of it. Winners run on, for the next race is between them. */
static bool is_decided(const at_race_policy *policy, const at_entrant *one)
{
    double band = log1p(policy->band);
    double far_off = one->blocks == 1 ? 2 * policy->far : policy->far; /* one block may have been interrupted */
    bool far = one->ratio.middle > log(far_off) && (!policy->whole || one->blocks >= policy->blocks_min);
    bool within = one->ratio.low > -band && one->ratio.high < band;
    return far || (!policy->whole && one->blocks >= policy->blocks_min && (one->result == AT_RACE_LOST || within));
}

/* Whether anyone but champion and placebo is running. */
static attune_status look_at_all(race_state *on, bool *more)
{
    *more = false;
    for (int i = PLACEBO; i < on->arms; ++i) {
        if (!on->done[i]) {
            AT_FORWARD(look(on, on->arm[i]));
            on->done[i] = i >= FIRST && is_decided(on->policy, on->arm[i]);
            *more = *more || (i >= FIRST && !on->done[i]);
        }
    }
    return ATTUNE_OK;
}

/* Whoever was wrong where it was timed has no time. */
static attune_status expel(race_state *on, int culprit, const at_first_run *seen)
{
    at_entrant *one = on->arm[culprit];
    AT_FAIL_IF(one->candidate == on->arm[CHAMPION]->candidate, ATTUNE_WRONG_RESULT, "the champion: %.280s", seen->why);
    one->result = AT_RACE_REFUSED;
    one->first.refused = seen->refused;
    memcpy(one->first.why, seen->why, sizeof one->first.why);
    one->blocks = 0;
    on->done[culprit] = true;
    return ATTUNE_OK;
}

/* Whether someone seems faster, by more than the band, and is not shown to be. */
static bool may_be_faster(const race_state *on)
{
    bool is = false;
    for (int i = FIRST; i < on->arms; ++i) {
        const at_entrant *one = on->arm[i];
        is = is || (!on->done[i] && one->result == AT_RACE_TIED && one->ratio.middle < -log1p(on->policy->band));
    }
    return is;
}

static attune_status run_blocks(race_state *on)
{
    const at_race_policy *policy = on->policy;
    bool more = true;
    while ((on->heat->blocks < policy->blocks_max && (more || on->heat->blocks < policy->blocks_min)) ||
           (on->heat->blocks < policy->blocks_more && may_be_faster(on))) {
        int order[2 * AT_ARMS_MAX];
        double us[AT_RACE_ARMS_MAX][2] = {{0}};
        int culprit = -1;
        at_first_run seen;
        int count = draw_order(on, order);
        AT_FORWARD(on->racer->block(on->racer->self, order, count, us, &culprit, &seen));
        AT_FORWARD(culprit < 0 ? ATTUNE_OK : expel(on, culprit, &seen));
        AT_FORWARD(keep_times(on, us));
        AT_FORWARD(look_at_all(on, &more));
    }
    return ATTUNE_OK;
}

static void leave_out(race_state *on, int index)
{
    for (int i = index; i + 1 < on->arms; ++i) {
        on->arm[i] = on->arm[i + 1];
        on->done[i] = on->done[i + 1];
    }
    --on->arms;
}

/* Stages whoever can be staged. */
static attune_status stage_all(race_state *on)
{
    for (;;) {
        int candidate[AT_RACE_ARMS_MAX];
        int culprit = -1;
        at_first_run seen;
        for (int i = 0; i < on->arms; ++i) {
            candidate[i] = on->arm[i]->candidate;
        }
        AT_FORWARD(on->racer->stage(on->racer->self, candidate, on->arms, &culprit, &seen));
        if (culprit < 0) {
            return ATTUNE_OK;
        }
        AT_FORWARD(expel(on, culprit, &seen));
        leave_out(on, culprit);
    }
}

static attune_status run_staged(race_state *on)
{
    AT_FORWARD(stage_all(on));
    memset(on->done, 0, sizeof on->done);
    AT_FORWARD(run_blocks(on));
    return on->racer->unstage(on->racer->self);
}

/* ---- A heat ------------------------------------------------------------------------------------------------------ */

static attune_status check_heat(const at_race_policy *policy, const at_heat *heat)
{
    AT_FAIL_IF(heat->count < 0 || heat->count > AT_HEAT_MAX, ATTUNE_INVALID_ARGUMENT, "%d entrants: at most %d",
               heat->count, AT_HEAT_MAX);
    bool blocks = policy->blocks_min >= TRIMMED_MIN && policy->blocks_min <= policy->blocks_max &&
                  policy->blocks_max <= AT_HEAT_BLOCKS_MAX && policy->blocks_more <= AT_HEAT_BLOCKS_MAX;
    AT_FAIL_IF(!blocks, ATTUNE_INVALID_ARGUMENT, "%d to %d blocks: %d to %d are possible", policy->blocks_min,
               policy->blocks_max, TRIMMED_MIN, AT_HEAT_BLOCKS_MAX);
    return ATTUNE_OK;
}

static void clear(at_entrant *entrant, int candidate)
{
    *entrant = (at_entrant){.candidate = candidate};
}

attune_status at_heat_run(const at_race_policy *policy, const at_racer *racer, at_heat *heat)
{
    race_state on = {.policy = policy,
                     .racer = racer,
                     .heat = heat,
                     .arms = FIRST,
                     .arm = {[CHAMPION] = &heat->champion, [PLACEBO] = &heat->placebo}};
    AT_FORWARD(check_heat(policy, heat));
    heat->blocks = 0;
    clear(&heat->champion, heat->champion.candidate);
    clear(&heat->placebo, heat->champion.candidate);
    AT_FORWARD(try_champion(racer, &heat->champion));
    for (int i = 0; i < heat->count; ++i) {
        at_entrant *one = &heat->entrant[i];
        clear(one, one->candidate);
        AT_FORWARD(try_one(policy, racer, &heat->champion, one));
        if (is_in(one)) {
            on.arm[on.arms++] = one;
        }
    }
    heat->fair = true;
    AT_FORWARD(on.arms > FIRST ? run_staged(&on) : ATTUNE_OK);
    heat->fair = heat->placebo.blocks == 0 || heat->placebo.result == AT_RACE_TIED;
    return ATTUNE_OK;
}

attune_status at_heat_duel(const at_race_policy *policy, const at_racer *racer, at_heat *heat)
{
    at_race_policy longer = *policy;
    AT_FAIL_IF(heat->count != 1, ATTUNE_INVALID_ARGUMENT, "a duel of %d challengers", heat->count);
    longer.whole = true;
    longer.seed = policy->seed + 15485863U;
    return at_heat_run(&longer, racer, heat);
}

int at_heat_winner(const at_race_policy *policy, const at_heat *heat, at_key_of key, void *self)
{
    int best = -1;
    for (int i = 0; i < heat->count; ++i) {
        const at_entrant *one = &heat->entrant[i];
        bool faster = best < 0 || one->ratio.middle < heat->entrant[best].ratio.middle;
        best = one->result == AT_RACE_WON && faster ? i : best;
    }
    const int fastest = best;
    for (int i = 0; i < heat->count && fastest >= 0; ++i) {
        const at_entrant *one = &heat->entrant[i];
        bool ties = one->result == AT_RACE_WON && at_race_ties(policy, &one->ratio, &heat->entrant[fastest].ratio);
        best = ties && key(self, one->candidate) < key(self, heat->entrant[best].candidate) ? i : best;
    }
    return best;
}

/* ---- The final --------------------------------------------------------------------------------------------------- */

/* By process: the mean of log-ratios to candidate[0] of each arm, the placebo behind the candidates. */
typedef struct gathered {
    double ratio[AT_RACE_ARMS_MAX][AT_FINAL_PROCESSES_MAX];
} gathered;

static attune_status check_culprit(int culprit, const at_first_run *seen)
{
    AT_FAIL_IF(culprit >= 0, ATTUNE_WRONG_RESULT, "in a fresh process: %.280s", seen->why);
    return ATTUNE_OK;
}

/* Arms take other places in every process: what a place is worth (its buffers, its turn at being made) is no arm's. */
static void draw_places(const at_race_policy *policy, int process, int arms, int arm_at[AT_RACE_ARMS_MAX])
{
    int order[2 * AT_ARMS_MAX];
    at_order drawn = at_order_seed(policy->seed + 15485867U * ((uint64_t)process + 1), arms);
    at_order_block(&drawn, order);
    memcpy(arm_at, order, (size_t)arms * sizeof *order);
}

static attune_status run_process(const at_race_policy *policy, const at_racer *racer, at_final *last, int process,
                                 const int arm_at[AT_RACE_ARMS_MAX], gathered *all)
{
    const int arms = last->count + 1;
    double taken[AT_RACE_ARMS_MAX][AT_HEAT_BLOCKS_MAX];
    at_order drawn = at_order_seed(policy->seed + 104729U * ((uint64_t)process + 1), arms);
    for (int b = 0; b < last->blocks; ++b) {
        int order[2 * AT_ARMS_MAX];
        double us[AT_RACE_ARMS_MAX][2] = {{0}};
        int culprit = -1;
        at_first_run seen;
        at_order_block(&drawn, order);
        AT_FORWARD(racer->block(racer->self, order, 2 * arms, us, &culprit, &seen));
        AT_FORWARD(check_culprit(culprit, &seen));
        for (int place = 0; place < arms; ++place) {
            taken[arm_at[place]][b] = time_of(policy, us[place]);
        }
    }
    for (int i = 0; i < arms; ++i) {
        double log_ratio[AT_HEAT_BLOCKS_MAX];
        at_interval mean;
        for (int b = 0; b < last->blocks; ++b) {
            log_ratio[b] = log(taken[i][b]) - log(taken[0][b]);
        }
        AT_FORWARD(at_trimmed_mean(log_ratio, last->blocks, policy->confidence, &mean));
        all->ratio[i][process] = mean.middle;
    }
    for (int i = 0; i < last->count; ++i) {
        AT_FORWARD(at_median(taken[i], (size_t)last->blocks, &last->process_us[i][process]));
    }
    return ATTUNE_OK;
}

static attune_status run_fresh(const at_race_policy *policy, const at_racer *racer, at_final *last, int process,
                               gathered *all)
{
    int arm_at[AT_RACE_ARMS_MAX], candidate[AT_RACE_ARMS_MAX];
    int culprit = -1;
    at_first_run seen;
    draw_places(policy, process, last->count + 1, arm_at);
    for (int place = 0; place <= last->count; ++place) {
        candidate[place] = last->candidate[arm_at[place] % last->count]; /* the placebo, behind all, is the first */
    }
    AT_FORWARD(racer->renew(racer->self));
    for (int i = 0; i < last->count; ++i) {
        AT_FORWARD(racer->try(racer->self, last->candidate[i], &seen));
        AT_FORWARD(check_culprit(seen.refused == AT_RAN ? -1 : i, &seen));
    }
    AT_FORWARD(racer->stage(racer->self, candidate, last->count + 1, &culprit, &seen));
    AT_FORWARD(check_culprit(culprit, &seen));
    AT_FORWARD(run_process(policy, racer, last, process, arm_at, all));
    return racer->unstage(racer->self);
}

/* How a finalist compares with the fastest. */
typedef enum comparison {
    BEHIND = 0, /* by the band or more, and shown to be slower */
    LEFT_OPEN,  /* not shown to be within the band: it is slower, or by the band or more as far as one can tell */
    LIKELY_TIE, /* neither shown to be within the band nor to be slower */
    TIES        /* shown to be within the band */
} comparison;

static comparison comparison_of(const at_race_policy *policy, const at_interval *behind)
{
    const double band = log1p(policy->band);
    if (behind->high < band) {
        return TIES;
    }
    bool slower = behind->low > 0, far = behind->middle >= band;
    return slower && far ? BEHIND : slower || far ? LEFT_OPEN : LIKELY_TIE;
}

/* Who has the least key of those that can win and do so well at least; the fastest does. */
static int find_winner(const at_race_policy *policy, const at_final *last, comparison least, at_key_of key, void *self)
{
    int best = -1;
    for (int i = last->from; i < last->count; ++i) {
        bool may = comparison_of(policy, &last->behind[i]) >= least;
        best = may && (best < 0 || key(self, last->candidate[i]) < key(self, last->candidate[best])) ? i : best;
    }
    return best;
}

/* Arms are compared process by process, since what one process is slower in it is slower in for all of them. */
static attune_status compare(const at_race_policy *policy, const gathered *all, int processes, int one, int with,
                             at_interval *ratio)
{
    double difference[AT_FINAL_PROCESSES_MAX];
    for (int i = 0; i < processes; ++i) {
        difference[i] = all->ratio[one][i] - all->ratio[with][i];
    }
    return at_trimmed_mean(difference, processes, policy->confidence, ratio);
}

static attune_status conclude(const at_race_policy *policy, at_final *last, const gathered *all)
{
    int fastest = last->from;
    last->ratio[0] = same;
    for (int i = 0; i <= last->count; ++i) {
        at_interval *to = i == last->count ? &last->placebo : &last->ratio[i];
        if (i > 0) {
            AT_FORWARD(at_trimmed_mean(all->ratio[i], last->processes, policy->confidence, to));
        }
        if (i < last->count) {
            AT_FORWARD(at_median(last->process_us[i], (size_t)last->processes, &last->us[i]));
            fastest = i > fastest && to->middle < last->ratio[fastest].middle ? i : fastest;
        }
    }
    for (int i = last->from; i < last->count; ++i) {
        AT_FORWARD(compare(policy, all, last->processes, i, fastest, &last->behind[i]));
    }
    last->fair = at_race_ties(policy, &last->placebo, &same);
    return ATTUNE_OK;
}

/* Whether somebody would win who is not shown to tie with the fastest, nor to be behind. */
static bool is_open(const at_race_policy *policy, const at_final *last, at_key_of key, void *self)
{
    return find_winner(policy, last, LEFT_OPEN, key, self) != find_winner(policy, last, TIES, key, self);
}

static attune_status check_final(const at_final *last)
{
    bool sized = last->count >= 1 && last->count <= AT_HEAT_MAX && last->from >= 0 && last->from < last->count &&
                 last->processes_min >= TRIMMED_MIN && last->processes_min <= last->processes_max &&
                 last->processes_max <= AT_FINAL_PROCESSES_MAX && last->blocks >= TRIMMED_MIN &&
                 last->blocks <= AT_HEAT_BLOCKS_MAX;
    AT_FAIL_IF(!sized, ATTUNE_INVALID_ARGUMENT, "a final of %d candidates from %d on, %d to %d processes, %d blocks",
               last->count, last->from, last->processes_min, last->processes_max, last->blocks);
    return ATTUNE_OK;
}

attune_status at_final_run(const at_race_policy *policy, const at_racer *racer, at_key_of key, void *self,
                           at_final *last)
{
    enum { MORE = 3 }; /* a sixth at each end is trimmed: one more than five would widen intervals */
    gathered all;
    AT_FORWARD(check_final(last));
    last->processes = 0;
    for (int goal = last->processes_min; last->processes < goal;) {
        AT_FORWARD(run_fresh(policy, racer, last, last->processes, &all));
        if (++last->processes == goal) {
            AT_FORWARD(conclude(policy, last, &all));
            last->winner = find_winner(policy, last, LIKELY_TIE, key, self);
            bool may = goal + MORE <= last->processes_max && (last->may_go_on == NULL || last->may_go_on(self));
            goal += may && is_open(policy, last, key, self) ? MORE : 0;
        }
    }
    return ATTUNE_OK;
}
