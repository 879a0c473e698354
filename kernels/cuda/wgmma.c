/* wgmma: descriptor. The source and docs/hopper.md say how it works. */
#include "attune/kernel.h"

enum { GROUPS, BLOCK_N, Q_STAGES, OVERLAP, PINGPONG, SCHEDULER, RESCALE, AHEAD, CLUSTER, KV_STAGES, EMULATED, PARAMS };

static const int32_t groups_values[] = {2, 3};
static const int32_t block_n_values[] = {64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224};
static const int32_t q_stages_values[] = {1, 2};
static const int32_t switch_values[] = {0, 1};
static const int32_t scheduler_values[] = {0, 1, 2};
static const int32_t rescale_values[] = {0, 8, 15};
static const int32_t ahead_values[] = {0, 1, 2, 3, 4};
static const int32_t cluster_values[] = {0, 2};               /* blocks that share keys and values; 0: none do */
static const int32_t kv_stages_values[] = {0, 3, 4, 5, 6, 7}; /* 0: as many as there is room for, at most eight */
static const int32_t emulated_values[] = {0, 1, 2, 4};        /* of each sixteen exponentials, by products */

static const attune_param params[PARAMS] = {
    [GROUPS] = {"GROUPS", groups_values, 2, 0},       [BLOCK_N] = {"BLOCK_N", block_n_values, 11, 0},
    [Q_STAGES] = {"Q_STAGES", q_stages_values, 2, 0}, [OVERLAP] = {"OVERLAP", switch_values, 2, 0},
    [PINGPONG] = {"PINGPONG", switch_values, 2, 0},   [SCHEDULER] = {"SCHEDULER", scheduler_values, 3, 0},
    [RESCALE] = {"RESCALE", rescale_values, 3, 0},    [AHEAD] = {"AHEAD", ahead_values, 5, 0},
    [CLUSTER] = {"CLUSTER", cluster_values, 2, 0},    [KV_STAGES] = {"KV_STAGES", kv_stages_values, 6, 0},
    [EMULATED] = {"EMULATED", emulated_values, 4, 0},
};

/* Of RESCALE: weights by a standing reference. */
enum { STANDING = 15 };

/* Of SCHEDULER: a block a job; blocks that take turns; blocks that take the next job from a counter. */
enum { A_BLOCK_EACH, TURNS, COUNTER };

enum {
    DIM_STEP = 8,
    DIM_MIN = 32,
    DIM_MAX = 256,
    GROUP_ROWS = 64,
    CONTROL_BYTES = 1024,
    STAGES_MAX = 8,
    STAGES_MIN = 3,
    COUNTER_BYTES = 16
};

static int32_t block_m(const attune_config *config)
{
    return config->value[GROUPS] * GROUP_ROWS;
}

/* Blocks of a cluster. */
static int32_t blocks_of(const attune_config *config)
{
    return config->value[CLUSTER] > 0 ? config->value[CLUSTER] : 1;
}

static int32_t threads_of(const attune_config *config)
{
    return (config->value[GROUPS] + 1) * 128;
}

/* Bytes of a row in shared memory: whole chunks of 64 elements. */
static int32_t pitch_of(int32_t dim)
{
    return (dim + 63) / 64 * 128;
}

static int32_t queries_bytes(const attune_problem *problem, const attune_config *config)
{
    return config->value[Q_STAGES] * block_m(config) * pitch_of(problem->head_dim_qk);
}

/* Of a stage of the ring: a tile of keys or of values. */
static int32_t stage_bytes(const attune_problem *problem, const attune_config *config)
{
    int32_t pitch_qk = pitch_of(problem->head_dim_qk), pitch_v = pitch_of(problem->head_dim_v);
    return config->value[BLOCK_N] * (pitch_qk > pitch_v ? pitch_qk : pitch_v);
}

static int32_t most_stages(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    int32_t stages =
        (target->smem_optin_bytes - CONTROL_BYTES - queries_bytes(problem, config)) / stage_bytes(problem, config);
    return stages < STAGES_MAX ? stages : STAGES_MAX;
}

/* sizeof(Shared) of the source: queries, the ring of keys and values, jobs and barriers. */
static int32_t smem_of(const attune_problem *problem, const attune_target *target, const attune_config *config)
{
    const int32_t asked = config->value[KV_STAGES], most = most_stages(problem, target, config);
    const int32_t stages = asked > 0 ? asked : most > STAGES_MIN ? most : STAGES_MIN;
    return queries_bytes(problem, config) + stages * stage_bytes(problem, config) + CONTROL_BYTES;
}

/* ---- What it computes ---- */

static bool dim_supported(const char *name, int32_t dim, attune_reason *reason)
{
    if (dim % DIM_STEP != 0 || dim < DIM_MIN || dim > DIM_MAX) {
        return attune_refuse(reason, "%s %d: a multiple of %d from %d to %d is needed", name, dim, DIM_STEP, DIM_MIN,
                             DIM_MAX);
    }
    return true;
}

static bool features_supported(const attune_problem *problem, attune_reason *reason)
{
    if (problem->bias != ATTUNE_BIAS_NONE) {
        return attune_refuse(reason, "bias: scores stay in registers without one");
    }
    if (problem->mask || problem->alibi || problem->sink) {
        return attune_refuse(reason, "%s: not computed by this kernel",
                             problem->mask    ? "mask"
                             : problem->alibi ? "alibi"
                                              : "sink");
    }
    if (problem->strict) {
        return attune_refuse(reason, "strict: a non-finite value may reach rows of its tile that do not see it");
    }
    if (problem->scale < 0) {
        return attune_refuse(reason, "scale %g: above 0 is needed", (double)problem->scale);
    }
    return true;
}

static bool supports(const attune_problem *problem, const attune_target *target, attune_reason *reason)
{
    if (target->arch != 90 || !target->arch_features) {
        return attune_refuse(reason, "arch sm_%d%s: sm_90a is needed", target->arch, target->arch_features ? "a" : "");
    }
    if (problem->dtype == ATTUNE_FP32) {
        return attune_refuse(reason, "dtype fp32: fp16 or bf16 is needed");
    }
    if (problem->align != 0 && problem->align < 16) {
        return attune_refuse(reason, "align %d: 16 bytes are needed", problem->align);
    }
    return dim_supported("head_dim_qk", problem->head_dim_qk, reason) &&
           dim_supported("head_dim_v", problem->head_dim_v, reason) && features_supported(problem, reason);
}

/* ---- Which configs ---- */

static bool windowed(const attune_problem *problem)
{
    return problem->window_left >= 0 || problem->window_right >= 0;
}

/* Whether a producer needs more registers than the least. */
static bool elaborate(const attune_problem *problem)
{
    return problem->varlen || problem->seqused_kv || windowed(problem);
}

/* Registers that a consumer thread has, and those that its fragments take; the rest of the code needs some 30 more. */
static int32_t registers_given(const attune_problem *problem, const attune_config *config)
{
    return config->value[GROUPS] == 3 ? 160 : elaborate(problem) ? 232 : 240;
}

static int32_t registers_held(const attune_problem *problem, const attune_config *config)
{
    int32_t n = config->value[BLOCK_N];
    int32_t scores = config->value[OVERLAP] || config->value[Q_STAGES] > 1 ? n / 2 + n / 4 : n / 2;
    return scores + (problem->head_dim_v + 7) / 8 * 4;
}

enum { REGISTERS_BESIDES = 32 };

/* Blocks that bring keys and values to one another must use the same ones in the same order, and be told so. */
static bool cluster_valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                          attune_reason *reason)
{
    const int32_t cluster = config->value[CLUSTER];
    if (cluster == 0) {
        return true;
    }
    if (problem->causal || windowed(problem)) {
        return attune_refuse(reason, "CLUSTER %d, %s: blocks that share keys need rows that all see the same ones",
                             cluster, problem->causal ? "causal" : "window");
    }
    if (problem->varlen || problem->seqused_kv) {
        return attune_refuse(reason, "CLUSTER %d, %s: blocks that share keys need sequences that are alike", cluster,
                             problem->varlen ? "varlen" : "seqused");
    }
    if (config->value[SCHEDULER] != TURNS || !config->value[OVERLAP]) {
        return attune_refuse(reason, "CLUSTER %d: with SCHEDULER 1 and OVERLAP 1 only", cluster);
    }
    if (target->sm_count < cluster) {
        return attune_refuse(reason, "CLUSTER %d: the device has %d multiprocessors", cluster, target->sm_count);
    }
    return true;
}

/* As many stages as there is room for are what 0 gives: no config stands in the space twice. Fewer are for the form of
 * softmax that waits least; and the younger parameters are tried one by one, so that the space grows by their sum. */
static bool is_extra_valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                           attune_reason *reason)
{
    const int32_t asked = config->value[KV_STAGES], most = most_stages(problem, target, config);
    const int32_t emulated = config->value[EMULATED], cluster = config->value[CLUSTER];
    const int32_t rescale = problem->varlen ? 0 : STANDING;
    if (asked > 0 && asked >= most) {
        return attune_refuse(reason, "KV_STAGES %d: fewer than the %d that there is room for, or 0, which takes these",
                             asked, most);
    }
    if (asked > 0 && config->value[RESCALE] != rescale) {
        return attune_refuse(reason, "KV_STAGES %d: with RESCALE %d, not %d", asked, rescale, config->value[RESCALE]);
    }
    if ((asked > 0) + (emulated > 0) + (cluster > 0) > 1) {
        return attune_refuse(reason, "KV_STAGES %d, EMULATED %d, CLUSTER %d: one at a time, the others 0", asked,
                             emulated, cluster);
    }
    return true;
}

static bool valid(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_reason *reason)
{
    int32_t held = registers_held(problem, config), given = registers_given(problem, config);
    if (held + REGISTERS_BESIDES > given) {
        return attune_refuse(reason, "BLOCK_N %d, GROUPS %d: %d registers for fragments and %d besides, of %d",
                             config->value[BLOCK_N], config->value[GROUPS], held, REGISTERS_BESIDES, given);
    }
    if (config->value[SCHEDULER] == A_BLOCK_EACH && config->value[Q_STAGES] > 1) {
        return attune_refuse(reason, "Q_STAGES 2: a block of SCHEDULER 0 has one tile of queries");
    }
    if (problem->varlen && config->value[RESCALE] == STANDING) {
        return attune_refuse(reason, "RESCALE 15, varlen: the next sequence's rows would have a say in its references");
    }
    if (!config->value[OVERLAP] &&
        (config->value[SCHEDULER] != TURNS || config->value[RESCALE] > 0 || config->value[AHEAD] > 0 ||
         config->value[KV_STAGES] > 0 || config->value[EMULATED] > 0)) {
        return attune_refuse(reason, "OVERLAP 0: with SCHEDULER 1, RESCALE, AHEAD, KV_STAGES and EMULATED 0 only");
    }
    return cluster_valid(problem, target, config, reason) && is_extra_valid(problem, target, config, reason);
}

static void resources(const attune_problem *problem, const attune_target *target, const attune_config *config,
                      attune_resources *out)
{
    *out = (attune_resources){.threads = threads_of(config),
                              .smem_bytes = smem_of(problem, target, config),
                              .scratch_bytes = 0,
                              .workspace = attune_term_const(config->value[SCHEDULER] == COUNTER ? COUNTER_BYTES : 0)};
}

/* In the order of the parameters, from the best on: by a standing reference, the same with a counter, which evens out
 * heads that take longer, by maxima; above head dim 128 instead of that tiles of 80 keys, which long causal problems
 * are better off with. docs/hopper.md has the measurements. */
static const attune_config narrow[] = {
    {{3, 128, 2, 1, 1, 1, 15, 4}}, {{3, 128, 2, 1, 1, 2, 15, 4}}, {{3, 128, 2, 1, 1, 1, 0, 0}}};
static const attune_config lesser[] = {
    {{2, 128, 2, 1, 1, 1, 15, 3}}, {{2, 128, 2, 1, 1, 2, 15, 3}}, {{2, 128, 2, 1, 1, 1, 0, 0}}};
static const attune_config middle[] = {
    {{2, 128, 2, 1, 1, 1, 15, 2}}, {{2, 128, 2, 1, 1, 2, 15, 2}}, {{2, 128, 2, 1, 1, 1, 0, 0}}};
static const attune_config wide[] = {
    {{2, 64, 1, 1, 1, 1, 15, 3}}, {{2, 64, 1, 1, 1, 2, 15, 3}}, {{2, 80, 1, 1, 1, 1, 15, 4}}};

typedef struct choices {
    const attune_config *config;
    int32_t count;
} choices;

static choices choices_for(const attune_problem *problem)
{
    int32_t dim = problem->head_dim_qk > problem->head_dim_v ? problem->head_dim_qk : problem->head_dim_v;
    if (dim <= 64) {
        return (choices){narrow, sizeof narrow / sizeof *narrow};
    }
    if (dim <= 96) {
        return (choices){lesser, sizeof lesser / sizeof *lesser};
    }
    return dim <= 128 ? (choices){middle, sizeof middle / sizeof *middle} : (choices){wide, sizeof wide / sizeof *wide};
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
 * let tiles pass, which is reckoned as a shorter job. */
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

/* The same with a causal mask, job by job in their order. */
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
    return config->value[GROUPS] == 2 && !elaborate(problem) && problem->softcap == 0 &&
           problem->head_dim_qk == problem->head_dim_v;
}

static int64_t job_time(const attune_problem *problem, const length *by)
{
    return (problem->seqlen_kv + by->block_n - 1) / by->block_n * by->tile + by->job +
           (problem->seqlen_kv % by->block_n != 0 ? by->ragged : 0);
}

/* What a last tile has too much counts, so that now and then another than the first is faster, by more than two
 * hundredths.
 */
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
    if (config->value[BLOCK_N] == lengths_for(problem)->block_n && config->value[RESCALE] == STANDING) {
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
    if (problem->causal) {
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

static void suit_causal(const attune_problem *problem, const attune_target *target, attune_config *config)
{
    const bool is_by_counter = config->value[SCHEDULER] == COUNTER;
    if (wants_counter(problem, target, config)) {
        config->value[SCHEDULER] = COUNTER;
    }
    if (wants_no_turns(problem, target, config)) {
        config->value[PINGPONG] = 0;
    }
    if (longer_of(problem) < VERY_SHORT && problem->head_dim_v > 64 && config->value[BLOCK_N] == 128 &&
        config->value[RESCALE] == STANDING && !problem->varlen) {
        config->value[SCHEDULER] = is_by_counter ? COUNTER : TURNS;
        config->value[PINGPONG] = 0;
        config->value[AHEAD] = 2;
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
    if ((windowed(problem) || problem->softcap != 0) && config->value[GROUPS] == 3) {
        config->value[GROUPS] = 2; /* features cost registers */
    }
    if (problem->causal) {
        suit_causal(problem, target, config);
    } else {
        if (is_plain(problem, config)) {
            suit_length(problem, config);
        }
        if (is_uneven_in_turns(problem, target, config)) {
            config->value[SCHEDULER] = COUNTER;
        }
    }
    if (problem->varlen && config->value[RESCALE] == STANDING) {
        config->value[RESCALE] = 0;
        config->value[AHEAD] = 0;
    }
}

static bool heuristic(const attune_problem *problem, const attune_target *target, int32_t index, attune_config *config)
{
    choices from = choices_for(problem);
    for (int32_t i = 0; i < from.count; ++i) {
        attune_config chosen = from.config[i];
        suit_groups(problem, target, &chosen);
        suit(problem, target, &chosen);
        if (valid(problem, target, &chosen, NULL) && smem_of(problem, target, &chosen) <= target->smem_optin_bytes &&
            index-- == 0) {
            *config = chosen;
            return true;
        }
    }
    return false;
}

/* ---- What to launch ---- */

/* Clusters that the multiprocessors hold at once, whole ones: floor(n / 2) is ceil((n - 1) / 2). */
static attune_term clusters_of(int32_t cluster)
{
    attune_term all = attune_term_size(ATTUNE_SIZE_SM_COUNT);
    if (cluster == 1) {
        return all;
    }
    return attune_term_ceil_div(attune_term_join(all, ATTUNE_TERM_SUB, attune_term_const(cluster - 1)),
                                attune_term_const(cluster));
}

static void steps(const attune_problem *problem, const attune_target *target, const attune_config *config,
                  attune_steps *out)
{
    const int32_t m = block_m(config), n = config->value[BLOCK_N];
    const int32_t cluster = blocks_of(config);
    const int32_t q_rows = config->value[Q_STAGES] > 1 ? m : GROUP_ROWS; /* one place: each group's by themselves */
    attune_term tiles = attune_term_mul(
        attune_term_ceil_div(attune_term_size(ATTUNE_SIZE_SEQLEN_Q), attune_term_const((int64_t)m * cluster)),
        attune_term_mul(attune_term_size(ATTUNE_SIZE_HEADS_Q), attune_term_size(ATTUNE_SIZE_BATCH)));
    attune_term blocks =
        config->value[SCHEDULER] == A_BLOCK_EACH ? tiles : attune_term_min(tiles, clusters_of(cluster));
    if (cluster > 1) {
        blocks = attune_term_mul(blocks, attune_term_const(cluster));
    }
    attune_step_kernel kernel = {.entry = "sm90_fwd_wgmma",
                                 .grid = {blocks, attune_term_const(1), attune_term_const(1)},
                                 .block = {threads_of(config), 1, 1},
                                 .cluster = {cluster, 1, 1},
                                 .smem = attune_term_const(smem_of(problem, target, config)),
                                 .map_count = problem->varlen ? 3 : 4,
                                 .map = {{ATTUNE_Q, ATTUNE_SWIZZLE_128B, {64, q_rows, 1, 1}, 256},
                                         {ATTUNE_K, ATTUNE_SWIZZLE_128B, {64, n / cluster, 1, 1}, 256},
                                         {ATTUNE_V, ATTUNE_SWIZZLE_128B, {64, n / cluster, 1, 1}, 256},
                                         {ATTUNE_O, ATTUNE_SWIZZLE_128B, {64, 16, 1, 1}, 0}}};
    attune_step_fill reset = {
        .offset_bytes = attune_term_const(0), .bytes = attune_term_const(COUNTER_BYTES), .pattern = 0};
    *out = (attune_steps){0};
    if (config->value[SCHEDULER] == COUNTER) {
        out->step[out->count++] = (attune_step){.kind = ATTUNE_STEP_FILL, .as = {.fill = reset}};
    }
    out->step[out->count++] = (attune_step){.kind = ATTUNE_STEP_KERNEL, .as = {.kernel = kernel}};
}

static const attune_shipped shipped[] = {
    {"b8,h16,s2048,d128,fp16", ""},
    {"b8,h16,s2048,d128,fp16,causal", ""},
    {"b8,h16,s2048,d128,bf16,causal", ""},
    {"b8,h32,s2048,d64,fp16", ""},
    {"b8,h32,s2048,d64,fp16,causal", ""},
    {"b32,h32,s512,d64,fp16,causal", ""},
    {"b32,h32,s700,d64,fp16,causal", ""},
    {"b32,h32,s700,d64,fp16,causal,offset=tl", ""},
    {"b32,h32,s700,d64,fp16,causal,softcap=30", ""},
    {"b32,h32,s400,d128,fp16,causal", ""},
    {"b16,h16,s300,d64,fp16,causal,varlen=1", ""},
    {"b32,h32,s400,d128,fp16,causal,window=64:0,softcap=30,seqused", ""},
    {"b8,h8,s2048,d256,fp16,causal,window=64:0,softcap=30,seqused", ""},
    {"b8,h8,s2048,d256,fp16", ""},
    {"b8,h8,s2048,d256,fp16,causal", ""},
    {"b32,h8,s512,d256,fp16,causal", ""},
    {"b1,h16,s16384,d128,fp16", ""},
    {"b2,h8,s1900,d128,fp16", ""},
    {"b8,h64,s300,d128,bf16", ""},
    {"b1,h8,s16384,d256,fp16", ""},
    {"b1,h8,s16384,d256,bf16,causal", ""},
    {"b1,h16,s16384,d128,fp16,causal", ""},
    {"b2,h8,s1000,d96,bf16,causal", ""},
    {"b2,h8,s1000,d192,dv128,bf16,causal", ""},
    {"b8,h16,s2048,d80,bf16,causal", ""},
    {"b8,h16,s2048,d96,fp16,causal", ""},
    {"b8,h16,s2048,d192,fp16,causal", ""},
    {"b32,h16,s512,d192,dv128,bf16,causal", ""},
    {"b2,h8,hkv2,s300,d72,bf16,causal,window=64:0,softcap=30,seqused,varlen=1", ""},
    {"b2,h8,hkv2,s300,d64,fp16,causal,window=64:0,softcap=30,seqused,varlen=1", ""},
    {"b2,h8,hkv2,s300,d256,fp16,causal,window=64:0,softcap=30,seqused,varlen=1", ""},
    {"b16,h16,s300,d64,fp16,varlen=1", ""},
    {"b8,h32,s2048,d64,fp16", "CLUSTER=2"},
    {"b8,h16,s2048,d128,bf16", "CLUSTER=2"},
    {"b8,h8,s2048,d256,fp16", "CLUSTER=2"},
    {"b8,h32,s2048,d64,fp16,causal", "EMULATED=4"},
    {"b8,h16,s2048,d128,bf16", "EMULATED=2"},
    {"b16,h16,s300,d64,fp16,causal,varlen=1", "EMULATED=1"},
    {"b8,h8,s2048,d256,fp16,causal", "KV_STAGES=4"},
    {NULL, NULL},
};

extern const attune_kernel at_kernel_wgmma;
const attune_kernel at_kernel_wgmma = {
    .size = sizeof(attune_kernel),
    .abi = ATTUNE_ABI,
    .target = ATTUNE_TARGET_CUDA,
    .name = "wgmma",
    .summary = "Hopper: warp group products, the copy engine, warp specialisation, persistent blocks",
    .traits = ATTUNE_TRAIT_TAINTS,
    .param_count = PARAMS,
    .params = params,
    .shipped = shipped,
    .supports = supports,
    .valid = valid,
    .resources = resources,
    .heuristic = heuristic,
    .steps = steps,
    .source = "wgmma.cu",
};
