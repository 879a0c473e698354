/* wgmma: which of its configs is fastest, by a model of a launch's time and, of what that does not know, by the nearest
 * problems that were raced (wgmma_table.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "wgmma.h"
#include "wgmma_table.h"

static int32_t largest_dim(const attune_problem *problem)
{
    return problem->head_dim_qk > problem->head_dim_v ? problem->head_dim_qk : problem->head_dim_v;
}

/* Where only queries and keys are wide: no such problems were raced, and O leaves registers for larger tiles. */
static bool has_wide_keys(const attune_problem *problem)
{
    return problem->head_dim_qk > 128 && problem->head_dim_v <= 128;
}

static const wgmma_candidates wide_keys = {
    128,
    0,
    5,
    {{2, 128, 1, 1, 1, 2}, {2, 128, 1, 1, 2, 2}, {2, 96, 1, 1, 1, 2}, {2, 96, 1, 1, 2, 2}, {2, 64, 1, 1, 1, 3}}};

/* With a bias or a mask, the first that fits first: tiles of a power of two keys, whose rows are copied in few
 * instructions, and of those a stage more of keys and values before a second place for queries. */
static const wgmma_candidates with_pairs[] = {
    {64, 0, 2, {{2, 128, 2, 1, 1, 4}, {2, 64, 2, 1, 1, 4}}},
    {128, 0, 3, {{2, 128, 1, 1, 1, 2}, {2, 128, 2, 1, 1, 2}, {2, 64, 2, 1, 1, 3}}},
    {256, 0, 1, {{2, 64, 1, 1, 1, 3}}},
};

static const wgmma_candidates *candidates_for(const attune_problem *problem)
{
    const wgmma_candidates *at = at_wgmma_classes;
    if (has_pairs(problem)) {
        const int32_t dim = largest_dim(problem);
        return &with_pairs[dim <= 64 ? 0 : dim <= 128 ? 1 : 2];
    }
    while (at[1].dim > 0 && (at->causal != attune_is_causal(problem) || at->dim < largest_dim(problem))) {
        ++at;
    }
    return has_wide_keys(problem) ? &wide_keys : at;
}

/* ---- The time of a launch -----------------------------------------------------------------------------------------
 */

enum { SMS_MAX = 256, ROWS_MAX = 4096 };

/* A config of a problem, on a device. us of a tile of keys and of a job besides, of the whole by a counter. */
typedef struct launch {
    const attune_problem *problem;
    int32_t sms, block_m, block_n;
    bool by_counter;
    double tile, job, whole, besides;
} launch;

/* Multiprocessors and the time of the jobs each has been given. */
typedef struct shares {
    int32_t sms;
    double busy[SMS_MAX];
} shares;

static int64_t heads_of(const attune_problem *problem)
{
    return (int64_t)problem->heads_q * problem->batch;
}

static int64_t tiles_of(const launch *of)
{
    return (of->problem->seqlen_q + of->block_m - 1) / of->block_m;
}

/* Heads that share L2, as queue_of in device/job.cuh has them. */
static int64_t section_of(const attune_problem *problem)
{
    const int64_t most = INT64_C(32) << 20, heads = heads_of(problem);
    const int64_t keys = problem->seqlen_kv > 1 ? problem->seqlen_kv : 1;
    const int64_t bytes = keys * (problem->head_dim_qk + problem->head_dim_v) * 2;
    const int64_t half = most / 2 / bytes > 32 ? most / 2 / bytes : 32;
    const int64_t fit = most / bytes < half ? most / bytes : half;
    const int64_t section = (fit > 1 ? fit : 1) * (problem->heads_q / problem->heads_kv);
    return section < heads ? section : heads;
}

static int64_t offset_of(const attune_problem *problem)
{
    return problem->offset_kind == ATTUNE_OFFSET_BOTTOM_RIGHT ? problem->seqlen_kv - problem->seqlen_q
           : problem->offset_kind == ATTUNE_OFFSET_NUMBER     ? problem->offset
                                                              : 0;
}

static int64_t within(int64_t x, int64_t least, int64_t most)
{
    return x < least ? least : x > most ? most : x;
}

/* Tiles of keys that a tile of queries sees any of, at least one. */
static int64_t tiles_seen(const launch *of, int64_t tile)
{
    const attune_problem *problem = of->problem;
    const int64_t row = tile * of->block_m, end_row = within(row + of->block_m, 0, problem->seqlen_q);
    const int64_t offset = offset_of(problem), keys = problem->seqlen_kv > 1 ? problem->seqlen_kv : 1;
    const int64_t end = problem->window_right < 0 ? keys : within(end_row + offset + problem->window_right, 1, keys);
    const int64_t first = problem->window_left < 0 ? 0 : within(row + offset - problem->window_left, 0, end - 1);
    return (end + of->block_n - 1) / of->block_n - first / of->block_n;
}

static double job_time(const launch *of, int64_t tile)
{
    return (double)tiles_seen(of, tile) * of->tile + of->job;
}

/* All jobs' time by the number of multiprocessors; of very many tiles some are looked at. */
static double mean_time(const launch *of)
{
    const int64_t tiles = tiles_of(of), step = tiles / ROWS_MAX + 1;
    double sum = 0;
    for (int64_t tile = 0; tile < tiles; tile += step) {
        sum += job_time(of, tile) * (double)(tiles - tile < step ? tiles - tile : step);
    }
    return sum * (double)heads_of(of->problem) / of->sms;
}

/* The multiprocessor that takes job `number`: to and fro, or whoever is done first. */
static int32_t place_of(const shares *all, bool by_counter, int64_t number)
{
    const int32_t turn = (int32_t)(number % all->sms);
    int32_t least = 0;
    if (!by_counter) {
        return number / all->sms % 2 ? all->sms - 1 - turn : turn;
    }
    for (int32_t i = 1; i < all->sms; ++i) {
        least = all->busy[i] < all->busy[least] ? i : least;
    }
    return least;
}

/* The busiest multiprocessor's time with a causal mask, job by job in their order. */
static double busiest_time(const launch *of)
{
    const int64_t tiles = tiles_of(of), heads = heads_of(of->problem), section = section_of(of->problem);
    shares all = {.sms = of->sms};
    int64_t left = (heads + section - 1) / section, number = 0;
    double longest = 0;
    for (int64_t head = 0; head < heads; head += section, --left) {
        const int64_t together = heads - head < section ? heads - head : section;
        for (int64_t i = 0; i < tiles * together; ++i) {
            const int64_t rank = i / together, tile = left % 2 ? tiles - 1 - rank : rank;
            double *busy = &all.busy[place_of(&all, of->by_counter, number++)];
            *busy += job_time(of, tile);
            longest = *busy > longest ? *busy : longest;
        }
    }
    return longest;
}

static double time_of(const launch *of)
{
    const double jobs = (double)tiles_of(of) * (double)heads_of(of->problem), longest = job_time(of, tiles_of(of) - 1);
    const double mean = mean_time(of);
    double busiest = ceil(jobs / of->sms) * longest;
    if (attune_is_causal(of->problem)) {
        const bool few = jobs > 0 && jobs <= (double)at_wgmma_model.simulated * of->sms;
        busiest = few ? busiest_time(of) : mean + longest / 2;
    }
    return (at_wgmma_model.busiest * busiest + (1 - at_wgmma_model.busiest) * mean) * (1 + of->whole) + of->besides;
}

/* ---- What races say -----------------------------------------------------------------------------------------------
 */

/* The pace of a config, or of the one most like it among those of the head dim. */
static const wgmma_pace *pace_of(const attune_problem *problem, const wgmma_config *config)
{
    const int32_t dim = has_wide_keys(problem) ? 128 : largest_dim(problem);
    const wgmma_pace *best = NULL;
    int32_t least = 0;
    for (const wgmma_pace *at = at_wgmma_paces; at->dim > 0; ++at) {
        if (at->causal != attune_is_causal(problem) || at->dim < dim || (best != NULL && at->dim > best->dim)) {
            continue;
        }
        const int32_t differs = (at->groups != config->groups) * 1000 + abs(at->block_n - config->block_n) +
                                (at->q_stages != config->q_stages) * 4 + abs(at->ahead - config->ahead);
        if (best == NULL || differs < least) {
            best = at;
            least = differs;
        }
    }
    return best;
}

static wgmma_effect effect_of(const attune_problem *problem, const wgmma_config *config)
{
    const wgmma_candidates *of = candidates_for(problem);
    wgmma_effect effect = {0};
    for (const wgmma_effect *at = at_wgmma_effects; at->dim > 0; ++at) {
        if (at->dim == of->dim && at->causal == attune_is_causal(problem) && at->groups == config->groups) {
            effect = *at;
        }
    }
    effect.tile = config->pingpong ? 0 : effect.tile;
    effect.job = config->pingpong ? 0 : effect.job;
    effect.whole = config->scheduler == COUNTER ? effect.whole : 0;
    effect.besides = config->scheduler == COUNTER ? effect.besides : 0;
    return effect;
}

static double modelled(const attune_problem *problem, const attune_target *target, const wgmma_config *config)
{
    const wgmma_pace *pace = pace_of(problem, config);
    const wgmma_effect effect = effect_of(problem, config);
    const double as_many = (double)config->block_n / pace->block_n; /* keys as the tile that was measured has */
    const int32_t sms = target->sm_count < SMS_MAX ? target->sm_count : SMS_MAX;
    const launch of = {.problem = problem,
                       .sms = sms > 0 ? sms : 1,
                       .block_m = config->groups * GROUP_ROWS,
                       .block_n = config->block_n,
                       .by_counter = config->scheduler == COUNTER,
                       .tile = pace->tile * (0.05 + 0.95 * as_many) * (1 + effect.tile),
                       .job = pace->job * (1 + effect.job),
                       .whole = effect.whole,
                       .besides = effect.besides};
    return time_of(&of);
}

static double log2_of(double x)
{
    return log2(x > 1e-3 ? x : 1e-3);
}

/* Keys that a window lets a row see; INT64_MAX where it is open. */
static int64_t window_of(const attune_problem *problem)
{
    const bool is_bounded = problem->window_left >= 0 && problem->window_right >= 0;
    return is_bounded ? problem->window_left + problem->window_right + 1 : INT64_MAX;
}

static void place_among_races(const attune_problem *problem, const attune_target *target, double place[WGMMA_AXES])
{
    const int32_t dim = largest_dim(problem), m = dim <= 64 ? 192 : 128;
    const double jobs = (double)((problem->seqlen_q + m - 1) / m) * (double)heads_of(problem);
    const int64_t keys = problem->seqlen_kv, window = window_of(problem);
    place[0] = at_wgmma_model.keys * log2_of((double)(window < keys ? window : keys));
    place[1] = at_wgmma_model.jobs * log2_of(jobs / (target->sm_count > 0 ? target->sm_count : 1));
    place[2] = log2_of(dim);
}

/* How much slower than the model says each candidate was on problems near this one: logarithms. */
static void slower_by(const attune_problem *problem, const attune_target *target, const wgmma_candidates *of,
                      double slower[WGMMA_CANDIDATES])
{
    double place[WGMMA_AXES], weight[WGMMA_CANDIDATES] = {0};
    place_among_races(problem, target, place);
    memset(slower, 0, WGMMA_CANDIDATES * sizeof *slower);
    for (const wgmma_raced *at = at_wgmma_races; at->dim > 0 && of != &wide_keys; ++at) {
        double far = 0;
        for (int32_t i = 0; i < WGMMA_AXES; ++i) {
            far += (place[i] - at->place[i]) * (place[i] - at->place[i]);
        }
        const bool like = at->dim == of->dim && at->causal == of->causal;
        const double w = like ? exp(-far / (2 * at_wgmma_model.near * at_wgmma_model.near)) : 0;
        for (int32_t i = 0; i < of->count; ++i) {
            weight[i] += at->slower[i] != NA ? w : 0;
            slower[i] += at->slower[i] != NA ? w * at->slower[i] * 1e-3 : 0;
        }
    }
    for (int32_t i = 0; i < of->count; ++i) {
        slower[i] /= weight[i] + at_wgmma_model.worth;
    }
}

/* ---- The choice ---------------------------------------------------------------------------------------------------
 */

/* In a window of few keys a tile of 192 rows sees too many that they do not. */
enum { NARROW = 768 };

static bool is_narrow(const attune_problem *problem)
{
    return window_of(problem) < NARROW;
}

static bool is_capped(const attune_problem *problem)
{
    return problem->softcap != 0;
}

/* Whether a softcap is a polynomial in most tiles (CURVED in wgmma_consumer.cuh). */
static bool is_curved(const attune_problem *problem)
{
    return is_capped(problem) && !problem->alibi && !has_pairs(problem);
}

/* Tiles of 80 keys at head dims above 128, where jobs are short or end anywhere: 3 to 9 % faster. Mended rows leave no
 * registers for them; in a window of few keys they see too many that it hides. With a softcap they are 3 to 9 % faster
 * where no row has an end of its own, and up to 42 % slower elsewhere. */
static bool wants_longer_tiles(const attune_problem *problem)
{
    if (is_capped(problem)) {
        return is_curved(problem) && !attune_is_causal(problem) && !attune_is_windowed(problem) && !contains(problem);
    }
    return !contains(problem) && !is_narrow(problem) && (problem->varlen || attune_is_windowed(problem));
}

/* What was not raced: no turns in a window, caps beside ALiBi, lengths on the device or mended rows, values that must
 * be cleaned and rows that are mended, which cost registers; tiles of other lengths than these were raced where all
 * tiles but the last are alike. */
static bool suits(const attune_problem *problem, const wgmma_config *config)
{
    const bool is_clean =
        problem->offset_kind == ATTUNE_OFFSET_BOTTOM_RIGHT && !problem->seqused_kv && !problem->varlen;
    const bool is_plain = !is_elaborate(problem) && !is_capped(problem) && is_clean;
    const int32_t usual = problem->head_dim_v <= 128 ? 128 : wants_longer_tiles(problem) ? 80 : 64;
    const bool is_strict = contains(problem) && (problem->alibi || !config->pingpong);
    const bool has_edges = attune_is_windowed(problem) || problem->varlen;
    const bool has_both = attune_is_windowed(problem) && problem->varlen;
    const bool may_be_capped = is_curved(problem) && config->pingpong && !problem->seqused_kv && !contains(problem);
    const bool is_heavy = is_strict || (is_capped(problem) && (!may_be_capped || has_both));
    if (!config->pingpong && (attune_is_windowed(problem) || (config->groups == 3 && !is_clean))) {
        return false;
    }
    if (config->groups == 3 && (is_heavy || is_narrow(problem) || (has_edges && problem->alibi))) {
        return false;
    }
    return config->block_n == usual || has_wide_keys(problem) ||
           (is_plain && problem->head_dim_qk == problem->head_dim_v);
}

/* How many exponentials come before the wait for O, where features make scores longer to work out: 1 to 6 % faster. */
static int32_t ahead_of(const attune_problem *problem, const wgmma_config *from)
{
    const int32_t dim = largest_dim(problem);
    const bool may = dim > 64 && !has_wide_keys(problem) && problem->bias == ATTUNE_BIAS_NONE;
    const bool caps_not_causal = is_capped(problem) && !attune_is_causal(problem);
    if (may && (is_curved(problem) || problem->mask || is_narrow(problem) || caps_not_causal)) {
        return 4;
    }
    return is_capped(problem) && from->ahead == 2 ? 3 : from->ahead;
}

/* One place for queries and a stage more of keys and values, where tiles differ in what they take: up to 5 % faster. Of
 * packed sequences in tiles of 128 rows, and of ALiBi without a causal mask, it is slower; three groups with a softcap
 * and a causal mask are 2 % slower with two. */
static int32_t q_stages_of(const attune_problem *problem, const wgmma_config *from)
{
    const bool of_three = from->groups == 3, is_causal = attune_is_causal(problem);
    const bool may = !has_pairs(problem) && (of_three || !problem->varlen) && (is_causal || !problem->alibi);
    const int32_t dim = largest_dim(problem);
    const bool is_wide = attune_is_windowed(problem) && !is_narrow(problem) && (of_three || dim > 96);
    const bool is_sloped = is_causal && problem->alibi && (of_three || dim > 64);
    const bool is_uneven = of_three && (problem->varlen || (is_causal && (is_capped(problem) || problem->strict)));
    return may && (is_wide || is_sloped || is_uneven) ? 1 : from->q_stages;
}

/* Short causal jobs move as much as they compute: few heads at a time is up to 6 % faster. */
enum { KEYS_SHORT = 512 };

static bool is_short(const attune_problem *problem)
{
    return attune_is_causal(problem) && !attune_is_windowed(problem) && problem->seqlen_kv <= KEYS_SHORT;
}

/* Strict problems' jobs go in turns; packed sequences, of lengths that nobody knows yet, by a counter where they may;
 * causal ones with a softcap by a counter, up to 6 % faster. */
static int32_t scheduler_of(const attune_problem *problem, const wgmma_config *from)
{
    const int32_t dim = largest_dim(problem);
    const bool is_capped_causal = is_curved(problem) && attune_is_causal(problem) && dim > 64 && dim <= 128;
    const bool by_counter = from->scheduler == COUNTER || is_capped_causal;
    return contains(problem)                 ? TURNS
           : problem->varlen                 ? COUNTER
           : by_counter && is_short(problem) ? NEAR
           : by_counter                      ? COUNTER
                                             : from->scheduler;
}

/* Packed sequences at head dim 256: without turns 2 % faster; with a causal mask, and at 192, 5 % slower. */
static int32_t pingpong_of(const attune_problem *problem, const wgmma_config *from)
{
    const bool is_open = !attune_is_causal(problem) && !attune_is_windowed(problem);
    const bool may = !has_pairs(problem) && !is_capped(problem);
    return problem->varlen && is_open && may && problem->head_dim_v > 192 ? 0 : from->pingpong;
}

static attune_config config_of(const attune_problem *problem, const wgmma_config *from, bool by_maxima)
{
    return (attune_config){.value = {[GROUPS] = from->groups,
                                     [BLOCK_N] = from->block_n,
                                     [Q_STAGES] = q_stages_of(problem, from),
                                     [PINGPONG] = pingpong_of(problem, from),
                                     [SCHEDULER] = scheduler_of(problem, from),
                                     [RESCALE] = by_maxima                            ? 0
                                                 : may_be_far(problem, from->block_n) ? FAR_MAX
                                                                                      : STATIC_MAX,
                                     [AHEAD] = by_maxima ? 0 : ahead_of(problem, from)}};
}

enum { CHOICES = 4 };

typedef struct choices {
    int32_t count;
    attune_config config[CHOICES];
} choices;

static void add(choices *to, const attune_problem *problem, const attune_target *target, attune_config config)
{
    bool known = to->count == CHOICES || !at_wgmma_fits(problem, target, &config);
    for (int32_t i = 0; i < to->count; ++i) {
        known = known || memcmp(&to->config[i], &config, sizeof config) == 0;
    }
    if (!known) {
        to->config[to->count++] = config;
    }
}

/* The candidates' times, as logarithms; infinite where one is not for the problem. */
static void rate(const attune_problem *problem, const attune_target *target, const wgmma_candidates *of,
                 double time[WGMMA_CANDIDATES])
{
    double slower[WGMMA_CANDIDATES];
    slower_by(problem, target, of, slower);
    for (int32_t i = 0; i < of->count; ++i) {
        const attune_config config = config_of(problem, &of->config[i], false);
        if (has_pairs(problem)) {
            time[i] = at_wgmma_fits(problem, target, &config) ? i : INFINITY;
            continue;
        }
        const bool may = suits(problem, &of->config[i]) && at_wgmma_fits(problem, target, &config);
        time[i] = may ? log(modelled(problem, target, &of->config[i]) + 1e-9) + slower[i] +
                            (of->config[i].scheduler == COUNTER ? at_wgmma_model.turns : 0)
                      : INFINITY;
    }
}

static void choose(const attune_problem *problem, const attune_target *target, choices *found)
{
    const wgmma_candidates *of = candidates_for(problem);
    double time[WGMMA_CANDIDATES] = {0};
    int32_t last = 0;
    rate(problem, target, of, time);
    for (int32_t round = 0; round < of->count; ++round) {
        int32_t best = 0;
        for (int32_t i = 1; i < of->count; ++i) {
            best = time[i] < time[best] ? i : best;
        }
        if (isinf(time[best])) {
            break;
        }
        add(found, problem, target, config_of(problem, &of->config[best], false));
        if (found->count == 2) { /* maxima of every tile: for scores that no static maximum suits */
            add(found, problem, target, config_of(problem, &of->config[best], true));
        }
        last = best;
        time[best] = INFINITY;
    }
    if (found->count == 1) {
        add(found, problem, target, config_of(problem, &of->config[last], true));
    }
}

bool at_wgmma_heuristic(const attune_problem *problem, const attune_target *target, int32_t index,
                        attune_config *config)
{
    choices found = {0};
    choose(problem, target, &found);
    if (index >= found.count) {
        return false;
    }
    *config = found.config[index];
    return true;
}
