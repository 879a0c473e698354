/* wgmma: which of its configs is fastest. docs/hopper.md, "Which config", says what each rule came of. */
#include "wgmma.h"

#include <string.h>

/* What a config begins with; the rest is by the problem. */
typedef struct choice {
    int32_t groups, block_n, q_stages, scheduler, rescale, ahead;
} choice;

/* From the best on: by a static maximum, the same with a counter, which evens out heads that take longer, by
 * maxima; above head dim 128 instead of that tiles of other sizes. */
enum { CHOICES = 3 };
static const choice narrow[CHOICES] = {
    {3, 128, 2, TURNS, STATIC_MAX, 4}, {3, 128, 2, COUNTER, STATIC_MAX, 4}, {3, 128, 2, TURNS, 0, 0}};
static const choice lesser[CHOICES] = {
    {2, 128, 2, TURNS, STATIC_MAX, 3}, {2, 128, 2, COUNTER, STATIC_MAX, 3}, {2, 128, 2, TURNS, 0, 0}};
static const choice middle[CHOICES] = {
    {2, 128, 2, TURNS, STATIC_MAX, 2}, {2, 128, 2, COUNTER, STATIC_MAX, 2}, {2, 128, 2, TURNS, 0, 0}};
static const choice wide[CHOICES] = {
    {2, 64, 1, TURNS, STATIC_MAX, 3}, {2, 64, 1, COUNTER, STATIC_MAX, 3}, {2, 80, 1, TURNS, STATIC_MAX, 4}};
/* Where only queries and keys are wide, O leaves registers for larger tiles: as many keys as there is room for. */
static const choice wide_keys[CHOICES] = {
    {2, 128, 1, TURNS, STATIC_MAX, 2}, {2, 128, 1, COUNTER, STATIC_MAX, 2}, {2, 96, 1, TURNS, STATIC_MAX, 2}};
static const choice widest_keys[CHOICES] = {
    {2, 96, 1, TURNS, STATIC_MAX, 2}, {2, 96, 1, COUNTER, STATIC_MAX, 2}, {2, 64, 1, TURNS, STATIC_MAX, 3}};

static const choice *choices_for(const attune_problem *problem)
{
    const int32_t dim = problem->head_dim_qk > problem->head_dim_v ? problem->head_dim_qk : problem->head_dim_v;
    return dim <= 64                   ? narrow
           : dim <= 96                 ? lesser
           : dim <= 128                ? middle
           : problem->head_dim_v > 128 ? wide
           : dim <= 192                ? wide_keys
                                       : widest_keys;
}

static attune_config config_of(const choice *from)
{
    return (attune_config){.value = {[GROUPS] = from->groups,
                                     [BLOCK_N] = from->block_n,
                                     [Q_STAGES] = from->q_stages,
                                     [PINGPONG] = 1,
                                     [SCHEDULER] = from->scheduler,
                                     [RESCALE] = from->rescale,
                                     [AHEAD] = from->ahead}};
}

enum { VERY_SHORT = 480, SHORT = 600, MEDIUM = 1100, LONG = 4096, VERY_LONG = 8192 };

/* Of queries or keys, whichever are more. */
static int64_t longer_of(const attune_problem *problem)
{
    return problem->seqlen_q > problem->seqlen_kv ? problem->seqlen_q : problem->seqlen_kv;
}

static int64_t jobs_of(const attune_problem *problem, const attune_config *config)
{
    return (problem->seqlen_q + block_m(config) - 1) / block_m(config) * problem->heads_q * problem->batch;
}

/* What a tile of keys and a job besides take on the H200 with a causal mask, in 10 ns, and a tile's keys. Upper groups
 * let tiles pass, which is reckoned as a shorter job. By the head dim of values: wider queries and keys cost more,
 * which nobody has measured. */
typedef struct pace {
    int32_t tile, job, block_n;
} pace;

static pace pace_of(const attune_problem *problem, const attune_config *config)
{
    if (problem->head_dim_v > 128) {
        return (pace){149, 327, 64};
    }
    if (problem->head_dim_v > 64) {
        return (pace){151, 150, 128};
    }
    return config->value[GROUPS] == 3 ? (pace){140, 80, 128} : (pace){109, 101, 128};
}

enum { SMS_MAX = 256, JOBS_MAX = 16 }; /* of a multiprocessor: beyond, sizes even out */

/* Multiprocessors and the time of the jobs each has been given. */
typedef struct shares {
    int64_t count, jobs;
    int64_t busy[SMS_MAX];
} shares;

/* The next job's place: to and fro, or whoever is done first. */
static int64_t place_of(const shares *all, bool by_counter)
{
    int64_t least = 0, place = all->jobs % all->count;
    if (!by_counter) {
        return all->jobs / all->count % 2 ? all->count - 1 - place : place;
    }
    for (int64_t i = 1; i < all->count; ++i) {
        least = all->busy[i] < all->busy[least] ? i : least;
    }
    return least;
}

/* Heads that share L2, as queue_of in device/job.cuh has them. */
static int64_t section_of(const attune_problem *problem)
{
    const int64_t most = INT64_C(32) << 20, heads = (int64_t)problem->heads_q * problem->batch;
    const int64_t keys = problem->seqlen_kv > 1 ? problem->seqlen_kv : 1;
    const int64_t bytes = keys * (problem->head_dim_qk + problem->head_dim_v) * 2;
    const int64_t half = most / 2 / bytes > 32 ? most / 2 / bytes : 32;
    const int64_t fit = most / bytes < half ? most / bytes : half;
    const int64_t section = (fit > 1 ? fit : 1) * (problem->heads_q / problem->heads_kv);
    return section < heads ? section : heads;
}

/* Keys that the rows before `end` see with a causal mask, at least one. */
static int64_t keys_before(const attune_problem *problem, int64_t end)
{
    int64_t offset = problem->seqlen_kv - problem->seqlen_q;
    if (problem->offset_kind != ATTUNE_OFFSET_BOTTOM_RIGHT) {
        offset = problem->offset_kind == ATTUNE_OFFSET_NUMBER ? problem->offset : 0;
    }
    const int64_t rows = end < problem->seqlen_q ? end : problem->seqlen_q;
    const int64_t keys = rows + offset < problem->seqlen_kv ? rows + offset : problem->seqlen_kv;
    return keys > 1 ? keys : 1;
}

/* What the busiest multiprocessor takes for its jobs with a causal mask, job by job in their order. */
static int64_t span_of(const attune_problem *problem, const attune_target *target, const attune_config *config,
                       bool by_counter)
{
    const pace takes = pace_of(problem, config);
    const int64_t m = block_m(config), tiles = (problem->seqlen_q + m - 1) / m;
    const int64_t heads = (int64_t)problem->heads_q * problem->batch, section = section_of(problem);
    shares all = {.count = target->sm_count < SMS_MAX ? target->sm_count : SMS_MAX};
    int64_t left = (heads + section - 1) / section, longest = 0;
    for (int64_t head = 0; head < heads; head += section, --left) {
        const int64_t together = heads - head < section ? heads - head : section;
        for (int64_t i = 0; i < tiles * together; ++i) {
            const int64_t rank = i / together, tile = left % 2 ? tiles - 1 - rank : rank;
            const int64_t keys = keys_before(problem, (tile + 1) * m);
            int64_t *busy = &all.busy[place_of(&all, by_counter)];
            *busy += (keys + takes.block_n - 1) / takes.block_n * takes.tile + takes.job;
            longest = *busy > longest ? *busy : longest;
            ++all.jobs;
        }
    }
    return longest;
}

/* Whether a multiprocessor has so many jobs at most, and there are any: forecasts go through all jobs. */
static bool are_few(const attune_problem *problem, const attune_target *target, const attune_config *config,
                    int64_t each)
{
    const int64_t jobs = jobs_of(problem, config);
    return jobs > 0 && jobs <= each * target->sm_count;
}

/* Whether a forecast of the whole has room in 64 bits, and anything to divide by. */
static bool is_foreseeable(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    const int64_t tiles = (problem->seqlen_q + block_m(config) - 1) / block_m(config);
    return target->sm_count > 0 && tiles > 0 && (int64_t)problem->heads_q * problem->batch < INT32_MAX / tiles;
}

/* Tiles of keys for two groups and what they take without a mask, in 10 ns: each, a job besides, and a last one that is
 * not full. The first are those of the config, but for AHEAD; of the others few lengths are multiples, so that `job`
 * has it all. */
typedef struct length {
    int32_t block_n, q_stages, ahead, tile, job, ragged;
} length;

enum { LENGTHS = 4 };
static const length three_groups = {128, 2, 4, 140, 175, 0};
static const length narrow_lengths[LENGTHS] = {
    {128, 2, 4, 109, 101, 0}, {176, 2, 4, 138, 134, 0}, {192, 2, 4, 150, 137, 0}};
static const length middle_lengths[LENGTHS] = {
    {128, 2, 2, 151, 150, 60}, {160, 2, 3, 189, 250, 0}, {176, 1, 3, 209, 250, 0}, {192, 1, 1, 229, 230, 0}};
static const length lesser_lengths[LENGTHS] = {
    {128, 2, 4, 151, 150, 60}, {160, 2, 3, 189, 199, 0}, {176, 1, 3, 209, 237, 0}, {192, 1, 1, 229, 205, 0}};
static const length wide_lengths[LENGTHS] = {{64, 1, 3, 149, 327, 0}, {80, 1, 4, 186, 301, 0}, {96, 1, 4, 222, 335, 0}};

static const length *lengths_for(const attune_problem *problem)
{
    return problem->head_dim_v <= 64    ? narrow_lengths
           : problem->head_dim_v <= 96  ? lesser_lengths
           : problem->head_dim_v <= 128 ? middle_lengths
                                        : wide_lengths;
}

/* Whether all tiles but the last are alike and the fragments of any length have room. */
static bool is_plain(const attune_problem *problem, const attune_config *config)
{
    return config->value[GROUPS] == 2 && !is_elaborate(problem) && problem->softcap == 0 &&
           problem->head_dim_qk == problem->head_dim_v;
}

static int64_t job_time(const attune_problem *problem, const length *by)
{
    return (problem->seqlen_kv + by->block_n - 1) / by->block_n * by->tile + by->job +
           (problem->seqlen_kv % by->block_n != 0 ? by->ragged : 0);
}

/* What a last tile has too much counts, so that now and then another than the first is faster, by more than 2 %. */
static const length *best_length(const attune_problem *problem)
{
    const length *from = lengths_for(problem), *best = from;
    for (const length *at = from + 1; at < from + LENGTHS && at->block_n > 0; ++at) {
        if (job_time(problem, at) * 100 < job_time(problem, best) * 98) {
            best = at;
        }
    }
    return best;
}

static void suit_length(const attune_problem *problem, attune_config *config)
{
    const length *best = best_length(problem);
    if (config->value[BLOCK_N] == lengths_for(problem)->block_n && config->value[RESCALE] == STATIC_MAX) {
        config->value[BLOCK_N] = best->block_n;
        config->value[Q_STAGES] = best->q_stages;
        config->value[AHEAD] = best->ahead;
    }
}

/* What the multiprocessor with most work takes for its jobs where all are alike. */
static int64_t time_of(const attune_problem *problem, const attune_target *target, const attune_config *config,
                       const length *by)
{
    const int64_t jobs = jobs_of(problem, config), each = target->sm_count;
    return (jobs + each - 1) / each * job_time(problem, by);
}

/* Two groups' jobs are smaller: fewer multiprocessors are left without where there are few, and without a mask fewer
 * rows are beyond the end. */
static bool are_two_faster(const attune_problem *problem, const attune_target *target, const attune_config *three)
{
    attune_config two = *three;
    two.value[GROUPS] = 2;
    if (attune_is_causal(problem)) {
        return are_few(problem, target, three, JOBS_MAX) &&
               span_of(problem, target, &two, false) < span_of(problem, target, three, false);
    }
    const bool is_short = problem->seqlen_kv < MEDIUM && is_plain(problem, &two);
    const length *by = is_short ? best_length(problem) : lengths_for(problem);
    return time_of(problem, target, &two, by) < time_of(problem, target, three, &three_groups);
}

static void suit_groups(const attune_problem *problem, const attune_target *target, attune_config *config)
{
    if (config->value[GROUPS] == 3 && is_foreseeable(problem, target, config) &&
        are_two_faster(problem, target, config)) {
        config->value[GROUPS] = 2;
    }
}

/* Whether jobs by counter are done sooner by more than the counter takes: 1.5 us and a fiftieth; a tenth where they are
 * long. */
static bool counter_pays(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    const int64_t percent = problem->seqlen_q < LONG ? 102 : 110;
    return span_of(problem, target, config, true) * percent / 100 + 150 < span_of(problem, target, config, false);
}

/* Causal jobs differ in size, which shorter ones even out by a counter and long ones by their order; where there are
 * few or each is large, the counter mostly costs more than it evens out. At head dim 256 unevenness costs less than
 * a forecast says, most likely because multiprocessors that wait let the others' clock rise. */
static bool wants_counter(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    const bool is_narrow = problem->head_dim_v <= 64, is_wide = problem->head_dim_v > 192;
    const bool is_short = problem->seqlen_q < (is_narrow ? VERY_LONG : is_wide ? MEDIUM : LONG);
    return are_few(problem, target, config, is_narrow ? 8 : 6)
               ? (is_short || problem->head_dim_v <= 128) && counter_pays(problem, target, config)
               : is_short;
}

/* Where products are short turns cost more than they order, above all where three take them and jobs are many; but
 * where values must be cleaned three groups have no registers for going without. At head dim 256 sequences of middling
 * length are as fast without, and some faster. */
static bool wants_no_turns(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    const bool is_clean =
        problem->offset_kind == ATTUNE_OFFSET_BOTTOM_RIGHT && !problem->seqused_kv && !problem->varlen;
    if (problem->head_dim_v <= 64 && config->value[GROUPS] == 3 && !is_clean) {
        return false;
    }
    if (problem->head_dim_v <= 64) {
        const bool is_crowded = config->value[GROUPS] == 3 && !are_few(problem, target, config, 8);
        return longer_of(problem) < (is_crowded ? MEDIUM : SHORT);
    }
    return problem->head_dim_v > 192 && problem->seqlen_q >= MEDIUM && longer_of(problem) < LONG;
}

/* The shortest jobs take no turns, and the counter costs more than it evens out. */
static bool is_very_short(const attune_problem *problem, const attune_config *config)
{
    return longer_of(problem) < VERY_SHORT && problem->head_dim_v > 64 && problem->head_dim_qk <= 128 &&
           config->value[BLOCK_N] == 128 && config->value[RESCALE] == STATIC_MAX && !problem->varlen;
}

static void suit_causal(const attune_problem *problem, const attune_target *target, attune_config *config)
{
    if (is_very_short(problem, config)) {
        config->value[PINGPONG] = 0;
        config->value[AHEAD] = 2;
        return;
    }
    if (wants_counter(problem, target, config)) {
        config->value[SCHEDULER] = COUNTER;
    }
    if (wants_no_turns(problem, target, config)) {
        config->value[PINGPONG] = 0;
    }
    if (problem->head_dim_v > 192 && problem->seqlen_q >= VERY_LONG) { /* where the larger tiles are faster */
        const bool larger = config->value[BLOCK_N] == 64;
        config->value[BLOCK_N] = larger ? 80 : 64;
        config->value[AHEAD] = larger ? 4 : 3;
    }
}

/* Without a mask jobs are alike but for a head's last, which is short if few rows are left for it. In turns it falls to
 * the same multiprocessors again and again where the number of tiles and theirs have a common divisor. Above head dim
 * 64 up to 128 the counter gained more than elsewhere. */
static bool is_uneven_in_turns(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    enum { TILES = 8 };
    const bool is_middle = problem->head_dim_v > 64 && problem->head_dim_v <= 128;
    const int64_t m = block_m(config), tiles = (problem->seqlen_q + m - 1) / m;
    int64_t divisor = tiles, rest = target->sm_count;
    while (rest > 0) {
        const int64_t next = divisor % rest;
        divisor = rest;
        rest = next;
    }
    const int64_t left = problem->seqlen_q - (tiles - 1) * m, few = is_middle ? m * 5 / 8 : m - GROUP_ROWS;
    return tiles > 1 && tiles <= TILES && divisor > 1 && left <= few &&
           !are_few(problem, target, config, is_middle ? 4 : 8);
}

static void suit(const attune_problem *problem, const attune_target *target, attune_config *config)
{
    if ((attune_is_windowed(problem) || problem->softcap != 0) && config->value[GROUPS] == 3) {
        config->value[GROUPS] = 2; /* features cost registers */
    }
    if (attune_is_causal(problem)) {
        suit_causal(problem, target, config);
    } else {
        if (is_plain(problem, config)) {
            suit_length(problem, config);
        }
        if (is_uneven_in_turns(problem, target, config)) {
            config->value[SCHEDULER] = COUNTER;
        }
    }
    if (problem->varlen && config->value[RESCALE] == STATIC_MAX) {
        config->value[RESCALE] = 0;
        config->value[AHEAD] = 0;
    }
}

/* Rules may lead from one choice to another. */
static bool is_among(const attune_config *found, int32_t count, const attune_config *config)
{
    for (int32_t i = 0; i < count; ++i) {
        if (memcmp(&found[i], config, sizeof *config) == 0) {
            return true;
        }
    }
    return false;
}

bool at_wgmma_heuristic(const attune_problem *problem, const attune_target *target, int32_t index,
                        attune_config *config)
{
    const choice *from = choices_for(problem);
    attune_config found[CHOICES];
    int32_t count = 0;
    for (int32_t i = 0; i < CHOICES; ++i) {
        attune_config chosen = config_of(&from[i]);
        suit_groups(problem, target, &chosen);
        suit(problem, target, &chosen);
        if (at_wgmma_fits(problem, target, &chosen) && !is_among(found, count, &chosen)) {
            found[count++] = chosen;
        }
    }
    if (index >= count) {
        return false;
    }
    *config = found[index];
    return true;
}
